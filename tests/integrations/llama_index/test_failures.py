"""What breaks inside apl costs no nodes; what is wrong with the options is said before the first question."""

from __future__ import annotations

import asyncio
import copy
import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.schema import MetadataMode, NodeWithScore, TextNode
from pydantic import ValidationError

from apl import APLConfig, AutoPrunedLayer
from apl.errors import APLError, ConfigError
from apl.protocols import Vectors
from apl.symbols import Turn
from apl.testing import HashEmbedder, WordCounter
from llama_index_apl import APLPostprocessor, APLTransform, turn_of


def turn_behind(nodes: Sequence[NodeWithScore], layer: AutoPrunedLayer) -> Turn:
    """The turn, which has to be there."""
    turn = turn_of(nodes, layer)
    assert turn is not None
    return turn


class Breakable:
    """An embedder and counter that work until they are told to break."""

    def __init__(self) -> None:
        self.broken = False

    def check(self) -> None:
        """Break, if told to."""
        if self.broken:
            raise RuntimeError("broken on purpose")


class BreakableEmbedder(Breakable, HashEmbedder):
    """Breaks when it embeds."""

    def __init__(self) -> None:
        Breakable.__init__(self)
        HashEmbedder.__init__(self)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """The vectors."""
        self.check()
        return super().embed(texts)


class BreakableCounter(Breakable, WordCounter):
    """Breaks when it counts."""

    def count(self, text: str) -> int:
        """The tokens."""
        self.check()
        return super().count(text)


@pytest.fixture(params=["tokenizer", "embedder", "store"])
def broken_layer(
    request: pytest.FixtureRequest, open_layer: Callable[..., AutoPrunedLayer], tmp_path: Path
) -> Callable[[], AutoPrunedLayer]:
    """Breaks something inside a layer and hands it out, after everything had worked."""
    embedder, counter, path = BreakableEmbedder(), BreakableCounter(), tmp_path / "breakable.db"
    layer = open_layer(embedder=embedder, tokenizer=counter, path=path)
    assert layer.compress("Does it work?", ["release-people"], budget_tokens=20).error is None

    def break_it() -> AutoPrunedLayer:
        if request.param == "store":
            layer.close()
            for file in tmp_path.glob("breakable.db*"):
                file.write_bytes(b"no database any more" * 1000)
        else:
            {"tokenizer": counter, "embedder": embedder}[request.param].broken = True
        return layer

    break_it.layer = layer  # type: ignore[attr-defined]
    return break_it


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The loggers that warned, or worse."""
    records = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert all(record.levelname == "WARNING" for record in records)
    return [record.name.partition(".")[0] for record in records]


# --- errors inside apl ------------------------------------------------------------------------------------------------


async def test_an_error_inside_apl_hands_the_hosts_nodes_on(
    broken_layer: Any, nodes: list[NodeWithScore], question: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The very objects of the host, one warning, one error counted, sync and awaited: no question is lost to apl."""
    postprocessor = APLPostprocessor(layer=broken_layer.layer, budget_tokens=60)
    broken_layer()
    before = copy.deepcopy(nodes)
    for errors in (1, 2):
        caplog.clear()
        if errors == 1:
            handed_on = postprocessor.postprocess_nodes(nodes, query_str=question)
        else:
            handed_on = await postprocessor.apostprocess_nodes(nodes, query_str=question)
        assert all(one is other for one, other in zip(handed_on, nodes, strict=True))
        assert nodes == before
        assert postprocessor.errors == errors
        assert warnings_of(caplog) in (["apl"], ["llama_index_apl"])


@pytest.mark.parametrize("mode", ["compact", "refine", "tree_summarize", "accumulate", "simple_summarize"])
def test_an_error_inside_apl_does_not_lose_the_answer(
    broken_layer: Any, nodes: list[NodeWithScore], question: str, engine: Any, llm: Any, mode: str
) -> None:
    """The engine answers as it would without apl, from the same prompts."""
    postprocessor = APLPostprocessor(layer=broken_layer.layer, budget_tokens=60)
    expected = engine(response_mode=mode).query(question)
    prompts = list(llm.prompts)
    llm.prompts.clear()
    broken_layer()
    response = engine(postprocessor, response_mode=mode).query(question)
    assert (response.response, llm.prompts) == (expected.response, prompts)
    assert all(one is other for one, other in zip(response.source_nodes, nodes, strict=True))
    assert postprocessor.errors == 1


def test_an_error_inside_apl_does_not_stop_an_ingestion(
    broken_layer: Any, nodes: list[NodeWithScore], caplog: pytest.LogCaptureFixture
) -> None:
    """The host's index is built all the same; the error is counted and warned of once."""
    transform = APLTransform(layer=broken_layer.layer)
    broken_layer()
    caplog.clear()
    passing = [TextNode(text="Northstar sold DeltaPay in 2024.")]
    assert transform(passing) is passing
    assert transform.errors == 1
    assert warnings_of(caplog) in (["apl"], ["llama_index_apl"])


def test_an_error_in_placing_is_an_error_inside_apl(
    layer: AutoPrunedLayer, nodes: list[NodeWithScore], question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the payload is made there are steps that can fail, too."""

    def fails(*_: Any) -> None:
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr("llama_index_apl.postprocessor.place", fails)
    postprocessor = APLPostprocessor(layer=layer)
    handed_on = postprocessor.postprocess_nodes(nodes, query_str=question)
    assert all(one is other for one, other in zip(handed_on, nodes, strict=True))
    assert postprocessor.errors == 1


def test_a_broken_embedder_is_not_needed_without_a_budget(
    open_layer: Callable[..., AutoPrunedLayer], nodes: list[NodeWithScore], question: str
) -> None:
    """Without a bound nothing is embedded."""
    embedder = BreakableEmbedder()
    layer = open_layer(embedder=embedder)
    embedder.broken = True
    postprocessor = APLPostprocessor(layer=layer)
    assert turn_behind(postprocessor.postprocess_nodes(nodes, query_str=question), layer).form == "outline"
    assert postprocessor.errors == 0


async def test_on_error_raise_raises(
    open_layer: Callable[..., AutoPrunedLayer], nodes: list[NodeWithScore], question: str
) -> None:
    """`APLConfig(on_error="raise")` is for tests of applications: the adapter does not swallow what it lets through."""
    counter = BreakableCounter()
    layer = open_layer(tokenizer=counter, on_error="raise")
    postprocessor, transform = APLPostprocessor(layer=layer), APLTransform(layer=layer)
    counter.broken = True
    with pytest.raises(RuntimeError, match="broken on purpose"):
        postprocessor.postprocess_nodes(nodes, query_str=question)
    with pytest.raises(RuntimeError, match="broken on purpose"):
        await postprocessor.apostprocess_nodes(nodes, query_str=question)
    with pytest.raises(APLError):
        transform(["no node"])  # type: ignore[list-item]


# --- awaiting ---------------------------------------------------------------------------------------------------------


async def test_sync_and_async_agree_byte_for_byte(
    layer: AutoPrunedLayer, nodes: list[NodeWithScore], question: str
) -> None:
    """The same nodes, the same turn; only the turn's id differs."""
    postprocessor = APLPostprocessor(layer=layer)
    one = postprocessor.postprocess_nodes(nodes, query_str=question)
    other = await postprocessor.apostprocess_nodes(nodes, query_str=question)
    assert turn_behind(one, layer) == turn_behind(other, layer)
    del one[0].metadata["apl_turn"], other[0].metadata["apl_turn"]
    assert one == other


class GatedEmbedder(HashEmbedder):
    """Once armed, waits in `embed` until somebody else lets it go."""

    def __init__(self) -> None:
        super().__init__()
        self.armed = False
        self.entered, self.released = threading.Event(), threading.Event()

    def embed(self, texts: Sequence[str]) -> Vectors:
        """The vectors, late."""
        if self.armed:
            self.entered.set()
            if not self.released.wait(timeout=10):
                raise TimeoutError("nobody else could run")
        return super().embed(texts)


async def test_what_takes_too_long_hands_the_hosts_nodes_on(
    open_layer: Callable[..., AutoPrunedLayer],
    nodes: list[NodeWithScore],
    question: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """`APLConfig(timeout_s=...)`: a step that hangs costs the time that was allowed, one warning and no nodes."""
    embedder = GatedEmbedder()
    postprocessor = APLPostprocessor(layer=open_layer(embedder=embedder, timeout_s=0.05), budget_tokens=60)
    embedder.armed = True
    for errors in (1, 2):
        caplog.clear()
        if errors == 1:
            handed_on = postprocessor.postprocess_nodes(nodes, query_str=question)
        else:
            handed_on = await postprocessor.apostprocess_nodes(nodes, query_str=question)
        assert all(one is other for one, other in zip(handed_on, nodes, strict=True))
        assert postprocessor.errors == errors
        assert warnings_of(caplog) == ["apl"]
    embedder.released.set()


@pytest.mark.parametrize("door", ["postprocessor", "transform"])
async def test_the_loop_goes_on_while_the_core_works(
    open_layer: Callable[..., AutoPrunedLayer], nodes: list[NodeWithScore], question: str, door: str
) -> None:
    """An embedder that takes its time blocks no other task: one of them lets it go."""
    embedder = GatedEmbedder()
    layer = open_layer(embedder=embedder)
    postprocessor, transform = APLPostprocessor(layer=layer, budget_tokens=60), APLTransform(layer=layer)
    embedder.armed = True
    new = [TextNode(text="Northstar sold DeltaPay in 2024.")]
    doors: dict[str, Callable[[], Any]] = {
        "postprocessor": lambda: postprocessor.apostprocess_nodes(nodes, query_str=question),
        "transform": lambda: transform.acall(new),
    }
    waiting = asyncio.ensure_future(doors[door]())
    ticks = 0
    while ticks < 20 and not waiting.done():
        await asyncio.sleep(0.001)
        ticks += embedder.entered.is_set()
    embedder.released.set()
    assert len(await waiting) == (6 if door == "postprocessor" else 1)
    assert (ticks, postprocessor.errors, transform.errors) == (20, 0, 0)


async def test_many_awaited_questions_do_not_get_in_each_others_way(
    layer: AutoPrunedLayer, nodes: list[NodeWithScore]
) -> None:
    """Every caller gets the turn of its own question."""
    postprocessor = APLPostprocessor(layer=layer)
    questions = [f"Who leads DeltaPay? ({number})" for number in range(20)]
    answers = await asyncio.gather(*(postprocessor.apostprocess_nodes(nodes, query_str=asked) for asked in questions))
    assert [turn_behind(handed_on, layer).question for handed_on in answers] == questions
    assert {node.get_content(MetadataMode.LLM) for handed_on in answers for node in handed_on[1:]} == {""}


# --- options ----------------------------------------------------------------------------------------------------------

WRONG_OPTIONS: dict[str, dict[str, Any]] = {
    "both bounds": {"budget_tokens": 100, "ratio": 0.5},
    "ratio 0": {"ratio": 0},
    "ratio above 1": {"ratio": 1.5},
    "ratio no number": {"ratio": "half"},
    "budget 0": {"budget_tokens": 0},
    "budget no number": {"budget_tokens": "many"},
    "unknown layout": {"layout": "scattered"},
    "per_document with an index form": {"layout": "per_document"},
    "keep_empty no truth value": {"keep_empty": "perhaps"},
    "scope that is none": {"scope": "ada"},
    "layer that is none": {"layer": "kb.db"},
    "layer missing": {"layer": None},
    "layer that is a class": {"layer": AutoPrunedLayer},
    "layer of a function that opens none": {"layer": lambda: "kb.db"},
    "misspelled": {"budget": 100},
}


@pytest.mark.parametrize("options", WRONG_OPTIONS.values(), ids=WRONG_OPTIONS.keys())
def test_wrong_options_raise_at_construction(layer: AutoPrunedLayer, options: dict[str, Any]) -> None:
    """An error of apl's own that says how to mend it, before the first question."""
    with pytest.raises(APLError) as raised:
        APLPostprocessor(**{"layer": layer, **options})
    assert not isinstance(raised.value, ValidationError)
    assert len(str(raised.value)) > 20


@pytest.mark.parametrize("config", [APLConfig(), APLConfig(forms=("edge_reference", "outline")), APLConfig.paper()])
def test_per_document_needs_line_forms(tmp_path: Path, config: APLConfig) -> None:
    """An index form cannot be cut into nodes: `ConfigError` at construction, with the way out in it."""
    with (
        AutoPrunedLayer.open(tmp_path / "paper.db", tokenizer=WordCounter(), config=config) as other,
        pytest.raises(ConfigError, match=r'forms=\("outline",\)'),
    ):
        APLPostprocessor(layer=other, layout="per_document")


def test_a_layer_without_an_embedder_says_so_at_construction(tmp_path: Path) -> None:
    """Else every question would go out whole with a warning, and nothing would ever be indexed."""
    with AutoPrunedLayer.open(tmp_path / "bare.db", tokenizer=WordCounter()) as bare:
        with pytest.raises(ConfigError, match="embedder"):
            APLPostprocessor(layer=bare, budget_tokens=100)
        with pytest.raises(ConfigError, match="embedder"):
            APLTransform(layer=bare)
    with pytest.raises(ConfigError, match="layers"):
        APLTransform(layers=bare)
