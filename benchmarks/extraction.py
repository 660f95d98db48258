r"""What extractors are worth: edges that carry their sentence, what they cost, what they keep, how fast they come.

    python benchmarks/extraction.py --data musique-100 --limit 600 --workers 2 --sample 100 --shown benchmarks/out/shown.txt

Neither embedder nor store: passages are split, extracted and aligned as indexing does it. `--limit` counts passages. On a
data set with gold relations (redocred-dev) a passage is a document. Tokens are o200k_base; words are what white space parts.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from apl import Chunk
from apl.protocols import TripleExtractor
from apl.providers import TiktokenCounter
from apl.sentences import split_sentences
from apl.symbols import Extraction, Passage
from hosts import MEDIUM, SMALL, Annotated, Question, data_folder, extractor_of, load, load_annotated, offline, parser
from measures import (
    Reading,
    edge_faults,
    edge_text,
    faults,
    guard,
    hops_carried,
    missing,
    outline_costs,
    pairs_held,
    readings_of,
    sentence_cost,
)

BATCH = 128
WARM_UP = 16

_worker: dict[str, Any] = {}


class Corpus:
    """The passages of a data set and what is known of them."""

    def __init__(self, name: str, limit: int | None) -> None:
        self.triples: Path | None = None
        self.questions: list[Question] = []
        self.documents: list[Annotated] = []
        if (data_folder() / name / "questions.jsonl.gz").exists():
            data = load(name)
            self.questions, self.triples = data.questions, data.triples
            chunks = data.chunks[:limit]
        else:
            self.documents = load_annotated(name, limit)
            chunks = [Chunk(d.text, id=f"{n}", title=d.title) for n, d in enumerate(self.documents)]
        self.passages = [Passage(chunk, split_sentences(chunk.text, title=chunk.title)) for chunk in chunks]

    def default_extractors(self) -> list[str]:
        """The precomputed triples where there are some, both pipelines, and all that there is combined."""
        return [*(["precomputed"] if self.triples else []), f"spacy:{SMALL}", f"spacy:{MEDIUM}", "combined"]


# --- speed ------------------------------------------------------------------------------------------------------------


def _start_worker(name: str, triples: Path | None, passages: Sequence[Passage], ready: Any) -> None:
    offline()
    extractor = extractor_of(name, triples)
    extracted(extractor, passages[:WARM_UP], [])
    _worker.update(extractor=extractor, passages=passages)
    ready.wait()


def _extract_batch(start: int) -> int:
    batch = _worker["passages"][start : start + BATCH // 4]
    return len(extracted(_worker["extractor"], batch, []))


def words_per_second(name: str, triples: Path | None, passages: Sequence[Passage], workers: int) -> float:
    """Words a second of `extract` on that many processes, once every one of them is warm."""
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(workers + 1)
    with context.Pool(workers, _start_worker, (name, triples, list(passages), ready)) as pool:
        ready.wait(timeout=300)
        started = time.perf_counter()
        done = sum(pool.imap_unordered(_extract_batch, range(0, len(passages), BATCH // 4)))
        seconds = time.perf_counter() - started
    assert done == len(passages)
    return word_count(passages) / seconds


def word_count(passages: Sequence[Passage]) -> int:
    """Words as white space parts them."""
    return sum(len(passage.chunk.text.split()) for passage in passages)


# --- one extractor ----------------------------------------------------------------------------------------------------


def measure(name: str, corpus: Corpus, workers: int) -> tuple[list[Reading], dict[str, Any]]:
    """What was read and every figure of it."""
    extractor = extractor_of(name, corpus.triples)
    extracted(extractor, corpus.passages[:WARM_UP], [])
    started = time.perf_counter()
    failed: list[str] = []
    extractions = [
        extraction
        for start in range(0, len(corpus.passages), BATCH)
        for extraction in extracted(extractor, corpus.passages[start : start + BATCH], failed)
    ]
    seconds = time.perf_counter() - started
    readings = readings_of(corpus.passages, extractions)
    figures: dict[str, Any] = {
        "extractor": name,
        "passages": len(readings),
        "failed": len(failed),
        "edges": sum(len(reading.triples) for reading in readings),
        "guard": guard(readings),
        "tokens": outline_costs(readings, TiktokenCounter()),
        "faults": edge_faults(readings),
        "words_per_second": {"1": word_count(corpus.passages) / seconds},
    }
    if corpus.questions:
        figures["hops"] = hops_carried(readings, corpus.questions)
    if corpus.documents:
        figures["pairs"] = pairs_held(readings, corpus.documents)
    if workers > 1 and name != "precomputed":
        figures["words_per_second"][str(workers)] = words_per_second(name, corpus.triples, corpus.passages, workers)
    return readings, figures


def extracted(extractor: TripleExtractor, passages: Sequence[Passage], failed: list[str]) -> Sequence[Extraction]:
    """As indexing does it: where a batch fails, one by one; a passage that fails has no edges, and is told."""
    try:
        return extractor.extract(passages)
    except Exception as error:  # noqa: BLE001 - whatever an extractor raises
        if len(passages) > 1:
            return [extraction for passage in passages for extraction in extracted(extractor, [passage], failed)]
        print(f"FAILED: {extractor.name} on {passages[0].chunk.id}: {type(error).__name__}: {error}")
        failed.append(passages[0].chunk.id or "")
        return [Extraction()]


# --- telling ----------------------------------------------------------------------------------------------------------


def lines_to_read(name: str, readings: Sequence[Reading], sample: int) -> Iterator[str]:
    """For a reader: random edges with their sentence, sentences the guard stops with what is missing, dear outlines."""
    chosen = random.Random(0)  # noqa: S311
    edges = [(reading, occurrence) for reading in readings for occurrence in reading.aligned.occurrences]
    yield f"===== {name}: {min(sample, len(edges))} of {len(edges)} edges"
    for number, (reading, occurrence) in enumerate(chosen.sample(edges, min(sample, len(edges))), start=1):
        triple, place = occurrence.triple, occurrence.sentence
        marks = f"   << {', '.join(faults(triple))}" if faults(triple) else ""
        yield f"{number:3} [{triple.head} | {triple.relation} | {triple.tail}]{marks}"
        yield f"      {reading.passage.sentences[place].text if place is not None else '(of no sentence)'}"
    stopped = [
        (reading, unit.sentence)
        for reading in readings
        for unit in reading.aligned.sentences
        if not unit.carried and unit.sentence.kind != "title"
    ]
    lost = Counter[str]()
    told = []
    for reading, sentence in stopped:
        said = reading.said(sentence.position)
        absent = missing(sentence.text, said, reading.extraction.lemmas)
        lost.update(absent.keys() or ["(numbers, negation, code or order)"])
        told.append((sentence.text, list(absent.elements()), [f"{t.head} | {t.relation} | {t.tail}" for t in said]))
    silent = sum(not said for _, _, said in told)
    yield f"===== {name}: {len(stopped)} sentences stopped, {silent} without an edge; missing most: {dict(lost.most_common(40))}"
    for text, words, edges_said in chosen.sample(told, min(sample, len(told))):
        yield f"- {text}\n      missing: {words or 'numbers, negation, code or order'}"
        yield from (f"      {edge}" for edge in edges_said)
    counter = TiktokenCounter()
    costs = [
        (cost, reading, unit.sentence)
        for reading in readings
        for unit in reading.aligned.sentences
        if (cost := sentence_cost(reading, unit.sentence.position, counter)) is not None
    ]
    dear = sum(cost > 1 for cost, _, _ in costs)
    yield f"===== {name}: {dear} of {len(costs)} carried sentences cost more than their text; the dearest"
    for cost, reading, sentence in sorted(costs, key=lambda row: -row[0])[:sample]:
        yield f"- {cost:.2f} {sentence.text}"
        yield from (f"      {edge_text(triple)}" for triple in reading.said(sentence.position))


def show(rows: Sequence[dict[str, Any]]) -> None:
    """The figures, one column an extractor."""
    table = Table("", *(row["extractor"] for row in rows))
    for label, path in _ROWS:
        cells = [_cell(row, path) for row in rows]
        if any(cell != "-" for cell in cells):
            table.add_row(label, *cells)
    Console(width=60 + 36 * len(rows)).print(table)


_ROWS = (
    ("passages that failed", "failed"),
    ("edges", "edges"),
    ("guard passed, all units", "guard.units"),
    ("guard passed, without headings", "guard.without_titles"),
    ("stopped, but with a shorter quote", "guard.shortened"),
    ("carried sentences, outline per text (passage)", "tokens.passage.carried"),
    ("  the same, 20 passages", "tokens.groups_of_20.carried"),
    ("guarded mode, all text (passage)", "tokens.passage.overall"),
    ("  without the rules", "tokens.passage.overall_without_rules"),
    ("  20 passages", "tokens.groups_of_20.overall"),
    ("  20 passages, without the rules", "tokens.groups_of_20.overall_without_rules"),
    ("gold hops, guarded", "hops.guarded"),
    ("  but for articles and punctuation", "hops.guarded_as_squad"),
    ("gold hops, edges alone", "hops.edges"),
    ("  but for articles and punctuation", "hops.edges_as_squad"),
    ("gold pairs of a sentence, one edge (ends)", "pairs.same_sentence.one_edge_ends"),
    ("  one edge (anywhere)", "pairs.same_sentence.one_edge"),
    ("  two that meet", "pairs.same_sentence.two_edges"),
    ("  one or two", "pairs.same_sentence.held"),
    ("gold pairs, one edge (ends)", "pairs.all.one_edge_ends"),
    ("  one edge (anywhere)", "pairs.all.one_edge"),
    ("  two that meet", "pairs.all.two_edges"),
    ("  one or two", "pairs.all.held"),
    ("edges with a fault", "faults.faulty"),
    ("  of which", "faults.kinds"),
    ("dropped before", "faults.dropped"),
    ("words/s", "words_per_second"),
)


def _cell(row: dict[str, Any], path: str) -> str:
    value: Any = row
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    match value:
        case None:
            return "-"
        case {"value": None}:
            return "-"
        case {"kept": kept, "total": total, "value": share}:
            return f"{share:.3f} ({kept}/{total})"
        case {"sent": _, "host": _, "value": ratio}:
            return f"{ratio:.3f}"
        case dict():
            return "\n".join(f"{key}: {found:,.0f}" for key, found in value.items()) or "none"
        case _:
            return f"{value:,}"


def main() -> None:
    """Split, extract, align, measure, tell."""
    options = parser(__doc__ or "")
    options.formatter_class = argparse.RawDescriptionHelpFormatter
    options.add_argument("--extractors", nargs="*", help="precomputed, spacy:PIPELINE, combined, combined:PIPELINE")
    options.add_argument("--workers", type=int, default=1, help="also measure the speed on so many processes")
    options.add_argument("--sample", type=int, default=100, help="edges and sentences to write into --shown")
    options.add_argument("--shown", type=Path, help="write a sample of edges and of stopped sentences to this file")
    arguments = options.parse_args()
    offline()
    logging.getLogger("apl").setLevel(logging.WARNING)
    corpus = Corpus(arguments.data, arguments.limit)
    print(f"{arguments.data}: {len(corpus.passages)} passages, {word_count(corpus.passages):,} words")
    rows: list[dict[str, Any]] = []
    texts: list[str] = []
    names = arguments.extractors or corpus.default_extractors()
    for name in names:  # a wrong name is told before anything is measured
        extractor_of(name, corpus.triples)
    for name in names:
        readings, figures = measure(name, corpus, arguments.workers)
        rows.append(figures)
        if arguments.shown:
            texts += lines_to_read(name, readings, arguments.sample)
            texts += [f"lost hop: {lost}" for lost in figures.get("hops", {}).get("lost", ())]
    show(rows)
    if arguments.shown:
        arguments.shown.write_text("\n".join(texts) + "\n", encoding="utf-8")
    if arguments.json:
        arguments.json.write_text(json.dumps({"data": arguments.data, "extractors": rows}, indent=1))


if __name__ == "__main__":
    main()
