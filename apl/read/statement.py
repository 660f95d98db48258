"""Chosen units to evidence: which go out as edges, which as quotes, and why (the coverage guard)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, zip_longest
from typing import Literal

from apl.config import Mode
from apl.read.evidence import HostChunk, Unit
from apl.read.selection import Choice
from apl.sentences import heading_words
from apl.symbols import Citation, Decision, Evidence, Outcome, Quote, Triple
from apl.text import is_specific, normal_form

_SOFT_BREAK = re.compile(r"(?<=[^\n]{39}[^ \t\r\n])[ \t]*+\r?\n[ \t]*+(?=\S)")
"""A line break after a long line of prose is where an editor wrapped it; after a short one it means something."""


@dataclass(frozen=True, slots=True)
class Statement:
    """Evidence with its citations, and how every unit of it goes out: (outcome, reason) by (rank, sentence).

    `by_rank` is the same evidence, host document by host document.
    """

    evidence: Evidence
    by_rank: tuple[tuple[int, Evidence], ...]
    citations: tuple[Citation, ...]
    fates: Mapping[tuple[int, int], tuple[Outcome, str]]


@dataclass(slots=True)
class _Draft:
    """Evidence in the making.

    With `once`, an edge whose head means the same everywhere is said once, and every chunk that says it is cited;
    another edge, and every quote, is said in each chunk: "It was released in 2020." is not the same fact twice.
    """

    once: bool
    shorten: bool
    runs: dict[int, list[tuple[Triple, list[HostChunk], int]]] = field(default_factory=dict)
    sayers: dict[tuple[Triple, int], list[HostChunk]] = field(default_factory=dict)
    quotes: list[tuple[Quote, HostChunk]] = field(default_factory=list)
    fates: dict[tuple[int, int], tuple[Outcome, str]] = field(default_factory=dict)
    said: int = 0
    sentences: int = 0

    def say_edges(self, triples: Sequence[Triple], chunk: HostChunk) -> None:
        """Say the edges of one sentence."""
        self.sentences += 1
        for triple in triples:
            group = (triple, -1 if self.once and is_specific(triple.head) else chunk.rank)
            if group not in self.sayers:
                self.sayers[group] = []
                self.runs[chunk.rank].append((triple, self.sayers[group], self.sentences))
                self.said += 1
            self.sayers[group].append(chunk)

    def say_quote(self, text: str, chunk: HostChunk) -> None:
        self.quotes.append((Quote(text, self.said, chunk.rank), chunk))

    def repeat(self, chunk: HostChunk, first: HostChunk) -> None:
        """A chunk whose text an earlier one has: said already where the earlier one is, and cited as well."""
        for unit in chunk.units:
            if (first.rank, unit.sentence.position) in self.fates:
                self.fates[_key(unit)] = ("dropped", "an earlier chunk has the same text")
        for triple in chunk.run:
            for rank in (-1, first.rank):
                if (triple, rank) in self.sayers:
                    self.sayers[triple, rank].append(chunk)

    def finish(self) -> Statement:
        by_rank = tuple(self._by_rank())
        evidence = Evidence(
            facts=tuple(run for _, said in by_rank for run in said.facts),
            quotes=tuple(quote for quote, _ in self.quotes),
            fact_ranks=tuple(ranks for _, said in by_rank for ranks in said.fact_ranks),
            fact_sentences=tuple(sentences for _, said in by_rank for sentences in said.fact_sentences),
        )
        edges = [edge for run in self.runs.values() for edge in run]
        citations = [
            _cite("edge", index, " ".join((triple.head, triple.relation, triple.tail)), sayers)
            for index, (triple, sayers, _) in enumerate(edges)
        ]
        citations += [_cite("quote", index, quote.text, [chunk]) for index, (quote, chunk) in enumerate(self.quotes)]
        return Statement(evidence, by_rank, tuple(citations), self.fates)

    def _by_rank(self) -> Iterator[tuple[int, Evidence]]:
        quotes: dict[int, list[Quote]] = {}
        for quote, chunk in self.quotes:
            quotes.setdefault(chunk.rank, []).append(quote)
        before = 0
        for rank, run in self.runs.items():
            said = tuple(Quote(quote.text, quote.after - before, rank) for quote in quotes.get(rank, ()))
            before += len(run)
            if run:
                yield (
                    rank,
                    Evidence(
                        facts=(tuple(triple for triple, _, _ in run),),
                        quotes=said,
                        fact_ranks=(tuple(tuple(dict.fromkeys(c.rank for c in sayers)) for _, sayers, _ in run),),
                        fact_sentences=(tuple(sentence for _, _, sentence in run),),
                    ),
                )
            elif said:
                yield rank, Evidence(quotes=said)


def _cite(kind: Literal["edge", "quote"], index: int, text: str, sayers: Sequence[HostChunk]) -> Citation:
    chunk_ids = dict.fromkeys(chunk.chunk_id for chunk in sayers)
    document_ids = dict.fromkeys(chunk.document_id for chunk in sayers)
    return Citation(kind, index, text, tuple(chunk_ids), tuple(document_ids))


def _key(unit: Unit) -> tuple[int, int]:
    return unit.rank, unit.sentence.position


def state(
    chunks: Sequence[HostChunk],
    chosen: set[tuple[int, int]],
    mode: Mode,
    *,
    once: bool = True,
    shorten: bool = True,
) -> Statement:
    """Say the chosen units, in order of (host rank, sentence).

    Args:
        chunks: The host's chunks in the host's order.
        chosen: (rank, sentence position) of the units to say.
        mode: `guarded`: edges where they carry the sentence, else a quote; `text`: quotes; `symbolic`: edges only,
            but text of chunks that the codebook does not know.
        once: Say an edge with a specific head once over all chunks; else once a chunk.
        shorten: Quote without the words that carry nothing, where the codebook knows a shorter quote.
    """
    draft = _Draft(once, shorten)
    first: dict[str, HostChunk] = {}
    for chunk in chunks:
        if chunk.state == "duplicate":
            draft.repeat(chunk, first[chunk.content_hash])
            continue
        first[chunk.content_hash] = chunk
        draft.runs[chunk.rank] = []
        if mode == "symbolic" and chunk.state == "known":
            _say_symbolic(draft, chunk, chosen)
        else:
            _say_units(draft, chunk, chosen, mode)
    return draft.finish()


def _say_symbolic(draft: _Draft, chunk: HostChunk, chosen: set[tuple[int, int]]) -> None:
    everything = all((unit.rank, unit.sentence.position) in chosen for unit in chunk.units)
    for unit in chunk.units:
        key = (unit.rank, unit.sentence.position)
        if key not in chosen:
            continue
        if not everything:
            draft.say_edges(unit.triples, chunk)
        draft.fates[key] = ("edges", "symbolic mode") if unit.triples else ("dropped", "symbolic mode: it has no edges")
    if everything:  # edges of no single sentence belong to the whole, each by itself
        places = {triple: unit.sentence.position for unit in reversed(chunk.units) for triple in unit.triples}
        for _, edges in groupby(chunk.run, key=lambda triple: places.get(triple, triple)):
            draft.say_edges(list(edges), chunk)


def _say_units(draft: _Draft, chunk: HostChunk, chosen: set[tuple[int, int]], mode: Mode) -> None:
    units = [unit for unit in chunk.units if (unit.rank, unit.sentence.position) in chosen]
    heads = {triple.head for unit in units if mode == "guarded" and unit.carried for triple in unit.triples}
    open_quote: list[Unit] = []
    for unit, following in zip_longest(units, units[1:]):
        outcome, reason = _fate(unit, following, heads, mode)
        draft.fates[(unit.rank, unit.sentence.position)] = (outcome, reason)
        if outcome == "quote":
            if open_quote and not _continues(chunk.text, open_quote[-1], unit):
                _say_quote(draft, chunk, open_quote)
                open_quote = []
            open_quote.append(unit)
            continue
        if open_quote and unit.sentence.kind != "rule":
            _say_quote(draft, chunk, open_quote)
            open_quote = []
        if outcome == "edges":
            draft.say_edges(unit.triples, chunk)
    if open_quote:
        _say_quote(draft, chunk, open_quote)


def _fate(unit: Unit, following: Unit | None, heads: set[str], mode: Mode) -> tuple[Outcome, str]:
    if unit.sentence.kind == "rule":
        return "dropped", "an ornament without words"
    if unit.part is not None:
        return "quote", "its clauses nearest to the question: the budget is small for so long a sentence"
    if unit.state != "known":
        return "quote", f"the chunk is {unit.state} to the codebook"
    if unit.sentence.kind == "title" and following is not None and _repeats(unit.sentence.text, following):
        return "dropped", "the next sentence begins with the heading"
    if mode == "text":
        return "quote", "verbatim costs less here, or text mode was asked for"
    if unit.carried and unit.triples:
        return "edges", "its edges carry all its content words"
    if unit.sentence.kind == "title" and heads and _is_head(unit.sentence.text, heads):
        return "edges", "the heading is a head among the chunk's edges"
    return "quote", "its edges would lose words" if unit.triples else "it has no edges"


def _is_head(heading: str, heads: set[str]) -> bool:
    return normal_form(heading_words(heading)) in map(normal_form, heads)


def _repeats(heading: str, following: Unit) -> bool:
    """True when a sentence of prose begins with the words of the heading before it, quoted or not."""
    heading = heading_words(heading)
    said = following.sentence.text.lstrip("\"“'`")
    whole = said.startswith(heading) and not said[len(heading) : len(heading) + 1].isalnum()
    return whole and following.sentence.kind == "prose" and following.state == "known" and len(said) > len(heading)


def _continues(text: str, previous: Unit, unit: Unit) -> bool:
    """True when nothing but spaces stands between two units of a chunk."""
    gap = text[previous.sentence.end : unit.sentence.start]
    return previous.sentence.position + 1 == unit.sentence.position and not gap.strip(" ")


def _say_quote(draft: _Draft, chunk: HostChunk, units: Sequence[Unit]) -> None:
    text = chunk.text[units[0].sentence.start : units[-1].sentence.end]
    shorter = [unit.part or (unit.short if draft.shorten else None) for unit in units]
    if any(shorter):
        text = " ".join(said or unit.sentence.text for said, unit in zip(shorter, units, strict=True))
    if "\n" in text and all(unit.sentence.kind in ("prose", "list", "title") for unit in units):
        text = _SOFT_BREAK.sub(" ", text)
    draft.say_quote(text, chunk)


def decide(chunks: Sequence[HostChunk], statement: Statement, choice: Choice) -> tuple[Decision, ...]:
    """For every unit of the host's chunks what became of it and why, in reading order."""
    decisions = []
    for chunk in chunks:
        for unit in chunk.units:
            key = (unit.rank, unit.sentence.position)
            candidate = choice.scores.get(key)
            repeated = "an earlier chunk has the same text" if chunk.state == "duplicate" else None
            dropped = choice.dropped.get(key, repeated or "nothing that goes out needs it")
            outcome, reason = statement.fates.get(key, ("dropped", dropped))
            if candidate is not None and key in choice.keys:
                reason = f"{candidate.because}; {reason}"
            score = candidate.score if candidate else None
            decisions.append(
                Decision(chunk.chunk_id, unit.sentence.position, unit.sentence.text, outcome, reason, score)
            )
    return tuple(decisions)


def pass_through(chunks: Sequence[HostChunk], reason: str) -> tuple[Decision, ...]:
    """The decisions when the host's own text goes out for that reason."""
    return tuple(
        Decision(chunk.chunk_id, unit.sentence.position, unit.sentence.text, "passed", reason)
        for chunk in chunks
        for unit in chunk.units
    )


def citations_of_texts(chunks: Sequence[HostChunk]) -> tuple[Citation, ...]:
    """The citations when the host's own text goes out: every chunk by its own."""
    return tuple(
        Citation("text", chunk.rank, chunk.text, (chunk.chunk_id,), (chunk.document_id,))
        for chunk in chunks
        if chunk.text.strip()
    )
