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
    OutlineLine,
    decode_outline,
    encode_outline,
    outline_blocks,
    outline_of,
    outline_rules,
)
from apl.symbols import Evidence, Form, Quote

__all__ = [
    "Outline",
    "OutlineLine",
    "decode",
    "encode",
    "encode_quotes",
    "neutralise",
    "outline_blocks",
    "outline_of",
    "outline_rules",
]

_ENCODERS = {
    "edge_reference": encode_edge_reference,
    "inline_triple": encode_inline_triple,
    "outline": encode_outline,
}


def encode(evidence: Evidence, form: Form) -> str:
    """The evidence in one form, rules first; the empty string for no evidence."""
    return _ENCODERS[form](neutralise(evidence))


def encode_quotes(evidence: Evidence) -> str:
    """The quotes alone, one a line, without rules: verbatim text explains itself."""
    return "\n".join(quote.text for quote in neutralise(evidence).quotes)


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
