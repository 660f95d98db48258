"""Reading: the stored passages behind the host's chunks, with their sentences, edges and vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from sqlalchemy import Connection, select

from apl.protocols import Vectors
from apl.state import schema
from apl.state.codebook import find_chunks
from apl.state.engine import Store
from apl.state.records import StoredChunk, StoredPassage, StoredSentence
from apl.state.symbol_rows import batches
from apl.state.vectors import from_bytes
from apl.symbols import Sentence, SentenceKind, Triple

_NO_VECTORS: Vectors = np.zeros((0, 0), dtype=np.float32)


class Passages:
    """Looks passages up. Never writes, never waits for a writer."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def find(self, keys: Sequence[str], hashes: Sequence[str], *, with_vectors: bool) -> PassageLookup:
        """The passages with one of these chunk ids or content hashes, all read from one state of the store.

        Of several chunks with one content, the one whose id sorts first stands for the hash.
        """
        with self._store.reading() as connection:
            by_key = {chunk.key: chunk for chunk in find_chunks(connection, schema.chunks.c.key, keys)}
            by_hash: dict[str, StoredChunk] = {}
            for chunk in find_chunks(connection, schema.chunks.c.content_hash, hashes):
                by_hash.setdefault(chunk.content_hash, chunk)
            wanted = {chunk.id: chunk for chunk in (*by_key.values(), *by_hash.values())}
            passages = _load(connection, wanted, with_vectors=with_vectors)
        return PassageLookup(
            {key: passages[chunk.id] for key, chunk in by_key.items()},
            {content_hash: passages[chunk.id] for content_hash, chunk in by_hash.items()},
        )


class PassageLookup:
    """Passages by chunk id and by content hash."""

    def __init__(self, by_key: Mapping[str, StoredPassage], by_hash: Mapping[str, StoredPassage]) -> None:
        self.by_key = by_key
        self.by_hash = by_hash


def _load(connection: Connection, wanted: Mapping[int, StoredChunk], *, with_vectors: bool) -> dict[int, StoredPassage]:
    ids = list(wanted)
    texts: dict[int, str] = {}
    for batch in batches(ids):
        rows = connection.execute(select(schema.chunks.c.id, schema.chunks.c.text).where(schema.chunks.c.id.in_(batch)))
        texts.update({row.id: row.text for row in rows})
    said, runs = _load_triples(connection, ids)
    sentences, blobs = _load_sentences(connection, texts, said, with_vectors=with_vectors)
    return {
        chunk_id: StoredPassage(
            chunk,
            texts[chunk_id],
            tuple(sentences.get(chunk_id, ())),
            tuple(dict.fromkeys(runs.get(chunk_id, ()))),
            from_bytes(blobs[chunk_id]) if blobs.get(chunk_id) else _NO_VECTORS,
        )
        for chunk_id, chunk in wanted.items()
    }


def _load_triples(
    connection: Connection, chunk_ids: Sequence[int]
) -> tuple[dict[int, list[Triple]], dict[int, list[Triple]]]:
    """Triples by sentence row and by chunk row, both in order of extraction."""
    occurrences, edges, relations = schema.occurrences, schema.edges, schema.relations
    head, tail = schema.entities.alias("head"), schema.entities.alias("tail")
    query = (
        select(
            occurrences.c.chunk_id,
            occurrences.c.sentence_id,
            head.c.name.label("head"),
            relations.c.name.label("relation"),
            tail.c.name.label("tail"),
        )
        .join(edges, edges.c.id == occurrences.c.edge_id)
        .join(head, head.c.id == edges.c.head_id)
        .join(relations, relations.c.id == edges.c.relation_id)
        .join(tail, tail.c.id == edges.c.tail_id)
        .order_by(occurrences.c.chunk_id, occurrences.c.position)
    )
    said: dict[int, list[Triple]] = {}
    runs: dict[int, list[Triple]] = {}
    for batch in batches(chunk_ids):
        for chunk_id, sentence_id, *names in connection.execute(query.where(occurrences.c.chunk_id.in_(batch))):
            triple = Triple(*names)
            runs.setdefault(chunk_id, []).append(triple)
            if sentence_id is not None:
                said.setdefault(sentence_id, []).append(triple)
    return said, runs


def _load_sentences(
    connection: Connection, texts: Mapping[int, str], said: Mapping[int, Sequence[Triple]], *, with_vectors: bool
) -> tuple[dict[int, list[StoredSentence]], dict[int, list[bytes]]]:
    """Sentences and vector blobs by chunk row, in order."""
    table = schema.sentences
    columns = [
        table.c.chunk_id,
        table.c.id,
        table.c.position,
        table.c.start,
        table.c.end,
        table.c.kind,
        table.c.carried,
    ]
    if with_vectors:
        columns.append(table.c.vector)
    query = select(*columns).order_by(table.c.chunk_id, table.c.position)
    sentences: dict[int, list[StoredSentence]] = {}
    blobs: dict[int, list[bytes]] = {}
    for batch in batches(list(texts)):
        for chunk_id, row_id, position, start, end, kind, carried, *vector in connection.execute(
            query.where(table.c.chunk_id.in_(batch))
        ):
            span = _sentence(texts[chunk_id], position, start, end, kind)
            sentences.setdefault(chunk_id, []).append(
                StoredSentence(span, bool(carried), tuple(dict.fromkeys(said.get(row_id, ()))))
            )
            blobs.setdefault(chunk_id, []).extend(vector)
    return sentences, blobs


def _sentence(text: str, position: int, start: int, end: int, kind: SentenceKind) -> Sentence:
    return Sentence(position, start, end, text[start:end], kind)
