"""The fallback where no parser is: one edge a sentence, from its first noun phrase to the rest of its words.

Without a parse nobody knows which phrase a later one belongs to: in "Northstar acquired DeltaPay and sold CloudCo" an
edge (DeltaPay, and sold, CloudCo) would be false. So the sentence is cut once: the first phrase is the head, the words
up to the next one the relation, all the rest the tail. Read in order the edge is the sentence, and where the words
before the verb are no plain phrase there is none. Tokens are spaCy's and have no types.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any

from apl.symbols import Triple
from apl.text import NEGATIONS, STOP_WORDS, is_pronoun

_ARTICLES = ("a", "an", "the")
_MARKS = frozenset(", ; : . ! … – — - -- \" ' “ ” ‘ ’ « » „ · • *".split())
_VERBAL = ("VERB", "AUX")
_NOMINAL = ("NOUN", "PROPN", "NUM", "ADJ", "SYM", "X")
_IN_PHRASE = (*_NOMINAL, "DET", "ADP", "CCONJ", "PART", "ADV")
_GROUP = (*_VERBAL, "ADV", "ADP", "PART")
_PARTICLES = frozenset("and of the de del della der des di do dos du da das e et la le und van von y".split())
"""Small words inside names: Bank of America, Banco de España."""
_OPENERS = frozenset(
    "after although as because before but by during for from if in on since though to unless until when while".split()
)
_MAX_TOKENS, _MAX_HEAD_TOKENS = 100, 14
_WORD = re.compile(r"[^\W_]")
_SPACELESS = re.compile(
    "[\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)
"""Thai, Lao, Tibetan, Burmese, Khmer, Japanese, Chinese: a pipeline without a parser does not know their words."""


def noun_phrase_triples(doc: Any) -> tuple[Triple, ...]:
    """At most one edge, of the sentence's own words in their order; none for questions and where unsure.

    Args:
        doc: A spaCy `Doc` of one sentence, tagged or not. Parts of speech tell the phrases apart; without them capitals
            and the stop words of the doc's language and of apl do.
    """
    tokens = [token for token in doc if not token.is_space]
    asks = any(token.text.endswith(("?", "؟", "？")) for token in tokens)
    if len(tokens) > _MAX_TOKENS or asks or _SPACELESS.search(doc.text):
        return ()
    tokens = _trimmed(tokens)
    cut = _cut_by_tags(tokens) if doc.has_annotation("POS") else _cut_by_stop_words(tokens)
    if cut is None:
        return ()
    start, end = cut
    triple = Triple(_shown(tokens[:start]), _shown(tokens[start:end], article=True), _shown(tokens[end:]))
    return (triple,) if _is_sound(triple, start) else ()


def _cut_by_tags(tokens: Sequence[Any]) -> tuple[int, int] | None:
    """Where the verb group begins and ends; None where the words before it are no plain noun phrase."""
    start = _length(tokens, lambda token: token.pos_ in _IN_PHRASE or _is_joint(token))
    if not 0 < start < len(tokens) or tokens[start].pos_ not in _VERBAL:
        return None
    while tokens[start - 1].pos_ in ("ADV", "PART") and not _is_joint(tokens[start - 1]):  # "never acquired"
        start -= 1
        if start == 0:
            return None
    if tokens[0].pos_ not in (*_NOMINAL, "DET") or tokens[start - 1].pos_ not in _NOMINAL:
        return None
    end = start + _length(tokens[start:], lambda token: token.pos_ in _GROUP and not token.like_num)
    return start, _before_last_word(tokens, start, end)


def _cut_by_stop_words(tokens: Sequence[Any]) -> tuple[int, int] | None:
    """Where the first run of stop words behind a name begins and ends; None where no name opens the sentence.

    Without tags only capitals tell a name, so there is no edge in a script that has none.
    """
    skipped = 1 if tokens and tokens[0].lower_ in _ARTICLES else 0
    start = skipped + _length(tokens[skipped:], _is_in_name)
    if not skipped < start < len(tokens) or not _is_stop(tokens[start]):
        return None
    first, last = tokens[skipped], tokens[start - 1]
    if _is_stop(first) or first.lower_ in _OPENERS | _PARTICLES or last.lower_ in _PARTICLES:
        return None
    end = start + _length(tokens[start:], _is_stop)
    if tokens[end - 1].lower_ in _ARTICLES and end - 1 > start:  # "is a": the article is the tail's
        end -= 1
    return start, _before_last_word(tokens, start, end)


def _is_in_name(token: Any) -> bool:
    return token.text[0].isupper() or token.text[0].isdigit() or token.lower_ in _PARTICLES or _is_joint(token)


def _length(tokens: Sequence[Any], belongs: Callable[[Any], bool]) -> int:
    return sum(1 for _ in takewhile(belongs, tokens))


def _before_last_word(tokens: Sequence[Any], start: int, end: int) -> int:
    """An end that leaves the tail a word: of "grew quickly." the last one is the tail."""
    if any(_WORD.search(token.text) for token in tokens[end:]):
        return end
    last = max((k for k in range(start, end) if _WORD.search(tokens[k].text)), default=start)
    return last if last > start else end


def _is_joint(token: Any) -> bool:
    """A hyphen or an apostrophe inside a name."""
    return token.text in ("-", "–", "/", "'", "’", "&", "'s", "’s") and token.i > 0


def _is_stop(token: Any) -> bool:
    return bool(token.is_stop) or token.lower_ in STOP_WORDS or token.lower_ in NEGATIONS


def _shown(tokens: Sequence[Any], *, article: bool = False) -> str:
    """The tokens as the text has them, without marks at the edges and, unless asked for, a leading article."""
    shown = _trimmed(tokens)
    idle = len(shown) > 1 and shown[0].lower_ in _ARTICLES and (shown[0].text.islower() or shown[0].i == 0)
    return " ".join("".join(token.text_with_ws for token in shown[idle and not article :]).split())


def _trimmed(tokens: Sequence[Any]) -> list[Any]:
    """The tokens without marks at the edges; a minus sign stays."""
    shown = list(tokens)
    while shown and shown[-1].text in _MARKS:
        shown.pop()
    while len(shown) > 1 and shown[0].text in _MARKS and not (shown[0].text in "-–" and shown[1].text[0].isdigit()):
        shown.pop(0)
    return shown


def _is_sound(triple: Triple, head_tokens: int) -> bool:
    """True when each part has a word and no half of a pair of brackets, and the head names something."""
    parts = (triple.head, triple.relation, triple.tail)
    paired = all(part.count(a) == part.count(b) for part in parts for a, b in ("()", "[]", "{}"))
    return paired and all(map(_WORD.search, parts)) and head_tokens <= _MAX_HEAD_TOKENS and not is_pronoun(triple.head)
