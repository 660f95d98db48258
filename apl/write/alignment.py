"""Extraction to rows: each triple with its sentence, and what the coverage guard says of each sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from apl.shortening import shortened
from apl.state.records import NewOccurrence
from apl.symbols import ExtractedTriple, Extraction, Passage, Sentence, Triple
from apl.text import is_carried, is_encodable, keeps_content
from apl.triples import Aligner, is_usable


@dataclass(frozen=True, slots=True)
class AlignedSentence:
    """A sentence, whether its own edges carry it, and a shorter way of quoting it that loses no content word."""

    sentence: Sentence
    carried: bool
    short: str | None


@dataclass(frozen=True, slots=True)
class AlignedPassage:
    """What a passage becomes: its sentences, its triples in order, and how many were not usable."""

    sentences: tuple[AlignedSentence, ...]
    occurrences: tuple[NewOccurrence, ...]
    malformed: int


def align_passage(passage: Passage, extraction: Extraction) -> AlignedPassage:
    """Give every usable triple its sentence, and let the guard judge edges and shortened quotes."""
    occurrences, dropped = _aligned(extraction, passage.sentences)
    said: dict[int | None, list[Triple]] = {}
    for occurrence in occurrences:
        said.setdefault(occurrence.sentence, []).append(occurrence.triple)
    sentences = tuple(
        AlignedSentence(
            sentence,
            sentence.kind == "rule" or is_carried(sentence.text, said.get(sentence.position, ()), extraction.lemmas),
            _short_quote(sentence, extraction, passage.language),
        )
        for sentence in passage.sentences
    )
    return AlignedPassage(sentences, tuple(occurrences), extraction.malformed + dropped)


def _short_quote(sentence: Sentence, extraction: Extraction, language: str) -> str | None:
    """The extractor's shorter quote, or what the words alone allow, where it is one and keeps every content word."""
    short = extraction.short.get(sentence.position)
    if short is None and sentence.kind in ("prose", "list"):
        short = shortened(sentence.text, language)
    if short is None or len(short) >= len(sentence.text) or not is_encodable(short):
        return None
    return short if keeps_content(sentence.text, short, extraction.lemmas) else None


def _aligned(extraction: Extraction, sentences: Sequence[Sentence]) -> tuple[list[NewOccurrence], int]:
    """The usable triples, each with its sentence, and how many were not usable."""
    aligner = Aligner(sentences)
    occurrences: dict[NewOccurrence, None] = {}
    dropped = 0
    for extracted in extraction.triples:
        triple = extracted.triple
        if not is_usable(triple):
            dropped += 1
            continue
        position = _given_sentence(extracted, len(sentences))
        occurrences.setdefault(NewOccurrence(triple, aligner.find(triple) if position is None else position))
    return list(occurrences), dropped


def _given_sentence(extracted: ExtractedTriple, count: int) -> int | None:
    given = extracted.sentence
    return given if given is not None and 0 <= given < count else None
