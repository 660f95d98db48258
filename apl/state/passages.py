"""Reading: the stored passages behind the host's chunks, with their sentences, edges and vectors."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Literal

from sqlalchemy import Connection, select

from apl.state import schema
from apl.state.codebook import find_chunks
from apl.state.engine import Store, read_generation
from apl.state.records import StoredChunk, StoredPassage, StoredSentence
from apl.state.symbol_rows import batches
from apl.state.vectors import from_bytes
from apl.symbols import Sentence, SentenceKind, Triple
from apl.text import is_encodable

_Name = tuple[Literal["key", "hash"], str]


class Passages:
    """Looks passages up. Never writes, never waits for a writer; keeps what it decoded until the store changes.

    A decoded passage is kept by (chunk id or content hash) for one generation of the store; the generation is read with
    every look-up, so another process's write is noticed within one call.

    Args:
        store: The open store.
        capacity: Decoded passages kept at most, the least recently used go first; 0 keeps none.
    """

    def __init__(self, store: Store, *, capacity: int = 4096) -> None:
        self._store = store
        self._capacity = capacity
        self._lock = Lock()
        self._generation = -1
        self._kept: OrderedDict[_Name, StoredPassage | None] = OrderedDict()

    def find(self, keys: Sequence[str], hashes: Sequence[str]) -> PassageLookup:
        """The passages with one of these chunk ids or content hashes, all read from one state of the store.

        Of several chunks with one content, the one whose id sorts first stands for the hash.
        """
        wanted: list[_Name] = [("key", key) for key in keys if is_encodable(key)]
        wanted += [("hash", content_hash) for content_hash in hashes]
        with self._store.reading() as connection:
            generation = read_generation(connection)
            found = self._recall(generation, wanted)
            missing = [name for name in wanted if name not in found]
            if missing:
                found.update(_find(connection, missing))
        self._keep(generation, {name: found[name] for name in missing})
        by_key = {name: passage for (kind, name), passage in found.items() if kind == "key" and passage}
        by_hash = {name: passage for (kind, name), passage in found.items() if kind == "hash" and passage}
        return PassageLookup(by_key, by_hash)

    def _recall(self, generation: int, wanted: Sequence[_Name]) -> dict[_Name, StoredPassage | None]:
        with self._lock:
            if generation > self._generation:
                self._kept.clear()
                self._generation = generation
            if generation < self._generation:
                return {}
            found = {}
            for name in wanted:
                if name in self._kept:
                    self._kept.move_to_end(name)
                    found[name] = self._kept[name]
            return found

    def _keep(self, generation: int, loaded: Mapping[_Name, StoredPassage | None]) -> None:
        with self._lock:
            if generation != self._generation:
                return
            self._kept.update(loaded)
            while len(self._kept) > self._capacity:
                self._kept.popitem(last=False)


class PassageLookup:
    """Passages by chunk id and by content hash."""

    def __init__(self, by_key: Mapping[str, StoredPassage], by_hash: Mapping[str, StoredPassage]) -> None:
        self.by_key = by_key
        self.by_hash = by_hash


def _find(connection: Connection, names: Sequence[_Name]) -> dict[_Name, StoredPassage | None]:
    keys = [name for kind, name in names if kind == "key"]
    hashes = [name for kind, name in names if kind == "hash"]
    found: dict[_Name, StoredChunk] = {}
    for chunk in find_chunks(connection, schema.chunks.c.key, keys):
        found["key", chunk.key] = chunk
    for chunk in find_chunks(connection, schema.chunks.c.content_hash, hashes):
        found.setdefault(("hash", chunk.content_hash), chunk)
    passages = _load(connection, {chunk.id: chunk for chunk in found.values()})
    return {name: passages[found[name].id] if name in found else None for name in names}


def _load(connection: Connection, wanted: Mapping[int, StoredChunk]) -> dict[int, StoredPassage]:
    ids = list(wanted)
    texts: dict[int, str] = {}
    for batch in batches(ids):
        rows = connection.execute(select(schema.chunks.c.id, schema.chunks.c.text).where(schema.chunks.c.id.in_(batch)))
        texts.update({row.id: row.text for row in rows})
    said, runs = _load_triples(connection, ids)
    sentences, blobs = _load_sentences(connection, texts, said)
    return {
        chunk_id: StoredPassage(
            chunk,
            texts[chunk_id],
            tuple(sentences.get(chunk_id, ())),
            tuple(dict.fromkeys(runs.get(chunk_id, ()))),
            from_bytes(blobs.get(chunk_id, [])),
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
    connection: Connection, texts: Mapping[int, str], said: Mapping[int, Sequence[Triple]]
) -> tuple[dict[int, list[StoredSentence]], dict[int, list[bytes]]]:
    """Sentences and vector blobs by chunk row, in order."""
    table = schema.sentences
    columns = (table.c.chunk_id, table.c.id, table.c.position, table.c.start, table.c.end, table.c.kind)
    query = select(*columns, table.c.carried, table.c.short, table.c.vector).order_by(
        table.c.chunk_id, table.c.position
    )
    sentences: dict[int, list[StoredSentence]] = {}
    blobs: dict[int, list[bytes]] = {}
    for batch in batches(list(texts)):
        for chunk_id, row_id, position, start, end, kind, carried, short, vector in connection.execute(
            query.where(table.c.chunk_id.in_(batch))
        ):
            span = _sentence(texts[chunk_id], position, start, end, kind)
            sentences.setdefault(chunk_id, []).append(
                StoredSentence(span, bool(carried), tuple(dict.fromkeys(said.get(row_id, ()))), short)
            )
            blobs.setdefault(chunk_id, []).append(vector)
    return sentences, blobs


def _sentence(text: str, position: int, start: int, end: int, kind: SentenceKind) -> Sentence:
    return Sentence(position, start, end, text[start:end], kind)
