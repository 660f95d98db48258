"""Which units go out, best first, when a budget forces a choice: cosine plus idf-weighted word overlap."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from apl.read.evidence import Unit
from apl.text import content_words

_DECIMALS = 5
"""Scores are rounded before sorting, so that the last bits of a float cannot reorder a payload."""


def score_units(
    units: Sequence[Unit], question: str, question_vector: NDArray[np.float32] | None, *, overlap_weight: float
) -> NDArray[np.float64]:
    """Shape (units,): cosine with the question + weight * the unit's share of the question's idf mass.

    The mass is that of the question's words that any unit holds; the idf is taken over these units. A unit without a
    vector (its chunk is not in the codebook) gets the median cosine of the others, so that it competes on its words.
    """
    unit_words = [set(content_words(unit.sentence.text)) for unit in units]
    wanted = set(content_words(question))
    frequency = Counter(word for present in unit_words for word in present & wanted)
    idf = {word: math.log1p(len(units) / (1 + frequency[word])) for word in sorted(frequency)}
    mass = sum(idf.values()) or 1.0
    overlap = np.array([sum(idf[word] for word in sorted(present & wanted)) / mass for present in unit_words])
    return np.round(_cosines(units, question_vector) + overlap_weight * overlap, _DECIMALS)


def _cosines(units: Sequence[Unit], question_vector: NDArray[np.float32] | None) -> NDArray[np.float64]:
    cosines = np.full(len(units), np.nan)
    known = {index: unit.vector for index, unit in enumerate(units) if unit.vector is not None}
    if known and question_vector is not None:
        cosines[list(known)] = np.stack(list(known.values())) @ question_vector
    missing = np.isnan(cosines)
    cosines[missing] = float(np.median(cosines[~missing])) if (~missing).any() else 0.0
    return cosines


def best_first(scores: Sequence[float]) -> list[int]:
    """Indices by falling score; equal scores keep reading order."""
    return sorted(range(len(scores)), key=lambda index: (-scores[index], index))


def largest_fitting(count: int, fits: Callable[[int], bool]) -> int:
    """The largest n in [0, count] that fits, by bisection; assumes that what fits more also fits less."""
    low, high = 0, count
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low
