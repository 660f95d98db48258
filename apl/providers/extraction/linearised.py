"""REBEL's way of writing triples as one string: `<triplet> head <subj> tail <obj> relation <subj> tail <obj> relation`.

A head is said once for all its statements, and the marker stands behind what it names: `<subj>` follows the subject of
the triple, `<obj>` its object, so the order read is head, tail, relation (as REBEL's model card decodes it).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from apl.symbols import Triple

SPECIAL = ("<s>", "</s>", "<pad>")


@dataclass(frozen=True, slots=True)
class Decoded:
    """The triples of a linearised string in order, each once, and how many pieces were none."""

    triples: tuple[Triple, ...] = ()
    malformed: int = 0


def decode_linearised(text: str, special: Sequence[str] = SPECIAL) -> Decoded:
    """What a linearised string says; pieces without a head, tail or relation are counted, the others kept.

    Args:
        text: What the model generated.
        special: Tokens of the model that say nothing.
    """
    for token in special:
        text = text.replace(token, " ")
    before, *blocks = text.split("<triplet>")
    found: dict[Triple, None] = {}
    malformed = int(bool(before.strip()))
    for block in blocks:
        head, *statements = (" ".join(piece.split()) for piece in block.split("<subj>"))
        malformed += not statements and bool(head)
        for statement in statements:
            tail, *relation = (piece.strip() for piece in statement.split("<obj>"))
            if head and "<obj>" not in head and tail and len(relation) == 1 and relation[0]:
                found.setdefault(Triple(head, relation[0], tail))
            else:
                malformed += 1
    return Decoded(tuple(found), malformed)
