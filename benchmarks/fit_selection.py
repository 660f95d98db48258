"""Fit the weights of selection and the threshold of the automatic budget, on musique-stream-200 and nothing else.

    python benchmarks/fit_selection.py

Minimised is the share of the host's tokens that has to be sent, best sentence first, until an answer is said: the mean
over a grid of budgets of the questions whose answer is reached within it. Coordinate ascent from cosine and overlap,
over hosts of 10, 20 and 50 chunks; five folds over the questions say what the fit is worth on questions it has not seen.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apl.evaluation.metrics import contains_any, eligible_answers
from apl.providers import TiktokenCounter
from apl.read.costs import Price, Prices
from apl.read.evidence import HostChunk, gather
from apl.read.features import FEATURES, Corpus, features
from apl.read.question import read_question
from apl.state.engine import Store
from apl.state.passages import Passages
from hosts import SMALL, DenseHost, Question, extractor_of, load, minilm, offline, parser
from payload import codebook

GRID = (0.03, 0.05, 0.07, 0.1, 0.14, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6)
STEPS = (-1.0, -0.5, -0.25, -0.12, 0.12, 0.25, 0.5, 1.0)
FOLDS = 5
LEAST_GAIN = 0.0015
"""A step that gains less is noise: about two of a thousand (question, budget) pairs."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Instance:
    """A question over its host's sentences: features, costs as quotes, and which sentences hold an answer.

    `needs` says whether a sentence's heading comes along; `heading_tokens` are those of each sentence's heading.
    """

    question: int
    values: Floats
    tokens: Floats
    chunk: NDArray[np.int64]
    needs: NDArray[np.bool_]
    heading_tokens: Floats
    holds: NDArray[np.bool_]
    host_tokens: int


def instances(name: str, k: int, limit: int | None = None) -> list[Instance]:
    """The eligible questions of a data set, over hosts of k chunks."""
    data, model = load(name, limit), minilm()
    path, _ = codebook(data, model, extractor_of(SMALL, None), rebuild=False)
    passages = Passages(Store.open(path, read_only=True), capacity=100_000)
    counter = TiktokenCounter()
    prices = Prices(counter, mode="text", shorten=False, language="en")
    texts = [question.text for question in data.questions]
    retrieved, vectors = DenseHost(data.chunks, model).top(texts, k), model.embed(texts)
    found = []
    for number, (question, chunks) in enumerate(zip(data.questions, retrieved, strict=True)):
        host = gather(chunks, passages, language="en")
        asked = read_question(question.text, vectors[number], "en")
        wanted = [*asked.terms.tolist(), *(term for chunk in host for term in chunk.title_terms.tolist())]
        values = features(host, asked, Corpus(*passages.rarities(wanted)))
        text = "\n\n".join(chunk.text for chunk in chunks)
        instance = _instance(number, question, host, [prices.of(chunk) for chunk in host], values, text, counter)
        found += [instance] if instance is not None else []
    return found


def _instance(
    number: int,
    question: Question,
    host: Sequence[HostChunk],
    prices: Sequence[Sequence[Price]],
    values: Floats,
    text: str,
    counter: TiktokenCounter,
) -> Instance | None:
    answers = eligible_answers(question.text, question.answers, text)
    if not answers:
        return None
    units = [(unit, price) for chunk, priced in zip(host, prices, strict=True) for unit, price in zip(chunk.units, priced, strict=True)]  # fmt: skip
    headings = [
        "" if price.heading is None else host[unit.rank].units[price.heading].sentence.text for unit, price in units
    ]
    kept = np.array([unit.sentence.kind not in ("title", "rule") for unit, _ in units])
    holds = [
        contains_any(said, answers)
        for said in (f"{heading}\n{unit.sentence.text}" for heading, (unit, _) in zip(headings, units, strict=True))
    ]
    return Instance(
        question=number,
        values=values[kept],
        tokens=np.array([price.tokens for _, price in units], dtype=np.float64)[kept],
        chunk=np.array([unit.rank for unit, _ in units])[kept],
        needs=np.array([heading != "" for heading in headings])[kept],
        heading_tokens=np.array([counter.count(heading) + 1 for heading in headings], dtype=np.float64)[kept],
        holds=np.array(holds)[kept],
        host_tokens=counter.count(text),
    )


def costs(instance: Instance, order: NDArray[np.int64]) -> Floats:
    """What each sentence adds to those before it: its quote, and its heading where no earlier one has brought it."""
    needing = order[instance.needs[order]]
    first = needing[np.unique(instance.chunk[needing], return_index=True)[1]]
    brought = np.zeros(len(instance.tokens))
    brought[first] = instance.heading_tokens[first]
    added: Floats = (instance.tokens + brought)[order]
    return added


def reach(found: Sequence[Instance], weights: Floats) -> Floats:
    """The share of the host's tokens to send until an answer is said; 9 where none is."""
    shares = np.full(len(found), 9.0)
    for number, instance in enumerate(found):
        order = np.argsort(-np.round(instance.values @ weights, 5), kind="stable")
        sent = np.cumsum(costs(instance, order))
        held = np.flatnonzero(instance.holds[order])
        if len(held):
            shares[number] = sent[held[0]] / instance.host_tokens
    return shares


def worth(shares: Floats) -> float:
    """What is maximised: the mean over `GRID` of the questions whose answer is reached within the budget."""
    return float(np.mean([(shares <= budget).mean() for budget in GRID]))


def fit(found: Sequence[Instance], names: Sequence[str] = FEATURES) -> Floats:
    """Weights by coordinate ascent; that of the cosine stays 1, features that are not named stay 0."""
    spread = np.concatenate([instance.values for instance in found]).std(axis=0)
    scale = spread[0] / np.maximum(spread, 1e-9)
    weights = np.zeros(len(FEATURES))
    weights[0], weights[1] = 1.0, 0.5 * ("overlap" in names)
    best, steps = worth(reach(found, weights)), STEPS
    for _ in range(4):
        changed = False
        for column in (FEATURES.index(name) for name in names if name != "cosine"):
            for step in steps:
                tried = weights.copy()
                tried[column] += step * scale[column]
                value = worth(reach(found, tried))
                if value > best + LEAST_GAIN:
                    best, weights, changed = value, tried, True
        steps = tuple(step * 0.6 for step in steps)
        if not changed:
            break
    return weights


def crossed(found: Sequence[Instance], names: Sequence[str] = FEATURES) -> Floats:
    """The shares of every question under weights that were fitted on the other folds."""
    parts = []
    for fold in range(FOLDS):
        weights = fit([one for one in found if one.question % FOLDS != fold], names)
        parts.append(reach([one for one in found if one.question % FOLDS == fold], weights))
    return np.concatenate(parts)


def automatic(found: Sequence[Instance], weights: Floats, deviation: float) -> tuple[float, float]:
    """(answers kept, mean ratio) when sentences go out that stand so many standard deviations above the host's mean."""
    kept, ratios = [], []
    for instance in found:
        scores = instance.values @ weights
        chosen = np.flatnonzero(scores >= scores.mean() + deviation * scores.std())
        kept.append(bool(instance.holds[chosen].any()))
        ratios.append(min(1.0, costs(instance, chosen).sum() / instance.host_tokens))
    return float(np.mean(kept)), float(np.mean(ratios))


def main() -> None:
    """Fit, and say what the fit is worth."""
    options = parser(__doc__ or "")
    options.set_defaults(data="musique-stream-200")
    arguments = options.parse_args()
    offline()
    by_k = {k: instances(arguments.data, k, arguments.limit) for k in (10, 20, 50)}
    found = [one for some in by_k.values() for one in some]
    start = np.array([1.0, 0.5, *[0.0] * (len(FEATURES) - 2)])
    told: dict[str, Any] = {
        "cosine": _told(reach(found, np.eye(len(FEATURES))[0])),
        "start": _told(reach(found, start)),
    }
    weights = fit(found)
    told["fitted"], told["unseen folds"] = _told(reach(found, weights)), _told(crossed(found))
    for left_out in FEATURES[1:]:
        told[f"unseen folds without {left_out}"] = _told(crossed(found, [n for n in FEATURES if n != left_out]))
    for name, figures in told.items():
        print(f"{name:40} {figures['worth']:.4f}  " + "  ".join(f"{x:.3f}" for x in figures["kept"]))
    print(json.dumps({name: round(float(w), 3) for name, w in zip(FEATURES, weights, strict=True) if w}, indent=1))
    for deviation in (0.0, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7):
        points = {k: automatic(some, weights, deviation) for k, some in by_k.items()}
        print(
            f"least_deviation {deviation:.2f}: "
            + ", ".join(f"k = {k}: {a:.3f} at {b:.3f}" for k, (a, b) in points.items())
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(told, indent=1))


def _told(shares: Floats) -> dict[str, Any]:
    budgets = (0.05, 0.1, 0.2, 0.3, 0.4, 0.6)
    return {"worth": worth(shares), "kept": [float((shares <= budget).mean()) for budget in budgets]}


if __name__ == "__main__":
    main()
