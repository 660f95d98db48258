"""Vector stores, record managers and documents against the codebook: what your retriever finds is what apl knows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Literal

from langchain_core.documents import Document
from langchain_core.indexing import RecordManager

from apl.errors import InputError
from apl.layer import AutoPrunedLayer
from apl.reports import SyncReport
from apl.symbols import Chunk
from langchain_apl.documents import chunk_of, chunks_of, documents_of

_READ_AT_ONCE = 500
"""Documents that are asked of a vector store together."""

KeyEncoder = Literal["sha1", "sha256", "sha512", "blake2b"] | Callable[[Document], str]


def sync_documents(
    layer: AutoPrunedLayer,
    source: Any,
    *,
    record_manager: RecordManager | None = None,
    ids: Iterable[str] | None = None,
    key_encoder: KeyEncoder = "sha1",
    splitter: Any = None,
    delete_missing: bool = True,
    dry_run: bool = False,
) -> SyncReport:
    """Bring the codebook in step with what the host has indexed: add what is missing, mend what changed, drop the rest.

    Nothing is believed that was noted at an earlier run: the texts themselves are compared. Each document is mended in
    one transaction; an interrupted sync is resumed by the next.

    Args:
        layer: An open layer.
        source: A vector store, or the documents, or a loader.
        record_manager: That of `langchain_core.indexing.index`. With a vector store it tells which ids there are; of
            documents it tells which are indexed, under which ids, and that those it knows and `source` lacks are kept.
        ids: The ids in a vector store that can be asked by id and cannot list.
        key_encoder: As `index` was called with; for documents under a record manager.
        splitter: As in `index_documents`; for documents.
        delete_missing: Delete documents that the host does not hold. False where several hosts fill one codebook.
        dry_run: Only report what is missing, changed and surplus.

    Returns:
        What was found, by document and by chunk, and what was indexed.

    Raises:
        InputError: The vector store can neither list nor be asked by id, or an argument does not belong to the source.
        APLError: The codebook could not be read or written.
    """
    kept: frozenset[str] = frozenset()
    if _is_vector_store(source):
        if splitter is not None:
            raise InputError("a vector store holds pieces already: leave out splitter")
        known = record_manager.list_keys() if record_manager is not None and ids is None else ids
        chunks: Iterable[Chunk] = (chunk_of(document) for document in _stored_documents(source, known))
    elif ids is not None:
        raise InputError("ids are those of a vector store; documents carry their own")
    elif record_manager is not None:
        kept = frozenset(record_manager.list_keys())
        chunks = _recorded(documents_of(source, splitter=splitter), record_manager, key_encoder)
    else:
        chunks = chunks_of(source, splitter=splitter)
    return layer.sync(chunks, kept_chunks=kept, delete_missing=delete_missing, dry_run=dry_run)


# --- documents under a record manager ---------------------------------------------------------------------------------


def _recorded(documents: Iterable[Document], record_manager: RecordManager, key_encoder: KeyEncoder) -> Iterator[Chunk]:
    """The documents that are indexed, under the ids that `index` gave them."""
    from langchain_core.indexing.api import _get_document_with_hash

    for batch in _batched(documents):
        hashed = [_get_document_with_hash(document, key_encoder=key_encoder) for document in batch]
        indexed = record_manager.exists([document.id or "" for document in hashed])
        yield from (chunk_of(document) for document, is_in in zip(hashed, indexed, strict=True) if is_in)


# --- vector stores ----------------------------------------------------------------------------------------------------


def _is_vector_store(source: Any) -> bool:
    return any(callable(getattr(source, method, None)) for method in ("similarity_search", "get_by_ids"))


def _stored_documents(store: Any, ids: Iterable[str] | None) -> Iterator[Document]:
    """All documents of a vector store, some at a time.

    Raises:
        InputError: It can neither list nor be asked by id.
    """
    ids = _ids_in(store) if ids is None else ids
    if ids is not None:
        if not callable(getattr(store, "get_by_ids", None)):
            raise InputError(f"{type(store).__name__} has no `get_by_ids`: give the documents themselves as source")
        for batch in _batched(ids):
            yield from store.get_by_ids(batch)
        return
    if callable(getattr(store, "get", None)):
        yield from _pages_of(store)
        return
    raise InputError(
        f"{type(store).__name__} cannot list what it holds: give ids=..., or record_manager=..., "
        "or the documents themselves as source"
    )


def _ids_in(store: Any) -> list[str] | None:
    """The ids, of a store that lists them as LangChain's in-memory store or FAISS do."""
    held, numbered = getattr(store, "store", None), getattr(store, "index_to_docstore_id", None)
    if isinstance(held, Mapping):
        return [str(key) for key in held]
    return [str(key) for key in numbered.values()] if isinstance(numbered, Mapping) else None


def _pages_of(store: Any) -> Iterator[Document]:
    """The documents of a store that is listed page by page, as Chroma is."""
    offset = 0
    while True:
        try:
            page = store.get(limit=_READ_AT_ONCE, offset=offset, include=["documents", "metadatas"])
            ids, texts = page["ids"], page["documents"]
            found = page.get("metadatas") or [None] * len(ids)
        except (TypeError, KeyError, AttributeError) as error:
            raise InputError(
                f"{type(store).__name__}.get does not list pages of documents ({error}): give ids=..., or the "
                "documents themselves as source"
            ) from error
        for key, text, metadata in zip(ids, texts, found, strict=True):
            yield Document(id=key, page_content=text or "", metadata=dict(metadata or {}))
        if len(ids) < _READ_AT_ONCE:
            return
        offset += len(ids)


def _batched(items: Iterable[Any]) -> Iterator[list[Any]]:
    iterator = iter(items)
    while batch := list(islice(iterator, _READ_AT_ONCE)):
        yield batch
