"""Rows in the making and rows as read: what the write room hands to the store and the store to the read room."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apl.symbols import Sentence, Triple


@dataclass(frozen=True, slots=True)
class NewSentence:
    """A sentence to store: its span, whether its own edges carry it, its float16 vector, and a shorter quote of it."""

    sentence: Sentence
    carried: bool
    vector: bytes
    short: str | None = None


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


@dataclass(frozen=True, slots=True, eq=False)
class StoredPassage:
    """A chunk as decoded for reading.

    `run` is the chunk's edges in order of extraction; `vectors` has shape (sentences, dimension), float32, and is
    empty unless it was asked for.
    """

    chunk: StoredChunk
    text: str
    sentences: tuple[StoredSentence, ...]
    run: tuple[Triple, ...]
    vectors: NDArray[np.float32]
