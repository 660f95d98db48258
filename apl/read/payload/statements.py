"""Edges to the lines of an outline: by head, and within a head by sentence, so that what belongs together stays so."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from apl.symbols import Run, Triple
from apl.text import is_specific

_PREPOSITIONS = frozenset(
    "about above across after against along among around as at before behind below beneath beside between beyond by "
    "despite down during for from in inside into near of off on onto out outside over past since through throughout to "
    "toward towards under until up upon via while with within without following including because due according".split()
)
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_DATE = re.compile(rf"\d{{1,2}} (?:{_MONTHS})\b|(?:{_MONTHS}) \d|[12]\d{{3}}(?:\Z|, (?!\d)| and )")
"""A month needs a day or a year beside it, a year stands alone: May Smith and 1984 Olympics are no dates."""

_BEFORE_DATE = re.compile(r"(\S) (?:in|on)\Z")
_MAX_CONTINUATION_WORDS = 3


@dataclass(frozen=True, slots=True)
class OutlineLine:
    """What a line says of its head: each statement is "relation tail" and the further tails of that relation."""

    head: str
    statements: tuple[tuple[str, ...], ...]


@dataclass(slots=True)
class _Saying:
    """A statement in the making: its first relation, the one its last tail belongs to, and its parts."""

    relation: str
    last: str
    parts: list[str] = field(default_factory=list)

    @property
    def is_simple(self) -> bool:
        return self.relation == self.last


def grouped(runs: Iterable[Run], sentences: Sequence[Sequence[int]] = ()) -> tuple[OutlineLine, ...]:
    """A line a head, in order of first appearance; a head that is not specific is grouped within its run only.

    Edges of one sentence that share a head and a verb are one statement: `born in` Rosario, `born on` 24 June become
    "born in Rosario on 24 June". A statement with one relation takes up the tails of the same relation elsewhere.
    A leading `is` or `are`, which every reader supplies after a head and a colon, is left out, and so is the `in` or
    `on` before a date.

    Args:
        runs: Neutral edges.
        sentences: In the same shape, the number of the sentence that says each edge; empty: each by itself.
    """
    heads: dict[tuple[str, int], dict[int, list[Triple]]] = {}
    unknown = -1
    for number, run in enumerate(runs):
        for place, triple in enumerate(run):
            said_in = sentences[number][place] if sentences else -1
            if said_in < 0:
                unknown -= 1
                said_in = unknown
            heads.setdefault(group_of(triple.head, number), {}).setdefault(said_in, []).append(triple)
    return tuple(OutlineLine(head, _statements(said.values())) for (head, _), said in heads.items())


def group_of(head: str, run: int) -> tuple[str, int]:
    """A specific name is one head in all runs; any other may mean another thing in each."""
    return (head, -1) if is_specific(head) else (head, run)


def _statements(sentences: Iterable[Sequence[Triple]]) -> tuple[tuple[str, ...], ...]:
    """All that the sentences say of one head."""
    sayings: list[_Saying] = []
    simple: dict[str, _Saying] = {}
    for triples in sentences:
        for saying in _sayings(triples):
            known = simple.get(saying.relation) if saying.is_simple else None
            if known is not None:
                known.parts.extend(part for part in saying.parts if part not in known.parts)
                continue
            sayings.append(saying)
            if saying.is_simple:
                simple[saying.relation] = saying
    return tuple(_said(saying) for saying in sayings)


def _sayings(triples: Sequence[Triple]) -> list[_Saying]:
    """What one sentence says of one head."""
    sayings: list[_Saying] = []
    for triple in dict.fromkeys(triples):
        current = sayings[-1] if sayings else None
        if current is not None and triple.relation == current.last:
            current.parts.append(triple.tail)
        elif current is not None and (joint := _continuation(current.relation, current.parts, triple.relation)):
            current.parts[-1] = _joined(f"{current.parts[-1]} {joint}", triple.tail)
            current.last = triple.relation
        else:
            sayings.append(_Saying(triple.relation, triple.relation, [triple.tail]))
    return sayings


def _continuation(first: str, tails: Sequence[str], second: str) -> str:
    """The prepositions by which a second relation goes on from the first ("born in", "born on"); or nothing.

    It may repeat what was said so far: "acquired" DeltaPay, "acquired DeltaPay in" 2022.
    """
    left: list[str] = []
    rest = second.removeprefix(f"{first} {tails[-1]} ").split(" ")
    if len(rest) == len(second.split(" ")):
        known = first.split(" ")
        shared = next(
            (n for n, (a, b) in enumerate(zip(known, rest, strict=False)) if a != b), min(len(known), len(rest))
        )
        if not shared:
            return ""
        left, rest = known[shared:], rest[shared:]
    fits = 0 < len(rest) <= _MAX_CONTINUATION_WORDS and all(word in _PREPOSITIONS for word in (*left, *rest))
    return " ".join(rest) if fits else ""


def _said(saying: _Saying) -> tuple[str, ...]:
    first, *others = saying.parts
    text = _joined(saying.relation, first)
    return (text.removeprefix("is ").removeprefix("are "), *others)


def _joined(relation: str, tail: str) -> str:
    if _DATE.match(tail):
        relation = _BEFORE_DATE.sub(r"\1", relation)
    return f"{relation} {tail}" if relation and tail else relation or tail
