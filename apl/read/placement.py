"""Payload to documents: how the pieces of a payload are laid into the host's documents. Pure; both adapters call it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from apl.symbols import Layout, Part, Turn

SEPARATOR = "\n\n"
"""What hosts put between two documents."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A document to hand on: the host document at `rank`, with this text. `text` None: exactly as the host gave it."""

    rank: int
    text: str | None


def lay_out(pieces: Sequence[Part], layout: Layout, documents: int, *, keep_empty: bool = False) -> tuple[Part, ...]:
    """The text that stands in the place of each host document that is handed on.

    Args:
        pieces: A payload as one piece, or for `per_document` one piece a document.
        layout: `spread`: the payload in the first document, all others kept, emptied. `per_document`: every piece in
            its own document, documents without a piece are left out. `single`: one document.
        documents: How many documents the host returned.
        keep_empty: With `per_document`, also keep the documents without a piece, emptied.
    """
    texts = {piece.rank: piece.text for piece in pieces}
    if layout == "per_document":
        return tuple(Part(rank, texts.get(rank, "")) for rank in range(documents) if keep_empty or rank in texts)
    text = pieces[0].text if pieces else ""
    emptied = range(1, documents) if layout == "spread" else ()
    return (Part(0, text), *(Part(rank, "") for rank in emptied))


def joined(parts: Sequence[Part]) -> str:
    """What the generator gets: the documents joined by a blank line."""
    return SEPARATOR.join(part.text for part in parts)


def place(turn: Turn, documents: int) -> tuple[Placed, ...]:
    """Which host documents are handed on, and with which text.

    The host's own text passes as the host's own documents, untouched; only `single` joins them into one, but not in
    shadow mode, where nothing may differ from the host alone.

    Args:
        turn: A turn that was compressed from these documents with the layout to be used.
        documents: How many documents the host returned.
    """
    if turn.form == "host_text" and (turn.layout != "single" or turn.shadow is not None):
        return tuple(Placed(rank, None) for rank in range(documents))
    return tuple(Placed(part.rank, part.text) for part in turn.parts)
