"""One question's way from host chunks to turn: gather, choose, state, render, and never worse than the host."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from apl.config import Mode
from apl.protocols import Embedder, TokenCounter
from apl.read.evidence import HostChunk, Unit, gather
from apl.read.rendering import Rendered, Renderer
from apl.read.selection import best_first, largest_fitting, score_units
from apl.read.statement import Statement, citations_of_texts, decide, pass_through, state
from apl.state.passages import Passages
from apl.symbols import Chunk, Evidence, Form, Layout, Scope, Turn

logger = logging.getLogger(__name__)

_Key = tuple[int, int]
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
        embedder: Embeds the question; asked only under a bound.
    """

    question: str
    chunks: Sequence[Chunk | str]
    budget_tokens: int | None
    ratio: float | None
    scope: Scope
    layout: Layout
    keep_empty: bool
    passages: Passages
    embedder: Embedder | None
    counter: TokenCounter
    mode: Mode
    forms: tuple[Form, ...]
    overlap_weight: float
    language: str
    _timings: dict[str, float] = field(default_factory=dict)

    def run(self) -> Turn:
        """The turn; raises whatever a part raises."""
        bounded = self.budget_tokens is not None or self.ratio is not None
        with self._timed("lookup_ms"):
            host = gather(self.chunks, self.passages, with_vectors=bounded, language=self.language)
        renderer = Renderer(self.forms, self.layout, len(host), self.keep_empty, self.counter)
        with self._timed("encoding_ms"):
            host_text = renderer.host_text([chunk.text for chunk in host])
            everyone = {_key(unit) for chunk in host for unit in chunk.units}
            statement, everything = self._say(host, renderer, everyone)
        gained = everything.form != "empty" and everything.tokens < host_text.tokens
        sent = everything if gained else host_text
        budget = self._budget(host_text.tokens)
        scores: Mapping[_Key, float] = {}
        if budget is not None and sent.tokens > budget:
            scores = self._scores(host)
            with self._timed("selection_ms"):
                statement, sent = self._within(host, renderer, scores, budget)
        return self._turn(host, statement, sent, everything.tokens_by_form, host_text.tokens, scores)

    def host_turn(self, error: Exception) -> Turn:
        """The turn that hands the host's text on because of an error."""
        texts = ["" if isinstance(chunk, str) else chunk.text for chunk in self.chunks]
        renderer = Renderer(self.forms, self.layout, len(texts), self.keep_empty, _Uncounted(self.counter))
        passed = renderer.host_text(texts)
        return Turn(
            question=self.question,
            text=passed.text,
            parts=passed.parts,
            form=passed.form,
            layout=self.layout,
            tokens=passed.tokens,
            host_tokens=passed.tokens,
            counters={"chunks": len(texts), "errors": 1},
            timings=dict(self._timings),
            scope=self.scope,
            error=f"{type(error).__name__}: {error}",
        )

    def _budget(self, host_tokens: int) -> int | None:
        return self.budget_tokens if self.ratio is None else int(self.ratio * host_tokens)

    # --- choosing -----------------------------------------------------------------------------------------------------

    def _scores(self, host: Sequence[HostChunk]) -> dict[_Key, float]:
        units = [unit for chunk in host if chunk.state != "duplicate" for unit in chunk.units]
        vector = None
        if self.embedder is not None:
            with self._timed("question_embedding_ms"):
                vector = self.embedder.embed([self.question])[0]
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

        count = largest_fitting(len(ranked), lambda n: said(ranked[:n])[1].tokens <= budget)
        if count:
            return said(ranked[:count])
        for key in ranked:
            statement, rendered = said([key])
            if rendered.form != "empty" and rendered.tokens <= budget:
                return statement, rendered
        logger.warning("no sentence fits into %d tokens: nothing goes out", budget)
        return said([])

    def _say(self, host: Sequence[HostChunk], renderer: Renderer, chosen: set[_Key]) -> tuple[Statement, Rendered]:
        """The chosen units in the config's mode, or all as quotes where edges and their rules cost more."""
        statement = state(host, chosen, self.mode)
        rendered = renderer.render(statement)
        if self.mode != "guarded" or not statement.evidence.has_edges:
            return statement, rendered
        verbatim = state(host, chosen, "text")
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
        scores: Mapping[_Key, float],
    ) -> Turn:
        if sent.form == "host_text":
            decisions, citations, evidence = pass_through(host), citations_of_texts(host), Evidence()
        else:
            decisions = decide(host, statement, scores)
            citations, evidence = statement.citations, statement.evidence
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
            sources=tuple((chunk.chunk_id, chunk.content_hash) for chunk in host if chunk.text.strip()),
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
        started = time.perf_counter()
        try:
            yield
        finally:
            self._timings[name] = self._timings.get(name, 0.0) + (time.perf_counter() - started) * 1000


def _key(unit: Unit) -> _Key:
    return unit.rank, unit.sentence.position


class _Uncounted:
    """A counter that answers 0 where the real one fails: the way out must not fail as well."""

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self.name = counter.name

    def count(self, text: str) -> int:
        try:
            return self._counter.count(text)
        except Exception:
            logger.debug("the host's text could not be counted either", exc_info=True)
            return 0

    def count_many(self, texts: Sequence[str]) -> list[int]:
        return [self.count(text) for text in texts]
