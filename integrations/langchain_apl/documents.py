"""Documents to chunks and payload to documents: what retriever and compressor share."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from langchain_core.documents import Document

from apl.errors import InputError
from apl.layer import AutoPrunedLayer, CompressOptions
from apl.read.placement import place
from apl.symbols import Chunk, IndexReport, Layout, Scope, Turn

logger = logging.getLogger(__name__)

TURN_KEY = "apl_turn"
"""The one metadata key apl adds, to the first document it hands on: the turn's id."""

_DOCUMENT_KEY = "source"


def chunk_of(document: Document) -> Chunk:
    """The chunk behind a document: its id, its text byte for byte, `source` as document id, `title` as a hint."""
    source, title = document.metadata.get(_DOCUMENT_KEY), document.metadata.get("title")
    return Chunk(
        document.page_content,
        id=document.id,
        document_id=source if isinstance(source, str) and source else None,
        title=title if isinstance(title, str) and title else None,
    )


def chunks_of(source: Any, *, splitter: Any = None) -> Iterator[Chunk]:
    """Chunks from documents or a loader, split on the way if asked; nothing is read before it is needed.

    Args:
        source: An iterable of `Document`, or a loader with `lazy_load` or `load`.
        splitter: Any LangChain text splitter.

    Raises:
        InputError: The source holds something that is not a `Document`.
    """
    for document in _documents(source):
        if not isinstance(document, Document):
            raise InputError(f"expected LangChain Documents or a loader, found {type(document).__name__}")
        for piece in splitter.split_documents([document]) if splitter is not None else (document,):
            yield chunk_of(piece)


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
            return layer.memory.turn(document.metadata[TURN_KEY])
    return None


def scope_of(metadata: Mapping[str, Any] | None) -> Scope:
    """The scope in a run's metadata: `apl_tenant`, `apl_user`, `apl_session`."""
    metadata = metadata or {}
    return Scope(*(str(metadata.get(f"apl_{part}") or "") for part in ("tenant", "user", "session")))


class DocumentRewriter:
    """Says a host's documents through a layer; whatever goes wrong in there, the documents come back as they were.

    Attributes:
        errors: How often that was needed.
    """

    def __init__(
        self,
        layer: AutoPrunedLayer,
        *,
        layout: Layout | None,
        budget_tokens: int | None,
        ratio: float | None,
        keep_empty: bool,
    ) -> None:
        self._layer = layer
        self._options = CompressOptions.checked(
            layer.config,
            budget_tokens=budget_tokens,
            ratio=ratio,
            layout=layout or layer.config.layout,
            keep_empty=keep_empty,
        )
        self.errors = 0

    def rewrite(
        self, documents: Sequence[Document], question: str, metadata: Mapping[str, Any] | None
    ) -> list[Document]:
        """The documents with the payload in them; ids, metadata, scores and order survive in untouched originals."""
        if not documents:
            return []
        try:
            turn = self._layer.compress(
                question,
                [chunk_of(document) for document in documents],
                scope=scope_of(metadata),
                **asdict(self._options),
            )
            if turn.error is None:
                return _placed(documents, turn)
        except Exception as error:
            logger.warning(
                "apl failed, the host's documents go out: %s: %s", type(error).__name__, error, exc_info=True
            )
        self.errors += 1
        return list(documents)


def _placed(documents: Sequence[Document], turn: Turn) -> list[Document]:
    placed = []
    for number, piece in enumerate(place(turn, len(documents))):
        document = documents[piece.rank]
        text = document.page_content if piece.text is None else piece.text
        mark = {TURN_KEY: turn.id} if number == 0 else {}
        placed.append(document.model_copy(update={"page_content": text, "metadata": {**document.metadata, **mark}}))
    return placed
