"""What a question asks for: its terms, and the kinds of answers it expects, as a hint. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apl.terms import DATE, NAME, NUMBER, terms_of, without_marks

_PLACES = (
    "city|town|village|country|state|county|province|region|district|continent|place|location|island|river|capital|"
    "birthplace|nationality"
)
_KINDS = (
    (
        DATE,
        r"\bwhen\b|\b(?:what|which) (?:year|date|day|month|century|decade)\b|\b(?:date|year) (?:of|was|did|is)\b",
    ),
    (
        NUMBER,
        r"\bhow (?:many|much|old|long|far|big|tall|large|high|deep|often)\b"
        r"|\b(?:number|percentage|population|amount) of\b",
    ),
    (
        NAME,
        rf"\bwho(?:m|se)?\b|\bwhere\b|\b(?:what|which) (?:\w+ ){{0,2}}(?:{_PLACES})\b"
        rf"|\b(?:{_PLACES}) (?:of|is|was|where|in|does|did)\b",
    ),
)
_COMPILED = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _KINDS)


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A question as selection sees it.

    Attributes:
        text: As it was asked.
        terms: Its distinct terms, without marks.
        expects: Bits of `apl.terms`: a date, a number, a name; 0: nothing that can be told from its words.
        vector: Its embedding, or None.
    """

    text: str
    terms: NDArray[np.int64]
    expects: int
    vector: NDArray[np.float32] | None


def read_question(text: str, vector: NDArray[np.float32] | None, language: str) -> Question:
    """The question; what it expects is told from English wh-phrases, the first kind in the order date, number, name."""
    expects = next((kind for kind, pattern in _COMPILED if pattern.search(text)), 0) if language == "en" else 0
    return Question(text, np.unique(without_marks(terms_of(text, language).values)), expects, vector)
