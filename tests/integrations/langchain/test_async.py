"""The awaited retriever: the same bytes, the native path of the host, a loop that goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any, get_args

import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from apl import AutoPrunedLayer
from apl.protocols import Vectors
from apl.symbols import Layout, Turn
from apl.testing import HashEmbedder
from langchain_apl import APLRetriever, turn_of

LAYOUTS = get_args(Layout)


def turn_behind(documents: Sequence[Document], layer: AutoPrunedLayer) -> Turn:
    """The turn, which has to be there."""
    turn = turn_of(documents, layer)
    assert turn is not None
    return turn


def without_mark(document: Document) -> dict[str, Any]:
    """A document's metadata without the one key apl adds."""
    return {key: value for key, value in document.metadata.items() if key != "apl_turn"}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("form", ["outline", "quotes", "host_text"])
async def test_sync_and_async_agree_byte_for_byte(
    open_layer: Callable[..., AutoPrunedLayer], host: BaseRetriever, question: str, layout: Layout, form: str
) -> None:
    """The same documents, the same turn; only the turn's id differs."""
    layer = open_layer(form=form)
    retriever = APLRetriever(host=host, layer=layer, layout=layout)
    one, other = retriever.invoke(question), await retriever.ainvoke(question)
    assert turn_behind(one, layer) == turn_behind(other, layer)
    assert [d.model_dump_json() for d in _unmarked(one)] == [d.model_dump_json() for d in _unmarked(other)]


def _unmarked(documents: Sequence[Document]) -> list[Document]:
    return [document.model_copy(update={"metadata": without_mark(document)}) for document in documents]


async def test_async_asks_the_hosts_own_async_path(layer: AutoPrunedLayer, host: BaseRetriever, question: str) -> None:
    """`ainvoke` awaits the host; its sync path is not touched, and the other way round."""
    retriever = APLRetriever(host=host, layer=layer)
    await retriever.ainvoke(question)
    await retriever.abatch([question, question])
    assert [way for way, *_ in host.asked] == ["async"] * 3
    host.asked.clear()
    retriever.invoke(question)
    assert [way for way, *_ in host.asked] == ["sync"]


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


async def test_the_loop_goes_on_while_the_core_works(
    open_layer: Callable[..., AutoPrunedLayer], host: BaseRetriever, question: str
) -> None:
    """A question's vector that takes its time blocks no other task: one of them lets the embedder go."""
    embedder = GatedEmbedder()
    retriever = APLRetriever(host=host, layer=open_layer(embedder=embedder), budget_tokens=60)
    embedder.armed = True
    waiting = asyncio.create_task(retriever.ainvoke(question))
    ticks = 0
    while ticks < 20 and not waiting.done():
        await asyncio.sleep(0.001)
        ticks += embedder.entered.is_set()
    embedder.released.set()
    assert len(await waiting) == 6
    assert (ticks, retriever.errors) == (20, 0)


async def test_many_awaited_questions_do_not_get_in_each_others_way(
    layer: AutoPrunedLayer, host: BaseRetriever
) -> None:
    """Every caller gets the turn of its own question."""
    retriever = APLRetriever(host=host, layer=layer)
    questions = [f"Who leads DeltaPay? ({number})" for number in range(20)]
    answers = await asyncio.gather(*(retriever.ainvoke(asked) for asked in questions))
    assert [turn_behind(documents, layer).question for documents in answers] == questions
