"""The encodings: evidence to text and back (paper 3.6).

`edge_reference` and `inline_triple` are the paper's two index forms, `outline` is apl's own line form, `quotes` is
nothing but verbatim lines. The first line of a form with edges is its rules, as text; indices are renumbered from 0
for every payload; the bytes depend on the evidence alone.

Contract: `decode(encode(evidence, form), form)` equals `neutralise(evidence)` for the index forms and
`outline_of(neutralise(evidence))` for the outline.
"""

from __future__ import annotations

from apl.errors import PayloadError
from apl.read.payload.escapes import neutralise
from apl.read.payload.index_forms import (
    decode_edge_reference,
    decode_inline_triple,
    encode_edge_reference,
    encode_inline_triple,
)
from apl.read.payload.outline import (
    Outline,
    decode_outline,
    encode_outline,
    mark,
    outline_blocks,
    outline_of,
    outline_rules,
)
from apl.read.payload.statements import OutlineLine
from apl.symbols import Evidence, Form, Quote

__all__ = [
    "Outline",
    "OutlineLine",
    "decode",
    "encode",
    "encode_neutral",
    "encode_quotes",
    "neutralise",
    "outline_blocks",
    "outline_of",
    "outline_rules",
]


def encode(evidence: Evidence, form: Form, *, marked: bool = False) -> str:
    """The evidence in one form, rules first; the empty string for no evidence.

    Args:
        evidence: What to say.
        form: How.
        marked: Begin the outline's lines with `[n]`, see `outline_blocks`.
    """
    return encode_neutral(neutralise(evidence), form, marked=marked)


def encode_neutral(evidence: Evidence, form: Form, *, marked: bool = False) -> str:
    """`encode` for evidence that `neutralise` has seen."""
    if form == "edge_reference":
        return encode_edge_reference(evidence)
    if form == "inline_triple":
        return encode_inline_triple(evidence)
    return encode_outline(evidence, marked=marked)


def encode_quotes(evidence: Evidence, *, marked: bool = False) -> str:
    """The quotes alone, one a line, a blank line between two documents; no rules: verbatim text explains itself."""
    documents: dict[int, list[str]] = {}
    for quote in neutralise(evidence).quotes:
        documents.setdefault(quote.rank, []).append(f"{mark((quote.rank,)) if marked else ''}{quote.text}")
    return "\n\n".join("\n".join(lines) for lines in documents.values())


def decode(text: str, form: Form | str) -> Evidence | Outline:
    """What a payload says: `Evidence` for the index forms and `quotes`, an `Outline` for the outline.

    Raises:
        PayloadError: The text is not of this form.
    """
    if form == "edge_reference":
        return decode_edge_reference(text)
    if form == "inline_triple":
        return decode_inline_triple(text)
    if form == "outline":
        return decode_outline(text)
    if form == "quotes":
        return Evidence(quotes=tuple(Quote(line) for line in text.split("\n") if line))
    raise PayloadError(f"{form!r} is not a form: edge_reference, inline_triple, outline or quotes")
