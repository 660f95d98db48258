"""APLCompressor in the place LangChain has for one: the same as the retriever, with LangChain's own gaps."""

from __future__ import annotations

import asyncio
import copy
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
from langchain_classic.retrievers.contextual_compression import ContextualCompressionRetriever
from langchain_classic.retrievers.document_compressors import DocumentCompressorPipeline
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from apl import AutoPrunedLayer, Scope
from apl.errors import APLError, ConfigError, InputError
from apl.testing import WordCounter
from langchain_apl import APLCompressor, APLRetriever, turn_of


class CountingCompressor(APLCompressor):
    """Counts how often it is asked."""

    asked: int = 0

    def compress_documents(self, *args: Any, **kwargs: Any) -> list[Document]:
        """As the original."""
        self.asked += 1
        return super().compress_documents(*args, **kwargs)


class GatedCounter(WordCounter):
    """Once armed, waits in `count` until somebody else lets it go."""

    def __init__(self) -> None:
        self.armed = self.broken = False
        self.entered, self.released = threading.Event(), threading.Event()

    def count(self, text: str) -> int:
        """The words, late."""
        if self.broken:
            raise RuntimeError("broken on purpose")
        if self.armed:
            self.entered.set()
            if not self.released.wait(timeout=10):
                raise TimeoutError("nobody else could run")
        return super().count(text)


def bare(documents: list[Document]) -> list[tuple[str | None, str, dict[str, Any]]]:
    """Everything of documents but the turn's id."""
    return [(d.id, d.page_content, {k: v for k, v in d.metadata.items() if k != "apl_turn"}) for d in documents]


@pytest.mark.parametrize("layout", ["spread", "per_document", "single"])
@pytest.mark.parametrize("bound", [{}, {"budget_tokens": 60}, {"ratio": 0.3}], ids=["auto", "budget", "ratio"])
def test_compressor_and_retriever_hand_on_the_same(
    open_layer: Callable[..., AutoPrunedLayer], host: BaseRetriever, question: str, layout: str, bound: dict[str, Any]
) -> None:
    """Two doors to one room: same documents, same bytes, and the host's documents untouched."""
    options: dict[str, Any] = {"layer": open_layer(forms=("outline",)), "layout": layout, **bound}
    before = copy.deepcopy(host.documents)
    compressed = APLCompressor(**options).compress_documents(host.documents, question)
    assert bare(compressed) == bare(APLRetriever(host=host, **options).invoke(question))
    assert compressed
    assert host.documents == before


async def test_sync_and_async_agree_byte_for_byte(
    layer: AutoPrunedLayer, documents: list[Document], question: str
) -> None:
    """`acompress_documents` is the same compressor, awaited."""
    compressor = APLCompressor(layer=layer)
    one = compressor.compress_documents(documents, question)
    other = await compressor.acompress_documents(documents, question)
    assert bare(one) == bare(other)
    assert turn_of(one, layer) == turn_of(other, layer)


async def test_it_works_in_langchains_compression_retriever(
    layer: AutoPrunedLayer, host: BaseRetriever, question: str
) -> None:
    """`ContextualCompressionRetriever`, sync and async, with the host's arguments passed on."""
    retriever = ContextualCompressionRetriever(base_compressor=APLCompressor(layer=layer), base_retriever=host)
    expected = bare(APLRetriever(host=host, layer=layer).invoke(question))
    assert bare(retriever.invoke(question)) == expected
    assert bare(await retriever.ainvoke(question)) == expected
    assert len(retriever.invoke(question, k=2)) == 2


async def test_scope_comes_through_langchains_compression_retriever(
    layer: AutoPrunedLayer, host: BaseRetriever, question: str
) -> None:
    """The metadata of the run reaches the compressor through its callbacks; one run does not see the other's."""
    retriever = ContextualCompressionRetriever(base_compressor=APLCompressor(layer=layer), base_retriever=host)
    metadata = {"apl_tenant": "acme", "apl_user": "ada", "apl_session": "s1"}
    config: Any = {"metadata": metadata}
    turns = [
        turn_of(found, layer)
        for found in (
            retriever.invoke(question, config),
            await retriever.ainvoke(question, config),
            *retriever.batch([question, question], [config, {}]),
            *await retriever.abatch([question, question], [config, {}]),
        )
    ]
    ada = Scope("acme", "ada", "s1")
    assert [turn.scope for turn in turns if turn] == [ada, ada, ada, Scope(), ada, Scope()]


def test_langchains_compression_retriever_skips_it_on_an_empty_result(
    layer: AutoPrunedLayer, make_host: type[BaseRetriever], question: str
) -> None:
    """LangChain's gap, which APLRetriever does not have: the compressor never hears of the question."""
    compressor = CountingCompressor(layer=layer)
    empty = make_host(documents=[])
    assert ContextualCompressionRetriever(base_compressor=compressor, base_retriever=empty).invoke(question) == []
    assert compressor.asked == 0
    assert APLRetriever(host=empty, layer=layer).invoke(question) == []
    assert compressor.compress_documents([], question) == []


def test_it_works_in_a_pipeline_of_compressors(
    layer: AutoPrunedLayer, documents: list[Document], question: str
) -> None:
    """After a step that filters: what is left is said through the layer."""

    class FirstThree(APLCompressor):
        def compress_documents(self, documents: Any, query: str, callbacks: Any = None) -> list[Document]:
            return list(documents)[:3]

    pipeline = DocumentCompressorPipeline(transformers=[FirstThree(layer=layer), APLCompressor(layer=layer)])
    compressed = list(pipeline.compress_documents(documents, question))
    turn = turn_of(compressed, layer)
    assert turn is not None
    assert turn.counters["known"] == len(compressed) == 3


async def test_the_loop_goes_on_while_the_core_works(
    open_layer: Callable[..., AutoPrunedLayer], documents: list[Document], question: str
) -> None:
    """A tokenizer that takes its time blocks no other task: one of them lets it go."""
    counter = GatedCounter()
    compressor = APLCompressor(layer=open_layer(tokenizer=counter))
    counter.armed = True
    waiting = asyncio.create_task(compressor.acompress_documents(documents, question))
    ticks = 0
    while ticks < 20 and not waiting.done():
        await asyncio.sleep(0.001)
        ticks += counter.entered.is_set()
    counter.released.set()
    assert len(await waiting) == 6
    assert (ticks, compressor.errors) == (20, 0)


async def test_an_error_inside_apl_hands_the_documents_on(
    open_layer: Callable[..., AutoPrunedLayer],
    documents: list[Document],
    question: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The very objects, one warning and one error a call."""
    counter = GatedCounter()
    compressor = APLCompressor(layer=open_layer(tokenizer=counter))
    counter.broken = True
    for compressed in (
        compressor.compress_documents(documents, question),
        await compressor.acompress_documents(documents, question),
    ):
        assert all(one is other for one, other in zip(compressed, documents, strict=True))
    assert compressor.errors == 2
    assert [r.levelname for r in caplog.records if r.levelno >= logging.WARNING] == ["WARNING"] * 2


@pytest.mark.parametrize("question", [None, 7])
def test_a_question_that_is_no_text_costs_no_documents(
    layer: AutoPrunedLayer, documents: list[Document], question: Any
) -> None:
    """Whatever stands in the place of the question, the documents go on."""
    compressor = APLCompressor(layer=layer)
    assert compressor.compress_documents(documents, question) == documents
    assert compressor.errors == 1


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"budget_tokens": 100, "ratio": 0.5}, InputError),
        ({"ratio": 0}, InputError),
        ({"budget_tokens": 0}, InputError),
        ({"layout": "per_document"}, ConfigError),
        ({"layout": "scattered"}, APLError),
        ({"layer": "kb.db"}, APLError),
        ({"budget": 100}, APLError),
    ],
    ids=str,
)
def test_wrong_options_raise_at_construction(
    layer: AutoPrunedLayer, options: dict[str, Any], error: type[APLError]
) -> None:
    """An error of apl's own, before the first question."""
    with pytest.raises(error):
        APLCompressor(**{"layer": layer, **options})
