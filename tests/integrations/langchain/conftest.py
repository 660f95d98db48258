"""The paper's Northstar/DeltaPay story as press releases, a layer that knows them, and a plain host that returns them.

Every release ends with the same boilerplate, as real ones do: its edges are said once, so that every form of the
payload is smaller than the host's text.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import InMemoryVectorStore
from pydantic import Field

from apl import APLConfig, AutoPrunedLayer
from apl.config import SelectionConfig
from apl.testing import HashEmbedder, ScriptedExtractor, WordCounter
from langchain_apl import index_documents
from releases import QUESTION, RELEASES, WAYS, script, text_of


class StoryHost(BaseRetriever):
    """A plain retriever: the same documents, the very objects, for every question; it knows `k` and `filter`.

    `asked` lists how it was called: ("sync" or "async", question, keyword arguments).
    """

    documents: list[Document]
    asked: list[tuple[str, str, dict[str, Any]]] = Field(default_factory=list)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        return self._found("sync", query, kwargs)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        return self._found("async", query, kwargs)

    def _found(self, way: str, query: str, kwargs: dict[str, Any]) -> list[Document]:
        self.asked.append((way, query, kwargs))
        keep: Callable[[Document], bool] = kwargs.get("filter") or (lambda _: True)
        return [document for document in self.documents if keep(document)][: kwargs.get("k")]


class StoryEmbeddings(Embeddings):
    """apl's hash embedder, as LangChain's vector stores want it."""

    def __init__(self) -> None:
        self._embedder = HashEmbedder()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self._embedder.embed(texts).tolist()

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


@pytest.fixture
def question() -> str:
    """What is asked in every test that does not say otherwise."""
    return QUESTION


@pytest.fixture
def documents() -> list[Document]:
    """The releases as a host returns them: with id, source, score and nested metadata, best first."""
    return [
        Document(
            id=f"release-{name}",
            page_content=text_of(name),
            metadata={"source": f"press/{name}.txt", "score": round(0.95 - rank / 20, 2), "tags": ["press", name]},
        )
        for rank, name in enumerate(RELEASES)
    ]


@pytest.fixture
def open_layer(tmp_path: Path, documents: list[Document]) -> Iterator[Callable[..., AutoPrunedLayer]]:
    """Opens layers that know the releases: `open_layer(embedder=..., tokenizer=..., **knobs of APLConfig)`.

    They are guarded, so that facts and quotes go out; `form` stands for the knobs that make the payload go out in that
    form. Without a budget these small hosts go out whole, whatever the tokenizer counts.
    """
    opened: list[AutoPrunedLayer] = []

    def open_one(
        *,
        form: str | None = None,
        embedder: Any = None,
        tokenizer: Any = None,
        path: Path | None = None,
        indexed: bool = True,
        **knobs: Any,
    ) -> AutoPrunedLayer:
        knobs.setdefault("selection", SelectionConfig(auto_floor_tokens=1_000_000))
        knobs = {"mode": "guarded", "quotes": "shortened"} | (WAYS[form] if form else {}) | knobs
        layer = AutoPrunedLayer.open(
            path or tmp_path / f"kb-{len(opened)}.db",
            embedder=embedder or HashEmbedder(),
            extractor=ScriptedExtractor(script()),
            tokenizer=tokenizer or WordCounter(),
            config=APLConfig(**knobs),
        )
        opened.append(layer)
        if indexed:
            index_documents(layer, copy.deepcopy(documents))
        return layer

    yield open_one
    for layer in opened:
        layer.close()


@pytest.fixture
def layer(open_layer: Callable[..., AutoPrunedLayer]) -> AutoPrunedLayer:
    """A layer that knows the releases."""
    return open_layer()


@pytest.fixture
def make_host() -> type[StoryHost]:
    """`make_host(documents=[...])`: a host that returns these."""
    return StoryHost


@pytest.fixture
def host(documents: list[Document]) -> StoryHost:
    """The plain host over the releases."""
    return StoryHost(documents=documents)


@pytest.fixture
def vectorstore() -> InMemoryVectorStore:
    """An empty vector store of LangChain's own."""
    return InMemoryVectorStore(StoryEmbeddings())
