"""Subjects to heads: the name of what a clause is about, and what is said of it in passing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from apl.providers.extraction.rules.predicates import Pair, own_subject, predicate
from apl.providers.extraction.rules.reference import Topic
from apl.providers.extraction.rules.surface import EDGE_MARKS, QUOTATION_MARKS, is_sound, surface

_NAMED_ASIDE = re.compile(r"(.+?) \(((?:[^()]|\([^()]*\))*)\)")
_SAYING_ASIDE = re.compile(
    r"((?:born|died|also|formerly|originally|previously|known|named|called|founded|built|released|published|meaning)"
    r"(?: (?!the |an )[a-z]{2,}){0,3}) (?:(?:the|an?) )?(?=[^a-z\s])(.+)"
)
_NOMINAL = ("NOUN", "PROPN", "NUM", "ADJ", "X", "SYM")
_RELATIVES = ("WDT", "WP", "WP$", "WRB")
_SAYING = frozenset("say state write report add claim note argue explain announce declare ask reply remark".split())
_MAX_HEAD_TOKENS, _MAX_OWNED_TOKENS, _MAX_ASPECT_TOKENS = 18, 6, 9


@dataclass(frozen=True, slots=True)
class Named:
    """A clause's subject: its head, what is said in passing, and for "its capital" the words that open the relation."""

    head: str
    passing: tuple[Pair, ...] = ()
    owned: str = ""
    is_topic: bool = False


def read_subject(noun: Any, verb: Any, topic: Topic) -> Named | None:
    """The head of a clause; None for pronouns that mean nobody for certain, and where unsure.

    Args:
        noun: The subject's main word, whose subtree stands together before or behind the verb.
        verb: The clause's verb.
        topic: What the passage is about.
    """
    if noun.tag_ == "PRP":
        sure = noun.left_edge == noun == noun.right_edge and not _is_expletive(noun, verb)
        return Named(topic.title, is_topic=True) if sure and topic.names(noun, "") else None
    passing = [c for c in noun.rights if noun.doc[c.left_edge.i - 1].text in (",", "–", "—") and _is_passing(c)]
    gone = {t.i for c in passing for t in c.subtree}
    tokens = _quoted([t for t in noun.subtree if t.i not in gone])
    if topic.owns(noun):
        return _owned(noun, tokens, topic) if not passing else None
    if topic.repeats(noun) and len(tokens) == 2:
        return Named(topic.title, owned=noun.text, is_topic=True)
    if not _is_nameable(noun, tokens, passing):
        return None
    said = [_said_in_passing(noun, child) for child in passing]
    pairs = [pair for group in said for pair in group]
    name, asides = _without_aside(surface(tokens, name=True))
    if not all(said) or not is_sound(name):
        return None
    if topic.names(noun, name):
        return Named(topic.title, (*asides, *pairs), is_topic=True)
    if topic.is_opened_as(name, noun):
        alias = () if topic.holds(name) else (("is", name),)
        return Named(topic.title, (*alias, *asides, *pairs), is_topic=True)
    if not passing and _is_aspect(noun, tokens, topic):
        return Named(topic.title, owned=surface(tokens))
    return Named(name if noun.pos_ == "PROPN" else _without_aside(surface(tokens))[0], (*asides, *pairs))


def _is_expletive(noun: Any, verb: Any) -> bool:
    """True for the `it` of "it is known that" and "it was Ann who", which means what follows."""
    if noun.lower_ != "it":
        return False
    core = next((c for c in verb.rights if c.dep_ in ("attr", "acomp")), None)
    clauses = any(c.dep_ in ("ccomp", "csubj") for c in verb.rights)
    inner = core is not None and any(c.dep_ in ("ccomp", "xcomp") for c in core.rights)
    cleft = (
        core is not None and core.left_edge.lower_ not in ("a", "an") and any(c.dep_ == "relcl" for c in core.rights)
    )
    return clauses or inner or cleft


def _owned(noun: Any, tokens: Sequence[Any], topic: Topic) -> Named | None:
    """The subject of "its capital", said of the title, with "capital" at the beginning of the relation."""
    own = tokens[1:]
    if not own or len(own) > _MAX_OWNED_TOKENS or any(t.pos_ in ("PRON", "PUNCT", "VERB", "CCONJ") for t in own):
        return None
    return Named(topic.title, owned=surface(own, name=True)) if noun.pos_ in _NOMINAL else None


def _is_aspect(noun: Any, tokens: Sequence[Any], topic: Topic) -> bool:
    """True for a common noun that names nothing by itself, such as "winters": the document's title tells whose."""
    common = noun.pos_ == "NOUN" and not any(t.pos_ == "PROPN" or t.text in QUOTATION_MARKS for t in tokens)
    return bool(topic.title) and common and len(tokens) <= _MAX_ASPECT_TOKENS


def _is_nameable(noun: Any, tokens: Sequence[Any], passing: Sequence[Any]) -> bool:
    """True for a noun with few words around it, none of which needs another sentence to be understood."""
    some = noun.tag_ == "DT" and any(c.dep_ == "prep" for c in noun.rights)
    nominal = noun.pos_ in (_NOMINAL if len(tokens) > 1 else ("NOUN", "PROPN", "X", "SYM"))
    owned = any(t.tag_ in _RELATIVES and t.nbor(-1).text == "," for t in tokens if t.i) or tokens[0].tag_ == "WP$"
    owned = owned or tokens[0].tag_ == "PRP$"
    joined = any(c.dep_ in ("conj", "cc") for c in noun.rights)
    inner = any(t.text == "," for t in tokens[:-1])
    cut = inner and not any(t.dep_ in ("conj", "appos") for t in tokens if t != noun)
    sure = (some or nominal) and not owned and not (cut and not passing) and not (passing and joined)
    return sure and len(tokens) <= _MAX_HEAD_TOKENS


def _without_aside(name: str) -> tuple[str, tuple[Pair, ...]]:
    """A name and what the brackets behind it say: "born 1970" by itself, anything else as another name of it."""
    match = _NAMED_ASIDE.fullmatch(name)
    if not match:
        return name, ()
    bare, aside = match.groups()
    if saying := _SAYING_ASIDE.fullmatch(aside):
        return bare, ((saying.group(1), saying.group(2)),)
    if " and " in bare:
        return name, ()
    return bare, (("is", f"({aside})"),)


def _quoted(tokens: list[Any]) -> list[Any]:
    """The tokens with the quotation marks around them that the parser gave to another word."""
    doc, odd = tokens[0].doc, sum(t.text in QUOTATION_MARKS for t in tokens) % 2
    around = [doc[k] for k in (tokens[0].i - 1, tokens[-1].i + 1) if 0 <= k < len(doc)]
    around = [t for t in around if t.text in QUOTATION_MARKS]
    return sorted([*tokens, *around]) if len(around) == 2 - odd else tokens


def _is_passing(child: Any) -> bool:
    """True for what is set off behind a noun, save a member of a list and the second half of "Lima, Ohio"."""
    address = child.dep_ == "appos" and child.pos_ == child.head.pos_ == "PROPN" and child.left_edge.dep_ != "det"
    return child.dep_ not in ("conj", "punct", "cc") and not address


def _said_in_passing(noun: Any, child: Any) -> list[Pair]:
    """What an apposition, a relative or participial clause or a phrase set off by commas says of its noun."""
    tokens = [t for t in child.subtree if t.text not in EDGE_MARKS or t not in (child.left_edge, child.right_edge)]
    if child.dep_ == "appos":
        return [("are" if noun.tag_ == "NNS" else "is", surface(tokens))]
    own = own_subject(child)
    led = child.dep_ == "relcl" and own is not None and own.tag_ in _RELATIVES and own.left_edge == own.right_edge
    if led and (said := predicate(child, own.i + 1, child.right_edge.i + 1)):
        return said
    lead = 1 + next((k for k, t in enumerate(tokens[:3]) if t.tag_ in _RELATIVES or not surface([t])), 0)
    relation, tail = surface(tokens[:lead]), surface(tokens[lead:])
    return [(relation, tail)] if relation and tail else []


def inverted_speaker(verb: Any, subject: Any, start: int, end: int) -> list[Pair]:
    """What "..., said Ann" says: what is said is the tail, whoever says it the head."""
    speech = list(verb.doc[start : verb.i])
    if verb.lemma_.casefold() not in _SAYING or not speech or subject.left_edge.i != verb.i + 1:
        return []
    rest = list(verb.doc[subject.right_edge.i + 1 : end])
    tail = ", ".join(text for text in (surface(speech), surface(rest)) if text)
    return [(verb.lower_, tail)]
