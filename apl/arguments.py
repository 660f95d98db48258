"""Checks of what callers hand to the layer: a mistake raises before any work.

Every function raises `InputError`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from apl.errors import InputError
from apl.symbols import Chunk, Scope


def checked_question(question: str) -> str:
    """The question, if it is one."""
    if not isinstance(question, str):
        raise InputError(f"the question is a string, not {type(question).__name__}")
    return question


def checked_iterable(chunks: object, wanted: str) -> None:
    """Refuse what only looks like many chunks: a string, a mapping, a single chunk."""
    if isinstance(chunks, str | bytes | Mapping | Chunk) or not isinstance(chunks, Iterable):
        raise InputError(f"{wanted}, not {type(chunks).__name__}")


def checked_chunks(chunks: Iterable[Chunk | str]) -> list[Chunk | str]:
    """The chunks and ids as a list, each checked."""
    checked_iterable(chunks, "compress takes a list of Chunk or chunk ids")
    checked = list(chunks)
    for number, chunk in enumerate(checked):
        if isinstance(chunk, Chunk) and (not isinstance(chunk.text, str) or not isinstance(chunk.id, str | None)):
            raise InputError(f"chunk {number}: text and id are strings, not {chunk.text!r} and {chunk.id!r}")
        if not isinstance(chunk, Chunk | str):
            raise InputError(f"chunk {number} is neither a Chunk nor an id but {type(chunk).__name__}")
    return checked


def checked_scope(scope: Scope | None) -> Scope:
    """The scope; nobody's where none is given."""
    if scope is None:
        return Scope()
    if not isinstance(scope, Scope):
        raise InputError(f"scope is a Scope, not {type(scope).__name__}")
    return scope
