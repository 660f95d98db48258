"""The finer unit of small budgets: the run of a long sentence's clauses that says most of what is asked. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import accumulate, pairwise

from apl.read.question import Question
from apl.terms import term_of, traits_of
from apl.text import NEGATIONS, content_words, words

LONG_TOKENS = 40
"""Sentences of fewer tokens go out whole."""

_SHARE = 0.8
"""Of a sentence's characters the most that its part has."""

_OF_THE_KIND = 0.3
"""What a clause counts that holds the kind of answer that is asked for; the rarest word of the question counts 1."""

_BEGINNING = 3
"""Letters that inflections of one word share."""

_BREAK = re.compile(
    r"(?<=[,;:)])[ \t]+|[ \t]+(?=[(—–]|--)"
    r"|[ \t]+(?=(?:and|but|which|who|where|while|when|after|before|because|although|with)\b)"
)
_TURNING = NEGATIONS | frozenset(
    "if unless except would could might may allegedly reportedly supposedly claimed false denied deny denies".split()
)
"""Words that turn round or weaken what stands far from them: a sentence with one of them is not cut."""


def part_of(text: str, question: Question, rarity: Mapping[int, float], language: str) -> str | None:
    """The clauses next to each other, at most four fifths of the text, that say most rare words of the question.

    Equally good runs: the longer, then the earlier. None where a part may say something else than the whole (negation,
    condition, hearsay), where there are no clauses, and in languages whose clauses are not known (all but English).

    Args:
        text: A sentence of prose.
        question: What is asked.
        rarity: Inverse document frequency of the question's terms, in (0, 1].
        language: Of the text.
    """
    if language != "en" or not _TURNING.isdisjoint(words(text)):
        return None
    ends = [0, *(match.end() for match in _BREAK.finditer(text)), len(text)]
    spans = [span for span in pairwise(ends) if span[0] < span[1]]
    asked = _Asked(question, rarity, language)
    sums = list(accumulate((asked.value(text[a:b]) for a, b in spans), initial=0.0))
    best, last = (-1.0, 0, 0, 0), 0
    for first, (start, _) in enumerate(spans):
        last = max(last, first)
        while last < len(spans) and len(text[start : spans[last][1]].rstrip()) <= _SHARE * len(text):
            last += 1
        if last > first:
            end = spans[last - 1][1]
            best = max(best, (round(sums[last] - sums[first], 6), end - start, -start, end))
    _, length, start, end = best
    return text[-start:end].strip() if length else None


class _Asked:
    """What a clause says of the question. Only words that begin like one of the question's are stemmed."""

    def __init__(self, question: Question, rarity: Mapping[int, float], language: str) -> None:
        self._rarity, self._language, self._expects = rarity, language, question.expects
        self._beginnings = {word[:_BEGINNING] for word in content_words(question.text)}

    def value(self, clause: str) -> float:
        alike = (word for word in content_words(clause) if word[:_BEGINNING] in self._beginnings)
        said = {term_of(word, self._language) for word in alike}
        kind = bool(self._expects and traits_of(clause) & self._expects)
        return sum(self._rarity.get(term, 0.0) for term in said) + _OF_THE_KIND * kind
