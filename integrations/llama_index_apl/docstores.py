"""What a docstore holds, as chunks: read node by node, never all at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from llama_index.core.ingestion.pipeline import run_transformations
from llama_index.core.schema import BaseNode, Document, TransformComponent
from llama_index.core.storage.docstore import BaseDocumentStore

from apl.errors import InputError
from apl.symbols import Chunk
from llama_index_apl.nodes import chunks_of

_READ_AT_ONCE = 64
"""Nodes that are taken from a docstore, and split, together."""


def chunks_in(docstore: BaseDocumentStore, transformations: Sequence[TransformComponent] | None) -> Iterator[Chunk]:
    """The chunks of a docstore; whole documents go through the transformations first, past any pipeline cache.

    Args:
        docstore: That of an index or of a pipeline.
        transformations: What makes nodes of whole documents; None: it holds nodes.

    Raises:
        InputError: It holds whole documents, and no transformations are given.
    """
    for nodes in _nodes_of(docstore):
        if transformations is None and any(isinstance(node, Document) for node in nodes):
            raise InputError(
                "this docstore holds whole documents, not the nodes that are retrieved: say how they are split with "
                "transformations=pipeline.transformations, or transformations=[] if they are retrieved whole"
            )
        yield from chunks_of(run_transformations(nodes, transformations, in_place=False) if transformations else nodes)


class KnownWithoutText:
    """The documents that a docstore knows and of which it keeps no text: a pipeline may keep hashes only."""

    def __init__(self, docstore: BaseDocumentStore) -> None:
        self._docstore = docstore

    def __contains__(self, document: object) -> bool:
        key = str(document)
        info = self._docstore.get_ref_doc_info(key)
        if info is None and self._docstore.get_document_hash(key) is None:
            return False
        ids = [key, *(info.node_ids if info is not None else ())]
        return all(self._docstore.get_document(node_id, raise_error=False) is None for node_id in ids)


def _nodes_of(docstore: BaseDocumentStore) -> Iterator[list[BaseNode]]:
    """The nodes, some at a time."""
    ids = _ids_of(docstore)
    if ids is None:
        held = list(docstore.docs.values())
        yield from (held[start : start + _READ_AT_ONCE] for start in range(0, len(held), _READ_AT_ONCE))
        return
    for start in range(0, len(ids), _READ_AT_ONCE):
        nodes = docstore.get_nodes(ids[start : start + _READ_AT_ONCE], raise_error=False)
        if nodes:
            yield nodes


def _ids_of(docstore: Any) -> list[str] | None:
    """The ids of all nodes, without their texts, where the docstore is over a key-value store, as LlamaIndex's are.

    `get_all_document_hashes` would do but for documents of one text, of which it names one.
    """
    store, collection = getattr(docstore, "_kvstore", None), getattr(docstore, "_metadata_collection", None)
    if store is None or collection is None:
        return None
    return list(store.get_all(collection=collection))
