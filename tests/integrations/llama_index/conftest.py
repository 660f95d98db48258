"""The paper's Northstar/DeltaPay story as press releases, a layer that knows them, and a plain host that returns them.

The same releases as in the LangChain tests, here as nodes: with id, score, metadata and a source document.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import Settings
from llama_index.core.base.llms.types import CompletionResponse, CompletionResponseGen
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.llms.mock import MockLLM
from llama_index.core.prompts import PromptTemplate
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode
from pydantic import PrivateAttr

from apl import APLConfig, AutoPrunedLayer
from apl.config import SelectionConfig
from apl.testing import HashEmbedder, ScriptedExtractor, WordCounter
from llama_index_apl import index_nodes
from releases import QUESTION, RELEASES, WAYS, script, text_of


class StoryHost(BaseRetriever):
    """A plain retriever: the same nodes, the very objects, for every question."""

    def __init__(self, nodes: list[NodeWithScore]) -> None:
        self.nodes = nodes
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return list(self.nodes)


class RecordingLLM(MockLLM):
    """LlamaIndex's mock model, which answers the same every time and keeps every prompt it was given."""

    _prompts: list[str] = PrivateAttr(default_factory=list)

    @property
    def prompts(self) -> list[str]:
        """One a call."""
        return self._prompts

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """The answer."""
        self._prompts.append(prompt)
        return CompletionResponse(text="DeltaPay")

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        """The answer in two pieces."""
        self._prompts.append(prompt)

        def pieces() -> CompletionResponseGen:
            yield CompletionResponse(text="Delta", delta="Delta")
            yield CompletionResponse(text="DeltaPay", delta="Pay")

        return pieces()


@pytest.fixture
def question() -> str:
    """What is asked in every test that does not say otherwise."""
    return QUESTION


@pytest.fixture
def nodes() -> list[NodeWithScore]:
    """The releases as a host returns them: with id, source, score and nested metadata, best first."""
    return [
        NodeWithScore(
            node=TextNode(
                id_=f"release-{name}",
                text=text_of(name),
                metadata={"file": f"press/{name}.txt", "tags": ["press", name]},
                excluded_embed_metadata_keys=["tags"],
                relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"doc-{name}")},
                embedding=[0.5, float(rank)],
                start_char_idx=rank,
            ),
            score=round(0.95 - rank / 20, 2),
        )
        for rank, name in enumerate(RELEASES)
    ]


@pytest.fixture
def open_layer(tmp_path: Path, nodes: list[NodeWithScore]) -> Iterator[Callable[..., AutoPrunedLayer]]:
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
            index_nodes(layer, copy.deepcopy(nodes))
        return layer

    yield open_one
    for layer in opened:
        layer.close()


@pytest.fixture
def layer(open_layer: Callable[..., AutoPrunedLayer]) -> AutoPrunedLayer:
    """A layer that knows the releases."""
    return open_layer()


@pytest.fixture
def host(nodes: list[NodeWithScore]) -> StoryHost:
    """The plain host over the releases."""
    return StoryHost(nodes)


@pytest.fixture
def llm(tiktoken_offline: None) -> Iterator[RecordingLLM]:
    """The recording model, which is also the one that LlamaIndex takes where none is named."""
    before = Settings._llm
    Settings.llm = RecordingLLM()
    yield Settings.llm
    Settings._llm = before


@pytest.fixture
def engine(host: StoryHost, llm: RecordingLLM) -> Callable[..., RetrieverQueryEngine]:
    """Makes query engines over the host: `engine(postprocessor, response_mode=...)`.

    The context stands between `<<` and `>>`, so that a test can say what exactly it was.
    """

    def engine_of(*postprocessors: Any, **options: Any) -> RetrieverQueryEngine:
        return RetrieverQueryEngine.from_args(
            host,
            llm=llm,
            node_postprocessors=list(postprocessors),
            text_qa_template=PromptTemplate("<<{context_str}>>{query_str}"),
            summary_template=PromptTemplate("<<{context_str}>>{query_str}"),
            refine_template=PromptTemplate("<<{context_msg}>>{query_str} {existing_answer}"),
            **options,
        )

    return engine_of
