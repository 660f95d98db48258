"""One question's way from host chunks to turn: gather, choose, state, render, and never worse than the host."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from apl.config import Mode, SelectionConfig
from apl.protocols import QuestionEmbedder, TokenCounter
from apl.read.clauses import LONG_TOKENS, part_of
from apl.read.costs import Price, Prices
from apl.read.counting import TimedCounter
from apl.read.evidence import HostChunk, Unit, gather
from apl.read.features import Corpus
from apl.read.question import Question, read_question
from apl.read.rendering import Rendered, Renderer
from apl.read.selection import Candidate, Choice, candidates, choose, least_score
from apl.read.statement import Statement, citations_of_texts, decide, pass_through, state
from apl.state.passages import Passages
from apl.symbols import Chunk, Decision, Evidence, Form, Layout, Scope, Turn

logger = logging.getLogger(__name__)

_Key = tuple[int, int]
_MAX_TRIES = 4
_COUNTED = (
    *("known", "unknown", "changed", "empty", "duplicate"),
    *("sentences_edges", "sentences_quote", "sentences_passed", "sentences_dropped"),
)
"""Counters that are there even when nothing was counted."""

_MAX_SINGLE = 32
_RULES_TOKENS = 10
"""About what the rules of an outline cost."""

_WORTH_TRYING = 1.15
"""Everything is built where its estimate is not further above the bound: estimates are not exact."""

_LARGE = 0.25
"""A long sentence that would take this share of the bound sends a part. Chosen on musique-stream-200."""

_FULL = 0.97
"""A payload that fills this much of its bound is not filled further."""


@dataclass(slots=True)
class Compression:
    """Compresses the chunks of one question.

    Attributes:
        budget_tokens: Upper bound in tokens; None: none.
        ratio: Upper bound as a share of the host's tokens; None: none. At most one of the two is given; without either
            the payload is as long as the question needs (`selection.least_deviation`).
        context_tokens: Upper bound whatever else is asked for: what the reader's window leaves for a payload.
        shorten: Quote without the words that carry nothing.
        embedder: Embeds the question; asked only where a choice has to be made. None: under no bound all is said.
        prices: What each sentence costs, by passage.
        selection: The knobs of the choice.
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
    prices: Prices
    selection: SelectionConfig
    language: str
    context_tokens: int | None = None
    shorten: bool = True
    marked: bool = False
    shadow: bool = False
    deadline: float | None = None
    strangers: list[Chunk] = field(default_factory=list)
    _timings: dict[str, float] = field(default_factory=dict)
    _host: Sequence[HostChunk] = ()
    _host_text: Rendered | None = None
    _choice: Choice = field(default_factory=Choice)
    _priced: dict[int, list[Price]] = field(default_factory=dict)

    def run(self) -> Turn:
        """The turn; raises whatever a part raises."""
        with self._timed("total_ms"):
            with self._timed("lookup_ms"):
                self._host = host = gather(self.chunks, self.passages, language=self.language)
            strange = [self.chunks[chunk.rank] for chunk in host if _is_strange(chunk)]
            self.strangers = [chunk for chunk in strange if isinstance(chunk, Chunk)]
            counter = TimedCounter(self.counter, self._timings)
            renderer = Renderer(self.forms, self.layout, len(host), self.keep_empty, counter, self.marked)
            with self._timed("encoding_ms"):
                self._host_text = host_text = renderer.host_text([chunk.text for chunk in host])
            statement, sent = self._sent(host, renderer, host_text)
        if sent.form == "host_text":
            decisions = pass_through(host, "no form is smaller than the host's text")
        else:
            decisions = decide(host, statement, self._choice)
        tokens_by_form = sent.tokens_by_form
        turn = self._turn(host, statement, sent, tokens_by_form, host_text.tokens, decisions)
        if not self.shadow:
            return turn
        passed = pass_through(host, "shadow mode")
        outer = self._turn(host, statement, host_text, tokens_by_form, host_text.tokens, passed)
        return replace(outer, shadow=turn)

    def host_turn(self, error: Exception) -> Turn:
        """The turn that hands the host's text on because of an error."""
        passed = self._host_text
        if passed is None:
            texts = [chunk.text for chunk in self._host]
            texts = texts or ["" if isinstance(chunk, str) else chunk.text for chunk in self.chunks]
            # A tokenizer that failed, or for which nobody could wait, is not asked again.
            counter = TimedCounter(self.counter, {}, failing=True, silent=isinstance(error, TimeoutError))
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

    def _sent(self, host: Sequence[HostChunk], renderer: Renderer, host_text: Rendered) -> tuple[Statement, Rendered]:
        """What goes out: everything where it may, else the best of it; never more than the host's text."""
        self._priced = {chunk.rank: list(self.prices.of(chunk)) for chunk in host}
        if self.selection.facts == "none":
            keys = [_key(unit) for chunk in host for unit in chunk.units]
            self._choice = Choice(dropped=dict.fromkeys(keys, "the facts channel is off"))
            return self._say(host, renderer, set())
        asked = self.budget_tokens if self.ratio is None else int(self.ratio * host_text.tokens)
        budget = min((bound for bound in (asked, self.context_tokens) if bound is not None), default=None)
        bound = host_text.tokens if budget is None else budget
        heard = [chunk for chunk in host if chunk.state != "duplicate"]
        prices = [self._priced[chunk.rank] for chunk in heard]
        estimate = sum(price.tokens for priced in prices for price in priced)
        is_auto = asked is None and self.embedder is not None and estimate > self.selection.auto_floor_tokens
        said: tuple[Statement, Rendered] | None = None
        tokens_by_form: Mapping[str, int] = {}
        if not is_auto and estimate <= _WORTH_TRYING * bound + _RULES_TOKENS:
            with self._timed("encoding_ms"):
                said = self._say(host, renderer, {_key(unit) for chunk in host for unit in chunk.units})
            tokens_by_form = said[1].tokens_by_form
            said = said if said[1].form != "empty" and said[1].tokens <= bound else None
        if said is None and (is_auto or budget is not None):
            question, corpus = self._asked(heard)
            with self._timed("selection_ms"):
                ranked = candidates(heard, prices, question, corpus, self.selection.weights.model_dump())
                if budget is not None:
                    host, ranked = self._finer(host, ranked, question, corpus, bound)
            with self._timed("encoding_ms"):
                said = self._within(host, renderer, ranked, bound, auto=is_auto, whole=budget is None)
            tokens_by_form = said[1].tokens_by_form
        if said is not None and (said[1].tokens < host_text.tokens or host_text.tokens > bound):
            return said
        nothing = said[0] if said else state(host, set(), self.mode)
        return nothing, replace(host_text, tokens_by_form=tokens_by_form)

    def _asked(self, heard: Sequence[HostChunk]) -> tuple[Question, Corpus]:
        vector = None
        if self.embedder is not None:
            with self._timed("question_embedding_ms"):
                vector = self.embedder.embed_question(self.question)
        with self._timed("selection_ms"):
            question = read_question(self.question, vector, self.language)
            wanted = dict.fromkeys([*question.terms.tolist(), *(t for c in heard for t in c.title_terms.tolist())])
            return question, Corpus(*self.passages.rarities(list(wanted)))

    def _finer(
        self, host: Sequence[HostChunk], ranked: Sequence[Candidate], question: Question, corpus: Corpus, bound: int
    ) -> tuple[Sequence[HostChunk], list[Candidate]]:
        """The same with parts in place of the long sentences that may go out within the bound, and their prices."""
        least = max(LONG_TOKENS, _LARGE * bound)
        rarity = dict(zip(question.terms.tolist(), corpus.rarity(question.terms).tolist(), strict=True))
        chunks, finer, reached = {chunk.rank: chunk for chunk in host}, list(ranked), 0
        for place, candidate in enumerate(ranked):
            rank, position = candidate.key
            unit, price = chunks[rank].units[position], candidate.price
            if price.tokens >= least and not price.heads and unit.sentence.kind == "prose":
                text = unit.short if self.shorten and unit.short else unit.sentence.text
                part = part_of(text, question, rarity, self.language)
                if part is not None:
                    price = self.prices.of_part(chunks[rank], position, part)
                    self._priced[rank][position] = price
                    finer[place] = replace(candidate, price=price)
                    units = (replace(other, part=part) if other is unit else other for other in chunks[rank].units)
                    chunks[rank] = replace(chunks[rank], units=tuple(units))
            reached += price.tokens
            if reached > 2 * bound:
                break
        return [chunks[chunk.rank] for chunk in host], finer

    def _within(
        self,
        host: Sequence[HostChunk],
        renderer: Renderer,
        ranked: Sequence[Candidate],
        bound: int,
        *,
        auto: bool,
        whole: bool,
    ) -> tuple[Statement, Rendered]:
        """The best units that fit on exact tokens: chosen by estimate, then again with what the estimate was off by.

        Where nobody set a bound (`whole`), chunks that the codebook does not know go out whole.
        """
        least = least_score(ranked, self.selection.least_deviation) if auto else float("-inf")
        aim, low, high = max(bound - _RULES_TOKENS, 0.6 * bound), 0.0, 2.0 * bound
        strange = frozenset(_key(unit) for chunk in host if whole and chunk.passage is None for unit in chunk.units)
        draft = renderer.drafting() if self.mode == "guarded" else renderer
        best: tuple[Statement, Rendered, Choice] | None = None
        for _ in range(_MAX_TRIES):
            choice = choose(
                ranked,
                host,
                budget_tokens=aim,
                least_score=least,
                at_least_tokens=self.selection.auto_floor_tokens,
                always=strange,
                unique=self.selection.facts == "unique",
            )
            statement, rendered = self._say(host, draft, set(choice.keys))
            if rendered.form != "empty" and rendered.tokens <= bound:
                if best is None or rendered.tokens > best[1].tokens:
                    best = statement, rendered, choice
                low = aim
                if rendered.tokens >= _FULL * bound or auto or len(choice.keys) >= len(ranked):
                    break
            else:
                high = aim
            off = bound / max(1, rendered.tokens) if rendered.tokens else 2.0
            aim = aim * off if low < aim * off < high else (low + high) / 2
        if best is None:
            best = self._single(host, renderer, ranked, bound)
        if best is None:
            logger.warning("no sentence fits into %d tokens: nothing goes out", bound)
            return self._say(host, renderer, set())[0], renderer.nothing_within(bound)
        statement, rendered, choice = best
        self._choice = replace(choice, scores={candidate.key: candidate for candidate in ranked})
        if draft is renderer or not statement.evidence.has_edges:
            return statement, rendered
        final = renderer.render(statement)  # the form is chosen last
        return statement, replace(final, tokens_by_form={**rendered.tokens_by_form, **final.tokens_by_form})

    def _single(
        self, host: Sequence[HostChunk], renderer: Renderer, ranked: Sequence[Candidate], bound: int
    ) -> tuple[Statement, Rendered, Choice] | None:
        """The best units that fit by themselves, where rules and heads leave room for no estimate."""
        small = [candidate for candidate in ranked if candidate.price.tokens <= 2 * bound][:_MAX_SINGLE]
        for candidate in small:
            statement, rendered = self._say(host, renderer, {candidate.key})
            if rendered.form != "empty" and rendered.tokens <= bound:
                others = {other.key: "over the budget" for other in ranked if other is not candidate}
                return statement, rendered, Choice(frozenset({candidate.key}), others)
        return None

    def _say(self, host: Sequence[HostChunk], renderer: Renderer, chosen: set[_Key]) -> tuple[Statement, Rendered]:
        """The chosen units in the config's mode, or all as quotes where edges and their rules cost more."""
        once = self.layout != "per_document" and self.selection.facts == "unique"
        whole = self._with_headings(host, chosen, quoted=self.mode == "text")
        statement = state(host, whole, self.mode, once=once, shorten=self.shorten)
        rendered = renderer.render(statement)
        if self.mode != "guarded" or not statement.evidence.has_edges:
            return statement, rendered
        whole = self._with_headings(host, chosen, quoted=True)
        verbatim = state(host, whole, "text", once=once, shorten=self.shorten)
        quoted = renderer.render(verbatim)
        tokens_by_form = {**rendered.tokens_by_form, **quoted.tokens_by_form}
        if quoted.tokens < rendered.tokens:
            return verbatim, replace(quoted, tokens_by_form=tokens_by_form)
        return statement, replace(rendered, tokens_by_form=tokens_by_form)

    def _with_headings(self, host: Sequence[HostChunk], chosen: set[_Key], *, quoted: bool) -> set[_Key]:
        """The chosen units, with the headings that a reader needs to understand those of them that are quoted."""
        if self.mode == "symbolic":
            return chosen
        headings = set()
        for chunk in host:
            for unit, price in zip(chunk.units, self._priced[chunk.rank], strict=True):
                if price.heading is not None and (quoted or not price.heads) and _key(unit) in chosen:
                    headings.add((chunk.rank, chunk.units[price.heading].sentence.position))
        return chosen | headings

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
