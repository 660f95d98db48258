"""The rules for pipelines that do not speak ClearNLP: Universal Dependencies and the German TIGER labels.

One edge a clause. The clause is cut where its subject ends: the subject is the head, the words up to and including the
verb group or copula are the relation, all the rest in its order is the tail, and what stood ahead of the subject stands
behind it. So the edge reads as the sentence in languages whose grammar nobody here knows, and a wrong parse rarely
makes a wrong statement. Where the verb stands last the words before it are the relation and the verb group is the tail.
Where unsure there is no edge, and the sentence goes out as a quote. Tokens are spaCy's and have no types.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from apl.providers.extraction.rules.fronts import (
    JOINTS,
    MAX_LEAD_TOKENS,
    SUBJECTS,
    VERBAL,
    branch_of,
    can_follow,
    inverted,
    opened,
    with_front,
)
from apl.providers.extraction.rules.reference import Topic
from apl.providers.extraction.rules.stretches import (
    MARKS,
    has_word,
    is_paired,
    joined,
    label,
    said_aside,
    stretch,
    trimmed,
)
from apl.symbols import Triple
from apl.text import STOP_WORDS, is_pronoun

Labels = Literal["clear", "universal", "tiger", "unknown"]

_TELLING: dict[Labels, frozenset[str]] = {
    "clear": frozenset("pobj prep attr acomp agent dative pcomp npadvmod poss prt relcl oprd quantmod".split()),
    "universal": frozenset("obj obl iobj cop case nmod fixed flat clf nsubj:pass aux:pass acl:relcl".split()),
    "tiger": frozenset("sb oa da mo pd oc svp nk pg mnr ac cj cd ng op ag".split()),
}
"""Labels that one set has and the others, nearly, have not."""

_NOMINAL = ("NOUN", "PROPN", "NUM", "ADJ", "X", "SYM")
_JOINED = ("conj", "cj", "parataxis")
_HELPERS = ("aux", "auxpass", "cop")
_IN_GROUP = (*_HELPERS, "compound:prt", "svp", "compound:svc", "expl:pv", "expl:pass", "neg", "ng")
_NOMINAL_PARTS = ("nmod", "amod", "det", "nummod", "compound", "flat", "acl", "case", "clf", "fixed")
_ADDITIVE = frozenset(
    "and but y e pero mas et mais und aber sowie sondern ed ma però en maar och men og i oraz ale a и а но та і але и "
    "ja mutta ve ama fakat și dar kai και αλλά そして 和 而 但 但是".split()
)
"""Conjunctions whose two halves both hold. Any other, such as `or`, leaves the sentence in one piece."""

_ARTICLES = ("a", "an", "the")
_POSSESSIVE_TAGS = ("PPOSAT", "PRP$", "DP")
_QUESTION_MARKS = ("?", "؟", "？", ";")  # the last one is the Greek question mark
_MAX_SENTENCE_TOKENS, _MAX_HEAD_TOKENS = 150, 18


class _Clause(NamedTuple):
    """What is said by itself: its predicate (a verb, or a noun or adjective with a copula) and its stretch."""

    predicate: Any
    start: int
    end: int


def labels_of(parsed: Any) -> Labels:
    """Which label set a pipeline's parser speaks.

    Args:
        parsed: A spaCy `Language`; or a doc that one has parsed, for pipelines whose parser does not tell its labels.

    Returns:
        `clear` for spaCy's English pipelines, `universal` for Universal Dependencies and what is built like them
        (Chinese), `tiger` for spaCy's German ones, `unknown` where nothing tells.
    """
    if not hasattr(parsed, "pipe_names"):
        return _named({token.dep_ for token in parsed})
    known: set[str] = set()
    for name in parsed.pipe_names:
        if "token.dep" in parsed.get_pipe_meta(name).assigns or name == "parser":
            known.update(str(label) for label in getattr(parsed.get_pipe(name), "labels", ()))
    return _named(known)


def _named(labels: set[str]) -> Labels:
    found: dict[Labels, int] = {name: len(telling & labels) for name, telling in _TELLING.items()}
    best = max(found, key=lambda name: found[name])
    alone = list(found.values()).count(found[best]) == 1
    return best if found[best] and alone else "unknown"


def universal_triples(doc: Any, title: str | None = None) -> tuple[Triple, ...]:
    """One edge a clause, of the sentence's own words; none for questions, pronouns and where unsure.

    Args:
        doc: A spaCy doc of one sentence with Universal Dependencies or TIGER labels.
        title: The document's title: a subject that is called the same is said of it.
    """
    tokens = [token for token in doc if not token.is_space]
    if not tokens or len(tokens) > _MAX_SENTENCE_TOKENS or not doc.has_annotation("DEP"):
        return ()
    if any(token.text in _QUESTION_MARKS[:3] for token in tokens) or tokens[-1].text == _QUESTION_MARKS[3]:
        return ()
    topic = Topic(title)
    found = (
        _clause_triple(clause, topic) for root, start, end in _sentences(doc) for clause in _clauses(root, start, end)
    )
    return tuple(dict.fromkeys(triple for triple in found if triple is not None))


# --- clauses ----------------------------------------------------------------------------------------------------------


def _sentences(doc: Any) -> list[_Clause]:
    """The trees of a doc with their stretches, mostly one; none where they lie within each other."""
    roots = [token for token in doc if token.head == token and not token.is_space]
    reach = [_reach(root) for root in roots]
    if any(before[1] >= after[0] for before, after in pairwise(reach)):
        return []
    starts = [0, *(low for low, _ in reach[1:]), len(doc)]
    return [_Clause(root, low, high) for root, low, high in zip(roots, starts, starts[1:], strict=False)]


def _reach(token: Any) -> tuple[int, int]:
    """The first and the last position of what hangs on a token."""
    positions = [t.i for t in token.subtree]
    return min(positions), max(positions)


def _clauses(predicate: Any, start: int, end: int) -> Iterator[_Clause]:
    """The clauses of a stretch that can stand by themselves, in order; together they are the stretch."""
    cuts = _cuts(predicate, start, end)
    ends = [*(low for _, low in cuts), end]
    yield _Clause(predicate, start, ends[0])
    for (conjunct, low), high in zip(cuts, ends[1:], strict=True):
        yield from _clauses(conjunct, low, high)


def _cuts(predicate: Any, start: int, end: int) -> list[tuple[Any, int]]:
    """Where clauses with a subject of their own begin; none where one of them hangs on what the first one says."""
    doc = predicate.doc
    found = []
    for conjunct in _conjuncts(predicate):
        low = _opening(conjunct)
        if predicate.i < low < end and _stands_alone(conjunct, low):
            found.append((conjunct, low))
    subject = _subject(predicate, start, found[0][1] if found else end)
    if not found or subject is None:
        return []
    front = [t for t in doc[start : min(_span(subject, start, end)[0], predicate.i)] if label(t) not in JOINTS]
    behind = [c for c in predicate.children if label(c) not in (*_JOINED, *JOINTS, "punct") and c.i >= found[0][1]]
    nested = any(label(t) in SUBJECTS and t != subject for t in doc[start : found[0][1]])
    free = not nested and not behind and not has_word(front)
    return sorted(found, key=lambda cut: cut[1]) if free else []


def _conjuncts(predicate: Any) -> list[Any]:
    """What is joined to a predicate; TIGER hangs it on the conjunction."""
    joints = [c for c in predicate.children if c.dep_ == "cd"]
    return [c for parent in (predicate, *joints) for c in parent.children if label(c) in _JOINED]


def _opening(conjunct: Any) -> int:
    """Where a joined clause begins: with its first word, or the conjunction before it."""
    low = _reach(conjunct)[0]
    before = conjunct.doc[low - 1] if low else None
    return low - 1 if before is not None and label(before) in JOINTS else low


def _stands_alone(conjunct: Any, low: int) -> bool:
    """True for a clause with a subject that is named, which `and`, `but` or a semicolon joins."""
    subject = _subject(conjunct, low, len(conjunct.doc))
    if subject is None or subject.pos_ not in _NOMINAL or _is_owned(subject):
        return False
    if not (conjunct.pos_ in VERBAL or any(label(c) == "cop" for c in conjunct.children)):
        return False
    first = conjunct.doc[low]
    if label(first) in JOINTS:
        return first.lower_ in _ADDITIVE
    return low > 0 and conjunct.doc[low - 1].text in (";", "；")


# --- one clause -------------------------------------------------------------------------------------------------------


def _clause_triple(clause: _Clause, topic: Topic) -> Triple | None:
    """The edge of one clause."""
    predicate, doc = clause.predicate, clause.predicate.doc
    subject = _subject(predicate, clause.start, clause.end)
    if subject is None or subject.pos_ not in _NOMINAL or _is_owned(subject):
        return None
    low, high = _span(subject, clause.start, clause.end)
    group = _group(predicate)
    if any(low <= t.i <= high for t in group) or predicate.i not in range(clause.start, clause.end):
        return None
    opener, front = opened(stretch(doc, clause.start, low))
    behind: list[Any] = []
    if any(t in group for t in front):
        front, behind = inverted(front, group, predicate)
        if not behind:
            return None
    if not can_follow(front, predicate, group):
        return None
    head, left_over = _head(subject, stretch(doc, low, high + 1))
    relation, tail = _parted([*behind, *left_over, *stretch(doc, high + 1, clause.end)], predicate, group)
    return _written(topic, head, [*_kept(opener), *relation], tail, front)


def _written(topic: Topic, head: list[Any], relation: list[Any], tail: list[Any], front: list[Any]) -> Triple | None:
    """The edge, where each of its parts says something and holds no half of a pair of marks."""
    name, said = joined(head, is_head=True), joined(relation, aside=said_aside(head))
    rest = with_front(joined(tail, is_tail=True), front)
    sound = all(is_paired(text) for text in (name, said, rest)) and has_word(head) and has_word(relation)
    if not sound or not rest or len(head) > _MAX_HEAD_TOKENS or is_pronoun(name) or not has_word([*tail, *front]):
        return None
    return Triple(topic.title if topic.is_named(name) else name, said, rest)


def _subject(predicate: Any, start: int, end: int) -> Any:
    """The first subject of a predicate within a stretch, or None."""
    return next((c for c in predicate.children if label(c) in SUBJECTS and start <= c.i < end), None)


def _span(noun: Any, start: int, end: int) -> tuple[int, int]:
    """First and last position of the words around a noun that hang on it and stand together."""
    own = {t.i for t in noun.subtree}
    low = high = noun.i
    while low - 1 in own and low > start:
        low -= 1
    while high + 1 in own and high + 1 < end:
        high += 1
    return low, high


def _is_owned(noun: Any) -> bool:
    """True for "its capital", which needs another sentence to be understood."""
    return any(
        (c.tag_ in _POSSESSIVE_TAGS or "Yes" in c.morph.get("Poss")) and c.pos_ in ("DET", "PRON", "ADJ")
        for c in noun.children
    )


def _group(predicate: Any) -> list[Any]:
    """The words of a predicate's verb group, wherever they stand; of a nominal one its copula, else itself."""
    helpers = [c for c in predicate.children if c.dep_ in _IN_GROUP or label(c) in _HELPERS]
    copular = any(label(c) == "cop" for c in helpers)
    verbs = [c for c in predicate.children if label(c) in ("xcomp", "oc") and c.pos_ in VERBAL]
    inner = [t for verb in verbs for t in _group(verb)] if not copular else []
    final = copular and all(c.i > predicate.i for c in helpers if label(c) == "cop")
    own = [predicate] if not copular or final else []
    return sorted([*own, *helpers, *inner])


def _kept(opener: Iterable[Any]) -> list[Any]:
    """The conjunctions that the guard will ask for."""
    return [t for t in opener if t.lower_ not in STOP_WORDS]


def _head(noun: Any, tokens: list[Any]) -> tuple[list[Any], list[Any]]:
    """The subject's name, and what of the subject belongs to the relation: an apposition, a particle behind it."""
    aside = {
        min(t.i for t in child.subtree)
        for child in noun.children
        if child.i > noun.i and label(child) not in (*_JOINED, *JOINTS, "punct")
    }
    opening = (*MARKS, "(", "[")
    cut = next(
        (k for k, t in enumerate(tokens) if k and t.i in aside and {t.text, tokens[k - 1].text} & {*opening}),
        len(tokens),
    )
    while cut < len(tokens) and tokens[cut - 1].text in ("(", "["):
        cut -= 1
    while tokens[cut - 1] != noun and cut > 1 and (label(tokens[cut - 1]) == "case" or tokens[cut - 1].pos_ == "ADP"):
        cut -= 1
    head, rest = trimmed(tokens[:cut]), tokens[cut:]
    if len(head) > 1 and head[0].lower_ in _ARTICLES and label(head[0]) in ("det", "nk"):
        head = head[1:]
    return head, rest


def _parted(tokens: list[Any], predicate: Any, group: list[Any]) -> tuple[list[Any], list[Any]]:
    """What is said of the subject as relation and tail; the words keep their order."""
    places = [k for k, t in enumerate(tokens) if t in group]
    if not places:
        return [], []
    start = end = places[0]
    for place in places[1:]:
        between = tokens[end + 1 : place]
        if not all(t.pos_ in ("ADV", "PART") or label(t) in ("mark", "pm") for t in between):
            break
        end = place
    if has_word(tokens[end + 1 :]):
        return _led(tokens[: end + 1], tokens[end + 1 :])
    if tokens[start] == predicate and predicate.pos_ not in VERBAL:
        while start and label(branch_of(tokens[start - 1], [predicate])) in _NOMINAL_PARTS:
            start -= 1
    if not has_word(tokens[:start]):
        start = max((k for k in range(start, end + 1) if has_word([tokens[k]])), default=start)
    return tokens[:start], tokens[start:]


def _led(relation: list[Any], tail: list[Any]) -> tuple[list[Any], list[Any]]:
    """The adposition that opens a tail joins the relation."""
    size = next((k for k, t in enumerate(tail) if t.pos_ != "ADP"), len(tail))
    if 0 < size <= MAX_LEAD_TOKENS and has_word(tail[size:]) and tail[size].text not in MARKS:
        return [*relation, *tail[:size]], tail[size:]
    return relation, tail
