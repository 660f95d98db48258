"""The dependency rules: one parsed sentence to its triples. Tokens are spaCy's and have no types.

The aim is coverage: the edges of a sentence together say all of it, so that they can stand in its place. A clause is
cut where its subject ends; the subject becomes the head, and every other word stays in its order in the relation or
the tail, so that a wrong parse rarely makes a wrong statement. Phrases that hold one by one become edges of their own.
Where a rule is unsure it emits nothing, and the sentence goes out as a quote.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from apl.providers.extraction.rules.predicates import Pair, own_subject, predicate
from apl.providers.extraction.rules.reference import Topic
from apl.providers.extraction.rules.subjects import Named, inverted_speaker, read_subject
from apl.providers.extraction.rules.surface import EDGE_MARKS, asides_of, is_sound, surface
from apl.symbols import Triple

_MAX_SENTENCE_TOKENS, _MAX_TITLE_TOKENS, _MAX_OPENING_TOKENS = 150, 16, 4
_FINITE = ("VBD", "VBP", "VBZ")
_VERBAL = ("VERB", "AUX")
_CONDITIONS = ("if", "unless")
_JOINING = (["and"], ["but"])
_APART = ("conj", "parataxis", "ccomp")


class _Clause(NamedTuple):
    """A verb that stands by itself and the stretch [start, end) of the doc that belongs to it."""

    verb: Any
    start: int
    end: int


def sentence_triples(doc: Any, topic: Topic | None = None) -> tuple[Triple, ...]:
    """The edges of one parsed sentence in order, without duplicates; none for questions and where unsure.

    Args:
        doc: A spaCy doc of one sentence, as `unparsed` makes it.
        topic: What the passage is about, which is told of the sentence; None: nothing is resolved.
    """
    topic = topic or Topic(None)
    found: dict[Triple, None] = {}
    if not len(doc) or len(doc) > _MAX_SENTENCE_TOKENS or doc[-1].text == "?":
        topic.lose()
        return ()
    root = next(token for token in doc if token.head == token)
    if opening := _opening_triples(doc, root, topic):
        return opening
    for number, clause in enumerate(_clauses(root, 0, len(doc))):
        found.update(dict.fromkeys(_clause_triples(clause, topic, is_first=number == 0)))
    return tuple(found) or _fragment_triples(doc, root, topic)


def _fragment_triples(doc: Any, root: Any, topic: Topic) -> tuple[Triple, ...]:
    """What "Founded in Dublin in 2011." and "A town in Ohio." say, which have no subject but the title."""
    if not topic.title or own_subject(root) is not None:
        return ()
    pairs: list[Pair] = []
    if root.i == 0 and root.tag_ == "VBN":
        pairs = predicate(root, 0, len(doc))
    elif root.pos_ == "NOUN" and doc[0].lower_ in ("a", "an") and doc[0].head == root:
        pairs = [("is", surface(doc))]
    return tuple(Triple(topic.title, *pair) for pair in pairs) if all(is_sound(*pair) for pair in pairs) else ()


def _opening_triples(doc: Any, root: Any, topic: Topic) -> tuple[Triple, ...]:
    """What "On and On and Beyond is an album" says: names that no parser understands, known from the title."""
    if not topic.may_begin(doc[:_MAX_OPENING_TOKENS].text):
        return ()
    end = next((n for n in range(1, min(_MAX_TITLE_TOKENS, len(doc) - 2)) if topic.is_named(doc[:n].text)), 0)
    if not end or _is_understood(root, end):
        return ()
    verb = doc[end] if doc[end].text not in EDGE_MARKS else root
    if verb.i < end or verb.tag_ not in _FINITE or verb.pos_ not in _VERBAL:
        return ()
    pairs = [("is", f"({aside})") for token in doc[:end] for aside in asides_of(token)]
    passing = surface(doc[end : verb.i])
    pairs += [("is", passing)] if passing else []
    pairs.append((verb.text, surface(doc[verb.i + 1 :])))
    if not all(is_sound(*pair) for pair in pairs):
        return ()
    topic.follow(verb, doc[0], is_topic=True, by_name=True)
    return tuple(Triple(topic.title, *pair) for pair in pairs)


def _is_understood(root: Any, end: int) -> bool:
    """True when the parser takes the first words, up to `end`, for the subject or a part of it."""
    subject = own_subject(root)
    return subject is not None and subject.left_edge.i == 0 and subject.right_edge.i >= end - 1 and subject.i < end


def _clauses(verb: Any, start: int, end: int) -> Iterator[_Clause]:
    """The clauses of a stretch that stand by themselves, in order; together they are the stretch."""
    before = next((c for c in verb.lefts if c.dep_ in _APART and _is_closed_before(c, start)), None)
    if before is not None:
        yield from _clauses(before, start, before.right_edge.i + 1)
        start = before.right_edge.i + 2
    cuts = [c for c in verb.rights if c.left_edge.i < end and _stands_alone(c, verb)]
    ends = [*(_opening(c) for c in cuts), end]
    yield _Clause(verb, start, ends[0])
    for cut, low, high in zip(cuts, ends, ends[1:], strict=False):
        if high > low:  # stretches that overlap are a parser's mistake: their words are missed, the guard sees it
            yield from _clauses(cut, low, high)


def _opening(verb: Any) -> int:
    """Where a clause begins: with its first word, or a `but` before it."""
    start: int = verb.left_edge.i
    return start - 1 if verb.doc[start - 1].dep_ == "cc" and verb.doc[start - 1].lower_ != "and" else start


def _is_closed_before(verb: Any, start: int) -> bool:
    """True for the first half of "A is closed; B is open", which parsers hang on the second."""
    after = verb.right_edge.i + 1
    closed = after < len(verb.doc) and verb.doc[after].text == ";"
    return closed and verb.left_edge.i == start and own_subject(verb) is not None


def _stands_alone(conjunct: Any, verb: Any) -> bool:
    """True for a clause beside the verb's with a subject of its own that is named, not conditioned nor reported."""
    subject = own_subject(conjunct)
    if conjunct.dep_ not in _APART or conjunct.pos_ not in _VERBAL or subject is None or subject.i > conjunct.i:
        return False
    doc, start = verb.doc, conjunct.left_edge.i
    if subject.pos_ == "PRON" or subject.left_edge.tag_ == "PRP$" or start <= verb.i:
        return False
    if not (conjunct.tag_ in _FINITE or any(c.dep_ in ("aux", "auxpass") for c in conjunct.lefts)):
        return False
    if doc[start - 1].text == ";" or (start > 1 and doc[start - 2].text == ";"):
        return True
    joint = [c.lower_ for c in verb.rights if c.dep_ == "cc" and c.i < conjunct.i][-1:]
    conditioned = any(t.lower_ in _CONDITIONS for t in doc)
    nested = any(t.dep_ in ("nsubj", "nsubjpass") for t in doc[verb.i + 1 : start])
    return conjunct.dep_ == "conj" and joint in _JOINING and not conditioned and not nested


def _clause_triples(clause: _Clause, topic: Topic, *, is_first: bool) -> list[Triple]:
    """The edges of one clause."""
    verb, doc = clause.verb, clause.verb.doc
    subject = own_subject(verb)
    if topic.title and any(c.dep_ == "expl" and c.i < verb.i for c in verb.lefts):
        return _existence(clause, topic)
    named = _named(clause, subject, topic)
    if is_first:
        if subject is None:
            topic.lose()
        else:
            topic.follow(verb, subject, is_topic=named is not None and named.is_topic)
    if named is None:
        return []
    if subject.i > verb.i:
        pairs = inverted_speaker(verb, subject, clause.start, clause.end)
    else:
        front = list(doc[clause.start : subject.left_edge.i])
        conjunction = "".join(t.lower_ for t in front if t.dep_ == "cc") if len(front) == 1 else ""
        pairs = predicate(verb, subject.right_edge.i + 1, clause.end, [] if conjunction else front)
        if conjunction not in ("", "and") and pairs:
            pairs[0] = (f"{conjunction} {pairs[0][0]}", pairs[0][1])
    if pairs and named.owned:
        pairs = [(f"{named.owned} {relation}", tail) for relation, tail in pairs]
    pairs = [*named.passing, *pairs] if pairs else []
    return [Triple(named.head, *pair) for pair in pairs] if all(is_sound(*pair) for pair in pairs) else []


def _existence(clause: _Clause, topic: Topic) -> list[Triple]:
    """What "there are 15 counties" says, said of what the document is about."""
    verb, doc = clause.verb, clause.verb.doc
    there = next(c for c in verb.lefts if c.dep_ == "expl")
    relation, tail = surface(doc[there.i : verb.i + 1]), surface(doc[verb.i + 1 : clause.end])
    front = surface(doc[clause.start : there.i])
    pairs = [(relation, f"{tail}, {front}" if front else tail)] if tail else []
    topic.lose()
    return [Triple(topic.title, *pair) for pair in pairs if is_sound(*pair)]


def _named(clause: _Clause, subject: Any, topic: Topic) -> Named | None:
    """The clause's subject as a head; None where there is none or its words do not stand together before the verb."""
    if subject is None or subject.left_edge.i < clause.start or subject.right_edge.i >= clause.end:
        return None
    low, high = subject.left_edge.i, subject.right_edge.i
    if (subject.i < clause.verb.i <= high) or high - low + 1 != len(list(subject.subtree)):
        return None
    joined = any(c.dep_ in ("conj", "cc") for c in subject.rights)
    if subject.tag_ == "NN" and clause.verb.tag_ == "VBP" and not joined:  # "officer aircrew": a noun taken for a verb
        return None
    return read_subject(subject, clause.verb, topic)
