"""The codebook: documents, chunks, sentences, and the entities, relations and edges that occur in them."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from sqlalchemy import Connection, Table, delete, func, select, update

from apl.errors import EmbedderMismatchError, InputError
from apl.protocols import Embedder, TokenCounter, Vectors
from apl.reports import DeleteReport, StoreStats
from apl.state import schema, symbol_rows
from apl.state.engine import Store, bump_generation, read_meta, write_meta
from apl.state.records import NewChunk, StoredChunk
from apl.state.rows import batches
from apl.state.vectors import from_bytes, to_bytes
from apl.text import is_encodable

logger = logging.getLogger(__name__)

PROBE_TEXT = "Northstar acquired DeltaPay in March 2022."
"""Its vector tells one embedder from another, whatever they are called."""

MIN_PROBE_COSINE = 0.999

_DOCUMENTS_A_PAGE = 200


class Codebook:
    """What the layer knows of the corpus. Reached as `layer.codebook`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def stats(self) -> StoreStats:
        """Row counts, generation, and what the store was built with."""
        with self._store.reading() as connection:
            values = read_meta(connection)
            counts = {
                table.name: connection.execute(select(func.count()).select_from(table)).scalar_one()
                for table in schema.metadata.sorted_tables
            }
            carried = connection.execute(
                select(func.count()).select_from(schema.sentences).where(schema.sentences.c.carried)
            ).scalar_one()
            links = connection.execute(
                select(func.count()).select_from(schema.links).where(schema.links.c.ended_at.is_(None))
            ).scalar_one()
        return StoreStats(
            documents=counts["documents"],
            chunks=counts["chunks"],
            sentences=counts["sentences"],
            carried_sentences=carried,
            entities=counts["entities"],
            relations=counts["relations"],
            edges=counts["edges"],
            occurrences=counts["occurrences"],
            runs=counts["runs"],
            links=links,
            turns=counts["turns"],
            generation=int(values["generation"]),
            schema_version=int(values["schema_version"]),
            embedder=values.get("embedder"),
            tokenizer=values.get("tokenizer"),
            bytes=self._store.path.stat().st_size,
        )

    def delete(self, document_ids: Iterable[str]) -> DeleteReport:
        """Remove documents with all that only they say, in one transaction.

        An edge that another document also says stays. Ids the store does not hold are reported, not an error. A chunk
        that was indexed without `document_id` is its own document, under its chunk id.

        Raises:
            InputError: `document_ids` is a bare string or holds something that is not one.
            ReadOnlyStoreError: The store is open for reading.
        """
        keys = _checked_keys(document_ids, "delete", "document")
        with self._store.writing() as connection:
            found = _ids_by_key(connection, schema.documents, [key for key in keys if is_encodable(key)])
            chunk_ids = _chunks_of(connection, list(found.values()))
            sentences = _count_sentences(connection, chunk_ids)
            removed = symbol_rows.delete_chunks(connection, chunk_ids, now=time.time())
            _delete_ids(connection, schema.documents, list(found.values()))
            if found:
                bump_generation(connection)
        report = DeleteReport(
            documents=len(found),
            chunks=len(chunk_ids),
            sentences=sentences,
            edges=removed.edges,
            entities=removed.entities,
            relations=removed.relations,
            unknown_documents=tuple(key for key in keys if key not in found),
        )
        logger.info("deleted %d documents, %d chunks, %d edges", report.documents, report.chunks, report.edges)
        return report

    def delete_chunks(self, chunk_ids: Iterable[str]) -> DeleteReport:
        """Remove chunks with all that only they say, and the documents that are left empty, in one transaction.

        Ids the store does not hold are passed over.

        Raises:
            InputError: `chunk_ids` is a bare string or holds something that is not one.
            ReadOnlyStoreError: The store is open for reading.
        """
        keys = [key for key in _checked_keys(chunk_ids, "delete_chunks", "chunk") if is_encodable(key)]
        with self._store.writing() as connection:
            found = find_chunks(connection, schema.chunks.c.key, keys)
            ids = [chunk.id for chunk in found]
            sentences = _count_sentences(connection, ids)
            removed = symbol_rows.delete_chunks(connection, ids, now=time.time())
            emptied = _delete_empty_documents(connection, sorted({chunk.document_key for chunk in found}))
            if found:
                bump_generation(connection)
        logger.info("deleted %d chunks, %d edges, %d documents left empty", len(ids), removed.edges, emptied)
        return DeleteReport(
            documents=emptied,
            chunks=len(ids),
            sentences=sentences,
            edges=removed.edges,
            entities=removed.entities,
            relations=removed.relations,
        )

    @property
    def location(self) -> str:
        """The path of the store's file."""
        return str(self._store.path)

    def documents(self) -> dict[str, dict[str, str]]:
        """The content hash of every stored chunk, by document id and chunk id, in the documents' order."""
        documents, chunks = schema.documents, schema.chunks
        query = (
            select(documents.c.key, chunks.c.key, chunks.c.content_hash)
            .join(chunks, chunks.c.document_id == documents.c.id)
            .order_by(documents.c.key, chunks.c.position)
        )
        stored: dict[str, dict[str, str]] = {}
        with self._store.reading() as connection:
            for document, chunk, content_hash in connection.execute(query):
                stored.setdefault(document, {})[chunk] = content_hash
        return stored

    def chunk_hashes(self) -> Iterator[tuple[str, Mapping[str, str]]]:
        """Each document's id with the content hash of its chunks by id, one document after the other.

        Read in pages of their own: the store may change meanwhile, and no document is held in memory for the next.
        """
        documents, chunks = schema.documents, schema.chunks
        after: str | None = None
        while True:
            page = select(documents.c.id, documents.c.key).order_by(documents.c.key).limit(_DOCUMENTS_A_PAGE)
            if after is not None:
                page = page.where(documents.c.key > after)
            with self._store.reading() as connection:
                keys = {row.id: row.key for row in connection.execute(page)}
                held = select(chunks.c.document_id, chunks.c.key, chunks.c.content_hash)
                found = connection.execute(held.where(chunks.c.document_id.in_(keys)).order_by(chunks.c.position)).all()
            stored: dict[int, dict[str, str]] = {document_id: {} for document_id in keys}
            for document_id, chunk, content_hash in found:
                stored[document_id][chunk] = content_hash
            for document_id, hashes in stored.items():
                yield keys[document_id], hashes
            if len(keys) < _DOCUMENTS_A_PAGE:
                return
            after = keys[max(keys, key=lambda document_id: keys[document_id])]

    # --- for the write room -------------------------------------------------------------------------------------------

    def find(self, keys: Sequence[str]) -> Mapping[str, StoredChunk]:
        """Those of the chunks that are stored, by key."""
        with self._store.reading() as connection:
            return {chunk.key: chunk for chunk in find_chunks(connection, schema.chunks.c.key, keys)}

    def put(
        self,
        new_chunks: Sequence[NewChunk],
        moved: Mapping[str, tuple[str, str | None]],
        surplus: Sequence[str] = (),
    ) -> int:
        """Insert chunks, each in the place of what the store held under its key; how many were replaced.

        `moved` gives chunks whose text is unchanged another (document key, title); `surplus` are keys of chunks that
        go. One transaction: readers see all of it or nothing.
        """
        now = time.time()
        with self._store.writing() as connection:
            document_keys = [chunk.document_key for chunk in new_chunks] + [key for key, _ in moved.values()]
            rows = [{"key": key} for key in dict.fromkeys(document_keys)]
            document_ids = symbol_rows.intern(connection, schema.documents, "key", rows)
            keys = [*(chunk.key for chunk in new_chunks), *moved, *surplus]
            left = {chunk.document_key for chunk in find_chunks(connection, schema.chunks.c.key, keys)}
            replaced = symbol_rows.insert_chunks(connection, new_chunks, document_ids, now=now)
            symbol_rows.move_chunks(connection, moved, document_ids)
            symbol_rows.delete_chunks(
                connection, list(_ids_by_key(connection, schema.chunks, surplus).values()), now=now
            )
            _delete_empty_documents(connection, sorted(left))
            bump_generation(connection)
        return replaced

    def begin_rereading(self, rules: str) -> int:
        """Note that all chunks are to be read again by these rules; chunks with a row id above the result have been.

        What an earlier run began and did not end is taken up, so that an interrupted one is resumed: a chunk that is
        read again becomes a new row. Other rules (another extractor, another apl) begin anew.
        """
        with self._store.writing() as connection:
            noted = json.loads(read_meta(connection).get("rereading", "{}"))
            if noted.get("rules") != rules:
                last = connection.execute(select(func.max(schema.chunks.c.id))).scalar() or 0
                noted = {"rules": rules, "after": last}
                write_meta(connection, {"rereading": json.dumps(noted)})
        return int(noted["after"])

    def end_rereading(self) -> None:
        """Note that no chunk is left to be read again."""
        with self._store.writing() as connection:
            write_meta(connection, {"rereading": "{}"})

    def check_embedder(self, embedder: Embedder) -> None:
        """Check that the store's vectors, if it has any, come from this embedder.

        Two embedders are the same when they have one dimension and give the probe text vectors of cosine >= .999,
        whatever they are called.

        Raises:
            EmbedderMismatchError: They come from another one.
        """
        with self._store.reading() as connection:
            values = read_meta(connection)
        if "embedder_probe" in values:
            self._compare(embedder.name, embedder.embed([PROBE_TEXT]), values)

    def bind(self, embedder: Embedder, counter: TokenCounter) -> None:
        """Before writing: remember embedder and tokenizer; with another tokenizer, count all chunks again.

        Raises:
            EmbedderMismatchError: The store's vectors come from another embedder.
            ReadOnlyStoreError: The store is open for reading.
        """
        with self._store.reading() as connection:
            values = read_meta(connection)
        probe = embedder.embed([PROBE_TEXT])
        if "embedder_probe" in values:
            self._compare(embedder.name, probe, values)
            if values.get("tokenizer") == counter.name and not self._store.read_only:
                return
        with self._store.writing() as connection:
            values = read_meta(connection)
            if "embedder_probe" in values:
                self._compare(embedder.name, probe, values)
            else:
                write_meta(connection, {"embedder": embedder.name, "embedder_probe": to_bytes(probe)[0].hex()})
            if values.get("tokenizer") != counter.name:
                _recount(connection, counter)
                write_meta(connection, {"tokenizer": counter.name})

    def _compare(self, name: str, probe: Vectors, values: Mapping[str, str]) -> None:
        stored = from_bytes([bytes.fromhex(values["embedder_probe"])])
        if stored.shape == probe.shape and float(np.dot(stored[0], probe[0])) >= MIN_PROBE_COSINE:
            return
        raise EmbedderMismatchError(
            f"{self._store.path} was built with embedder {values['embedder']!r} (dimension {stored.shape[1]}), not "
            f"with {name!r} (dimension {probe.shape[1]}): open it with that embedder, or use a new file",
            location=str(self._store.path),
            found=values["embedder"],
            expected=name,
        )


def _recount(connection: Connection, counter: TokenCounter) -> None:
    chunks = schema.chunks
    ids = list(connection.execute(select(chunks.c.id).order_by(chunks.c.id)).scalars())
    for batch in batches(ids):
        texts = connection.execute(select(chunks.c.id, chunks.c.text).where(chunks.c.id.in_(batch))).all()
        for row, tokens in zip(texts, counter.count_many([row.text for row in texts]), strict=True):
            connection.execute(update(chunks).where(chunks.c.id == row.id).values(tokens=tokens))


def find_chunks(connection: Connection, column: Any, values: Sequence[str]) -> list[StoredChunk]:
    """The stored chunks whose column has one of the values, by key."""
    chunks, documents = schema.chunks, schema.documents
    columns = (chunks.c.title, chunks.c.content_hash, chunks.c.extractor)
    query = (
        select(chunks.c.id, chunks.c.key, documents.c.key.label("document_key"), *columns)
        .join(documents, documents.c.id == chunks.c.document_id)
        .order_by(chunks.c.key)
    )
    found: list[StoredChunk] = []
    for batch in batches(list(dict.fromkeys(values))):
        found += [StoredChunk(*row) for row in connection.execute(query.where(column.in_(batch)))]
    return found


def _checked_keys(ids: Iterable[str], method: str, what: str) -> list[str]:
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise InputError(f"{method} takes a list of {what} ids, not {ids!r}; write {method}([{ids!r}])")
    keys = list(dict.fromkeys(ids))
    for key in keys:
        if not isinstance(key, str):
            raise InputError(f"a {what} id is a string, not {key!r}")
    return keys


def _ids_by_key(connection: Connection, table: Table, keys: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for batch in batches(keys):
        for row in connection.execute(select(table.c.id, table.c.key).where(table.c.key.in_(batch))):
            found[row.key] = row.id
    return found


def _chunks_of(connection: Connection, document_ids: Sequence[int]) -> list[int]:
    ids: list[int] = []
    for batch in batches(document_ids):
        ids.extend(
            connection.execute(select(schema.chunks.c.id).where(schema.chunks.c.document_id.in_(batch))).scalars()
        )
    return ids


def _count_sentences(connection: Connection, chunk_ids: Sequence[int]) -> int:
    column = schema.sentences.c.chunk_id
    return sum(
        connection.execute(select(func.count()).select_from(schema.sentences).where(column.in_(batch))).scalar_one()
        for batch in batches(chunk_ids)
    )


def _delete_ids(connection: Connection, table: Table, ids: Sequence[int]) -> None:
    for batch in batches(ids):
        connection.execute(delete(table).where(table.c.id.in_(batch)))


def _delete_empty_documents(connection: Connection, keys: Sequence[str]) -> int:
    """Of these, delete the documents that their chunks have left empty; how many there were."""
    filled = select(schema.chunks.c.id).where(schema.chunks.c.document_id == schema.documents.c.id).exists()
    empty = [delete(schema.documents).where(schema.documents.c.key.in_(batch), ~filled) for batch in batches(keys)]
    return sum(connection.execute(statement).rowcount for statement in empty)
