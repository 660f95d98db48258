"""Reading: the stored passages behind the host's chunks, with their sentences, edges and vectors."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Literal

import numpy as np
from sqlalchemy import Connection, select

from apl import terms
from apl.state import schema, term_rows
from apl.state.codebook import find_chunks
from apl.state.engine import Store, read_generation
from apl.state.records import StoredChunk, StoredPassage, StoredSentence
from apl.state.rows import batches
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
        self._counted = -1
        self._chunks = 0
        self._frequencies: dict[int, int] = {}
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

    def rarities(self, wanted: Sequence[int]) -> tuple[Mapping[int, int], int]:
        """In how many chunks each of the terms occurs, and how many chunks there are; kept like the passages.

        What is known of the state that the last look-up saw is not asked for again.
        """
        with self._lock:
            if self._counted == self._generation and all(term in self._frequencies for term in wanted):
                return {term: self._frequencies[term] for term in wanted}, self._chunks
        with self._store.reading() as connection:
            generation = read_generation(connection)
            with self._lock:
                if generation != self._counted:
                    self._frequencies.clear()
                    self._counted, self._chunks = generation, term_rows.count_chunks(connection)
                missing = [term for term in wanted if term not in self._frequencies]
            found = term_rows.find(connection, missing)
            with self._lock:
                if generation == self._counted:
                    self._frequencies.update({term: found.get(term, 0) for term in missing})
                return {term: self._frequencies.get(term, found.get(term, 0)) for term in wanted}, self._chunks

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
    column = schema.chunks.c
    texts: dict[int, str] = {}
    titles: dict[int, bytes] = {}
    for batch in batches(ids):
        rows = connection.execute(select(column.id, column.text, column.title_terms).where(column.id.in_(batch)))
        for row in rows:
            texts[row.id], titles[row.id] = row.text, row.title_terms
    said, runs = _load_triples(connection, ids)
    loaded = _load_sentences(connection, texts, said)
    return {
        chunk_id: _passage(chunk, texts[chunk_id], runs.get(chunk_id, ()), loaded[chunk_id], titles[chunk_id])
        for chunk_id, chunk in wanted.items()
    }


def _passage(
    chunk: StoredChunk, text: str, run: Sequence[Triple], loaded: Sequence[_LoadedSentence], title: bytes
) -> StoredPassage:
    return StoredPassage(
        chunk,
        text,
        tuple(sentence.said for sentence in loaded),
        tuple(dict.fromkeys(run)),
        from_bytes([sentence.vector for sentence in loaded]),
        terms.from_bytes(b"".join(sentence.terms for sentence in loaded)),
        np.array([len(sentence.terms) // 8 for sentence in loaded], dtype=np.int64),
        np.array([sentence.traits for sentence in loaded], dtype=np.int64),
        terms.from_bytes(title),
    )


@dataclass(frozen=True, slots=True)
class _LoadedSentence:
    """A sentence as read, with its blobs."""

    said: StoredSentence
    vector: bytes
    terms: bytes
    traits: int


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
) -> dict[int, list[_LoadedSentence]]:
    """Sentences by chunk row, in order."""
    table = schema.sentences
    columns = (table.c.chunk_id, table.c.id, table.c.position, table.c.start, table.c.end, table.c.kind)
    query = select(*columns, table.c.carried, table.c.short, table.c.vector, table.c.terms, table.c.traits).order_by(
        table.c.chunk_id, table.c.position
    )
    loaded: dict[int, list[_LoadedSentence]] = {chunk_id: [] for chunk_id in texts}
    for batch in batches(list(texts)):
        for chunk_id, row_id, *span, carried, short, vector, terms_blob, traits in connection.execute(
            query.where(table.c.chunk_id.in_(batch))
        ):
            sentence = _sentence(texts[chunk_id], *span)
            triples = tuple(dict.fromkeys(said.get(row_id, ())))
            stored = StoredSentence(sentence, bool(carried), triples, short)
            loaded[chunk_id].append(_LoadedSentence(stored, vector, terms_blob, traits))
    return loaded


def _sentence(text: str, position: int, start: int, end: int, kind: SentenceKind) -> Sentence:
    return Sentence(position, start, end, text[start:end], kind)
