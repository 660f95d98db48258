"""What a chunk is called and whether it can be read at all: decided before anything is done with it."""

from __future__ import annotations

from typing import Any

from apl.symbols import Chunk
from apl.text import content_hash, is_encodable


def key_of(chunk: Chunk) -> str:
    """The chunk's id; without one a hash of document and text, so that one text in two documents lives in both."""
    if chunk.id is not None:
        return chunk.id
    return content_hash(chunk.text if chunk.document_id is None else f"{chunk.document_id}\0{chunk.text}")


def document_key_of(chunk: Chunk) -> str:
    """The document's id; a chunk without one is its own document."""
    return chunk.document_id if chunk.document_id is not None else key_of(chunk)


def fault_of(chunk: Any, max_chunk_chars: int) -> str | None:
    """What is wrong with a chunk, or None."""
    if not isinstance(chunk, Chunk):
        return f"index takes Chunk objects, not {type(chunk).__name__}"
    text: Any = chunk.text
    if not isinstance(text, str):
        return f"text is {type(text).__name__}, not a string"
    for name, value in (("id", chunk.id), ("document_id", chunk.document_id), ("title", chunk.title)):
        if value is not None and (not isinstance(value, str) or (name != "title" and not value)):
            return f"{name}={value!r} is not a non-empty string"
    if len(text) > max_chunk_chars:
        return f"text has {len(text)} characters, more than {max_chunk_chars}; split it into passages first"
    if not all(is_encodable(part) for part in (text, chunk.id, chunk.document_id, chunk.title) if part):
        return "holds half a surrogate pair; decode the source with errors='replace'"
    return None
