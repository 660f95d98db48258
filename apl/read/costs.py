"""What each sentence costs by itself, in tokens: estimated once a passage, for the choice; what is sent is counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from apl.config import Mode
from apl.protocols import TokenCounter
from apl.read.evidence import HostChunk, Unit
from apl.read.payload.statements import grouped
from apl.state.records import StoredPassage
from apl.text import PRONOUNS, words

_CONTEXTUAL = PRONOUNS | frozenset("the his her its their our your my such both another other".split())
"""First words of sentences that may speak of what the heading names."""

_LINE = 1
"""Tokens of a line break, about."""


@dataclass(frozen=True, slots=True)
class Price:
    """What a sentence costs.

    Attributes:
        tokens: Of its statements, or of its quote.
        heads: The heads its statements stand under, each paid for once in a payload.
        heading: Place in the chunk of the heading that a reader needs where the sentence is quoted, if any.
    """

    tokens: int
    heads: tuple[tuple[str, int], ...] = ()
    heading: int | None = None


class Prices:
    """Prices by passage, kept as long as the passage is.

    Args:
        counter: The generator's tokenizer.
        mode: How sentences go out.
        shorten: Quotes are shortened.
        language: Of the texts.
    """

    def __init__(self, counter: TokenCounter, *, mode: Mode, shorten: bool, language: str) -> None:
        self._count: Callable[[str], int] = counter.count
        self._mode, self._shorten, self._language = mode, shorten, language
        self._kept: WeakKeyDictionary[StoredPassage, tuple[Price, ...]] = WeakKeyDictionary()

    def of(self, chunk: HostChunk) -> tuple[Price, ...]:
        """The price of every unit of the chunk."""
        if chunk.passage is None:
            return tuple(self._prices(chunk.units))
        known = self._kept.get(chunk.passage)
        if known is None:
            known = self._kept[chunk.passage] = tuple(self._prices(chunk.units))
        return known

    def of_part(self, chunk: HostChunk, place: int, part: str) -> Price:
        """The price of a part of a unit; where its beginning is gone, a reader needs the heading."""
        headings = [n for n, unit in enumerate(chunk.units[:place]) if unit.sentence.kind == "title"]
        begins = chunk.units[place].sentence.text.startswith(part) and not needs_heading(part, self._language)
        return Price(self._count(part) + _LINE, heading=None if begins or not headings else headings[-1])

    def _prices(self, units: Sequence[Unit]) -> list[Price]:
        prices, heading = [], None
        for place, unit in enumerate(units):
            if unit.sentence.kind == "title":
                heading = place
            prices.append(self._price(unit, heading if heading != place else None))
        return prices

    def _price(self, unit: Unit, heading: int | None) -> Price:
        if heading is not None and not needs_heading(unit.sentence.text, self._language):
            heading = None
        as_edges = unit.state in ("known", "duplicate") and self._mode != "text" and bool(unit.triples)
        if as_edges and (self._mode == "symbolic" or unit.carried):
            lines = grouped([unit.triples], [[1] * len(unit.triples)])
            said = sum(self._count("; " + "; ".join(" | ".join(parts) for parts in line.statements)) for line in lines)
            return Price(said, tuple((line.head, self._count(line.head) + _LINE + 1) for line in lines), heading)
        text = unit.short if self._shorten and unit.short else unit.sentence.text
        return Price(self._count(text) + _LINE, heading=heading)


def needs_heading(text: str, language: str) -> bool:
    """True when a sentence begins with a word that may stand for what its heading names; always if not English."""
    if language != "en":
        return True
    first = next(iter(words(text[:40])), "")
    return first in _CONTEXTUAL or text[:1].islower()
