"""What a clause says of its subject: (relation, tail) pairs that together are its words in their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apl.providers.extraction.rules.surface import EDGE_MARKS, idle_auxiliaries, surface
from apl.text import NEGATIONS

Pair = tuple[str, str]
"""A relation and a tail, said of a head that is known elsewhere."""

_AUXILIARIES = ("aux", "auxpass")
_VERBAL = ("VERB", "AUX")
_UNSPLIT = NEGATIONS | frozenset("respectively only if or unless either both whether few rarely seldom".split())
_PAIRING = ("between", "among", "amongst")
_BOUND_CORES = ("attr", "acomp", "oprd", "ccomp", "advcl", "xcomp")
_MAX_LEAD_TOKENS, _MAX_ATTRIBUTE_TOKENS, _MAX_OBJECT_WORDS = 3, 4, 3


def own_subject(verb: Any) -> Any:
    """The verb's own subject, or None."""
    return next((c for c in verb.children if c.dep_ in ("nsubj", "nsubjpass")), None)


def predicate(verb: Any, start: int, end: int, front: Sequence[Any] = ()) -> list[Pair]:
    """The statements of the stretch [start, end) behind a subject; the verbs that share the subject each for itself.

    Args:
        verb: The clause's verb, inside the stretch.
        start: Where the subject has ended.
        end: Where the clause ends.
        front: What stands ahead of the subject; it is said behind the first verb's own words.
    """
    beside = [c for c in _beside(verb) if start < c.left_edge.i < end]
    return (_parted(verb, beside, start, end, front) if beside else []) or _statements(verb, start, end, front)


def _parted(verb: Any, beside: list[Any], start: int, end: int, front: Sequence[Any]) -> list[Pair]:
    """The statements of verbs that share a subject; none where one of them cannot be said by itself."""
    openings = [c.left_edge.i - (c.left_edge.nbor(-1).lower_ == "but") for c in beside]
    cuts = [start, *openings, end]
    pairs: list[Pair] = []
    for single, low, high in zip([verb, *beside], cuts, cuts[1:], strict=False):
        said = _statements(single, low, high, () if pairs else front)
        if not said:
            return []
        pairs.extend(said)
    return pairs


def _beside(verb: Any) -> list[Any]:
    """Verbs joined to this one that state something of its subject by themselves; the others stay in its words.

    Those stay that would lose a negation, a condition, a modal or an auxiliary that is needed, and those that may
    belong to a clause in between.
    """
    doc, found = verb.doc, []
    if is_bound(doc) or (verb.pos_ == "AUX" and verb.tag_ not in ("VBD", "VBZ", "VBP")):
        return []
    helpers = [c for c in verb.lefts if c.dep_ in _AUXILIARIES]
    needed = len(helpers) > len(idle_auxiliaries(verb))
    for conjunct in (c for c in verb.rights if c.dep_ == "conj" and c.pos_ in _VERBAL):
        start = conjunct.left_edge.i
        joint = [c.lower_ for c in verb.rights if c.dep_ == "cc" and c.i < conjunct.i][-1:]
        listed = not joint and doc[start - 1].text == "," and any(c.dep_ in ("conj", "cc") for c in conjunct.rights)
        helped = any(c.dep_ in _AUXILIARIES for c in conjunct.lefts)
        lost = not helped and conjunct.tag_ in ("VB", "VBN", "VBG") and (needed or not helpers)
        nested = any(t.dep_ in ("nsubj", "nsubjpass") for t in doc[verb.i + 1 : start])
        if own_subject(conjunct) is None and (joint in (["and"], ["but"]) or listed) and not lost and not nested:
            found.append(conjunct)
            found.extend(c for c in _beside(conjunct) if c.i > conjunct.i)
    return found


def _statements(verb: Any, start: int, end: int, front: Sequence[Any]) -> list[Pair]:
    """What one verb says, in the words of [start, end): its core, then the phrases that can stand alone."""
    if not start <= verb.i < end or verb.text in EDGE_MARKS:
        return []
    parts = [c for c in verb.rights if c.left_edge.i < end and c.dep_ not in ("punct", "cc")]
    group, parts = _grown([t for t in verb.doc[start : verb.i + 1] if t.text not in EDGE_MARKS], parts)
    idle = idle_auxiliaries(verb)
    relation = surface(group, idle=idle)
    after = list(verb.doc[group[-1].i + 1 : end])
    divisible = _is_divisible(verb, group, parts)
    if not surface(after):
        pairs = [(relation, "")] if front else _without_tail(group, [])
    elif parts and parts[0].dep_ == "conj":
        pairs = _without_tail(group, after)
    elif divisible:
        pairs = _pieces(relation, after, parts, end)
        relation = _with_object(relation, parts, pairs)
    else:
        pairs = _split_attribute(verb, parts, after, relation) or _pieces(relation, after, parts[:1], end, whole=True)
    return _with_front(pairs, front, verb, relation if divisible else None)


def _without_tail(group: list[Any], after: list[Any]) -> list[Pair]:
    """A verb with no object to its name: the last word of its group begins the tail."""
    relation, tail = surface(group[:-1]), surface([group[-1], *after])
    return [(relation, tail)] if relation and tail else []


def _pieces(relation: str, after: list[Any], parts: list[Any], end: int, *, whole: bool = False) -> list[Pair]:
    """The words behind a verb group, cut where a phrase of the verb's own begins; `whole` keeps them together."""
    cuts = [] if whole else _cuts(parts, end)
    bounds = [after[0].i, *cuts, end]
    leading = [p for p in parts if p.left_edge.i in cuts]
    first = parts[0] if parts and parts[0].left_edge.i == after[0].i else None
    sole = whole and first is not None and first.head.pos_ == "AUX" and any(c.i > first.i for c in first.head.rights)
    pairs: list[Pair] = []
    for part, low, high in zip([first, *leading], bounds[:-1], bounds[1:], strict=True):
        tokens = [t for t in after if low <= t.i < high]
        lead, rest = ([], tokens) if sole else _led(part, tokens)
        if all(t.pos_ in ("PRON", "PUNCT", "CCONJ") for t in rest):
            return []
        said = f"{_with_object(relation, parts, pairs)} {surface(lead)}".strip()
        pairs.extend((said, surface(member)) for member in ([rest] if whole else _members(lead, rest)))
    return pairs


def _with_object(relation: str, parts: Sequence[Any], pairs: Sequence[Pair]) -> str:
    """The relation that a further phrase goes on from: with the object where there is one of few words."""
    if len(pairs) != 1 or not parts or parts[0].dep_ != "dobj" or len(pairs[0][1].split()) > _MAX_OBJECT_WORDS:
        return relation
    return f"{relation} {pairs[0][1]}"


def _cuts(parts: list[Any], end: int) -> list[int]:
    """Where phrases of the verb's own begin that are followed by nothing but others of their kind and adverbs."""
    cuts: list[int] = []
    stop = end
    for part in reversed(parts[1:]):
        apart = [t for t in part.doc[part.right_edge.i + 1 : stop] if t.text not in EDGE_MARKS and t.dep_ != "advmod"]
        if not apart and _is_adjunct(part) and not _is_series(part.doc[part.left_edge.i : stop]):
            stop = part.left_edge.i
            cuts.insert(0, stop)
    return cuts


def _is_series(tokens: Sequence[Any]) -> bool:
    """True for "to the north, Brazil to the south": a phrase that others of its kind go on from."""
    comma = next((t.i for t in tokens if t.text == ","), None)
    return comma is not None and any(t.i > comma and t.pos_ == "ADP" for t in tokens)


def _with_front(pairs: list[Pair], front: Sequence[Any], verb: Any, relation: str | None) -> list[Pair]:
    """The statements with what stands ahead of the subject behind them, or beside them where it can stand alone.

    `relation` is the verb group, None where the statements do not hold one by one.
    """
    tokens = [t for t in front if t.text not in EDGE_MARKS]
    said = surface(front)
    if not pairs or not said:
        return pairs
    opener = next((t for t in tokens if t.head == verb), None)
    if any(_is_loose(t) for t in tokens if t.head == verb):
        return []
    if opener is not None and opener.tag_ in ("VBN", "VBG") and opener == tokens[0]:
        own = predicate(opener, opener.i, tokens[-1].i + 1)
        if own:
            return [*pairs, *own]
    light = tokens[0].dep_ == "prep" and not any(t.text == "," or t.pos_ == "VERB" for t in tokens)
    lead, rest = _led(tokens[0], tokens) if light else ([], tokens)
    if relation is not None and lead and pairs[-1][1]:
        return [*pairs, (f"{relation} {surface(lead)}", surface(rest))]
    *others, (last, tail) = pairs
    return [*others, (last, " ".join([tail, said]) if tail and light else ", ".join(filter(None, [tail, said])))]


def _is_loose(part: Any) -> bool:
    """True for a clause ahead of the subject that nothing subordinates: it is a statement of its own."""
    stated = any(c.dep_ in ("nsubj", "nsubjpass", "expl") for c in part.children)
    tied = any(c.dep_ == "mark" or c.tag_ == "WRB" for c in part.children)
    return stated and not tied and part.dep_ in ("conj", "parataxis", "ccomp", "advcl")


def _grown(group: list[Any], parts: list[Any]) -> tuple[list[Any], list[Any]]:
    """Take into the verb group what belongs to it: particles, adverbs, pronouns, "continued to grow", "subject to"."""
    while parts and parts[0].left_edge.i == group[-1].i + 1:
        part = parts[0]
        inner = [t for t in part.subtree if t.i < part.i]
        alone = part.right_edge == part
        small = part.dep_ in ("prt", "neg", "prep") or (len(parts) > 1 and (part.pos_ == "PRON" or part.tag_ == "RB"))
        opens = part.dep_ == "xcomp" or (part.dep_ == "acomp" and any(c.dep_ == "prep" for c in part.rights))
        joined = any(c.dep_ in ("conj", "cc") for c in part.rights)
        if any(t.dep_ not in ("neg", "advmod", *_AUXILIARIES) for t in inner) or not (
            (alone and small) or (opens and not alone and not joined)
        ):
            break
        group, parts = [*group, *inner, part], [*(c for c in part.rights if c.dep_ != "punct"), *parts[1:]]
    return group, parts


def _led(part: Any, tokens: list[Any]) -> tuple[list[Any], list[Any]]:
    """The words parted behind a leading preposition: "in", "because of"."""
    if part is None or part.dep_ not in ("prep", "agent", "dative"):
        return [], tokens
    inner = next((t for t in tokens if t.dep_ in ("pobj", "pcomp") and part in (t.head, t.head.head)), None)
    lead = [t for t in tokens if inner is not None and t.i < inner.left_edge.i]
    if len(lead) > _MAX_LEAD_TOKENS or any(t.dep_ in ("punct", "cc") for t in lead):
        return [], tokens
    return lead, tokens[len(lead) :]


def is_bound(doc: Any) -> bool:
    """True when the parts of a sentence do not hold one by one: negation, modality, condition, alternatives."""
    return any(t.dep_ == "neg" or t.tag_ == "MD" or t.lower_ in _UNSPLIT for t in doc)


def _is_divisible(verb: Any, group: Sequence[Any], parts: Sequence[Any]) -> bool:
    """True when its parts hold one by one: nothing binds them, no copula, no bare object ("gave way")."""
    core = parts[0] if parts else group[-1]
    bare = core.dep_ == "dobj" and core.tag_ == "NN" and core.left_edge == core
    stative = group[-1].pos_ == "AUX" or core.dep_ in _BOUND_CORES or group[-1].dep_ == "xcomp"
    return not (bare or stative or is_bound(verb.doc))


def _is_adjunct(part: Any) -> bool:
    """A preposition of the verb's own with words behind it, not set off by a comma."""
    led = any(c.dep_ in ("pobj", "pcomp") for c in part.rights)
    own = part.dep_ in ("prep", "agent") and part.lower_ not in ("as", "of", "than")
    return own and led and part.nbor(-1).text not in (",", "(", "-", "–", "—")


def _members(lead: list[Any], tokens: list[Any]) -> list[list[Any]]:
    """The members of an enumeration of names with `and`, each for itself; else, as behind "between", all as one."""
    groups: list[list[Any]] = [[]]
    for token in tokens:
        if token.dep_ == "cc" or token.text == ",":
            groups.append([])
        elif token.text not in EDGE_MARKS:
            groups[-1].append(token)
    groups = [group for group in groups if group]
    chained = all(g[-1].dep_ == "conj" and g[-1].head in [h[-1] for h in groups] for g in groups[1:])
    named = all(t.pos_ == "PROPN" or t.dep_ == "det" for group in groups for t in group)
    joint = [t.lower_ for t in tokens if t.dep_ == "cc"] == ["and"] and not any(t.lower_ in _PAIRING for t in lead)
    return groups if chained and named and joint else [tokens]


def _split_attribute(verb: Any, parts: Sequence[Any], after: Sequence[Any], relation: str) -> list[Pair]:
    """A short attribute whose preposition leads to a name joins the relation: "is album by" Yolanda Adams."""
    attribute = parts[0] if parts and parts[0].dep_ == "attr" and len(parts) == 1 else None
    if verb.pos_ != "AUX" or attribute is None or is_bound(verb.doc):
        return []
    preposition = next((c for c in attribute.rights if c.dep_ == "prep"), None)
    if preposition is None or preposition.lower_ in ("than", *_PAIRING):
        return []
    name = next((c for c in preposition.rights if c.dep_ == "pobj"), None)
    lead = [t for t in after if t.i <= preposition.i]
    rest = [t for t in after if t.i > preposition.i]
    if name is None or name.pos_ != "PROPN" or len(lead) > _MAX_ATTRIBUTE_TOKENS + 1 or name.left_edge.i != rest[0].i:
        return []
    if any(t.dep_ in ("punct", "cc") for t in lead):
        return []
    return [(f"{relation} {surface(lead)}", surface(rest))]
