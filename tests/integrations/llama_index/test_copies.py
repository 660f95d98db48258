"""Copying, pickling and serialising: what LlamaIndex does to its components must not cost the layer."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.callbacks import CallbackManager
from llama_index.core.schema import MetadataMode, NodeWithScore, TextNode

from apl import AutoPrunedLayer, Scope
from apl.errors import ConfigError
from apl.testing import HashEmbedder, ScriptedExtractor, WordCounter
from llama_index_apl import APLPostprocessor, APLTransform, turn_of

OPENED: list[AutoPrunedLayer] = []


def open_story(path: Path) -> AutoPrunedLayer:
    """Opens the layer at a path, as an application's own function would; counted in `OPENED`."""
    OPENED.append(
        AutoPrunedLayer.open(path, embedder=HashEmbedder(), extractor=ScriptedExtractor({}), tokenizer=WordCounter())
    )
    return OPENED[-1]


def nobody() -> Scope:
    """A scope as a function says it."""
    return Scope("acme")


@pytest.fixture
def opens(open_layer: Callable[..., AutoPrunedLayer], tmp_path: Path) -> Any:
    """A function that opens a layer which knows the releases, and pickles."""
    open_layer(path=tmp_path / "story.db")
    OPENED.clear()
    yield partial(open_story, tmp_path / "story.db")
    for layer in OPENED:
        layer.close()


COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "model_copy": lambda component: component.model_copy(),
    "deep model_copy": lambda component: component.model_copy(deep=True),
}


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES.keys())
def test_a_copy_holds_the_same_layer_and_its_own_count(
    layer: AutoPrunedLayer, nodes: list[NodeWithScore], question: str, copied: Callable[[Any], Any]
) -> None:
    """However it is copied: the options stay, the layer is not opened twice, errors are counted apart."""
    first = APLPostprocessor(layer=layer, layout="single", scope=lambda: "nobody")
    first.postprocess_nodes(nodes)
    second = copied(first)
    assert (second.layer is layer, second.layout, first.errors, second.errors) == (True, "single", 1, 0)
    second.scope = Scope("acme")
    (only,) = second.postprocess_nodes(nodes, query_str=question)
    turn = turn_of([only], layer)
    assert turn is not None
    assert turn.scope == Scope("acme")
    assert (first.errors, second.errors) == (1, 0)
    assert copied(APLTransform(layer=layer)).opened_layer is layer


def test_a_copy_with_another_layer_holds_that(opens: Any, layer: AutoPrunedLayer) -> None:
    """`model_copy(update=...)` is believed, also where a function had opened the first."""
    first = APLPostprocessor(layer=opens)
    assert copy.deepcopy(first).opened_layer is first.opened_layer is OPENED[0]
    assert first.model_copy(update={"layer": layer}).opened_layer is layer
    assert len(OPENED) == 1


def test_a_pickled_postprocessor_opens_the_layer_when_it_is_used(
    opens: Any, nodes: list[NodeWithScore], question: str
) -> None:
    """A function at the top of a module pickles; the layer is opened once, by the first question, to the same bytes."""
    first = APLPostprocessor(layer=opens, layout="single", budget_tokens=60, scope=nobody)
    assert len(OPENED) == 1
    again = pickle.loads(pickle.dumps(first))  # noqa: S301
    assert len(OPENED) == 1
    assert (again.layout, again.budget_tokens, again.scope, again.errors) == ("single", 60, nobody, 0)
    assert isinstance(again.callback_manager, CallbackManager)
    texts = [
        postprocessor.postprocess_nodes(nodes, query_str=question)[0].get_content(MetadataMode.LLM)
        for postprocessor in (first, again, again)
    ]
    assert len(set(texts)) == 1
    assert texts[0]
    assert len(OPENED) == 2
    assert again.opened_layer is OPENED[1]


def test_a_pickled_transform_opens_the_layer_when_it_is_used(opens: Any) -> None:
    """As the workers of a pipeline get it."""
    again = pickle.loads(pickle.dumps(APLTransform(layer=opens)))  # noqa: S301
    assert len(OPENED) == 1
    again([TextNode(id_="new", text="Northstar sold DeltaPay in 2024.")])
    assert (again.report.indexed, again.errors, len(OPENED)) == (1, 0, 2)


def test_a_layer_that_cannot_be_opened_later_hands_the_hosts_nodes_on(
    opens: Any, nodes: list[NodeWithScore], question: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Where the store is gone when the pickle is used, every question is warned of and counted, none is lost."""
    pickled = pickle.dumps(APLPostprocessor(layer=opens))
    for layer in OPENED:
        layer.close()
    for file in tmp_path.glob("story.db*"):
        file.write_bytes(b"no database any more" * 1000)
    again = pickle.loads(pickled)  # noqa: S301
    handed_on = again.postprocess_nodes(nodes, query_str=question)
    assert all(one is other for one, other in zip(handed_on, nodes, strict=True))
    assert again.errors == 1
    assert [record.name for record in caplog.records if record.levelname == "WARNING"] == [
        "llama_index_apl.postprocessor"
    ]
    assert again.to_dict()["layer"] == "partial"


@pytest.mark.parametrize("component", [APLPostprocessor, APLTransform])
def test_what_cannot_be_pickled_says_how_to(
    layer: AutoPrunedLayer, opens: Any, component: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """LlamaIndex would drop the layer with a line in the log; apl raises an error of its own instead."""
    with pytest.raises(ConfigError, match="function that opens it"):
        pickle.dumps(component(layer=layer))
    with pytest.raises(ConfigError, match="top of a module"):
        pickle.dumps(component(layer=lambda: opens()))
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


def test_components_are_serialised_by_the_codebook_they_hold(
    opens: Any, layer: AutoPrunedLayer, tmp_path: Path
) -> None:
    """`to_dict` and `to_json` name the file, the same in every process, and no address in memory."""
    story = str(tmp_path / "story.db")
    postprocessor = APLPostprocessor(layer=opens, ratio=0.5, scope=Scope("acme"))
    assert json.loads(postprocessor.to_json()) == {
        "layer": story,
        "layout": None,
        "budget_tokens": None,
        "ratio": 0.5,
        "keep_empty": False,
        "scope": {"tenant": "acme", "user": "", "session": ""},
        "class_name": "APLPostprocessor",
    }
    assert APLTransform(layer=opens).to_dict() == {"layer": story, "class_name": "APLTransform"}
    assert APLTransform(layer=layer).to_dict() != APLTransform(layer=opens).to_dict()
    assert APLPostprocessor(layer=layer, scope=nobody).to_dict()["scope"] == "nobody"
    assert APLPostprocessor(layer=layer).to_dict()["scope"] is None
    with pytest.raises(ConfigError):
        APLPostprocessor.from_dict(postprocessor.to_dict())
    assert APLPostprocessor.from_dict({**postprocessor.to_dict(), "layer": layer}).scope == Scope("acme")
