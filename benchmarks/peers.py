"""What other tools would send for a question within a token budget, each through its own public classes.

A peer whose parameter is not a number of tokens (a cutoff, a number of documents) gets it bisected for every question
to the largest output that fits; a peer with a budget of its own gets that one moved until what it sends, counted in
o200k_base, fits as closely as a few calls bring it. Vectors are looked up, so that no peer waits for a model while its
parameter is sought, and its `ms` are those of a user who has cached the vectors of all sentences; `as_run_ms` is the same
call with nothing cached.

LLMSlim and Trimwise are no dependencies of the project; what is not installed is left out and named on the error stream:

    pip install llmslim==0.11.2 trimwise==0.7.0
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import Any, Literal

import numpy as np
from langchain_classic.retrievers.document_compressors import DocumentCompressorPipeline, EmbeddingsFilter
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_text_splitters import TextSplitter
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.postprocessor import SentenceEmbeddingOptimizer
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from apl.errors import MissingDependency
from apl.protocols import Vectors
from apl.providers import TiktokenCounter
from apl.sentences import split_sentences

Embed = Callable[[Sequence[str]], Vectors]

AIMS = 6
"""Calls at most in which a peer's own budget is moved towards the one it is given."""
CLOSE = 0.97
"""A share of the budget that needs no further call."""
SHRINKS = 12
MAX_VECTORS = 50_000
"""Vectors kept for the questions before this one: 77 MB of 384 dimensions."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What a peer sends: the text, its o200k_base tokens, and the time of the one call that gave it.

    `within` is False where the peer's smallest output is larger than the budget: that output is what stands here.
    `setting` is the value of the peer's own parameter.
    """

    text: str
    tokens: int
    ms: float
    within: bool
    setting: float


class VectorCache:
    """Vectors by text: a text is embedded once, afterwards it is looked up."""

    def __init__(self, embed: Embed) -> None:
        self._embed = embed
        self._vectors: dict[str, Any] = {}

    def rows(self, texts: Sequence[str]) -> list[Any]:
        """One vector a text."""
        unknown = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if unknown:
            self._vectors.update(zip(unknown, self._embed(unknown), strict=True))
        return [self._vectors[text] for text in texts]

    def cosines(self, question: str, texts: Sequence[str]) -> Vectors:
        """Cosine of every text with the question; the rows are unit vectors."""
        rows = np.asarray(self.rows([question, *texts]), dtype=np.float32)
        cosines: Vectors = rows[1:] @ rows[0]
        return cosines

    def bound(self) -> None:
        """Forget everything once there are more than `MAX_VECTORS`; called between questions, never while one is timed."""
        if len(self._vectors) > MAX_VECTORS:
            self._vectors.clear()

    @contextmanager
    def emptied(self) -> Iterator[None]:
        """Nothing is cached inside; what was cached before is back afterwards."""
        kept, self._vectors = self._vectors, {}
        try:
            yield
        finally:
            self._vectors = kept


class Peer:
    """Another tool that makes a host's texts smaller for a question, at the value of its parameter that suits a budget.

    Each kind says how it is called and which settings are worth trying. `name` is its class and how it is set up.
    """

    name: str

    def __init__(self, vectors: VectorCache) -> None:
        self.vectors = vectors

    def settings(self, question: str, texts: Sequence[str]) -> Sequence[float] | None:
        """From the smallest output to the largest; None: the setting is a number of tokens, a budget of the peer's own."""
        return None

    def prepared(self, question: str, texts: Sequence[str], setting: float) -> Callable[[], str]:
        """The peer's own call, ready to be timed: what it sends."""
        raise NotImplementedError

    def compress(self, question: str, texts: Sequence[str], budget_tokens: int) -> Sent:
        """The largest output within the budget that the parameter reaches, called once more with all vectors cached."""
        if not any(text.strip() for text in texts):
            return Sent("", 0, 0.0, True, 0.0)
        self.vectors.bound()
        settings = self.settings(question, texts)

        def tokens(setting: float) -> int:
            return counter().count(self.prepared(question, texts, setting)())

        if settings is None:
            setting = aimed(tokens, budget_tokens, whole=counter().count(joined(texts)))
        else:
            setting = bisected(tokens, settings, budget_tokens)
        text, ms = timed(self.prepared(question, texts, setting))
        count = counter().count(text)
        return Sent(text, count, ms, count <= budget_tokens, setting)

    def as_run_ms(self, question: str, texts: Sequence[str], sent: Sent) -> float:
        """The time of the call that gave `sent` with no vector cached: the question and all units are embedded in it."""
        with self.vectors.emptied():
            return timed(self.prepared(question, texts, sent.setting))[1]


def timed(call: Callable[[], str]) -> tuple[str, float]:
    """What the call returns, and its milliseconds."""
    start = time.perf_counter()
    text = call()
    return text, (time.perf_counter() - start) * 1000


def bisected(tokens: Callable[[float], int], settings: Sequence[float], budget_tokens: int) -> float:
    """The last of the settings whose output fits; the first where none does. Outputs grow along the settings."""
    low, high = 0, len(settings)
    while high - low > 1:
        middle = (low + high) // 2
        if tokens(settings[middle]) <= budget_tokens:
            low = middle
        else:
            high = middle
    return settings[low]


def aimed(tokens: Callable[[float], int], budget_tokens: int, *, whole: int) -> float:
    """The budget to name to a peer, at most `whole`, so that its output is the largest found that fits.

    Where no output fits it is halved, up to `SHRINKS` times, and the last value stands.
    """
    low, high, guess = 0.0, float(whole), float(min(budget_tokens, whole))
    best, best_tokens = 0.0, -1
    for _ in range(AIMS):
        used = tokens(guess)
        if used <= budget_tokens:
            low = guess
            if used > best_tokens:
                best, best_tokens = guess, used
            if used >= CLOSE * budget_tokens or guess >= whole:
                break
        else:
            high = guess
        scaled = guess * budget_tokens / max(used, 1)
        guess = scaled if low < scaled < high else (low + high) / 2
    if best_tokens >= 0:
        return best
    for _ in range(SHRINKS):
        guess /= 2
        if tokens(guess) <= budget_tokens:
            break
    return guess


@cache
def counter() -> TiktokenCounter:
    """o200k_base; not loaded at import, because `hosts.offline` says afterwards where the encoding lies."""
    return TiktokenCounter()


def joined(documents: Iterable[str]) -> str:
    """Documents as a generator gets them, a blank line between; those of which nothing is left are left out."""
    return "\n\n".join(document for document in documents if document.strip())


def sentence_texts(text: str) -> list[str]:
    """The units that apl cuts a text into: the peers' sentences are the same as ours."""
    return [sentence.text for sentence in split_sentences(text)]


class CachedEmbedding(BaseEmbedding):
    """LlamaIndex' view of the cache."""

    _cache: VectorCache = PrivateAttr()

    def __init__(self, vectors: VectorCache) -> None:
        super().__init__(model_name="cached")
        self._cache = vectors

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._cache.rows(texts)

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


class SentenceOptimizerPeer(Peer):
    """`SentenceEmbeddingOptimizer` over one node a chunk, by `threshold_cutoff`.

    Not by `percentile_cutoff`: that keeps a node whole as soon as its share of the sentences is less than one, so it has no
    small outputs. The optimizer raises where no sentence passes; it is called node by node and such a node is left out. Each
    hit brings its neighbours by default, also twice: without them it keeps more answers at the same tokens.
    """

    name = "LlamaIndex SentenceEmbeddingOptimizer"

    def __init__(self, vectors: VectorCache) -> None:
        super().__init__(vectors)
        self._embedding = CachedEmbedding(vectors)

    def settings(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        """Thresholds, falling: between two neighbouring cosines each, then under all."""
        sentences = [sentence for text in texts for sentence in sentence_texts(text)]
        cosines = np.unique(self.vectors.cosines(question, sentences).astype(np.float64))[::-1]
        return [*((cosines[:-1] + cosines[1:]) / 2).tolist(), -1.1]

    def prepared(self, question: str, texts: Sequence[str], setting: float) -> Callable[[], str]:
        """All nodes in the host's order."""
        optimizer = SentenceEmbeddingOptimizer(
            self._embedding, None, setting, tokenizer_fn=sentence_texts, context_before=0, context_after=0
        )
        nodes = [NodeWithScore(node=TextNode(text=text), score=1.0) for text in texts]

        def call() -> str:
            kept: list[str] = []
            bundle = QueryBundle(question)
            for node in nodes:
                try:
                    kept += [found.node.get_content() for found in optimizer.postprocess_nodes([node], bundle)]
                except ValueError as error:
                    if "zero sentences" not in str(error):
                        raise
            return joined(kept)

        return call


class CachedEmbeddings(Embeddings):
    """LangChain's view of the cache."""

    def __init__(self, vectors: VectorCache) -> None:
        self._cache = vectors

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector a text."""
        return self._cache.rows(texts)

    def embed_query(self, text: str) -> list[float]:
        """The question's vector."""
        return self.embed_documents([text])[0]


class SentenceSplitter(TextSplitter):
    """A LangChain text splitter whose pieces are our sentences."""

    def split_text(self, text: str) -> list[str]:
        """Sentences in order."""
        return sentence_texts(text)


class EmbeddingsFilterPeer(Peer):
    """`EmbeddingsFilter` over the chunks, or over their sentences behind a splitter in a `DocumentCompressorPipeline`.

    Its `k` is the parameter: a similarity threshold cuts the same ranking at the same places.
    """

    def __init__(self, vectors: VectorCache, unit: Literal["chunks", "sentences"]) -> None:
        super().__init__(vectors)
        self.name = f"LangChain EmbeddingsFilter ({unit})"
        self._sentences = unit == "sentences"
        self._embeddings = CachedEmbeddings(vectors)

    def settings(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        """One document up to all of them."""
        units = sum(len(sentence_texts(text)) for text in texts) if self._sentences else len(texts)
        return range(1, units + 1)

    def prepared(self, question: str, texts: Sequence[str], setting: float) -> Callable[[], str]:
        """The documents by falling similarity, as the filter returns them."""
        chosen: Any = EmbeddingsFilter(embeddings=self._embeddings, k=int(setting))
        if self._sentences:
            chosen = DocumentCompressorPipeline(transformers=[SentenceSplitter(), chosen])
        documents = [Document(page_content=text) for text in texts]
        return lambda: joined(found.page_content for found in chosen.compress_documents(documents, question))


def installed(module: str, package: str) -> Any:
    """The module of a peer.

    Raises:
        MissingDependency: It is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        command = f"pip install {package}"
        raise MissingDependency(f"{package} cannot be imported ({error}): {command}", command=command) from error


class LLMSlimPeer(Peer):
    """LLMSlim's `compress_documents` in mode rag: one budget for all documents, a ratio of their cl100k_base tokens.

    Its word statistics alone keep more answers on some data, with the cosine as the scorer it takes beside them on other:
    both are run. Its reranker needs weights from a model hub; its way of a budget for each document keeps fewer.
    """

    def __init__(self, vectors: VectorCache, relevance: Literal["lexical", "embedding"] = "lexical") -> None:
        super().__init__(vectors)
        self.name = f"LLMSlim rag ({relevance})"
        self._module = installed("llmslim", "llmslim==0.11.2")
        self._relevance = relevance if relevance == "lexical" else vectors.cosines

    def prepared(self, question: str, texts: Sequence[str], setting: float) -> Callable[[], str]:
        """The documents that keep something, in the host's order."""
        ratio = min(1.0, max(1e-4, setting / counter().count(joined(texts))))

        def call() -> str:
            results = self._module.compress_documents(
                list(texts), query=question, target_ratio=ratio, mode="rag", relevance=self._relevance
            )
            return joined(result.compressed_text for result in results)

        return call


class TrimwisePeer(Peer):
    """Trimwise's `trim_context`: extracts under one limit, in exact o200k_base tokens of what is sent."""

    def __init__(self, vectors: VectorCache, strategy: Literal["lexical", "hybrid"] = "lexical") -> None:
        super().__init__(vectors)
        self.name = f"Trimwise ({strategy})"
        self._strategy = strategy
        self._trimmer = installed("trimwise", "trimwise==0.7.0").Trimmer(embedding_callback=self._embedded)

    def _embedded(self, query: str, passages: Sequence[str]) -> tuple[Any, list[Any]]:
        first, *others = self.vectors.rows([query, *passages])
        return first, others

    def prepared(self, question: str, texts: Sequence[str], setting: float) -> Callable[[], str]:
        """The excerpts in the host's order."""
        options = {"query": question, "strategy": self._strategy, "separator": "\n\n"}
        return lambda: str(self._trimmer.trim_context(list(texts), max(1, int(setting)), **options).text)


def peers_available(embed: Embed) -> list[Peer]:
    """The peers that are installed, each in its strongest set-ups, over one cache of vectors.

    Args:
        embed: Texts to unit rows; also for the question, so that all sides rank by the same cosines.
    """
    vectors = VectorCache(embed)
    ways: list[Callable[[], Peer]] = [
        partial(SentenceOptimizerPeer, vectors),
        partial(EmbeddingsFilterPeer, vectors, "chunks"),
        partial(EmbeddingsFilterPeer, vectors, "sentences"),
        partial(LLMSlimPeer, vectors, "lexical"),
        partial(LLMSlimPeer, vectors, "embedding"),
        partial(TrimwisePeer, vectors, "lexical"),
        partial(TrimwisePeer, vectors, "hybrid"),
    ]
    peers, missing = list[Peer](), dict[str, None]()
    for way in ways:
        try:
            peers.append(way())
        except MissingDependency as error:
            missing[str(error)] = None
    print(*(f"left out: {message}\n" for message in missing), sep="", end="", file=sys.stderr)
    return peers
