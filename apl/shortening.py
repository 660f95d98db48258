"""A shorter way of quoting a sentence, by its words alone: what an extractor without a parser cannot tell. Pure."""

from __future__ import annotations

import re

_ARTICLE = re.compile(
    r"(?:\A(?:The|An?)|(?<![^\s(])(?:the|an?)) (?=[a-z])"
    r"(?!(?:few|little|lot|most|number|couple|dozen|hundred|thousand|million|billion|same|least|priori)\b)"
)
_QUOTATION_MARKS = re.compile("[\"“”«»]|``|''")


def shortened(text: str, language: str) -> str:
    """English prose without the articles before words in small letters; names, amounts and quoted speech stay.

    Another language is left as it is: its articles are not known here, and `an` is a preposition in some.
    """
    if language != "en":
        return text
    marks = [match.start() for match in _QUOTATION_MARKS.finditer(text)]

    def drop(match: re.Match[str]) -> str:
        inside = sum(mark < match.start() for mark in marks) % 2 == 1
        return match.group() if inside else ""

    return _ARTICLE.sub(drop, text)
