"""What becomes of the host's nodes: copies that print the payload and nothing else, originals as they were."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, get_args

import pytest
from llama_index.core.postprocessor import (
    LongContextReorder,
    MetadataReplacementPostProcessor,
    SimilarityPostprocessor,
)
from llama_index.core.schema import (
    BaseNode,
    Document,
    ImageNode,
    IndexNode,
    MediaResource,
    MetadataMode,
    Node,
    NodeWithScore,
    QueryBundle,
    TextNode,
)

from apl import AutoPrunedLayer
from apl.symbols import Form, Layout, Turn
from apl.testing import WordCounter
from llama_index_apl import APLPostprocessor, index_nodes, turn_of

LAYOUTS = get_args(Layout)
FORMS = (*get_args(Form), "quotes", "host_text")


def printed(nodes: Sequence[NodeWithScore], mode: MetadataMode = MetadataMode.LLM) -> str:
    """What a prompt gets of nodes: LlamaIndex joins them by a blank line."""
    return "\n\n".join(node.get_content(metadata_mode=mode) for node in nodes)


def turn_behind(nodes: Sequence[NodeWithScore], layer: AutoPrunedLayer) -> Turn:
    """The turn, which has to be there."""
    turn = turn_of(nodes, layer)
    assert turn is not None
    return turn


# --- what is printed --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("counter", [WordCounter(), len], ids=["words", "characters"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("form", FORMS)
def test_the_turn_counts_the_tokens_of_what_is_printed(
    open_layer: Callable[..., AutoPrunedLayer],
    nodes: list[NodeWithScore],
    question: str,
    counter: Any,
    layout: Layout,
    form: str,
) -> None:
    """Exactly those of the nodes as the model sees them, in every layout and form, never more than the host's."""
    if layout == "per_document" and form in ("edge_reference", "inline_triple"):
        pytest.skip("a ConfigError, tested in test_failures")
    layer = open_layer(tokenizer=counter, form=form, on_error="raise")
    count = getattr(counter, "count", counter)
    handed_on = APLPostprocessor(layer=layer, layout=layout).postprocess_nodes(nodes, query_str=question)
    turn = turn_behind(handed_on, layer)
    passed = turn.form == "host_text" and layout != "single"
    assert turn.text == printed(handed_on, MetadataMode.NONE if passed else MetadataMode.LLM)
    assert turn.tokens == count(turn.text) <= turn.host_tokens == count(printed(nodes, MetadataMode.NONE))
    assert turn.layout == layout


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("budget_tokens", [1, 25, 120, 10_000])
def test_a_budget_holds_for_what_is_printed(
    open_layer: Callable[..., AutoPrunedLayer],
    nodes: list[NodeWithScore],
    question: str,
    layout: Layout,
    budget_tokens: int,
) -> None:
    """The bytes in the prompt fit the budget, down to one that nothing fits."""
    layer = open_layer(form="outline", on_error="raise")
    postprocessor = APLPostprocessor(layer=layer, layout=layout, budget_tokens=budget_tokens)
    handed_on = postprocessor.postprocess_nodes(nodes, query_str=question)
    assert WordCounter().count(printed(handed_on)) <= budget_tokens


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_bound_holds_for_the_hosts_own_text_as_well(
    open_layer: Callable[..., AutoPrunedLayer], nodes: list[NodeWithScore], question: str, layout: Layout
) -> None:
    """Under a bound the host's text goes out without its metadata, which was not counted."""
    layer = open_layer(form="host_text", on_error="raise")
    postprocessor = APLPostprocessor(layer=layer, layout=layout, ratio=1.0)
    handed_on = postprocessor.postprocess_nodes(nodes, query_str=question)
    turn = turn_behind(handed_on, layer)
    assert turn.form == "host_text"
    assert printed(handed_on) == turn.text == printed(nodes, MetadataMode.NONE)
    assert handed_on[0].metadata["file"] == "press/purchase.txt"


@pytest.mark.parametrize("layout", ["spread", "per_document"])
def test_the_hosts_own_text_passes_as_the_host_prints_it(
    open_layer: Callable[..., AutoPrunedLayer], nodes: list[NodeWithScore], question: str, layout: Layout
) -> None:
    """Where nothing is saved the prompt is the one without apl, metadata included; the turn's id does not show."""
    layer = open_layer(form="host_text")
    handed_on = APLPostprocessor(layer=layer, layout=layout).postprocess_nodes(nodes, query_str=question)
    assert (turn_behind(handed_on, layer).form, turn_behind(handed_on, layer).savings) == ("host_text", 0)
    for mode in (MetadataMode.LLM, MetadataMode.EMBED, MetadataMode.NONE):
        assert printed(handed_on, mode) == printed(nodes, mode)
    assert all(one is not other for one, other in zip(handed_on, nodes, strict=True))


@pytest.mark.parametrize("layout", ["spread", "per_document"])
def test_in_shadow_the_prompt_is_the_hosts(
    open_layer: Callable[..., AutoPrunedLayer], nodes: list[NodeWithScore], question: str, layout: Layout
) -> None:
    """`APLConfig(shadow=True)`, also under a bound: what would have been sent stands on the turn, and only there."""
    layer = open_layer(form="outline", shadow=True)
    postprocessor = APLPostprocessor(layer=layer, layout=layout, budget_tokens=50)
    handed_on = postprocessor.postprocess_nodes(nodes, query_str=question)
    assert printed(handed_on) == printed(nodes)
    shadow = turn_behind(handed_on, layer).shadow
    assert shadow is not None
    assert 0 < shadow.tokens <= 50


def test_a_layer_that_knows_nothing_hands_on_the_hosts_text(
    open_layer: Callable[..., AutoPrunedLayer], nodes: list[NodeWithScore], question: str
) -> None:
    """Wrapped before anything was indexed, the engine works as before."""
    layer = open_layer(indexed=False)
    handed_on = APLPostprocessor(layer=layer).postprocess_nodes(nodes, query_str=question)
    assert printed(handed_on) == printed(nodes)
    assert turn_behind(handed_on, layer).counters["unknown"] == 6


def test_templates_of_the_nodes_add_nothing_to_the_payload(
    layer: AutoPrunedLayer, nodes: list[NodeWithScore], question: str
) -> None:
    """A text template, a metadata template or a separator of the host's is not printed around the payload."""
    for found in nodes:
        assert isinstance(found.node, TextNode)
        found.node.text_template = "[[{metadata_str}]] {content} [[end]]"
        found.node.metadata_template = "{key} = {value}"
        found.node.metadata_separator = " / "
    handed_on = APLPostprocessor(layer=layer).postprocess_nodes(nodes, query_str=question)
    assert printed(handed_on) == turn_behind(handed_on, layer).text
    assert "[[" not in printed(handed_on)
    assert handed_on[0].node.text_template == "[[{metadata_str}]] {content} [[end]]"  # type: ignore[attr-defined]


# --- what survives ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("form", ["outline", "quotes", "host_text"])
def test_everything_but_the_text_survives(
    open_layer: Callable[..., AutoPrunedLayer],
    nodes: list[NodeWithScore],
    question: str,
    layout: Layout,
    form: str,
) -> None:
    """Id, score, metadata, relationships, embedding, offsets and order; of metadata only the turn's id is added."""
    handed_on = APLPostprocessor(layer=open_layer(form=form), layout=layout).postprocess_nodes(
        nodes, query_str=question
    )
    assert len(handed_on) == (1 if layout == "single" else 6)
    for number, (one, other) in enumerate(zip(handed_on, nodes, strict=False)):
        assert ("apl_turn" in one.metadata) == (number == 0)
        dropped = {"text", "metadata", "excluded_llm_metadata_keys", "excluded_embed_metadata_keys"}
        before, after = other.node.model_dump(exclude=dropped), one.node.model_dump(exclude=dropped)
        assert (after, one.score, type(one.node)) == (before, other.score, type(other.node))
        assert {key: value for key, value in one.metadata.items() if key != "apl_turn"} == other.metadata
        assert set(one.node.excluded_embed_metadata_keys) == {"tags", *(["apl_turn"] if number == 0 else [])}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("form", ["outline", "host_text"])
def test_the_hosts_objects_are_not_touched(
    open_layer: Callable[..., AutoPrunedLayer],
    nodes: list[NodeWithScore],
    question: str,
    layout: Layout,
    form: str,
) -> None:
    """Not by apl, and not by whoever changes what apl hands on, however deep."""
    before = copy.deepcopy(nodes)
    handed_on = APLPostprocessor(layer=open_layer(form=form), layout=layout).postprocess_nodes(
        nodes, query_str=question
    )
    for found in handed_on:
        found.score = 0.0
        found.node.metadata["tags"].append("changed")
        found.node.excluded_llm_metadata_keys.append("changed")
        found.node.relationships.clear()
        assert found.node.embedding is not None
        found.node.embedding.append(9.0)
        found.node.set_content("changed")
    assert nodes == before


def test_the_turns_id_stands_in_no_text(layer: AutoPrunedLayer, nodes: list[NodeWithScore], question: str) -> None:
    """It is excluded from what models and embedders read, and asking again does not pile ids up."""
    postprocessor = APLPostprocessor(layer=layer)
    once = postprocessor.postprocess_nodes(nodes, query_str=question)
    twice = postprocessor.postprocess_nodes([*once[1:], once[0]], query_str=question)
    assert [("apl_turn" in node.metadata) for node in twice] == [True] + [False] * 5
    for handed_on in (once, twice):
        turn_id = handed_on[0].metadata["apl_turn"]
        assert turn_id not in printed(handed_on) + printed(handed_on, MetadataMode.EMBED)
    assert once[0].metadata["apl_turn"] != twice[0].metadata["apl_turn"]


def test_no_nodes_are_no_question(layer: AutoPrunedLayer, question: str) -> None:
    """An empty result stays empty; nothing is compressed."""
    postprocessor = APLPostprocessor(layer=layer)
    assert postprocessor.postprocess_nodes([], query_str=question) == []
    assert postprocessor.errors == 0


def test_without_a_query_the_question_is_empty(layer: AutoPrunedLayer, nodes: list[NodeWithScore]) -> None:
    """LlamaIndex calls postprocessors without a query bundle at times."""
    assert turn_behind(APLPostprocessor(layer=layer).postprocess_nodes(nodes), layer).question == ""
    bundle = QueryBundle("Who leads DeltaPay?", custom_embedding_strs=["something else"])
    handed_on = APLPostprocessor(layer=layer).postprocess_nodes(nodes, bundle)
    assert turn_behind(handed_on, layer).question == "Who leads DeltaPay?"


# --- kinds of nodes ---------------------------------------------------------------------------------------------------


def of_kind(kind: str, found: NodeWithScore) -> BaseNode:
    """The same id, text and metadata in a node of another class."""
    text, same = found.node.get_content(), {"id_": found.node_id, "metadata": dict(found.metadata)}
    kinds: dict[str, Callable[[], BaseNode]] = {
        "TextNode": lambda: TextNode(text=text, **same),
        "Node": lambda: Node(text_resource=MediaResource(text=text, mimetype="text/markdown"), **same),
        "Document": lambda: Document(text=text, **same),
        "IndexNode": lambda: IndexNode(text=text, index_id="other", obj=TextNode(text="behind"), **same),
        "ImageNode": lambda: ImageNode(text=text, image="aGVsbG8=", **same),
    }
    return kinds[kind]()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["TextNode", "Node", "Document", "IndexNode", "ImageNode"])
def test_every_kind_of_node_carries_the_payload(
    open_layer: Callable[..., AutoPrunedLayer],
    nodes: list[NodeWithScore],
    question: str,
    layout: Layout,
    kind: str,
) -> None:
    """The class, its resources and its object stay; the text is the payload."""
    layer = open_layer(form="outline", on_error="raise")
    found = [NodeWithScore(node=of_kind(kind, node), score=node.score) for node in nodes]
    before = copy.deepcopy(found)
    handed_on = APLPostprocessor(layer=layer, layout=layout).postprocess_nodes(found, query_str=question)
    turn = turn_behind(handed_on, layer)
    assert printed(handed_on) == turn.text
    assert turn.counters["known"] == 6
    assert type(handed_on[0].node).__name__ == kind
    first = handed_on[0].node
    if isinstance(first, Node):
        assert first.text_resource is not None
        assert first.text_resource.mimetype == ("text/markdown" if kind == "Node" else None)
    if isinstance(first, IndexNode):
        assert first.obj is found[0].node.obj  # type: ignore[attr-defined]
    if isinstance(first, ImageNode):
        assert first.image == "aGVsbG8="
    assert found == before


@pytest.mark.parametrize("layout", LAYOUTS)
def test_nodes_without_text_pass_as_empty(
    open_layer: Callable[..., AutoPrunedLayer], nodes: list[NodeWithScore], question: str, layout: Layout
) -> None:
    """Images and empty resources among texts, and first among them, are counted and do no harm."""
    layer = open_layer(form="outline", on_error="raise")
    bare: list[BaseNode] = [
        Node(id_="bare"),
        ImageNode(id_="image", image="aGVsbG8="),
        IndexNode(id_="i", index_id="x"),
    ]
    found = [NodeWithScore(node=node) for node in bare[:2]] + nodes + [NodeWithScore(node=bare[2], score=None)]
    handed_on = APLPostprocessor(layer=layer, layout=layout, keep_empty=True).postprocess_nodes(
        found, query_str=question
    )
    turn = turn_behind(handed_on, layer)
    assert (turn.counters["empty"], turn.counters["known"]) == (3, 6)
    assert printed(handed_on) == turn.text
    assert len(handed_on) == (1 if layout == "single" else 9)
    alone = APLPostprocessor(layer=layer, layout=layout).postprocess_nodes(found[:2], query_str=question)
    assert printed(alone).strip() == ""


class Framed(TextNode):
    """A node of an application's own that prints a frame around its text."""

    def get_content(self, metadata_mode: MetadataMode = MetadataMode.NONE) -> str:
        """Framed for the model."""
        return self.text if metadata_mode == MetadataMode.NONE else f"<<{self.text}>>"


def test_a_node_that_prints_something_else_passes_as_it_was(
    layer: AutoPrunedLayer, nodes: list[NodeWithScore], question: str
) -> None:
    """Rather the host's text than a payload whose tokens were not counted: an error, counted."""
    found = [NodeWithScore(node=Framed(id_=node.node_id, text=node.text)) for node in nodes]
    postprocessor = APLPostprocessor(layer=layer)
    handed_on = postprocessor.postprocess_nodes(found, query_str=question)
    assert all(one is other for one, other in zip(handed_on, found, strict=True))
    assert postprocessor.errors == 1


# --- layouts ----------------------------------------------------------------------------------------------------------


def test_spread_puts_the_payload_first_and_keeps_all_others_empty(
    layer: AutoPrunedLayer, nodes: list[NodeWithScore], question: str
) -> None:
    """The default layout."""
    first, *others = APLPostprocessor(layer=layer).postprocess_nodes(nodes, query_str=question)
    assert first.text.startswith("Facts by head")
    assert [node.text for node in others] == [""] * 5


def test_per_document_lets_each_node_say_its_own(
    open_layer: Callable[..., AutoPrunedLayer], nodes: list[NodeWithScore], question: str
) -> None:
    """Every line stands in the node it comes from; under a budget the others are dropped, or kept empty if asked."""
    layer = open_layer(form="outline")
    handed_on = APLPostprocessor(layer=layer, layout="per_document").postprocess_nodes(nodes, query_str=question)
    texts = {node.node_id: node.text for node in handed_on}
    assert "310 million euros" in texts["release-purchase"]
    assert "Ingrid Solberg: leads DeltaPay" in texts["release-people"]
    options: dict[str, Any] = {"layer": layer, "layout": "per_document", "budget_tokens": 50}
    dropped = APLPostprocessor(**options).postprocess_nodes(nodes, query_str=question)
    kept = APLPostprocessor(**options, keep_empty=True).postprocess_nodes(nodes, query_str=question)
    assert 0 < len(dropped) < len(kept) == 6
    assert [(n.node_id, n.text) for n in kept if n.text] == [(n.node_id, n.text) for n in dropped]


def test_the_layout_of_the_config_is_the_default(
    open_layer: Callable[..., AutoPrunedLayer], nodes: list[NodeWithScore], question: str
) -> None:
    """`APLConfig(layout=...)` holds where the postprocessor names none, and only there."""
    layer = open_layer(layout="single")
    assert len(APLPostprocessor(layer=layer).postprocess_nodes(nodes, query_str=question)) == 1
    assert len(APLPostprocessor(layer=layer, layout="spread").postprocess_nodes(nodes, query_str=question)) == 6


# --- beside other postprocessors --------------------------------------------------------------------------------------


def test_postprocessors_before_and_after_work_as_before(
    layer: AutoPrunedLayer, nodes: list[NodeWithScore], question: str, engine: Any, llm: Any
) -> None:
    """Scores and order are still there to filter and sort by; the prompt is the same payload."""
    apl = APLPostprocessor(layer=layer)
    (turn_text,) = {turn_behind(apl.postprocess_nodes(nodes, query_str=question), layer).text.strip()}
    cut = SimilarityPostprocessor(similarity_cutoff=0.9)
    response = engine(apl, LongContextReorder(), cut).query(question)
    assert f"<<{turn_text}>>" in llm.prompts[0]
    assert {node.node_id for node in response.source_nodes} == {node.node_id for node in nodes[:2]}
    response = engine(cut, apl).query(question)
    assert [node.node_id for node in response.source_nodes] == [node.node_id for node in nodes[:2]]
    assert turn_behind(response.source_nodes, layer).counters["chunks"] == 2


def test_what_another_postprocessor_has_rewritten_is_a_changed_chunk(
    layer: AutoPrunedLayer, nodes: list[NodeWithScore], question: str
) -> None:
    """A sentence window in the place of the text is said as it stands, never as the stored text of its id."""
    for found in nodes:
        found.node.metadata["window"] = f"The window of {found.node_id}."
    rewritten = MetadataReplacementPostProcessor("window").postprocess_nodes(copy.deepcopy(nodes))
    handed_on = APLPostprocessor(layer=layer).postprocess_nodes(rewritten, query_str=question)
    turn = turn_behind(handed_on, layer)
    assert turn.counters["changed"] == 6
    assert all(f"The window of {found.node_id}." in printed(handed_on) for found in nodes)


def test_nodes_with_other_ids_are_found_by_their_text(
    open_layer: Callable[..., AutoPrunedLayer], nodes: list[NodeWithScore], question: str
) -> None:
    """A node parser makes new ids in every run; the text is what counts, byte for byte."""
    layer = open_layer(indexed=False)
    index_nodes(layer, [TextNode(text=f"{node.text}") for node in nodes])
    handed_on = APLPostprocessor(layer=layer).postprocess_nodes(nodes, query_str=question)
    assert turn_behind(handed_on, layer).counters["known"] == 6
    assert [node.node_id for node in handed_on] == [node.node_id for node in nodes]
