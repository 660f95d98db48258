"""What an extractor's edges are worth, measured: the guard, the outline's tokens, answers, gold pairs, faults. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apl.evaluation.metrics import Share, _squad_tokens, contains, contains_any, is_yes_no
from apl.protocols import TokenCounter
from apl.read.evidence import HostChunk, Unit, terms_of_units
from apl.read.payload import encode
from apl.read.rendering import Renderer
from apl.read.statement import Statement, state
from apl.symbols import Extraction, Passage, Triple
from apl.terms import title_terms
from apl.text import NEGATIONS, PRONOUNS, STOP_WORDS, content_hash, content_words, normal_form, words
from apl.write.alignment import AlignedPassage, align_passage

GROUP = 20
"""Passages in one payload, as a host returns them."""

MAX_END_CHARS = 200

_LINKS = frozenset(
    "and or but nor if that because while although whereas than of to by from for with into in on at".split()
)
_FUNCTION = (
    STOP_WORDS | PRONOUNS | _LINKS | frozenset("over under after before since until about through between".split())
)
_HANGING = _LINKS | frozenset("the a an".split())


@dataclass(frozen=True)
class Reading:
    """A passage, what an extractor read in it, and what the guard says of that."""

    passage: Passage
    extraction: Extraction
    aligned: AlignedPassage

    @property
    def triples(self) -> list[Triple]:
        """All usable edges in order."""
        return [occurrence.triple for occurrence in self.aligned.occurrences]

    def said(self, position: int) -> tuple[Triple, ...]:
        """The edges of one sentence."""
        return tuple(o.triple for o in self.aligned.occurrences if o.sentence == position)

    def host_chunk(self, rank: int) -> HostChunk:
        """The passage as `compress` sees it once it is indexed."""
        chunk = self.passage.chunk
        key = chunk.id or content_hash(chunk.text)
        units = tuple(
            Unit(rank, key, key, "known", s.sentence, s.carried, self.said(s.sentence.position), s.short)
            for s in self.aligned.sentences
        )
        terms = terms_of_units(units, self.passage.language)
        called = title_terms(chunk.title or "", self.passage.language)
        digest = content_hash(chunk.text)
        return HostChunk(rank, key, key, chunk.text, digest, "known", tuple(self.triples), units, terms, called)


def readings_of(passages: Sequence[Passage], extractions: Sequence[Extraction]) -> list[Reading]:
    """Every passage with its extraction, aligned as indexing does it."""
    return [Reading(p, e, align_passage(p, e)) for p, e in zip(passages, extractions, strict=True)]


# --- the guard --------------------------------------------------------------------------------------------------------


def guard(readings: Iterable[Reading]) -> dict[str, Any]:
    """Sentences that their own edges carry: of all units but ornaments, without headings, and by kind."""
    passed, seen, shorter = Counter[str](), Counter[str](), 0
    for reading in readings:
        for unit in reading.aligned.sentences:
            if unit.sentence.kind != "rule":
                seen[unit.sentence.kind] += 1
                passed[unit.sentence.kind] += unit.carried
                shorter += unit.short is not None and not unit.carried
    bare = [kind for kind in seen if kind != "title"]
    return {
        "units": share(passed.total(), seen.total()),
        "without_titles": share(sum(passed[kind] for kind in bare), sum(seen[kind] for kind in bare)),
        "by_kind": {kind: share(passed[kind], seen[kind]) for kind in sorted(seen)},
        "shortened": share(shorter, seen.total() - passed.total()),
    }


def share(kept: int, total: int) -> dict[str, Any]:
    """JSON-ready; the value of nothing is None."""
    return {"kept": kept, "total": total, "value": Share(kept, total).value}


def ratio(sent: int, host: int) -> dict[str, Any]:
    """JSON-ready tokens; the ratio to nothing is None."""
    return {"sent": sent, "host": host, "value": sent / host if host else None}


def missing(sentence: str, triples: Sequence[Triple], lemmas: Mapping[str, str]) -> Counter[str]:
    """The content words that the edges do not say as often as the sentence does (the guard is stricter on numbers)."""
    texts = [*dict.fromkeys(t.head for t in triples), *(f"{t.relation} {t.tail}" for t in triples)]
    return content_words(sentence, lemmas) - sum((content_words(text, lemmas) for text in texts), Counter[str]())


# --- the outline's tokens ---------------------------------------------------------------------------------------------


def outline_costs(readings: Sequence[Reading], counter: TokenCounter) -> dict[str, Any]:
    """Tokens sent per token of text, a passage at a time and `GROUP` passages at a time.

    `carried`: the outline of the carried sentences alone, without its rules, to their own text (a heading counts where
    a head says it). `overall`: all of guarded mode, edges and quotes, with the rules and without, to the whole text.
    """
    return {
        "passage": _costs([[reading] for reading in readings], counter),
        f"groups_of_{GROUP}": _costs([readings[n : n + GROUP] for n in range(0, len(readings), GROUP)], counter),
    }


def _costs(groups: Iterable[Sequence[Reading]], counter: TokenCounter) -> dict[str, Any]:
    tally = Counter[str]()
    for group in groups:
        host = [reading.host_chunk(rank) for rank, reading in enumerate(group)]
        statement = state(host, {_key(unit) for chunk in host for unit in chunk.units}, "guarded")
        by_chunk = [_as_edges(chunk.units, statement) for chunk in host]
        saying = [chunk for chunk, units in zip(host, by_chunk, strict=True) if units]
        carried = state(saying, {_key(unit) for units in by_chunk for unit in units}, "guarded").evidence
        text = "\n\n".join(" ".join(unit.sentence.text for unit in units) for units in by_chunk if units)
        if carried.has_edges:
            tally["carried_sent"] += counter.count(without_rules(encode(carried, "outline")))
            tally["carried_host"] += counter.count(text)
        rendered = Renderer(("outline",), "single", len(host), False, counter).render(statement)
        body = without_rules(rendered.text) if rendered.form == "outline" else rendered.text
        tally["sent"] += rendered.tokens
        tally["bare_sent"] += counter.count(body)
        tally["host"] += counter.count("\n\n".join(chunk.text for chunk in host))
    return {
        "carried": ratio(tally["carried_sent"], tally["carried_host"]),
        "overall": ratio(tally["sent"], tally["host"]),
        "overall_without_rules": ratio(tally["bare_sent"], tally["host"]),
    }


def _key(unit: Unit) -> tuple[int, int]:
    return unit.rank, unit.sentence.position


def _as_edges(units: Sequence[Unit], statement: Statement) -> list[Unit]:
    """The units whose edges carry them, and the headings that these edges, or the next such sentence, say as well."""
    carried = [bool(unit.carried and unit.triples) for unit in units]
    found = []
    for unit, is_carried, follows in zip(units, carried, [*carried[1:], False], strict=False):
        outcome = statement.fates[_key(unit)][0] if unit.sentence.kind == "title" else "quote"
        if is_carried or outcome == "edges" or (outcome == "dropped" and follows):
            found.append(unit)
    return found


def without_rules(payload: str) -> str:
    """An outline without its first line."""
    return payload.partition("\n")[2]


def sentence_cost(reading: Reading, position: int, counter: TokenCounter) -> float | None:
    """Outline tokens per token of one carried sentence; None where it is not said by edges."""
    unit = reading.aligned.sentences[position]
    if not (unit.carried and reading.said(position)):
        return None
    evidence = state([reading.host_chunk(0)], {(0, position)}, "guarded").evidence
    return counter.count(without_rules(encode(evidence, "outline"))) / max(1, counter.count(unit.sentence.text))


# --- answers ----------------------------------------------------------------------------------------------------------


def hops_carried(readings: Sequence[Reading], questions: Iterable[Any]) -> dict[str, Any]:
    """Gold strings of the hops that the gold passages' text holds: still said by guarded mode, and by edges alone.

    `guarded`: edges of carried sentences and (maybe shortened) quotes; `edges`: all edges, carried or not, no quotes;
    `..._as_squad`: the same where articles and punctuation do not count. `lost` are those that `guarded` lost.
    """
    by_id = {reading.passage.chunk.id: reading for reading in readings}
    tally, lost = Counter[str](), []
    for question in questions:
        gold = [by_id[key] for key in question.gold if key in by_id]
        text = "\n".join(reading.passage.chunk.text for reading in gold)
        said = {
            "guarded": "\n".join(line for reading in gold for line in guarded_lines(reading)),
            "edges": "\n".join(edge_text(triple) for reading in gold for triple in reading.triples),
        }
        for hop in question.hops:
            held = [name for name in hop if contains(text, name) and not is_yes_no([name])]
            tally["total"] += bool(held)
            for way, sent in said.items() if held else ():
                kept = contains_any(sent, held)
                tally[way] += kept
                tally[f"{way}_as_squad"] += kept or holds_as_squad(sent, held)
                if way == "guarded" and not kept:
                    lost.append({"question": question.id, "hop": held})
    ways = ("guarded", "guarded_as_squad", "edges", "edges_as_squad")
    return {**{way: share(tally[way], tally["total"]) for way in ways}, "lost": lost}


def holds_as_squad(text: str, answers: Sequence[str]) -> bool:
    """The text holds one of the answers but for case, articles and punctuation."""
    said = f" {' '.join(_squad_tokens(text))} "
    return any(f" {' '.join(_squad_tokens(answer))} " in said for answer in answers)


def guarded_lines(reading: Reading) -> list[str]:
    """What guarded mode says of a passage: the edges of the carried sentences, and quotes."""
    chunk = reading.host_chunk(0)
    evidence = state([chunk], {_key(unit) for unit in chunk.units}, "guarded").evidence
    return [
        *(edge_text(triple) for run in evidence.facts for triple in run),
        *(quote.text for quote in evidence.quotes),
    ]


def edge_text(triple: Triple) -> str:
    """An edge as a line of text."""
    return f"{triple.head} {triple.relation} {triple.tail}"


# --- gold relations ---------------------------------------------------------------------------------------------------


def pairs_held(readings: Sequence[Reading], documents: Iterable[Any]) -> dict[str, Any]:
    """Pairs of entities in a gold relation, both named in the document: how the edges hold them.

    `one_edge_ends`: one is in an edge's head and the other in its tail; `one_edge`: both anywhere in an edge; `two_edges`:
    not so, but in two edges with an equal endpoint; `held`: one edge or two. `same_sentence` are the pairs that one
    sentence names together.
    """
    tallies = {"same_sentence": Counter[str](), "all": Counter[str]()}
    for reading, document in zip(readings, documents, strict=True):
        seen = _Edges(reading.triples)
        for head, tail in document.pairs:
            if not all(_named(document.text, names) for names in (head, tail)):
                continue
            near = any(_named(s, head) and _named(s, tail) for s in document.sentences)
            for tally in [tallies["all"], *([tallies["same_sentence"]] if near else [])]:
                tally["total"] += 1
                tally.update(seen.holding(head, tail))
    keys = ("one_edge_ends", "one_edge", "two_edges", "held")
    return {name: {key: share(tally[key], tally["total"]) for key in keys} for name, tally in tallies.items()}


class _Edges:
    """The edges of a document, searched for names once a name."""

    def __init__(self, triples: Sequence[Triple]) -> None:
        self._triples = triples
        self._ends = [{normal_form(t.head), normal_form(t.tail)} for t in triples]
        self._known: dict[tuple[str, ...], tuple[set[int], set[int], set[int]]] = {}

    def holding(self, first: tuple[str, ...], second: tuple[str, ...]) -> list[str]:
        """Which of the ways of holding the pair there are."""
        head_a, tail_a, all_a = self._search(first)
        head_b, tail_b, all_b = self._search(second)
        if all_a & all_b:
            ends = (head_a & tail_b) | (head_b & tail_a)
            return ["one_edge", "held", *(["one_edge_ends"] if ends else [])]
        ends_a = set().union(*(self._ends[n] for n in all_a))
        ends_b = set().union(*(self._ends[n] for n in all_b))
        return ["two_edges", "held"] if ends_a & ends_b else []

    def _search(self, names: tuple[str, ...]) -> tuple[set[int], set[int], set[int]]:
        if names not in self._known:
            found: tuple[set[int], set[int], set[int]] = (set(), set(), set())
            for number, triple in enumerate(self._triples):
                for texts, text in zip(found, (triple.head, triple.tail, edge_text(triple)), strict=True):
                    if _named(text, names):
                        texts.add(number)
            self._known[names] = found
        return self._known[names]


def _named(text: str, names: Sequence[str]) -> bool:
    folded = text.casefold()  # looked at first, because `contains` normalises both at every call
    return any(name.casefold() in folded and contains(text, name) for name in names)


# --- faults -----------------------------------------------------------------------------------------------------------


def faults(triple: Triple) -> list[str]:
    """What is plainly wrong with an edge; a reader finds more."""
    found = []
    if not all(part.strip() for part in (triple.head, triple.relation, triple.tail)):
        found.append("an empty part")
    ends = [words(triple.head), words(triple.tail)]
    if any(all(word in _FUNCTION and word not in NEGATIONS for word in end) for end in ends):
        found.append("an end of function words or punctuation")
    elif any(end[-1] in _HANGING or end[0] in ("and", "or", "but", "nor") for end in ends):
        found.append("an end that hangs on a function word")
    if any(_unbalanced(part) for part in (triple.head, triple.relation, triple.tail)):
        found.append("unbalanced brackets or quotes")
    if max(len(triple.head), len(triple.tail)) > MAX_END_CHARS:
        found.append(f"an end longer than {MAX_END_CHARS} characters")
    if not any(character.isalnum() for character in triple.relation):
        found.append("a relation without a word")
    return found


def _unbalanced(text: str) -> bool:
    pairs = any(text.count(opening) != text.count(closing) for opening, closing in ("()", "[]", "{}", "“”"))
    return pairs or text.count('"') % 2 == 1


def edge_faults(readings: Iterable[Reading]) -> dict[str, Any]:
    """Edges with a fault of each kind, edges with any, and what alignment dropped before."""
    kinds, total, faulty, dropped = Counter[str](), 0, 0, 0
    for reading in readings:
        dropped += reading.aligned.malformed
        for triple in reading.triples:
            found = faults(triple)
            kinds.update(found)
            total += 1
            faulty += bool(found)
    return {"faulty": share(faulty, total), "kinds": dict(kinds.most_common()), "dropped": dropped}
