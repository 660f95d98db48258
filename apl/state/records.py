"""Rows in the making and rows as read: what the write room hands to the store and the store to the read room."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apl.symbols import Sentence, Triple
from apl.terms import Terms


@dataclass(frozen=True, slots=True)
class NewSentence:
    """A sentence to store: its span, whether its own edges carry it, its float16 vector, a shorter quote, its terms."""

    sentence: Sentence
    carried: bool
    vector: bytes
    short: str | None
    terms: Terms


@dataclass(frozen=True, slots=True)
class NewOccurrence:
    """A triple to store and the position of the sentence that states it (None: the chunk as a whole)."""

    triple: Triple
    sentence: int | None


@dataclass(frozen=True, slots=True)
class NewChunk:
    """A chunk to store with everything that was computed for it before the transaction."""

    key: str
    document_key: str
    title: str | None
    text: str
    content_hash: str
    tokens: int
    sentences: tuple[NewSentence, ...]
    occurrences: tuple[NewOccurrence, ...]
    title_terms: NDArray[np.int64]
    extractor: str


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """What the store knows of a chunk before its sentences are read."""

    id: int
    key: str
    document_key: str
    title: str | None
    content_hash: str
    extractor: str


@dataclass(frozen=True, slots=True)
class StoredSentence:
    """A sentence of a chunk with the edges that occur in it, in order of extraction."""

    sentence: Sentence
    carried: bool
    triples: tuple[Triple, ...]
    short: str | None = None


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class StoredPassage:
    """A chunk as decoded for reading.

    `run` is the chunk's edges in order of extraction; `vectors` has shape (sentences, dimension), float32. `terms`
    holds every sentence's terms one after the other, `term_counts` how many each has, `traits` their traits.
    """

    chunk: StoredChunk
    text: str
    sentences: tuple[StoredSentence, ...]
    run: tuple[Triple, ...]
    vectors: NDArray[np.float32]
    terms: NDArray[np.int64]
    term_counts: NDArray[np.int64]
    traits: NDArray[np.int64]
    title_terms: NDArray[np.int64]
