"""Nodes to chunks, nodes to a codebook, and nodes back to their turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from llama_index.core.schema import (
    Document,
    ImageNode,
    MediaResource,
    Node,
    NodeRelationship,
    NodeWithScore,
    RelatedNodeInfo,
    TextNode,
)

import llama_index_apl
from apl import AutoPrunedLayer, Chunk
from apl.errors import InputError
from llama_index_apl import APLPostprocessor, chunk_of, index_nodes, turn_of


def test_the_public_names_are_pinned() -> None:
    """The adapter offers these names and no others."""
    assert llama_index_apl.__all__ == [
        "APLPostprocessor",
        "APLTransform",
        "SyncReport",
        "chunk_of",
        "index_nodes",
        "turn_of",
    ]


# --- chunks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", " two\n\nlines \t", '{braces} and {"json": 1}', "京都 café\r\n\u2028"])
def test_a_chunk_has_the_nodes_text_byte_for_byte(text: str) -> None:
    """Without metadata and templates, in old and new nodes, with a score or without."""
    metadata = {"file": "a.txt"}
    for node in (
        TextNode(id_="a", text=text, metadata=metadata, text_template="[{metadata_str}] {content}"),
        Node(id_="a", text_resource=MediaResource(text=text), metadata=metadata),
        Document(id_="a", text=text, metadata=metadata),
    ):
        assert chunk_of(node) == chunk_of(NodeWithScore(node=node)) == Chunk(text, id="a")


def test_id_source_and_title_become_what_the_codebook_knows() -> None:
    """`ref_doc_id` is the document; a title that is a text is a hint."""
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="doc")}
    node = TextNode(id_="a", text="Text.", metadata={"title": "A purchase", "page": 3}, relationships=source)
    assert chunk_of(node) == Chunk("Text.", id="a", document_id="doc", title="A purchase")
    node.metadata["title"] = ["no", "text"]
    assert chunk_of(node).title is None


def test_nodes_without_text_are_empty_chunks() -> None:
    """Images, and resources without a text."""
    assert chunk_of(ImageNode(id_="a", image_path="a.png")).text == ""
    assert chunk_of(Node(id_="a", image_resource=MediaResource(data=b"image"))).text == ""


# --- indexing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["scored", "bare", "tuple", "generator"])
def test_nodes_are_indexed(
    open_layer: Callable[..., AutoPrunedLayer], nodes: list[NodeWithScore], question: str, kind: str
) -> None:
    """Whatever LlamaIndex people have nodes in; all of them are then known."""
    layer = open_layer(indexed=False)
    sources: dict[str, Any] = {
        "scored": nodes,
        "bare": [node.node for node in nodes],
        "tuple": tuple(nodes),
        "generator": (node.node for node in nodes),
    }
    report = index_nodes(layer, sources[kind], progress=False)
    assert (report.chunks, report.indexed, report.failed) == (6, 6, 0)
    turn = turn_of(APLPostprocessor(layer=layer).postprocess_nodes(nodes, query_str=question), layer)
    assert turn is not None
    assert turn.counters["known"] == 6
    assert index_nodes(layer, nodes).unchanged == 6
    assert index_nodes(layer, []).chunks == 0


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("a text", "str"),
        (None, "NoneType"),
        ({"a": 1}, "str"),
        (TextNode(text="one"), "TextNode"),
        (["a text"], "str"),
        ([Chunk("a chunk")], "Chunk"),
    ],
    ids=["str", "None", "dict", "node", "list of str", "list of Chunk"],
)
def test_what_is_no_list_of_nodes_is_an_input_error(
    open_layer: Callable[..., AutoPrunedLayer], source: Any, named: str
) -> None:
    """The message names what was found; nothing is indexed."""
    layer = open_layer(indexed=False)
    with pytest.raises(InputError, match=named):
        index_nodes(layer, source)
    assert layer.codebook.stats().chunks == 0


# --- nodes back to their turn -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["spread", "per_document", "single"])
def test_the_turn_is_found_behind_the_nodes(
    open_layer: Callable[..., AutoPrunedLayer], nodes: list[NodeWithScore], question: str, layout: Any
) -> None:
    """From the nodes alone, reordered or without their scores; the answer is then remembered by it."""
    layer = open_layer(forms=("outline",))
    handed_on = APLPostprocessor(layer=layer, layout=layout).postprocess_nodes(nodes, query_str=question)
    turn = turn_of(handed_on, layer)
    assert turn is not None
    assert (turn.question, turn.layout) == (question, layout)
    assert turn_of([found.node for found in reversed(handed_on)], layer) is turn
    assert [chunk_id for chunk_id, _ in turn.sources] == [node.node_id for node in nodes]
    assert layer.remember(handed_on[0].metadata["apl_turn"], "DeltaPay, in March 2022.").status == "pending"


def test_other_nodes_have_no_turn(open_layer: Callable[..., AutoPrunedLayer], nodes: list[NodeWithScore]) -> None:
    """The host's own nodes, none, or those of a turn that is not held any more."""
    layer = open_layer(held_turns=1)
    assert turn_of(nodes, layer) is None
    assert turn_of([], layer) is None
    postprocessor = APLPostprocessor(layer=layer)
    first = postprocessor.postprocess_nodes(nodes, query_str="Who leads DeltaPay?")
    postprocessor.postprocess_nodes(nodes, query_str="Who insures parcels?")
    assert turn_of(first, layer) is None
