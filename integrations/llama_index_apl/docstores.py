"""A docstore against a codebook: which documents changed, which are gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from llama_index.core.ingestion.pipeline import run_transformations
from llama_index.core.schema import BaseNode, Document, TransformComponent
from llama_index.core.storage.docstore import BaseDocumentStore

from apl.errors import InputError
from apl.layer import AutoPrunedLayer
from apl.symbols import Chunk, IndexReport
from apl.text import content_hash
from llama_index_apl.nodes import chunk_of, chunks_of


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What `APLTransform.sync` did: the ids of the documents that were indexed anew, and of those that were deleted."""

    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    index: IndexReport = field(default_factory=IndexReport)


@dataclass(frozen=True, slots=True)
class DocstoreContent:
    """A docstore's chunks by document, and the ids of documents of which it does not keep the text."""

    chunks: Mapping[str, Sequence[Chunk]]
    without_text: frozenset[str]


def chunks_by_document(
    docstore: BaseDocumentStore, transformations: Sequence[TransformComponent] | None
) -> DocstoreContent:
    """What a docstore holds, as chunks.

    Raises:
        InputError: It holds whole documents, and no transformations are given.
    """
    held: list[BaseNode] = list(docstore.docs.values())
    if transformations is None and any(isinstance(node, Document) for node in held):
        raise InputError(
            "this docstore holds whole documents, not the nodes that are retrieved: say how they are split with "
            "transformations=pipeline.transformations, or transformations=[] if they are retrieved whole"
        )
    chunks: dict[str, list[Chunk]] = {_document_of(chunk_of(node)): [] for node in held}
    nodes = run_transformations(held, transformations, in_place=False) if transformations else held
    for chunk in chunks_of(nodes):
        chunks.setdefault(_document_of(chunk), []).append(chunk)
    known = {*docstore.get_all_document_hashes().values(), *(docstore.get_all_ref_doc_info() or {})}
    return DocstoreContent(chunks, frozenset(known - set(chunks) - {node.node_id for node in held}))


def bring_in_step(layer: AutoPrunedLayer, content: DocstoreContent, *, delete_missing: bool) -> SyncReport:
    """Index the documents whose chunks have other texts than the codebook's, delete those the docstore lacks.

    A document with a chunk that is gone is deleted and indexed again: in between its texts pass as they are.
    """
    stored = layer.codebook.documents()
    changed = [
        document
        for document, chunks in content.chunks.items()
        if sorted(content_hash(chunk.text) for chunk in chunks) != sorted(stored.get(document, {}).values())
    ]
    stale = [document for document in changed if stored.get(document, {}).keys() - _ids(content.chunks[document])]
    missing = [document for document in stored if document not in content.chunks.keys() | content.without_text]
    gone = missing if delete_missing else []
    if stale or gone:
        layer.codebook.delete([*stale, *gone])
    report = layer.index(chunk for document in changed for chunk in content.chunks[document])
    return SyncReport(tuple(changed), tuple(gone), report)


def _document_of(chunk: Chunk) -> str:
    """The id under which the codebook knows a chunk's document."""
    return chunk.document_id or chunk.id or ""


def _ids(chunks: Sequence[Chunk]) -> set[str]:
    return {chunk.id for chunk in chunks if chunk.id is not None}
