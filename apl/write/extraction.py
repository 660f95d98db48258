"""Passages to what the store keeps of them: extraction, alignment and guard; a passage that fails fails alone."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from apl.errors import ConfigError, ExtractionError, MissingDependency
from apl.protocols import TripleExtractor
from apl.symbols import Extraction, Passage
from apl.write.alignment import AlignedPassage, align_passage

logger = logging.getLogger(__name__)

_In = TypeVar("_In")
_Out = TypeVar("_Out")

NOT_A_BAD_CHUNK = (MissingDependency, ConfigError)
"""Faults of the set-up: they would fail every chunk, so they end the run at once."""


@dataclass(frozen=True, slots=True)
class ReadPassage:
    """A passage that was read, and how its extractor fared (see `Extraction`)."""

    aligned: AlignedPassage
    unsupported: int
    fallbacks: int


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no result for an item."""

    reason: str


def read_passages(extractor: TripleExtractor | None, passages: Sequence[Passage]) -> list[ReadPassage | Failure]:
    """What each passage says, in their order; in this process, whichever it is.

    Args:
        extractor: Reads the triples; None: there are none.
        passages: A batch.

    Raises:
        ConfigError, MissingDependency: The extractor cannot work at all.
    """

    def read(some: Sequence[Passage]) -> list[ReadPassage]:
        found = [Extraction() for _ in some] if extractor is None else _extracted(extractor, some)
        return [
            ReadPassage(align_passage(passage, extraction), extraction.unsupported, extraction.fallbacks)
            for passage, extraction in zip(some, found, strict=True)
        ]

    return one_by_one(read, passages, "extraction")


def _extracted(extractor: TripleExtractor, passages: Sequence[Passage]) -> Sequence[Extraction]:
    extractions = list(extractor.extract(passages))
    if len(extractions) != len(passages) or not all(isinstance(found, Extraction) for found in extractions):
        raise ExtractionError(f"{extractor.name} has to return one Extraction for each of {len(passages)} passages")
    return extractions


def one_by_one(
    function: Callable[[Sequence[_In]], Sequence[_Out]], items: Sequence[_In], what: str
) -> list[_Out | Failure]:
    """Results of a batch function; where the batch fails, of one item at a time, with a `Failure` for the bad ones.

    Args:
        function: Items to as many results.
        items: A batch; for none the function is not called.
        what: What the function does, for the reason.
    """
    if not items:
        return []
    try:
        results = list(function(items))
        if len(results) != len(items):
            raise ExtractionError(f"{len(results)} results for {len(items)} items")  # noqa: TRY301 - as a failure
    except NOT_A_BAD_CHUNK:
        raise
    except Exception as error:
        if len(items) == 1:
            return [Failure(f"{what} failed ({type(error).__name__}: {error})")]
        logger.debug("%s of a batch failed, trying one chunk at a time", what, exc_info=True)
        return [result for item in items for result in one_by_one(function, [item], what)]
    return [*results]
