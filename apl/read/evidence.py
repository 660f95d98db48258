"""Host chunks to units: what the codebook knows of each chunk, sentence by sentence (paper 3.8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apl.sentences import split_sentences
from apl.state.passages import PassageLookup, Passages
from apl.state.records import StoredPassage
from apl.symbols import Chunk, ChunkState, Sentence, Triple
from apl.terms import terms_of, title_terms
from apl.text import content_hash


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """A sentence of a host chunk, with the edges that occur in it.

    `rank` is the chunk's place in the host's list; `short` is a shorter quote without loss, where there is one;
    `part` is what of it goes out where the budget is too small for the whole.
    """

    rank: int
    chunk_id: str
    document_id: str
    state: ChunkState
    sentence: Sentence
    carried: bool
    triples: tuple[Triple, ...]
    short: str | None = None
    part: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class UnitTerms:
    """The terms of a chunk's units: `values` one unit after the other, `counts` and `traits` a unit (`apl.terms`)."""

    values: NDArray[np.int64]
    counts: NDArray[np.int64]
    traits: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class HostChunk:
    """A chunk of the host with what the codebook knows of it.

    `vectors` has shape (units, dimension); it and `passage` are None for a chunk the codebook does not know.
    """

    rank: int
    chunk_id: str
    document_id: str
    text: str
    content_hash: str
    state: ChunkState
    run: tuple[Triple, ...]
    units: tuple[Unit, ...]
    terms: UnitTerms
    title_terms: NDArray[np.int64]
    vectors: NDArray[np.float32] | None = None
    passage: StoredPassage | None = None


def gather(chunks: Sequence[Chunk | str], passages: Passages, *, language: str) -> tuple[HostChunk, ...]:
    """Every chunk of the host in its order, mapped by id, then by content hash, else split on the fly.

    A chunk is `changed` when its id is stored with another text, `duplicate` when an earlier one of the list has the
    same text, `empty` when it has none; a bare id that is not stored is `unknown` and has no text.
    """
    ids = [chunk if isinstance(chunk, str) else chunk.id for chunk in chunks]
    hashes = [None if isinstance(chunk, str) else content_hash(chunk.text) for chunk in chunks]
    lookup = passages.find([key for key in ids if key is not None], [digest for digest in hashes if digest is not None])
    seen: set[str] = set()
    gathered = []
    for rank, (chunk, key, digest) in enumerate(zip(chunks, ids, hashes, strict=True)):
        host_chunk = _host_chunk(rank, chunk, key, digest, lookup, seen, language)
        seen.add(host_chunk.content_hash)
        gathered.append(host_chunk)
    return tuple(gathered)


def _host_chunk(
    rank: int,
    chunk: Chunk | str,
    key: str | None,
    digest: str | None,
    lookup: PassageLookup,
    seen: set[str],
    language: str,
) -> HostChunk:
    by_key = lookup.by_key.get(key) if key is not None else None
    passage = by_key
    if digest is not None and (by_key is None or by_key.chunk.content_hash != digest):
        passage = lookup.by_hash.get(digest)
    if isinstance(chunk, str):
        text, title, document_id = (passage.text if passage else ""), None, None
    else:
        text, title, document_id = chunk.text, chunk.title, chunk.document_id
    digest = digest or content_hash(text)
    chunk_id = key or (passage.chunk.key if passage else digest)
    document_id = document_id or (passage.chunk.document_key if passage else chunk_id)
    state: ChunkState = "known" if passage else "changed" if by_key else "unknown"
    if text.strip() and digest in seen:
        state = "duplicate"
    elif not text.strip() and not (isinstance(chunk, str) and passage is None):
        state = "empty"
    if passage is None:
        units = tuple(
            Unit(rank, chunk_id, document_id, state, sentence, False, ())
            for sentence in split_sentences(text, title=title, language=language)
        )
        terms, called = terms_of_units(units, language), title_terms(title or "", language)
        return HostChunk(rank, chunk_id, document_id, text, digest, state, (), units, terms, called)
    units = tuple(
        Unit(rank, chunk_id, document_id, state, stored.sentence, stored.carried, stored.triples, stored.short)
        for stored in passage.sentences
    )
    return HostChunk(
        rank,
        chunk_id,
        document_id,
        text,
        digest,
        state,
        passage.run,
        units,
        UnitTerms(passage.terms, passage.term_counts, passage.traits),
        passage.title_terms,
        passage.vectors,
        passage,
    )


def terms_of_units(units: Sequence[Unit], language: str) -> UnitTerms:
    """The terms of units that the codebook does not know."""
    found = [terms_of(unit.sentence.text, language) for unit in units]
    return UnitTerms(
        np.concatenate([terms.values for terms in found]) if found else np.zeros(0, dtype=np.int64),
        np.array([len(terms.values) for terms in found], dtype=np.int64),
        np.array([terms.traits for terms in found], dtype=np.int64),
    )
