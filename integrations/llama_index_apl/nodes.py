"""Nodes to chunks, and nodes back to their turn: ids, texts and documents as LlamaIndex carries them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from llama_index.core.schema import BaseNode, MetadataMode, NodeRelationship, NodeWithScore, RelatedNodeInfo

from apl.errors import InputError
from apl.layer import AutoPrunedLayer
from apl.reports import IndexReport
from apl.symbols import Chunk, Turn

TURN_KEY = "apl_turn"
"""The one metadata key apl adds, to the first node it hands on: the turn's id. No prompt and no embedding shows it."""


def chunk_of(node: BaseNode | NodeWithScore) -> Chunk:
    """The chunk behind a node: its id, its bare text byte for byte, `ref_doc_id` as document id, `title` as a hint.

    The text is that of `MetadataMode.NONE`; a node without text, such as an image, is an empty chunk.
    """
    bare = node.node if isinstance(node, NodeWithScore) else node
    source, title = bare.relationships.get(NodeRelationship.SOURCE), bare.metadata.get("title")
    return Chunk(
        bare.get_content(metadata_mode=MetadataMode.NONE) or "",
        id=bare.node_id or None,
        document_id=(source.node_id or None) if isinstance(source, RelatedNodeInfo) else None,
        title=title if isinstance(title, str) and title else None,
    )


def chunks_of(nodes: Any) -> Iterator[Chunk]:
    """Chunks from nodes, with or without a score; those without text are left out.

    Raises:
        InputError: There is something among them that is not a node.
    """
    if isinstance(nodes, BaseNode | NodeWithScore | str | bytes) or not isinstance(nodes, Iterable):
        raise InputError(f"expected a list of LlamaIndex nodes, not {type(nodes).__name__}")
    for node in nodes:
        if not isinstance(node, BaseNode | NodeWithScore):
            raise InputError(f"expected LlamaIndex nodes, found {type(node).__name__}")
        chunk = chunk_of(node)
        if chunk.text.strip():
            yield chunk


def index_nodes(layer: AutoPrunedLayer, nodes: Any, *, progress: bool | None = None) -> IndexReport:
    """Add nodes to the layer's codebook: exactly those that the host retrieves, split by the host's node parser.

    A whole `Document` is a node, too: index it only where it is retrieved whole. Nodes with other ids, as a node parser
    makes them in every run, are found again by their text.

    Args:
        layer: An open layer.
        nodes: An iterable of nodes.
        progress: As in `layer.index`.
    """
    return layer.index(chunks_of(nodes), progress=progress)


def turn_of(nodes: Sequence[BaseNode | NodeWithScore], layer: AutoPrunedLayer) -> Turn | None:
    """The turn behind nodes that apl handed on, such as `response.source_nodes`; None for any others.

    Only while this process holds the turn.
    """
    for node in nodes:
        if TURN_KEY in node.metadata:
            try:
                return layer.memory.turn(node.metadata[TURN_KEY])
            except InputError:
                return None
    return None
