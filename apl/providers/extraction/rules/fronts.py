"""What stands ahead of a subject: the conjunction, the phrases that can be said behind everything else, an early verb.

Labels are those of Universal Dependencies and TIGER; tokens are spaCy's and have no types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apl.providers.extraction.rules.stretches import has_word, joined, label, trimmed
from apl.text import NEGATIONS

SUBJECTS = ("nsubj", "nsubjpass", "sb")
JOINTS = ("cc", "cd")
VERBAL = ("VERB", "AUX")
MAX_LEAD_TOKENS = 3

_FREE_FRONTS = ("obl", "advmod", "advcl", "mo", "nmod", "tmod", "re", "punct", "cc", "cd", "dep")
_FIXED_FRONTS = (
    *("obj", "dobj", "iobj", "oa", "da", "og", "pd", "oc", "ccomp", "xcomp", "expl", "ep", "vocative", "discourse"),
    *("conj", "cj", "parataxis", "mark", "cp", "obl:arg", "obl:agent", "sbp"),
)
"""What ahead of the subject cannot be said behind everything else without turning the sentence round."""

_VERB_SECOND = frozenset("de nl sv da nb nn no is af fo fy lb en".split())
"""Languages in which a sentence that begins with its verb is a question, a condition or an order."""


def opened(front: list[Any]) -> tuple[list[Any], list[Any]]:
    """The conjunction that opens a clause, and what else stands ahead of its subject."""
    front = trimmed(front)
    size = next((k for k, t in enumerate(front) if label(t) not in JOINTS and t.pos_ != "CCONJ"), len(front))
    return front[:size], trimmed(front[size:])


def inverted(front: list[Any], group: list[Any], predicate: Any) -> tuple[list[Any], list[Any]]:
    """What stands ahead of the verb and the verb itself, where the subject follows it at once; else no verb."""
    first = next(k for k, t in enumerate(front) if t in group)
    ahead, verbs = trimmed(front[:first]), front[first:]
    while ahead and ahead[-1].pos_ == "PRON" and ahead[-1].dep_.startswith("expl"):  # a reflexive that belongs to it
        verbs = [ahead.pop(), *verbs]
    direct = all(t in group or t.pos_ in ("ADV", "PART") or t.dep_.startswith("expl") for t in verbs)
    opens = not ahead and predicate.doc.lang_ in _VERB_SECOND
    tops = (branch_of(t, (predicate, *group)) for t in ahead)
    free = all(label(top) in _FREE_FRONTS and top.dep_ not in _FIXED_FRONTS for top in tops)
    return (ahead, verbs) if direct and free and not opens else (front, [])


def branch_of(token: Any, group: Sequence[Any]) -> Any:
    """The word by which a token hangs on a predicate and its group, or on nothing."""
    while token.head not in group and token.head != token:
        token = token.head
    return token


def can_follow(front: list[Any], predicate: Any, group: list[Any]) -> bool:
    """True when what stands ahead of the subject can be said behind everything else."""
    for token in front:
        branch = branch_of(token, (predicate, *group))
        clausal = label(branch) in ("advcl", "mo") and any(label(c) in SUBJECTS for c in branch.children)
        loose = clausal and not any(label(c) in ("mark", "cp", "advmod") for c in branch.children)
        denied = branch == token and (
            token.lower_ in NEGATIONS or token.dep_ == "ng" or "Neg" in token.morph.get("Polarity")
        )
        if loose or denied or branch in group or branch.dep_ in _FIXED_FRONTS or label(branch) in _FIXED_FRONTS:
            return False
        if label(branch) in SUBJECTS:
            return False
    return True


def with_front(tail: str, front: list[Any]) -> str:
    """The tail with what stood ahead of the subject behind it."""
    if not has_word(front):
        return tail
    said = joined(front)
    if not tail:
        return said
    following = front[-1].doc[front[-1].i + 1 : front[-1].i + 2].text
    mark = following if following in ("、", "，") else ""
    light = len(front) <= MAX_LEAD_TOKENS + 1 and not any(t.pos_ in VERBAL or t.text == "," for t in front)
    return f"{tail}{mark}{said}" if mark else f"{tail} {said}" if light else f"{tail}, {said}"
