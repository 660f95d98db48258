"""What apl asks of the parts a user brings. Structural: nothing has to inherit from these."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from apl.reports import Estimate
from apl.symbols import Extraction, Passage

Vectors = NDArray[np.float32]
"""Shape (n, dimension), one unit row a text."""


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors."""

    @property
    def name(self) -> str:
        """What the store remembers the embedder by."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Shape (len(texts), dimension), float32, one unit row a text; (0, dimension) for no texts."""
        ...


@runtime_checkable
class QuestionEmbedder(Embedder, Protocol):
    """An embedder that may read a question otherwise than a passage, as some models want it."""

    def embed_question(self, question: str) -> Vectors:
        """Shape (dimension,), a unit vector."""
        ...


@runtime_checkable
class TripleExtractor(Protocol):
    """Reads triples out of passages."""

    @property
    def name(self) -> str:
        """What occurrences are labelled with."""
        ...

    def extract(self, passages: Sequence[Passage]) -> Sequence[Extraction]:
        """One `Extraction` a passage, in the order of the passages; order of extraction is kept."""
        ...


@runtime_checkable
class EstimatingExtractor(TripleExtractor, Protocol):
    """An extractor that is paid for by the call, and can tell beforehand what it would cost."""

    def estimate(self, passages: Iterable[Passage]) -> Estimate:
        """Calls, tokens and cost of extracting these passages; asks nothing."""
        ...


@runtime_checkable
class TokenCounter(Protocol):
    """Counts the tokens of a text as the generator's tokenizer does."""

    @property
    def name(self) -> str:
        """What the store remembers the tokenizer by."""
        ...

    def count(self, text: str) -> int:
        """Tokens of exactly these bytes."""
        ...

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """`[count(text) for text in texts]`, in one call."""
        ...
