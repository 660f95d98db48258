"""What speaks for each sentence of the host's chunks: one number a feature, computed on arrays, no loop over pairs.

The query-local graph is that of sentences and the things that chunks are about: a sentence that calls another chunk by
its title links to it, and relevance flows along (receiver-normalised, hubs carry little: `spec` 8 and paper 3.7).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apl.read.evidence import HostChunk
from apl.read.question import Question
from apl.terms import NAME, without_marks

Floats = NDArray[np.float64]

FEATURES = (
    "cosine",
    "overlap",
    "answer_type",
    "link",
    "link_overlap",
    "length",
)
"""The columns of `features`, in order."""

_SEED_OVERLAP = 0.5
_ROUNDS = 2


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """How common a term is: `frequencies` by term, of `chunks` chunks."""

    frequencies: Mapping[int, int]
    chunks: int

    def rarity(self, terms: NDArray[np.int64]) -> Floats:
        """Inverse document frequency of each term, in (0, 1]: 1 for one that occurs nowhere else."""
        counts = np.array([self.frequencies.get(term, 0) for term in terms.tolist()], dtype=np.float64)
        most = np.log(self.chunks + 2)
        idf: Floats = np.log((self.chunks + 2) / np.maximum(counts, 1.0)) / most
        return np.clip(idf, 0.0, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """The sentences of the host's chunks as arrays, in reading order.

    Attributes:
        chunk: Place of each sentence's chunk among the given chunks.
        values: Marked terms of all sentences, one after the other.
        owner: The sentence of each value.
        cosine: Cosine of each sentence with the question.
    """

    chunk: NDArray[np.int64]
    values: NDArray[np.int64]
    owner: NDArray[np.int64]
    traits: NDArray[np.int64]
    cosine: Floats
    length: Floats

    @property
    def count(self) -> int:
        """How many sentences there are."""
        return len(self.chunk)


def units_of(chunks: Sequence[HostChunk], question: Question) -> Units:
    """The sentences of the chunks; one without a vector gets the median cosine of the others."""
    sizes = np.array([len(chunk.units) for chunk in chunks], dtype=np.int64)
    counts = np.concatenate([chunk.terms.counts for chunk in chunks])
    return Units(
        chunk=np.repeat(np.arange(len(chunks)), sizes),
        values=np.concatenate([chunk.terms.values for chunk in chunks]),
        owner=np.repeat(np.arange(len(counts)), counts),
        traits=np.concatenate([chunk.terms.traits for chunk in chunks]),
        cosine=_cosines(chunks, question),
        length=np.array([len(unit.sentence.text) for chunk in chunks for unit in chunk.units], dtype=np.float64),
    )


def _cosines(chunks: Sequence[HostChunk], question: Question) -> Floats:
    parts = []
    for chunk in chunks:
        known = bool(chunk.units) and chunk.vectors is not None and question.vector is not None
        parts.append(chunk.vectors @ question.vector if known else np.full(len(chunk.units), np.nan))  # type: ignore[operator]
    cosines: Floats = np.concatenate(parts).astype(np.float64)
    missing = np.isnan(cosines)
    if missing.any():
        cosines[missing] = np.median(cosines[~missing]) if (~missing).any() else 0.0
    return cosines


def features(chunks: Sequence[HostChunk], question: Question, corpus: Corpus) -> Floats:
    """Shape (sentences, len(FEATURES)), for chunks that have at least one sentence in all."""
    units = units_of(chunks, question)
    asked = _Asked(units, question, corpus)
    titles = _Titles(chunks, units, question, corpus)
    seed = _unit_range(units.cosine + _SEED_OVERLAP * asked.overlap)
    link = titles.relevance(seed, units) * (1.0 - titles.is_asked[units.chunk])
    columns = {
        "cosine": units.cosine,
        "overlap": asked.overlap,
        "answer_type": _answers_kind(units, question),
        "link": link,
        "link_overlap": link * asked.overlap,
        "length": np.log(np.maximum(units.length, 1.0) / 4.0),
    }
    return np.stack([columns[name] for name in FEATURES], axis=1)


class _Asked:
    """The question's terms and their weights among these units."""

    def __init__(self, units: Units, question: Question, corpus: Corpus) -> None:
        bare = without_marks(units.values)
        terms = question.terms
        place = np.searchsorted(terms, bare) if len(terms) else np.zeros(len(bare), dtype=np.int64)
        hit = np.zeros(len(bare), dtype=bool)
        inside = place < len(terms)
        hit[inside] = terms[place[inside]] == bare[inside]
        weights = corpus.rarity(terms)
        held = np.zeros(len(terms), dtype=bool)
        held[place[hit]] = True
        mass = float(weights[held].sum()) or 1.0
        pairs = np.unique(units.owner[hit] * max(1, len(terms)) + place[hit])
        owners, places = np.divmod(pairs, max(1, len(terms)))
        self.overlap: Floats = np.bincount(owners, weights[places], units.count) / mass


class _Titles:
    """What the chunks are about, and which sentences of other chunks call it by its name."""

    def __init__(self, chunks: Sequence[HostChunk], units: Units, question: Question, corpus: Corpus) -> None:
        titles = [chunk.title_terms for chunk in chunks]
        names = np.unique(np.concatenate(titles))
        weights = corpus.rarity(names)
        member = np.zeros((len(names), len(chunks)))
        for number, title in enumerate(titles):
            member[np.searchsorted(names, title), number] = 1.0
        weighted = member * weights[:, None]
        mass = weighted.sum(axis=0)
        bare = without_marks(units.values)
        place = np.searchsorted(names, bare)
        inside = place < len(names)
        inside[inside] = names[place[inside]] == bare[inside]
        said = np.zeros((units.count, len(names)))
        said[units.owner[inside], place[inside]] = 1.0
        named = np.zeros((units.count, len(names)))
        marked = inside & (units.values & 1 == 1)
        named[units.owner[marked], place[marked]] = 1.0
        whole = (said @ weighted >= mass - 1e-9) & (mass > 0) & (named @ member > 0)
        apart = units.chunk[:, None] != np.arange(len(chunks))[None, :]
        shared, sizes = member.T @ member, member.sum(axis=0)
        same = (shared == sizes[:, None]) & (shared == sizes[None, :])
        rarest = np.where(member > 0, weights[:, None], 0.0).max(axis=0) if len(names) else mass
        self.links: Floats = (whole & apart & ~same[units.chunk]) * rarest
        unasked = member[~np.isin(names, question.terms)].sum(axis=0)
        self.is_asked: Floats = ((sizes > 0) & (unasked == 0)).astype(np.float64)

    def relevance(self, seed: Floats, units: Units) -> Floats:
        """How relevant the sentences are that call each sentence's chunk by its name, in [0, 1]."""
        reached = np.zeros(self.links.shape[1])
        for _ in range(_ROUNDS):
            carried = np.maximum(seed, 0.5 * reached[units.chunk])
            reached = (self.links * carried[:, None]).max(axis=0)
        return reached[units.chunk]


def _answers_kind(units: Units, question: Question) -> Floats:
    """1 where a sentence holds the kind of answer that is asked for; a name has to be one the question does not say."""
    if question.expects == NAME:
        return (_new_names(units, question) > 0).astype(np.float64)
    return ((units.traits & question.expects) > 0).astype(np.float64)


def _new_names(units: Units, question: Question) -> Floats:
    """How many words of names each sentence has that the question does not say."""
    new = (units.values & 1 == 1) & ~np.isin(without_marks(units.values), question.terms)
    counted: Floats = np.bincount(units.owner[new], minlength=units.count).astype(np.float64)
    return counted


def _unit_range(values: Floats) -> Floats:
    """From 0 at the median to 1 at the best: what is below the median seeds nothing."""
    low, high = float(np.median(values)), float(values.max())
    return np.clip((values - low) / (high - low), 0.0, 1.0) if high > low else np.zeros(len(values))
