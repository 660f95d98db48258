"""What breaks inside apl costs no documents; what is wrong with the options is said before the first question."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import ConfigurableField
from pydantic import ValidationError

from apl import APLConfig, AutoPrunedLayer
from apl.errors import APLError, ConfigError
from apl.protocols import Vectors
from apl.symbols import Turn
from apl.testing import HashEmbedder, WordCounter
from langchain_apl import APLRetriever, turn_of


def turn_behind(documents: Sequence[Document], layer: AutoPrunedLayer) -> Turn:
    """The turn, which has to be there."""
    turn = turn_of(documents, layer)
    assert turn is not None
    return turn


# --- errors inside apl ------------------------------------------------------------------------------------------------


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
def broken(
    request: pytest.FixtureRequest, open_layer: Callable[..., AutoPrunedLayer], host: BaseRetriever, tmp_path: Path
) -> APLRetriever:
    """A retriever with something broken inside apl, after everything had worked."""
    embedder, counter, path = BreakableEmbedder(), BreakableCounter(), tmp_path / "breakable.db"
    layer = open_layer(embedder=embedder, tokenizer=counter, path=path)
    retriever = APLRetriever(host=host, layer=layer, budget_tokens=60)
    retriever.invoke("Does it work?")
    assert retriever.errors == 0
    if request.param == "store":
        layer.close()
        for file in tmp_path.glob("breakable.db*"):
            file.write_bytes(b"no database any more" * 1000)
    else:
        {"tokenizer": counter, "embedder": embedder}[request.param].broken = True
    return retriever


def test_an_error_inside_apl_hands_the_hosts_documents_on(
    broken: APLRetriever, question: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The very objects of the host, one warning, one error counted: a question is never lost to apl."""
    before = copy.deepcopy(broken.host.documents)
    handed_on = broken.invoke(question)
    assert len(handed_on) == 6
    assert all(one is other for one, other in zip(handed_on, broken.host.documents, strict=True))
    assert broken.host.documents == before
    assert broken.errors == 1
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [record.levelname for record in warnings] == ["WARNING"]
    assert warnings[0].name.startswith(("apl.", "langchain_apl."))


async def test_an_error_inside_apl_hands_the_hosts_documents_on_when_awaited(
    broken: APLRetriever, question: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The same, awaited, and counted again."""
    for errors in (1, 2):
        caplog.clear()
        handed_on = await broken.ainvoke(question)
        assert all(one is other for one, other in zip(handed_on, broken.host.documents, strict=True))
        assert broken.errors == errors
        assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == 1


def test_a_broken_embedder_is_not_needed_without_a_budget(
    open_layer: Callable[..., AutoPrunedLayer], host: BaseRetriever, question: str
) -> None:
    """Without a bound nothing is embedded, and no extractor is asked either."""
    embedder = BreakableEmbedder()
    layer = open_layer(embedder=embedder)
    embedder.broken = True
    retriever = APLRetriever(host=host, layer=layer)
    assert turn_behind(retriever.invoke(question), layer).form == "outline"
    assert retriever.errors == 0


def test_on_error_raise_raises_through_the_retriever(
    open_layer: Callable[..., AutoPrunedLayer], host: BaseRetriever, question: str
) -> None:
    """`APLConfig(on_error="raise")` is for tests of applications: the adapter does not swallow what it lets through."""
    counter = BreakableCounter()
    retriever = APLRetriever(host=host, layer=open_layer(tokenizer=counter, on_error="raise"))
    counter.broken = True
    with pytest.raises(RuntimeError, match="broken on purpose"):
        retriever.invoke(question)


async def test_errors_of_the_host_are_the_hosts(layer: AutoPrunedLayer, question: str) -> None:
    """What the host raises comes through as it is and is not counted as apl's."""

    class HostError(Exception):
        pass

    class Failing(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            raise HostError(query)

    retriever = APLRetriever(host=Failing(), layer=layer)
    with pytest.raises(HostError, match="acquire"):
        retriever.invoke(question)
    with pytest.raises(HostError, match="acquire"):
        await retriever.ainvoke(question)
    assert retriever.errors == 0


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
    "host without invoke": {"host": object()},
    "layer that is none": {"layer": "kb.db"},
    "negative k": {"k": -1},
    "misspelled": {"budget": 100},
}


@pytest.mark.parametrize("options", WRONG_OPTIONS.values(), ids=WRONG_OPTIONS.keys())
def test_wrong_options_raise_at_construction(
    layer: AutoPrunedLayer, host: BaseRetriever, options: dict[str, Any]
) -> None:
    """An error of apl's own that says how to mend it, before the first question."""
    with pytest.raises(APLError) as raised:
        APLRetriever(**{"host": host, "layer": layer, **options})
    assert not isinstance(raised.value, ValidationError)
    assert len(str(raised.value)) > 20


@pytest.mark.parametrize("config", [APLConfig(), APLConfig(forms=("edge_reference", "outline")), APLConfig.paper()])
def test_per_document_needs_line_forms(
    layer: AutoPrunedLayer, host: BaseRetriever, tmp_path: Path, config: APLConfig
) -> None:
    """An index form cannot be cut into documents: `ConfigError` at construction, with the way out in it."""
    with (
        AutoPrunedLayer.open(tmp_path / "paper.db", tokenizer=WordCounter(), config=config) as other,
        pytest.raises(ConfigError, match=r'forms=\("outline",\)'),
    ):
        APLRetriever(host=host, layer=other, layout="per_document")


def test_a_budget_without_an_embedder_raises_at_construction(host: BaseRetriever, tmp_path: Path) -> None:
    """Else every question would go out whole with a warning, and the budget would never hold."""
    with (
        AutoPrunedLayer.open(tmp_path / "bare.db", tokenizer=WordCounter()) as bare,
        pytest.raises(ConfigError, match="embedder"),
    ):
        APLRetriever(host=host, layer=bare, budget_tokens=100)


def test_options_can_be_configurable_fields(layer: AutoPrunedLayer, host: BaseRetriever, question: str) -> None:
    """LangChain's way to choose an option at the call works, and the choice is checked."""
    retriever = APLRetriever(host=host, layer=layer).configurable_fields(layout=ConfigurableField(id="layout"))
    assert len(retriever.invoke(question)) == 6
    assert len(retriever.with_config(configurable={"layout": "single"}).invoke(question)) == 1
    with pytest.raises(ConfigError):
        retriever.with_config(configurable={"layout": "per_document"}).invoke(question)
