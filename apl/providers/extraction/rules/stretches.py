"""Stretches of a parsed sentence as text, in any script: joined as the text has them, without marks at the edges.

Tokens are spaCy's and have no types.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any

from apl.providers.extraction.rules.surface import asides_of

MARKS = frozenset(", ; : . ! … – — - -- · 、 。 ， ； ： ！ 。 ・ ، ؛ ।".split())
"""Marks that say nothing at the edge of a phrase."""

_WORD = re.compile(r"[^\W_]")
_SPACELESS = re.compile(
    "[\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3001-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\uff00-\uff65\U00020000-\U0003ffff]"
)
_PAIRS = ("()", "[]", "{}", "«»", "「」", "『』", "（）", "【】", "《》")
_SMALL_CLASSES = ("ADP", "ADV", "CCONJ", "SCONJ", "DET", "PRON", "VERB", "AUX", "PART")


def stretch(doc: Any, start: int, end: int) -> list[Any]:
    """The words and marks of [start, end)."""
    return [token for token in doc[start : max(start, end)] if not token.is_space]


def label(token: Any) -> str:
    """The label without its subtype: `nsubj:pass` is a `nsubj`."""
    label: str = token.dep_.partition(":")[0]
    return label


def trimmed(tokens: Sequence[Any]) -> list[Any]:
    """The tokens without marks at the edges; a minus sign stays."""
    shown = list(tokens)
    while shown and shown[-1].text in MARKS and not asides_of(shown[-1]):
        shown.pop()
    while shown and shown[0].text in MARKS and not asides_of(shown[0]):
        if shown[0].text in ("-", "–") and not shown[0].whitespace_ and len(shown) > 1 and shown[1].text[0].isdigit():
            break
        shown.pop(0)
    return shown


def said_aside(tokens: Sequence[Any]) -> str:
    """What stood in brackets behind the last of these words."""
    return " ".join(f"({aside})" for aside in asides_of(tokens[-1])) if tokens else ""


def has_word(tokens: Iterable[Any]) -> bool:
    """True when a letter or digit is among the tokens or what stood in brackets behind them."""
    return any(_WORD.search(token.text) or asides_of(token) for token in tokens)


def joined(tokens: Sequence[Any], *, aside: str = "", is_head: bool = False, is_tail: bool = False) -> str:
    """The tokens as the text has them, without marks at the edges; a gap is a space where the script has spaces.

    Args:
        tokens: Words of one doc in any order.
        aside: What to say before them.
        is_head: Keep the capital at the beginning; what stood in brackets behind the last word is said elsewhere.
        is_tail: Leave out an English article at the beginning.
    """
    shown = trimmed(tokens)
    if is_tail and len(shown) > 1 and shown[0].text in ("a", "an", "the") and shown[0].pos_ == "DET":
        shown = shown[1:]
    pieces = [aside, " "] if aside else []
    for token, following in zip_longest(shown, shown[1:]):
        pieces.append(_lowered(token) if token.i == 0 and not is_head else token.text)
        asides = () if is_head and following is None else asides_of(token)
        pieces.extend(f" ({said})" for said in asides)
        if following is not None:
            pieces.append(_gap(token, following, spaced=bool(asides)))
    return " ".join("".join(pieces).split())


def _gap(token: Any, following: Any, *, spaced: bool) -> str:
    if following.i == token.i + 1 and not spaced:
        return " " if token.whitespace_ else ""
    return "" if _SPACELESS.match(token.text[-1]) and _SPACELESS.match(following.text[0]) else " "


def _lowered(token: Any) -> str:
    """The sentence's first word without the capital that it has only for that."""
    text: str = token.text
    return text[0].lower() + text[1:] if token.pos_ in _SMALL_CLASSES and text[1:2].islower() else text


def is_paired(text: str) -> bool:
    """True when a text has no half of a pair of brackets or quotation marks."""
    pairs = all(text.count(pair[0]) == text.count(pair[1]) for pair in _PAIRS)
    curly = sum(text.count(mark) for mark in "„“”")
    return pairs and not text.count('"') % 2 and not curly % 2 and text.count("``") == text.count("''")
