"""The arms of the frontier: apl in its modes, our own baseline, and the peers, all asked in one way.

Every arm says what its outputs depend on besides the case (`version`), so that a row measured once is known again.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version as version_of
from itertools import groupby
from pathlib import Path
from typing import Protocol

import numpy as np

import apl
from apl import APLConfig, AutoPrunedLayer, Chunk
from apl.config import SelectionConfig, SelectionWeights
from apl.protocols import Embedder, Vectors
from apl.text import content_words
from hosts import Question
from payload import text_of
from peers import Peer, VectorCache, counter, joined, peers_available, sentence_texts

SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.6)
"""Budgets as shares of the host's tokens."""
AUTO = (None,)
"""No budget: what the question needs."""

_PACKAGES = {
    "LlamaIndex": "llama-index-core",
    "LangChain": "langchain-classic",
    "LLMSlim": "llmslim",
    "Trimwise": "trimwise",
}


@dataclass(frozen=True, slots=True)
class Case:
    """A question with the host's chunks, their text as it would go out, and its o200k_base tokens."""

    question: Question
    chunks: Sequence[Chunk]
    text: str
    tokens: int

    @property
    def texts(self) -> list[str]:
        """The chunks' texts in the host's order."""
        return [chunk.text for chunk in self.chunks]

    def digest(self) -> str:
        """What every output depends on: the question, what is sought for it, the chunks, and how they are cut into units."""
        asked = self.question
        words = sorted(content_words("\n".join(asked.evidence)).items())
        parts = [asked.id, asked.text, repr((asked.answers, asked.hops, asked.evidence, words))]
        parts += [f"{chunk.id}\0{_cut(chunk.text)}" for chunk in self.chunks]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def case_of(question: Question, chunks: Sequence[Chunk]) -> Case:
    """The case with its text: a blank line between the chunks."""
    text = "\n\n".join(chunk.text for chunk in chunks)
    return Case(question, chunks, text, counter().count(text))


@lru_cache(maxsize=50_000)
def _cut(text: str) -> str:
    return hashlib.sha256("\0".join([text, *sentence_texts(text)]).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Output:
    """What an arm sends for a case: as text without index numbers, its tokens, and its milliseconds with all vectors known.

    `selected` are the sentences it stands for, None where what is sent is an extract. `edges` and `quotes` are tokens.
    `as_run_ms` is the time with no vector cached, None where it was not asked for.
    """

    said: str
    tokens: int
    form: str
    ms: float
    within: bool
    selected: str | None = None
    edges: int = 0
    quotes: int = 0
    as_run_ms: float | None = None


class Arm(Protocol):
    """Something that sends less than the host's text; `shares` are the budgets it is asked for."""

    name: str
    version: str
    shares: Sequence[float | None]

    def warm(self, case: Case) -> None:
        """Load what a running service would have in memory."""
        ...

    def send(self, case: Case, budget_tokens: int | None, *, as_run: bool = False) -> Output:
        """What goes out within the budget."""
        ...


class PreparedEmbedder:
    """An embedder with the vectors of all questions at hand, so that no question waits for the model."""

    def __init__(self, embedder: Embedder, questions: Sequence[str]) -> None:
        self.name = embedder.name
        self._embedder = embedder
        self._known = dict(zip(questions, embedder.embed(questions), strict=True)) if questions else {}

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Shape (len(texts), dimension), unit rows; looked up where all texts are questions."""
        if texts and all(text in self._known for text in texts):
            return np.stack([self._known[text] for text in texts])
        return self._embedder.embed(texts)

    def embed_question(self, question: str) -> Vectors:
        """Shape (dimension,)."""
        vector: Vectors = self.embed([question])[0]
        return vector


# --- apl --------------------------------------------------------------------------------------------------------------


class LayerArm:
    """apl's `compress` as its users call it."""

    def __init__(
        self,
        name: str,
        layer: AutoPrunedLayer,
        *,
        embedder: Embedder,
        version: str,
        shares: Sequence[float | None] = SHARES,
    ) -> None:
        self.name, self.version, self.shares = name, version, shares
        self._layer, self._embedder = layer, embedder

    def warm(self, case: Case) -> None:
        """The passages are decoded once."""
        self._layer.compress(case.question.text, case.chunks, budget_tokens=max(1, case.tokens // 4))

    def send(self, case: Case, budget_tokens: int | None, *, as_run: bool = False) -> Output:
        """One turn; its time without the question's embedding, `as_run_ms` with it."""
        question = case.question.text
        turn = self._layer.compress(question, case.chunks, budget_tokens=budget_tokens)
        ms = turn.timings["total_ms"] - turn.timings.get("question_embedding_ms", 0.0)
        return Output(
            said=text_of(turn),
            tokens=turn.tokens,
            form=turn.form,
            ms=ms,
            within=budget_tokens is None or turn.tokens <= budget_tokens,
            selected="\n".join(decision.text for decision in turn.explain() if decision.outcome != "dropped"),
            edges=turn.counters["edge_tokens"],
            quotes=turn.counters["quote_tokens"],
            as_run_ms=ms + _embedding_ms(self._embedder, question) if as_run else None,
        )


def _embedding_ms(embedder: Embedder, question: str) -> float:
    start = time.perf_counter()
    embedder.embed([question])
    return (time.perf_counter() - start) * 1000


@dataclass(frozen=True, slots=True)
class Setup:
    """A setting of apl and the budgets it is asked for."""

    config: APLConfig
    shares: Sequence[float | None] = SHARES


def setups() -> dict[str, Setup]:
    """The modes of apl, text being the default, guarded also with shortened quotes, and two of them without a budget."""
    text, guarded = APLConfig(on_error="raise"), APLConfig(mode="guarded", on_error="raise")
    return {
        "apl text": Setup(text),
        "apl guarded": Setup(guarded),
        "apl guarded, shortened": Setup(APLConfig(mode="guarded", quotes="shortened", on_error="raise")),
        "apl symbolic": Setup(APLConfig(mode="symbolic", on_error="raise")),
        "apl auto": Setup(text, AUTO),
        "apl guarded, auto": Setup(guarded, AUTO),
    }


def ablations() -> dict[str, Setup]:
    """The default without one feature of the selection each; with the guard's edges, and with shortened quotes."""
    weights = SelectionConfig().weights.model_dump()
    found = {
        "apl text": Setup(APLConfig(on_error="raise")),
        "apl with guard": Setup(APLConfig(mode="guarded", on_error="raise")),
        "apl with shortening": Setup(APLConfig(quotes="shortened", on_error="raise")),
    }
    found |= {f"apl without {name}": _weighted(weights, {name}) for name in weights}
    links = {name for name in weights if "link" in name}
    if len(links) > 1:
        found["apl without diffusion"] = _weighted(weights, links)
    found["apl without all but cosine"] = _weighted(weights, set(weights) - {"cosine"})
    return found


def _weighted(weights: Mapping[str, float], without: set[str]) -> Setup:
    kept = SelectionWeights(**{name: 0.0 if name in without else weight for name, weight in weights.items()})
    return Setup(APLConfig(selection=SelectionConfig(weights=kept), on_error="raise"))


def layer_arms(
    wanted: Mapping[str, Setup],
    path: Path,
    stack: ExitStack,
    *,
    embedder: Embedder,
    prepared: Embedder,
    extractor_name: str,
) -> list[Arm]:
    """One arm a set-up over one codebook; equal settings share a layer. `stack` closes the layers.

    Args:
        wanted: By the arms' names.
        path: The codebook.
        stack: Closes the layers.
        embedder: What a user's layer would embed the question with.
        prepared: The same with the questions' vectors at hand.
        extractor_name: What the codebook's edges were read by.
    """
    code = code_digest(source.read_text() for source in sorted(Path(apl.__file__).parent.rglob("*.py")))
    layers: dict[str, AutoPrunedLayer] = {}
    arms: list[Arm] = []
    for name, setup in wanted.items():
        knobs = setup.config.model_dump_json()
        if knobs not in layers:
            layer = AutoPrunedLayer.open(path, embedder=prepared, config=setup.config, read_only=True)
            layers[knobs] = stack.enter_context(layer)
        version = "\0".join([code, knobs, extractor_name, Path(embedder.name).name])
        arms.append(LayerArm(name, layers[knobs], embedder=embedder, version=version, shares=setup.shares))
    return arms


# --- the others -------------------------------------------------------------------------------------------------------


class PeerArm:
    """Another tool, or our baseline, behind the same calls."""

    shares: Sequence[float | None] = SHARES

    def __init__(self, peer: Peer, version: str) -> None:
        self.name, self.version = peer.name, version
        self._peer = peer

    def warm(self, case: Case) -> None:
        """Nothing: the search for the peer's parameter has looked up all vectors before the call that is timed."""

    def send(self, case: Case, budget_tokens: int | None, *, as_run: bool = False) -> Output:
        """The largest output that fits.

        Raises:
            ValueError: No budget is given.
        """
        if budget_tokens is None:
            raise ValueError(f"{self.name} is asked for a budget: give budget_tokens")
        question, texts = case.question.text, case.texts
        sent = self._peer.compress(question, texts, budget_tokens)
        cold = self._peer.as_run_ms(question, texts, sent) if as_run else None
        return Output(sent.text, sent.tokens, "extract", sent.ms, sent.within, quotes=sent.tokens, as_run_ms=cold)


class SentenceCosine(Peer):
    """Our own baseline: the sentences nearest to the question, passing over what no longer fits, in reading order."""

    name = "sentence cosine (our baseline)"

    def prepared(self, question: str, texts: Sequence[str], setting: float) -> Callable[[], str]:
        """The call that cuts, ranks, chooses and joins."""

        def call() -> str:
            units = [(number, sentence) for number, text in enumerate(texts) for sentence in sentence_texts(text)]
            cosines = np.round(self.vectors.cosines(question, [sentence for _, sentence in units]), 6)
            costs = [_tokens(sentence) for _, sentence in units]
            chosen = fitting(np.argsort(-cosines, kind="stable").tolist(), costs, setting)
            parts = groupby((units[index] for index in sorted(chosen)), key=lambda unit: unit[0])
            return joined(" ".join(sentence for _, sentence in part) for _, part in parts)

        return call


def fitting(ranked: Iterable[int], costs: Sequence[int], budget: float) -> list[int]:
    """The best that fit together, best first; what does not fit is passed over for what still does."""
    chosen, left = [], budget
    for index in ranked:
        if costs[index] <= left:
            chosen.append(index)
            left -= costs[index]
    return chosen


@lru_cache(maxsize=200_000)
def _tokens(text: str) -> int:
    return counter().count(text)


def peer_arms(embedder: Embedder) -> list[Arm]:
    """Our baseline and all peers that are installed."""
    model = Path(embedder.name).name
    peers = peers_available(embedder.embed)
    baseline = SentenceCosine(peers[0].vectors if peers else VectorCache(embedder.embed))
    ours = code_digest(inspect.getsource(part) for part in (SentenceCosine, fitting))
    asked = code_digest([Path(inspect.getfile(Peer)).read_text()])
    arms: list[Arm] = [PeerArm(baseline, f"{ours}\0{asked}\0{model}")]
    for peer in peers:
        package = _PACKAGES[peer.name.split()[0]]
        arms.append(PeerArm(peer, f"{package} {version_of(package)}\0{asked}\0{model}"))
    return arms


def code_digest(sources: Iterable[str]) -> str:
    """A digest of what the sources do: comments, docstrings and layout do not count."""
    digest = hashlib.sha256()
    for source in sources:
        tree = ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                node.body = [statement for statement in node.body if not _is_docstring(statement)]
        digest.update(ast.dump(tree).encode())
    return digest.hexdigest()[:16]


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
