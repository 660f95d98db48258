"""Documents to chunks: ids, texts, sources and scopes as LangChain carries them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document

from apl.errors import InputError
from apl.layer import AutoPrunedLayer
from apl.reports import IndexReport
from apl.symbols import Chunk, Scope, Turn

TURN_KEY = "apl_turn"
"""The one metadata key apl adds, to the first document it hands on: the turn's id."""

_DOCUMENT_KEY = "source"


def chunk_of(document: Document) -> Chunk:
    """The chunk behind a document: its id, its text byte for byte, `source` as document id, `title` as a hint."""
    source, title = document.metadata.get(_DOCUMENT_KEY), document.metadata.get("title")
    return Chunk(
        document.page_content,
        id=document.id or None,
        document_id=source if isinstance(source, str) and source else None,
        title=title if isinstance(title, str) and title else None,
    )


def chunks_of(source: Any, *, splitter: Any = None) -> Iterator[Chunk]:
    """Chunks from documents or a loader, split on the way if asked; nothing is read before it is needed.

    Args:
        source: An iterable of `Document`, or a loader with `lazy_load` or `load`.
        splitter: Any LangChain text splitter.

    Raises:
        InputError: The source holds something that is not a `Document`, or the splitter does not split documents.
    """
    return map(chunk_of, documents_of(source, splitter=splitter))


def documents_of(source: Any, *, splitter: Any = None) -> Iterator[Document]:
    """The documents behind `chunks_of`."""
    split = None if splitter is None else getattr(splitter, "split_documents", None)
    if splitter is not None and not callable(split):
        raise InputError(
            f"splitter has no `split_documents`, as LangChain's text splitters do: {type(splitter).__name__}"
        )
    for document in _documents(source):
        if not isinstance(document, Document):
            raise InputError(f"expected LangChain Documents or a loader, found {type(document).__name__}")
        yield from split([document]) if split is not None else (document,)


def _documents(source: Any) -> Iterable[Any]:
    for method in ("lazy_load", "load"):
        if callable(getattr(source, method, None)):
            loaded: Iterable[Any] = getattr(source, method)()
            return loaded
    if isinstance(source, Document) or not isinstance(source, Iterable):
        raise InputError(f"expected LangChain Documents or a loader, not {type(source).__name__}")
    return source


def index_documents(
    layer: AutoPrunedLayer, source: Any, *, splitter: Any = None, progress: bool | None = None
) -> IndexReport:
    """Add documents to the layer's codebook: exactly the pieces that the host retrieves, split by the host's splitter.

    Documents without an id are found again by their text.

    Args:
        layer: An open layer.
        source: An iterable of `Document`, or a loader.
        splitter: The text splitter the host's index was made with, for documents that are not split yet.
        progress: As in `layer.index`.
    """
    return layer.index(chunks_of(source, splitter=splitter), progress=progress)


def turn_of(documents: Sequence[Document], layer: AutoPrunedLayer) -> Turn | None:
    """The turn behind documents that apl handed on, while this process holds it; None for any others."""
    for document in documents:
        if TURN_KEY in document.metadata:
            try:
                return layer.memory.turn(document.metadata[TURN_KEY])
            except InputError:
                return None
    return None


def scope_of(metadata: Mapping[str, Any] | None) -> Scope:
    """The scope in a run's metadata: `apl_tenant`, `apl_user`, `apl_session`."""
    given = [(metadata or {}).get(f"apl_{part}") for part in ("tenant", "user", "session")]
    return Scope(*("" if part is None else str(part) for part in given))
