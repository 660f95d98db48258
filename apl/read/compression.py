"""One question's way from host chunks to turn: gather, choose, state, render, and never worse than the host."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice

from apl.config import Mode
from apl.protocols import QuestionEmbedder, TokenCounter
from apl.read.evidence import HostChunk, Unit, gather
from apl.read.rendering import Rendered, Renderer
from apl.read.selection import best_first, largest_fitting, score_units
from apl.read.statement import Statement, citations_of_texts, decide, pass_through, state
from apl.state.passages import Passages
from apl.symbols import Chunk, Decision, Evidence, Form, Layout, Scope, Turn

logger = logging.getLogger(__name__)

_Key = tuple[int, int]
_MAX_TRIES = 32
_COUNTED = (
    *("known", "unknown", "changed", "empty", "duplicate"),
    *("sentences_edges", "sentences_quote", "sentences_passed", "sentences_dropped"),
)
"""Counters that are there even when nothing was counted."""


@dataclass(slots=True)
class Compression:
    """Compresses the chunks of one question.

    Attributes:
        budget_tokens: Upper bound in tokens; None: the host's text is the only bound.
        ratio: Upper bound as a share of the host's tokens; None: none. At most one of the two is given.
        shorten: Quote without the words that carry nothing.
        embedder: Embeds the question; asked only under a bound.
        marked: Begin every line with the host documents that say it.
        shadow: Send the host's text, and put what would have been sent on `turn.shadow`.
        strangers: After `run`, the chunks that the codebook could learn.
        deadline: `time.monotonic()` after which the next step raises `TimeoutError`; whoever waited is gone by then.
    """

    question: str
    chunks: Sequence[Chunk | str]
    budget_tokens: int | None
    ratio: float | None
    scope: Scope
    layout: Layout
    keep_empty: bool
    passages: Passages
    embedder: QuestionEmbedder | None
    counter: TokenCounter
    mode: Mode
    forms: tuple[Form, ...]
    overlap_weight: float
    language: str
    shorten: bool = True
    marked: bool = False
    shadow: bool = False
    deadline: float | None = None
    strangers: list[Chunk] = field(default_factory=list)
    _timings: dict[str, float] = field(default_factory=dict)
    _host: Sequence[HostChunk] = ()
    _host_text: Rendered | None = None

    def run(self) -> Turn:
        """The turn; raises whatever a part raises."""
        with self._timed("total_ms"):
            with self._timed("lookup_ms"):
                self._host = host = gather(self.chunks, self.passages, language=self.language)
            strange = [self.chunks[chunk.rank] for chunk in host if _is_strange(chunk)]
            self.strangers = [chunk for chunk in strange if isinstance(chunk, Chunk)]
            counter = _Watched(self.counter, self._timings)
            renderer = Renderer(self.forms, self.layout, len(host), self.keep_empty, counter, self.marked)
            with self._timed("encoding_ms"):
                self._host_text = host_text = renderer.host_text([chunk.text for chunk in host])
                everyone = {_key(unit) for chunk in host for unit in chunk.units}
                statement, everything = self._say(host, renderer, everyone)
            gained = everything.form != "empty" and everything.tokens < host_text.tokens
            sent = everything if gained else host_text
            budget = self.budget_tokens if self.ratio is None else int(self.ratio * host_text.tokens)
            scores: Mapping[_Key, float] = {}
            if budget is not None and sent.tokens > budget:
                scores = self._scores(host)
                with self._timed("selection_ms"):
                    statement, sent = self._within(host, renderer, scores, budget)
        if sent.form == "host_text":
            decisions = pass_through(host, "no form is smaller than the host's text")
        else:
            decisions = decide(host, statement, scores)
        tokens_by_form = sent.tokens_by_form or everything.tokens_by_form
        turn = self._turn(host, statement, sent, tokens_by_form, host_text.tokens, decisions)
        if not self.shadow:
            return turn
        passed = pass_through(host, "shadow mode")
        outer = self._turn(host, statement, host_text, everything.tokens_by_form, host_text.tokens, passed)
        return replace(outer, shadow=turn)

    def host_turn(self, error: Exception) -> Turn:
        """The turn that hands the host's text on because of an error."""
        passed = self._host_text
        if passed is None:
            texts = [chunk.text for chunk in self._host]
            texts = texts or ["" if isinstance(chunk, str) else chunk.text for chunk in self.chunks]
            # A tokenizer that failed, or for which nobody could wait, is not asked again.
            counter = _Watched(self.counter, {}, failing=True, silent=isinstance(error, TimeoutError))
            passed = Renderer(self.forms, self.layout, len(texts), self.keep_empty, counter).host_text(texts)
        return Turn(
            question=self.question,
            text=passed.text,
            parts=passed.parts,
            form=passed.form,
            layout=self.layout,
            tokens=passed.tokens,
            host_tokens=passed.tokens,
            citations=citations_of_texts(self._host),
            decisions=pass_through(self._host, "an error inside apl"),
            sources=tuple((chunk.chunk_id, chunk.content_hash) for chunk in self._host if chunk.text.strip()),
            counters={**dict.fromkeys(_COUNTED, 0), "chunks": len(self.chunks), "errors": 1},
            timings=dict(self._timings),
            scope=self.scope,
            error=f"{type(error).__name__}: {error}",
        )

    # --- choosing -----------------------------------------------------------------------------------------------------

    def _scores(self, host: Sequence[HostChunk]) -> dict[_Key, float]:
        units = [unit for chunk in host if chunk.state != "duplicate" for unit in chunk.units]
        vector = None
        if self.embedder is not None:
            with self._timed("question_embedding_ms"):
                vector = self.embedder.embed_question(self.question)
        with self._timed("scoring_ms"):
            scores = score_units(units, self.question, vector, overlap_weight=self.overlap_weight)
        return {_key(unit): float(score) for unit, score in zip(units, scores, strict=True)}

    def _within(
        self, host: Sequence[HostChunk], renderer: Renderer, scores: Mapping[_Key, float], budget: int
    ) -> tuple[Statement, Rendered]:
        """The best units that fit the budget on exact tokens; where not even the best fits, the best that does."""
        keys = list(scores)
        ranked = [keys[index] for index in best_first(list(scores.values()))]

        def said(chosen: Sequence[_Key]) -> tuple[Statement, Rendered]:
            return self._say(host, renderer, set(chosen))

        def fits(count: int) -> bool:
            rendered = said(ranked[:count])[1]
            return rendered.form != "empty" and rendered.tokens <= budget

        count = largest_fitting(len(ranked), fits)
        if count:
            return said(ranked[:count])
        for key in self._small_enough(host, ranked, budget):
            statement, rendered = said([key])
            if rendered.form != "empty" and rendered.tokens <= budget:
                return statement, rendered
        logger.warning("no sentence fits into %d tokens: nothing goes out", budget)
        return said([])[0], renderer.nothing_within(budget)

    def _small_enough(self, host: Sequence[HostChunk], ranked: Sequence[_Key], budget: int) -> Iterator[_Key]:
        """The best units that may fit by themselves: a unit of twice the budget will not, as edges or as a quote."""
        texts = {_key(unit): unit.sentence.text for chunk in host for unit in chunk.units}
        return islice((key for key in ranked if self.counter.count(texts[key]) <= 2 * budget), _MAX_TRIES)

    def _say(self, host: Sequence[HostChunk], renderer: Renderer, chosen: set[_Key]) -> tuple[Statement, Rendered]:
        """The chosen units in the config's mode, or all as quotes where edges and their rules cost more."""
        once = self.layout != "per_document"
        statement = state(host, chosen, self.mode, once=once, shorten=self.shorten)
        rendered = renderer.render(statement)
        if self.mode != "guarded" or not statement.evidence.has_edges:
            return statement, rendered
        verbatim = state(host, chosen, "text", once=once, shorten=self.shorten)
        quoted = renderer.render(verbatim)
        tokens_by_form = {**rendered.tokens_by_form, **quoted.tokens_by_form}
        if quoted.tokens < rendered.tokens:
            return verbatim, replace(quoted, tokens_by_form=tokens_by_form)
        return statement, replace(rendered, tokens_by_form=tokens_by_form)

    # --- telling ------------------------------------------------------------------------------------------------------

    def _turn(
        self,
        host: Sequence[HostChunk],
        statement: Statement,
        sent: Rendered,
        tokens_by_form: Mapping[str, int],
        host_tokens: int,
        decisions: tuple[Decision, ...],
    ) -> Turn:
        outcomes = {(d.chunk_id, d.outcome != "dropped") for d in decisions}
        citations, evidence = statement.citations, statement.evidence
        if sent.form == "host_text":
            citations, evidence = citations_of_texts(host), Evidence()
        counters = Counter[str](chunks=len(host), sentences=len(decisions), errors=0)
        counters.update(dict.fromkeys(_COUNTED, 0))
        counters.update(chunk.state for chunk in host)
        counters.update(f"sentences_{decision.outcome}" for decision in decisions)
        counters["edges"] = sum(len(run) for run in evidence.facts)
        counters["quotes"] = len(evidence.quotes)
        counters["quote_tokens"] = self._quote_tokens(sent, evidence)
        counters["edge_tokens"] = sent.tokens - counters["quote_tokens"] if evidence.has_edges else 0
        return Turn(
            question=self.question,
            text=sent.text,
            parts=sent.parts,
            form=sent.form,
            layout=self.layout,
            tokens=sent.tokens,
            host_tokens=host_tokens,
            tokens_by_form=dict(tokens_by_form),
            evidence=evidence,
            citations=citations,
            decisions=decisions,
            sources=tuple((chunk.chunk_id, chunk.content_hash) for chunk in host if (chunk.chunk_id, True) in outcomes),
            counters=dict(counters),
            timings=dict(self._timings),
            scope=self.scope,
        )

    def _quote_tokens(self, sent: Rendered, evidence: Evidence) -> int:
        if not evidence.has_edges:
            return sent.tokens if evidence.quotes else 0
        return min(sent.tokens, self.counter.count("\n".join(quote.text for quote in evidence.quotes)))

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise TimeoutError("the time for this question is over")
        started = time.perf_counter()
        try:
            yield
        finally:
            self._timings[name] = self._timings.get(name, 0.0) + (time.perf_counter() - started) * 1000


def _key(unit: Unit) -> _Key:
    return unit.rank, unit.sentence.position


def _is_strange(chunk: HostChunk) -> bool:
    """True when the codebook could learn the chunk."""
    return chunk.state in ("unknown", "changed") and bool(chunk.text.strip())


class _Watched:
    """A counter whose time is noted; with `failing` it answers 0 where the real one fails, `silent` always."""

    def __init__(
        self, counter: TokenCounter, timings: dict[str, float], *, failing: bool = False, silent: bool = False
    ) -> None:
        self.name = counter.name
        self._counter = counter
        self._timings = timings
        self._failing = failing
        self._silent = silent

    def count(self, text: str) -> int:
        if self._silent:
            return 0
        started = time.perf_counter()
        try:
            return self._counter.count(text)
        except Exception:
            if not self._failing:
                raise
            logger.debug("the host's text could not be counted either", exc_info=True)
            return 0
        finally:
            spent = (time.perf_counter() - started) * 1000
            self._timings["counting_ms"] = self._timings.get("counting_ms", 0.0) + spent

    def count_many(self, texts: Sequence[str]) -> list[int]:
        return [self.count(text) for text in texts]
