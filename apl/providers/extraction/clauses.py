"""The dependency rules: one parsed sentence to its triples. Tokens are spaCy's and have no types.

The aim is coverage: the edges of a sentence together say all of it, so that they can stand in its place.
A main clause is read as a subject, a verb group and the rest of its words in their order; what only the parser knows
stays verbatim in the tail, so that a wrong parse rarely becomes a wrong statement. Where a rule is unsure it emits
nothing, and the sentence goes out as a quote.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from apl.symbols import Triple
from apl.text import NEGATIONS

_ASIDE = re.compile(r"(?<=[^\s,;:])\s+\(((?:[^()]|\([^()]*\))*)\)")
_NAMED_ASIDE = re.compile(r"(.+?) \(((?:[^()]|\([^()]*\))*)\)")
_SAYING_ASIDE = re.compile(
    r"((?:born|died|also|formerly|originally|previously|known|named|called|founded|built|released|published|meaning)"
    r"(?: (?!the |an )[a-z]{2,}){0,3}) (?:(?:the|an?) )?(?=[^a-z\s])(.+)"
)
_LONE_QUOTE = re.compile(r"(^|\s)'(\s|$)")
_WORD = re.compile(r"[^\W_]")
_EDGE_MARKS = frozenset(", ; : . – — - --".split())
_QUOTES = frozenset('" “ ”'.split())
_ARTICLES = ("a", "an", "the")
_AUXILIARIES, _SUBJECTS = ("aux", "auxpass"), ("nsubj", "nsubjpass")
_RELATIVES = ("WDT", "WP", "WP$", "WRB")
_VERBAL = ("VERB", "AUX")
_NOMINAL = ("NOUN", "PROPN", "NUM", "ADJ", "X", "SYM")
_CAPITALISED = ("PROPN", "ADJ", "NUM", "X", "SYM")
_UNSPLIT = NEGATIONS | frozenset("respectively only if or unless either both whether few rarely seldom".split())
_PAIRING = ("between", "among", "amongst")
_MAX_SENTENCE_TOKENS, _MAX_HEAD_TOKENS, _MAX_PLACE_TOKENS = 120, 14, 7

_Pair = tuple[str, str]
"""A relation and a tail, said of a head that is known elsewhere."""


def unparsed(language: Any, text: str) -> Any:
    """A doc of the text as one sentence; asides in brackets, which mislead parsers, hang on the word before them."""
    gaps = [" " if text[match.end() :].startswith(".") else "" for match in _ASIDE.finditer(text)]  # "f." is one token
    filling, removed = iter(gaps), 0
    doc = language.make_doc(_ASIDE.sub(lambda _: next(filling), text))
    for match, gap in zip(_ASIDE.finditer(text), gaps, strict=True):
        owner = max((t.i for t in doc if t.idx < match.start() - removed and t.text not in _EDGE_MARKS), default=0)
        removed += len(match.group()) - len(gap)
        if _WORD.search(match.group(1)):
            doc.user_data.setdefault(("aside", owner), []).append(match.group(1).strip(" ,;"))
    for token in doc[1:]:
        token.is_sent_start = False
    return doc


class _Clause(NamedTuple):
    """A verb group, the phrases ahead of it, the words behind it and the heads of the phrases they form."""

    group: list[Any]
    before: list[Any]
    after: list[Any]
    parts: list[Any]


def sentence_triples(doc: Any) -> tuple[Triple, ...]:
    """The edges of one parsed sentence in order, without duplicates; none for questions and where unsure."""
    found: dict[Triple, None] = {}
    if not len(doc) or len(doc) > _MAX_SENTENCE_TOKENS or doc[-1].text == "?":
        return ()
    root = next(token for token in doc if token.head == token)
    finite = root.tag_ in ("VBD", "VBP", "VBZ") or _auxiliaries(root)
    for verb, subject in _standing_verbs(root, None) if finite else ():
        pairs = _statements(verb)
        head, passing = _subject(subject) if pairs else ("", [])
        if head:
            head, pairs = _with_aside(head, passing, pairs, first=subject.head == verb)
            found.update(dict.fromkeys(Triple(head, *pair) for pair in pairs))
    return tuple(found)


def _with_aside(head: str, passing: list[_Pair], pairs: list[_Pair], *, first: bool) -> tuple[str, list[_Pair]]:
    """What is said of a head, once; a bracket behind it says something itself, follows the copula, or stays."""
    match = _NAMED_ASIDE.fullmatch(head)
    name, aside = match.groups() if match else (head, "")
    (relation, tail), *others = pairs
    if not first:
        return name, pairs
    if saying := _SAYING_ASIDE.fullmatch(aside):
        return name, [(saying.group(1), saying.group(2)), *passing, *pairs]
    if aside and " and " not in name and relation in ("is", "are", "was", "were"):
        return name, [*passing, (relation, f"({aside}) {tail}"), *others]
    return head, [*passing, *pairs]


def _standing_verbs(verb: Any, subject: Any) -> Iterator[tuple[Any, Any]]:
    """(verb, subject) of a clause and of those beside it, which may share its subject."""
    subject = _own_subject(verb) or subject
    if subject is not None and (verb.tag_, subject.tag_) != ("VBP", "NN"):  # "officer aircrew": a noun taken for a verb
        yield verb, subject
    for conjunct in _beside(verb):
        yield from _standing_verbs(conjunct, subject)


def _is_joined(token: Any) -> bool:
    return any(c.dep_ in ("conj", "cc") for c in token.rights)


def _own_subject(verb: Any) -> Any:
    return next((c for c in verb.children if c.dep_ in _SUBJECTS), None)


def _auxiliaries(verb: Any) -> list[Any]:
    """Those of a verb; the `released` of "was shown and released" takes over those of the verb it is joined to."""
    own = [c for c in verb.lefts if c.dep_ in _AUXILIARIES]
    shares = verb.dep_ == "conj" and verb.tag_ in ("VB", "VBN", "VBG") and _own_subject(verb) is None
    return _auxiliaries(verb.head) if shares and not own else own


def _beside(verb: Any) -> list[Any]:
    """Verbs joined by `and` or `but` that state something of their own; the others stay in the words of this one.

    Those stay that would lose a negation or condition, whose subject is a pronoun, or that may belong to a clause in
    between.
    """
    found = []
    if any(t.lower_ in ("if", "unless") for t in verb.doc):
        return []
    negated = any(c.dep_ == "neg" for c in verb.children)
    for conjunct in (c for c in verb.rights if c.dep_ == "conj" and c.pos_ in _VERBAL):
        own, start = _own_subject(conjunct), conjunct.left_edge.i
        joint = [c.lower_ for c in verb.rights if c.dep_ == "cc" and c.i < conjunct.i][-1:]
        listed = not joint and verb.doc[start - 1].text == "," and _is_joined(conjunct)
        helped = own is not None or any(c.dep_ in _AUXILIARIES for c in conjunct.lefts)
        bare = conjunct.tag_ in ("VB", "VBN", "VBG") and not _auxiliaries(conjunct)
        lost = not helped and (bare or (negated and (joint != ["but"] or conjunct.tag_ in ("VB", "VBN", "VBG"))))
        nested = any(t.dep_ in _SUBJECTS for t in verb.doc[verb.i + 1 : start])
        if (joint in (["and"], ["but"]) or listed) and not lost and not nested and (own is None or own.pos_ != "PRON"):
            found.append(conjunct)
    return found


def _clause(verb: Any) -> _Clause | None:
    """The words of a clause around its verb group; None where their order is not that of a statement."""
    own, apart = _own_subject(verb), _beside(verb)
    start = verb.left_edge.i if own is None else own.right_edge.i + 1
    if start > verb.i or any(c.dep_ in ("expl", "csubj", "csubjpass") for c in verb.children):
        return None
    gone = {t.i for c in (*apart, *([] if own is None else [own])) for t in c.subtree}
    lefts = [c for c in verb.lefts if c.dep_ == "neg" or (c.tag_ in ("RB", "RBR") and c.left_edge.text[0].islower())]
    group = {t for c in lefts if c.left_edge.i >= start for t in c.subtree} | {*_auxiliaries(verb), verb}
    parts = [c for c in verb.rights if c.i not in gone and c.dep_ not in ("punct", "cc")]
    grown, parts = _grown(sorted(group), parts)
    before = [c for c in verb.lefts if c.i not in gone and c not in group and c.dep_ not in ("punct", "cc")]
    end = max([grown[-1].i, *(p.right_edge.i for p in parts)])
    if any(end > c.i for c in apart) or any(t.i < start for t in grown if t.head == verb and t.dep_ in _AUXILIARIES):
        return None
    while end + 1 < len(verb.doc) and verb.doc[end + 1].text in _EDGE_MARKS | _QUOTES:
        end += 1
    return _Clause(grown, before, list(verb.doc[grown[-1].i + 1 : end + 1]), parts)


def _grown(group: list[Any], parts: list[Any]) -> tuple[list[Any], list[Any]]:
    """Take into the verb group what belongs to it: particles, adverbs, pronouns, "continued to grow", "subject to"."""
    while parts and parts[0].left_edge.i == group[-1].i + 1:
        part = parts[0]
        inner = [t for t in part.subtree if t.i < part.i]
        alone = part.right_edge == part
        small = part.dep_ in ("prt", "neg", "prep") or (len(parts) > 1 and (part.pos_ == "PRON" or part.tag_ == "RB"))
        opens = part.dep_ == "xcomp" or (part.dep_ == "acomp" and any(c.dep_ == "prep" for c in part.rights))
        if any(t.dep_ not in ("neg", "advmod", *_AUXILIARIES) for t in inner) or not (
            (alone and small) or (opens and not alone and not _is_joined(part))
        ):
            break
        group, parts = [*group, *inner, part], [*(c for c in part.rights if c.dep_ != "punct"), *parts[1:]]
    return group, parts


def _statements(verb: Any) -> list[_Pair]:
    """What a clause says of its subject: its core, places and times that can stand alone, opening participles."""
    clause = _clause(verb)
    if clause is None or not all(map(_is_movable, clause.before)):
        return []
    divisible = _is_divisible(clause)
    late = [p for p in clause.before if p.dep_ == "prep" and ((divisible and _is_place(p)) or not clause.parts)]
    opening = {p: said for p in clause.before if p.dep_ == "advcl" and (said := _participle(p))}
    loose = [_surface(p.subtree) for p in clause.before if p not in late and p not in opening]
    cuts = clause.parts[1:] if divisible else []
    while not all(map(_is_place, cuts)):
        cuts = cuts[1:]
    pieces = [(p, [t for t in clause.after if not any(t.i >= c.left_edge.i for c in cuts)]) for p in clause.parts[:1]]
    pieces = [(p, tokens) for p, tokens in pieces if p.dep_ != "conj"]
    pieces += [(p, list(p.subtree)) for p in (*cuts, *late)]
    pairs: list[_Pair] = []
    for part, tokens in pieces:
        lead, rest = _led(part, tokens) if verb.pos_ == "VERB" or len(clause.parts) == 1 else ([], tokens)
        if all(t.pos_ in ("PRON", "PUNCT", "CCONJ") for t in rest):
            return []
        relation = f"{_surface(clause.group)} {_surface(lead)}".strip()
        pairs.extend((relation, _surface(member)) for member in (_members(lead, rest) if divisible else [rest]))
    if not pieces and len(clause.group) > 1:
        pairs = [(_surface(clause.group[:-1]), _surface([clause.group[-1], *clause.after]))]
    if pairs:
        pairs[0] = (pairs[0][0], ", ".join([pairs[0][1], *filter(None, loose)]))
        pairs.extend(pair for said in opening.values() for pair in said)
    return pairs if all(map(_is_sound, pairs)) else []


def _is_movable(part: Any) -> bool:
    """True for an opening phrase that says the same behind the clause."""
    bare = part.left_edge == part.right_edge and part.lower_ in ("before", "after", "since", "then")
    timed = part.dep_ == "npadvmod" and part.pos_ != "PROPN"
    return (timed or part.dep_ in ("prep", "advmod", "advcl")) and not bare


def _led(part: Any, tokens: list[Any]) -> tuple[list[Any], list[Any]]:
    """The words parted behind a leading preposition: "in", "because of"."""
    inner = next((t for t in tokens if t.dep_ == "pobj" and part in (t.head, t.head.head)), None)
    lead = [t for t in tokens if inner is not None and t.i < inner.left_edge.i]
    if part.dep_ not in ("prep", "agent", "dative") or len(lead) > 3 or any(t.dep_ in ("punct", "cc") for t in lead):
        return [], tokens
    return lead, tokens[len(lead) :]


def _is_divisible(clause: _Clause) -> bool:
    """True when its parts hold one by one: no negation, modality, condition, copula or bare object ("gave way")."""
    bound = any(t.dep_ == "neg" or t.tag_ == "MD" or t.lower_ in _UNSPLIT for t in clause.group[-1].doc)
    core = clause.parts[0] if clause.parts else clause.group[-1]
    bare = core.dep_ == "dobj" and core.tag_ == "NN" and core.left_edge == core
    stative = clause.group[-1].pos_ == "AUX" or core.dep_ in ("attr", "acomp", "oprd", "ccomp", "advcl")
    return not (bound or bare or stative or "xcomp" in (core.dep_, clause.group[-1].dep_))


def _is_place(part: Any) -> bool:
    """A preposition with a short name, date or number behind it."""
    tokens = [t for t in part.subtree if t != part]
    named = all(t.pos_ in ("PROPN", "NUM") or t.dep_ in ("det", "punct") or t.lower_ == "of" for t in tokens)
    own = part.dep_ == "prep" and part.lower_ not in (*_PAIRING, "as", "of", "than")
    return own and named and 0 < len(tokens) <= _MAX_PLACE_TOKENS and (part.i == 0 or part.nbor(-1).text != ",")


def _participle(verb: Any) -> list[_Pair]:
    """What "Founded in 1990, " or ", directed by Ann, " says of the noun it belongs to."""
    opens = all(c.dep_ == "advmod" for c in verb.lefts) and _own_subject(verb) is None
    return _statements(verb) if opens and verb.tag_ in ("VBN", "VBG") else []


def _members(lead: list[Any], tokens: list[Any]) -> list[list[Any]]:
    """The members of an enumeration of names with `and`, each for itself; else, as behind "between", all as one."""
    groups: list[list[Any]] = [[]]
    for token in tokens:
        if token.dep_ == "cc" or token.text == ",":
            groups.append([])
        elif token.text not in _EDGE_MARKS:
            groups[-1].append(token)
    groups = [group for group in groups if group]
    chained = all(g[-1].dep_ == "conj" and g[-1].head in [h[-1] for h in groups] for g in groups[1:])
    named = all(t.pos_ == "PROPN" or t.dep_ == "det" for group in groups for t in group)
    joint = [t.lower_ for t in tokens if t.dep_ == "cc"] == ["and"] and not any(t.lower_ in _PAIRING for t in lead)
    return groups if chained and named and joint else [tokens]


def _subject(noun: Any) -> tuple[str, list[_Pair]]:
    """The name of a subject and what is said of it in passing; ("", []) for pronouns and where unsure."""
    passing = [c for c in noun.rights if noun.doc[c.left_edge.i - 1].text in (",", "–", "—") and _is_passing(c)]
    gone = {t.i for c in passing for t in c.subtree}
    tokens = _quoted([t for t in noun.subtree if t.i not in gone])
    some = noun.tag_ == "DT" and any(c.dep_ == "prep" for c in noun.rights)
    nominal = noun.pos_ in (_NOMINAL if len(tokens) > 1 else ("NOUN", "PROPN", "X", "SYM"))
    owned = any(t.tag_ in _RELATIVES and t.nbor(-1).text == "," for t in tokens if t.i) or tokens[0].tag_ == "WP$"
    owned = owned or (tokens[0].tag_ == "PRP$" and noun.pos_ != "PROPN")
    cut = any(t.text == "," for t in tokens[:-1]) and not any(t.dep_ in ("conj", "appos") for t in tokens if t != noun)
    said = [_said_in_passing(noun, child) for child in passing]
    pairs = [pair for group in said for pair in group]
    head = _surface(tokens, initial=True)
    sure = (some or nominal) and not owned and not (cut and not passing) and not (passing and _is_joined(noun))
    short = len(tokens) <= _MAX_HEAD_TOKENS
    return (head, pairs) if sure and short and all(said) and all(map(_is_sound, [*pairs, (head, head)])) else ("", [])


def _quoted(tokens: list[Any]) -> list[Any]:
    """The tokens with the quotation marks around them that the parser gave to another word."""
    doc, odd = tokens[0].doc, sum(t.text in _QUOTES for t in tokens) % 2
    around = [doc[k] for k in (tokens[0].i - 1, tokens[-1].i + 1) if 0 <= k < len(doc) and doc[k].text in _QUOTES]
    return sorted([*tokens, *around]) if len(around) == 2 - odd else tokens


def _is_passing(child: Any) -> bool:
    """True for what is set off behind a noun, save a member of a list and the second half of "Lima, Ohio"."""
    address = child.dep_ == "appos" and child.pos_ == child.head.pos_ == "PROPN" and child.left_edge.dep_ != "det"
    return child.dep_ not in ("conj", "punct", "cc") and not address


def _said_in_passing(noun: Any, child: Any) -> list[_Pair]:
    """What an apposition, a relative or participial clause or a phrase set off by commas says of its noun."""
    tokens = list(child.subtree)
    if child.dep_ == "appos":
        sure = child.left_edge.nbor(-1).text == "," and (child.left_edge.dep_ == "det" or not _is_joined(child))
        return [("are" if noun.tag_ == "NNS" else "is", _surface(tokens))] if sure else []
    if child.dep_ == "prep":
        lead, rest = _led(child, tokens)
        return [(_surface(lead), _surface(rest))]
    own = _own_subject(child)
    if child.dep_ == "relcl" and own is not None and own.tag_ in _RELATIVES and own.left_edge == own.right_edge:
        return [pair for verb, subject in _standing_verbs(child, None) if subject == own for pair in _statements(verb)]
    wh = [k for k, t in enumerate(tokens[:3]) if t.tag_ in _RELATIVES]
    return [(_surface(tokens[: wh[0] + 1]), _surface(tokens[wh[0] + 1 :]))] if wh else _participle(child)


def _is_sound(pair: _Pair) -> bool:
    """True when both texts have words in them and no half of a pair of brackets or quotation marks."""
    paired = all(text.count(a) == text.count(b) for text in pair for a, b in ("()", "[]", "“”"))
    return paired and all(_WORD.search(t) and not t.count('"') % 2 and not _LONE_QUOTE.search(t) for t in pair)


def _is_idle(token: Any) -> bool:
    """True for an article that is no part of a name, a title, an amount or a comparison."""
    if token.text not in _ARTICLES or token.dep_ != "det" or token.head.pos_ not in ("NOUN", "PROPN") or token.i == 0:
        return False
    noun, over = token.head, token.head.head
    named = noun.pos_ == "PROPN" and over != noun and (over.head if over.dep_ == "prep" else over).pos_ == "PROPN"
    counted = token.nbor().lower_ in ("few", "little", "lot", "most", "number") or noun.dep_ == "npadvmod"
    quoted = sum(t.text in _QUOTES for t in token.doc[: token.i]) % 2 == 1
    return not (named or counted or quoted) and token.nbor(-1).pos_ in ("ADP", "VERB", "AUX", "CCONJ", "PUNCT")


def _surface(tokens: Iterable[Any], *, initial: bool = False) -> str:
    """The tokens as the text has them, without punctuation at the edges, a leading article and idle articles."""
    shown = sorted(tokens)
    while shown and (shown[-1].text in _EDGE_MARKS or shown[-1].dep_ == "cc"):
        shown.pop()
    while shown and (shown[0].text in _EDGE_MARKS or shown[0].dep_ == "cc"):
        if shown[0].text in ("-", "–") and not shown[0].whitespace_:  # a minus sign
            break
        shown.pop(0)
    if len(shown) > 1 and shown[0].lower_ in _ARTICLES and (shown[0].text.islower() or shown[0].i == 0):
        shown.pop(0)
    pieces = []
    for token, following in zip(shown, [*shown[1:], None], strict=False):
        asides = token.doc.user_data.get(("aside", token.i), ())
        near = following is not None and following.i == token.i + 1 and not token.whitespace_
        if asides or initial or not _is_idle(token):
            pieces.append("".join([token.text, *(f" ({aside})" for aside in asides), "" if near else " "]))
    text = "".join(pieces).strip()
    opens = shown and shown[0].i == 0 and shown[0].pos_ not in _CAPITALISED and not initial
    return text[0].lower() + text[1:] if opens and text[1:2].islower() else text
