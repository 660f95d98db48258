"""Which sentences go out: scored on the query-local graph, then chosen under a budget or down to a threshold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

import numpy as np

from apl.read.costs import Price
from apl.read.evidence import HostChunk
from apl.read.features import FEATURES, Corpus, Floats, features
from apl.read.question import Question
from apl.text import is_specific

_DECIMALS = 5
"""Scores are rounded before sorting, so that the last bits of a float cannot reorder a payload."""

Key = tuple[int, int]
"""(host rank, sentence position) of a unit."""

_BECAUSE = {
    "cosine": "it resembles the question",
    "overlap": "it says rare words of the question",
    "answer_type": "it holds the kind of answer that is asked for",
    "link": "a relevant sentence names what its chunk is about",
    "link_overlap": "a relevant sentence names what its chunk is about, and it says words of the question",
}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A unit that may go out."""

    key: Key
    score: float
    price: Price
    because: str


@dataclass(frozen=True, slots=True)
class Choice:
    """The units that go out, with the headings they need, and why each of the others does not."""

    keys: frozenset[Key] = frozenset()
    dropped: Mapping[Key, str] = field(default_factory=dict)
    scores: Mapping[Key, Candidate] = field(default_factory=dict)


def candidates(
    chunks: Sequence[HostChunk],
    prices: Sequence[Sequence[Price]],
    question: Question,
    corpus: Corpus,
    weights: Mapping[str, float],
) -> list[Candidate]:
    """The units of the chunks that can be chosen, best first; equal scores keep reading order.

    A heading is none unless its chunk has nothing else: it comes along with what needs it.
    """
    if not any(chunk.units for chunk in chunks):
        return []
    values = features(chunks, question, corpus)
    shares = values * np.array([weights.get(name, 0.0) for name in FEATURES])
    scores = np.round(shares.sum(axis=1), _DECIMALS)
    reasons = _reasons(shares)
    found, row = [], 0
    for chunk, priced in zip(chunks, prices, strict=True):
        only_headings = all(unit.sentence.kind in ("title", "rule") for unit in chunk.units)
        for unit, price in zip(chunk.units, priced, strict=True):
            if unit.sentence.kind != "rule" and (unit.sentence.kind != "title" or only_headings):
                key = (chunk.rank, unit.sentence.position)
                found.append(Candidate(key, float(scores[row]), price, reasons[row]))
            row += 1
    return sorted(found, key=lambda candidate: (-candidate.score, candidate.key))


def _reasons(shares: Floats) -> list[str]:
    """What speaks most for each unit, against the mean of all."""
    best = (shares - shares.mean(axis=0)).argmax(axis=1)
    return [_BECAUSE.get(FEATURES[column], "it is short") for column in best.tolist()]


def least_score(ranked: Sequence[Candidate], deviation: float) -> float:
    """The score so many standard deviations above the mean: what is below does not stand out from its host."""
    if not ranked:
        return float("-inf")
    scores = np.array([candidate.score for candidate in ranked])
    return float(scores.mean() + deviation * scores.std())


def choose(
    ranked: Sequence[Candidate],
    chunks: Sequence[HostChunk],
    *,
    budget_tokens: float,
    least_score: float = float("-inf"),
    at_least_tokens: float = 0.0,
    always: Set[Key] = frozenset(),
    unique: bool = True,
) -> Choice:
    """The best units whose estimated cost fits the budget; what does not fit is passed over for what still does.

    A head and a heading are paid for once. What an earlier choice says word for word of the same is not said again.

    Args:
        ranked: Best first.
        chunks: The host's chunks by rank.
        budget_tokens: Upper bound.
        least_score: Below it nothing is taken once `at_least_tokens` are spent.
        at_least_tokens: What is spent whatever the scores.
        always: Units that go out whatever their scores and the budget.
        unique: What is chosen already is not chosen again from another chunk.
    """
    by_rank = {chunk.rank: chunk for chunk in chunks}
    taken: set[Key] = set(always)
    dropped: dict[Key, str] = {}
    heads: set[str] = set()
    said: set[tuple[str, str]] = set()
    spent = float(sum(candidate.price.tokens for candidate in ranked if candidate.key in always))
    for candidate in ranked:
        if candidate.key in always:
            continue
        rank, position = candidate.key
        if candidate.score < least_score and spent >= at_least_tokens:
            dropped[candidate.key] = "what it adds is not worth its tokens"
            continue
        meaning = _meaning(by_rank[rank], position)
        if unique and meaning in said:
            dropped[candidate.key] = "another chunk says the same sentence"
            continue
        cost, heading = _cost(candidate, by_rank[rank], heads, taken)
        if spent + cost > budget_tokens:
            dropped[candidate.key] = "over the budget"
            continue
        spent += cost
        taken.add(candidate.key)
        if heading is not None:
            taken.add(heading)
        heads.update(head for head, _ in candidate.price.heads)
        said.add(meaning)
    return Choice(frozenset(taken), dropped)


def _meaning(chunk: HostChunk, position: int) -> tuple[str, str]:
    """A sentence and what it is said of: nothing more where it begins with a full name, else its heading or document.

    "It was released in 2020." of two films is not the same fact twice.
    """
    text = chunk.units[position].sentence.text
    if is_specific(" ".join(text.split(maxsplit=2)[:2])):
        return text, ""
    before = (unit.sentence.text for unit in reversed(chunk.units[:position]) if unit.sentence.kind == "title")
    return text, next(before, chunk.document_id)


def _cost(candidate: Candidate, chunk: HostChunk, heads: set[str], taken: set[Key]) -> tuple[float, Key | None]:
    """What a candidate adds to what is taken, and the heading that comes along."""
    price = candidate.price
    cost = float(price.tokens) + sum(tokens for head, tokens in price.heads if head not in heads)
    if price.heading is None or price.heads:
        return cost, None
    heading = (chunk.rank, chunk.units[price.heading].sentence.position)
    if heading not in taken:
        cost += len(chunk.units[price.heading].sentence.text) / 4
    return cost, heading
