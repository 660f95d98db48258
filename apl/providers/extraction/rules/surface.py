"""How parsed words are written down in few tokens: what carries nothing is left out, everything else stands as it is.

Left out are articles that are no part of a name, auxiliaries without which the statement reads the same, `that` before
a reported clause, and `also`. Names, numbers, negation and modality always stay. Tokens are spaCy's and have no types.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import Any

EDGE_MARKS = frozenset(", ; : . – — - --".split())
"""Marks that say nothing at the edge of a phrase."""

QUOTATION_MARKS = frozenset("\" “ ” `` ''".split())

_ASIDE = re.compile(r"(?<=[^\s,;:])\s+\(((?:[^()]|\([^()]*\))*)\)")
_ASIDE_EDGE = re.compile(r"\A[\s,;\]]+|[\s,;]+\Z")
_WORD = re.compile(r"[^\W_]")
_LONE_QUOTE = re.compile(r"(^|\s)'(\s|$)")
_ARTICLES = ("a", "an", "the")
_COUNTING = ("few", "little", "lot", "most", "number", "dozen", "hundred", "thousand", "million", "billion")
_NOUNS = ("NOUN", "PROPN")
_CAPITALISED = ("PROPN", "ADJ", "NUM", "X", "SYM")
_LEADING = ("ADP", "VERB", "AUX", "CCONJ", "SCONJ", "PUNCT", "ADV", "PART", "PRON")
_ADVERBIAL = ("prep", "agent", "advmod", "npadvmod", "prt", "advcl", "cc", "conj")
_JOINING = ("and", "but", "or")
_OPENING = frozenset(
    "which who whose where when while although though because since with including as after before until".split()
)
_PARTICIPLE_ENDINGS = ("n", "ne", "ung", "unk")


def unparsed(language: Any, text: str) -> Any:
    """A doc of the text as one sentence; asides in brackets, which mislead parsers, hang on the word before them."""
    gaps = [" " if text[match.end() :].startswith(".") else "" for match in _ASIDE.finditer(text)]  # "f." is one token
    filling, removed = iter(gaps), 0
    doc = language.make_doc(_ASIDE.sub(lambda _: next(filling), text))
    for match, gap in zip(_ASIDE.finditer(text), gaps, strict=True):
        owner = max((t.i for t in doc if t.idx < match.start() - removed and t.text not in EDGE_MARKS), default=0)
        removed += len(match.group()) - len(gap)
        if _WORD.search(match.group(1)):
            doc.user_data.setdefault(("aside", owner), []).append(_ASIDE_EDGE.sub("", match.group(1)))
    for token in doc[1:]:
        token.is_sent_start = False
    return doc


def asides_of(token: Any) -> Sequence[str]:
    """What stands in brackets behind a word."""
    found: Sequence[str] = token.doc.user_data.get(("aside", token.i), ())
    return found


def surface(tokens: Iterable[Any], *, idle: frozenset[int] = frozenset(), name: bool = False) -> str:
    """The tokens as the text has them, without punctuation at the edges, a leading article and idle words.

    Args:
        tokens: Words of one doc, in any order.
        idle: Positions of words to leave out besides, such as auxiliaries.
        name: Keep inner articles and the capital at the beginning of the sentence.
    """
    shown = sorted(tokens)
    while shown and _is_edge(shown[-1]) and not asides_of(shown[-1]):
        shown.pop()
    while shown and _is_edge(shown[0]):
        if shown[0].text in ("-", "–") and not shown[0].whitespace_:  # a minus sign
            break
        shown.pop(0)
    if len(shown) > 1 and shown[0].lower_ in _ARTICLES and (shown[0].text.islower() or shown[0].i == 0):
        shown.pop(0)
    text = _joined(shown, lambda token: token.i in idle or (not name and is_idle(token)))
    opens = shown and shown[0].i == 0 and shown[0].pos_ not in _CAPITALISED and not name
    return text[0].lower() + text[1:] if opens and text[1:2].islower() else text


def _is_edge(token: Any) -> bool:
    return token.text in EDGE_MARKS or (token.dep_ == "cc" and token.lower_ in ("and", "&"))


def telegraphic(doc: Any) -> str:
    """The sentence without its idle words, in its own order and punctuation."""
    dropped = {token.i for token in doc if is_idle(token) or _is_plainly_idle(token)}
    return _joined(list(doc), lambda token: token.i in dropped)


def _joined(shown: Sequence[Any], leave_out: Callable[[Any], bool]) -> str:
    kept = [token for token in shown if asides_of(token) or not leave_out(token)]
    pieces = []
    for token, following in zip_longest(kept, kept[1:]):
        near = following is not None and following.i == token.i + 1 and not token.whitespace_
        pieces.append("".join([token.text, *(f" ({aside})" for aside in asides_of(token)), "" if near else " "]))
    return "".join(pieces).strip()


def is_idle(token: Any) -> bool:
    """True for a word that every reader supplies: an article, `that` before a clause, `which was`, `also`."""
    if token.text == ",":
        return _is_idle_comma(token)
    if token.lower_ in _ARTICLES:
        return _is_idle_article(token)
    if token.lower_ == "that" and token.dep_ == "mark":
        return bool(token.head.dep_ == "ccomp")
    if token.lower_ == "also":
        return bool(token.dep_ == "advmod")
    return token.i in _reduced(token.doc)


def _is_idle_article(token: Any) -> bool:
    """An article that is no part of a name, a title, an amount or a comparison."""
    noun = token.head
    if token.dep_ != "det" or noun.pos_ not in _NOUNS or (token.text == "The" and token.i):
        return False
    if token.i == 0:
        return True
    before, after = token.nbor(-1), token.nbor()
    in_name = before.i > 0 and before.pos_ == "ADP" and before.nbor(-1).pos_ == "PROPN" and after.pos_ == "PROPN"
    decade = after.pos_ == "NUM" and (after == noun or after.text.endswith("s"))
    counted = after.lower_ in _COUNTING or decade or noun.dep_ == "npadvmod"
    quoted = sum(t.text in QUOTATION_MARKS for t in token.doc[: token.i]) % 2 == 1
    return not (in_name or counted or quoted) and before.pos_ in _LEADING


def _is_idle_comma(token: Any) -> bool:
    """A comma before a word that opens a clause or phrase by itself; a pair of commas stays a pair."""
    if token.i + 2 >= len(token.doc) or asides_of(token):
        return False
    following = token.nbor()
    if following.lower_ in _JOINING:
        return True
    last = all(t.text != "," for t in token.doc[token.i + 1 :])
    return last and following.lower_ in _OPENING


def _reduced(doc: Any) -> frozenset[int]:
    """Positions of `which was` and the like before a participle ("film which was directed by")."""
    found: frozenset[int] | None = doc.user_data.get("reduced")
    if found is None:
        found = frozenset(
            position
            for token in doc
            if token.dep_ == "nsubjpass" and token.tag_ in ("WDT", "WP") and token.lower_ != "what"
            for helpers in [idle_auxiliaries(token.head)]
            if helpers and all(token.i < helper <= token.i + 2 for helper in helpers)
            for position in (token.i, *helpers)
        )
        doc.user_data["reduced"] = found
    return found


def idle_auxiliaries(verb: Any) -> frozenset[int]:
    """Positions of a verb's auxiliaries, where the verb alone says the same of its subject; else none.

    `is playing`, `was written`, `was founded in` do; `was awarded the prize` and `had written` would turn round, and
    modality, negation and questions keep theirs.
    """
    helpers = [c for c in verb.lefts if c.dep_ in ("aux", "auxpass")]
    if not helpers or any(h.lemma_ not in ("be", "have") for h in helpers):
        return frozenset()
    if any(c.dep_ == "neg" for c in verb.children):
        return frozenset()
    passive = any(h.dep_ == "auxpass" for h in helpers)
    if verb.tag_ == "VBG":
        sure = not passive
    elif verb.tag_ == "VBN" and passive:
        sure = verb.lower_.endswith(_PARTICIPLE_ENDINGS) or _is_plainly_passive(verb)
    else:
        sure = verb.tag_ == "VBN" and not verb.lower_.endswith(_PARTICIPLE_ENDINGS)
    return frozenset(h.i for h in helpers) if sure else frozenset()


def _is_plainly_passive(verb: Any) -> bool:
    """True when what follows a participle cannot be taken for its object."""
    behind = [c for c in verb.rights if c.dep_ != "punct"]
    return bool(behind) and behind[0].left_edge.i == verb.i + 1 and all(c.dep_ in _ADVERBIAL for c in behind)


def _is_plainly_idle(token: Any) -> bool:
    """An auxiliary that a quote can do without: the participle is plain by its form or its agent."""
    if token.dep_ not in ("aux", "auxpass") or token.i not in idle_auxiliaries(token.head):
        return False
    verb = token.head
    agent = any(c.dep_ == "agent" for c in verb.rights)
    if any(c.dep_ in ("ccomp", "csubj") or (c.dep_ == "nsubjpass" and c.pos_ == "PRON") for c in verb.children):
        return False
    return bool(verb.tag_ == "VBG" or (verb.tag_ == "VBN" and (agent or verb.lower_.endswith(_PARTICIPLE_ENDINGS))))


def is_sound(*texts: str) -> bool:
    """True when all texts have words in them and no half of a pair of brackets or quotation marks."""
    return all(
        _WORD.search(text)
        and not text.count('"') % 2
        and not _LONE_QUOTE.search(text)
        and text.count("``") == text.count("''")
        and all(text.count(a) == text.count(b) for a, b in ("()", "[]", "“”"))
        for text in texts
    )
