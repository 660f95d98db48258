r"""What payloads cost and keep: every edge in each form, and what `compress` really sends, on identical chunk ids.

    python benchmarks/payload.py --data musique-100 --k 20

The host is dense retrieval with MiniLM over `title\ntext` passages; tokens are o200k_base on the exact bytes.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from apl import APLConfig, AutoPrunedLayer, Chunk, Turn
from apl.evaluation.metrics import QuestionRecord, Summary, summarise
from apl.protocols import TripleExtractor
from apl.providers import PrecomputedExtractor, SpacyExtractor, TiktokenCounter
from apl.read.payload import encode, neutralise
from apl.state.engine import Store
from apl.state.passages import Passages
from apl.symbols import Evidence, Form
from hosts import DenseHost, Question, load, minilm, offline, parser

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


def extractor_of(name: str, triples: Path | None) -> TripleExtractor:
    """The extractor of that name; `precomputed` needs a data set with triples."""
    if name == "precomputed":
        if triples is None:
            sys.exit("this data set has no precomputed triples; use --extractor spacy --pipeline NAME")
        return PrecomputedExtractor(triples)
    return SpacyExtractor(name)


def all_edges_arms(
    passages: Passages, retrieved: Sequence[Sequence[Chunk]], questions: Sequence[Question]
) -> list[Arm]:
    """Every edge of the host's chunks in each form, without quotes, without selection."""
    counter = TiktokenCounter()
    arms = {form: Arm(f"all edges, {form}", []) for form in FORMS}
    for question, chunks in zip(questions, retrieved, strict=True):
        stored = passages.find([chunk.id or "" for chunk in chunks], []).by_key
        evidence = Evidence(facts=tuple(stored[chunk.id or ""].run for chunk in chunks))
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


def row(arm: Arm, summary: Summary) -> dict[str, Any]:
    """The figures of an arm, ready for JSON."""
    worst = max((r.sent_tokens / r.host_tokens for r in arm.records if r.host_tokens), default=None)
    substring = [
        any(a in r.sent_text for a in r.answers) for r in arm.records if any(a in r.host_text for a in r.answers)
    ]
    return {
        "arm": arm.name,
        **summary.to_dict(),
        "worst_ratio": worst,
        "plain_substring": {"kept": sum(substring), "total": len(substring)},
    }


def show(rows: Sequence[dict[str, Any]]) -> None:
    """The figures as a table."""
    table = Table(
        "arm", "tokens", "ratio", "mean", "worst", "answers kept", "hops kept", "substring", "identifiers", "forms"
    )
    for figures in rows:
        tokens = figures["tokens"]
        table.add_row(
            figures["arm"],
            f"{tokens['sent_tokens'] / max(1, figures['questions']):.0f}",
            f"{tokens['ratio']:.3f}",
            f"{tokens['mean_ratio']:.3f}",
            f"{figures['worst_ratio']:.3f}",
            *(_share(figures[key]) for key in ("answers_kept", "all_hops_kept", "plain_substring", "identifiers")),
            ", ".join(f"{form} {count}" for form, count in figures["forms"].items()),
        )
    Console(width=190).print(table)


def _share(share: dict[str, Any]) -> str:
    return f"{share['kept']}/{share['total']} = {share['kept'] / share['total']:.3f}" if share["total"] else "-"


def main() -> None:
    """Index, retrieve, encode, count, tell."""
    options = parser(__doc__ or "")
    options.add_argument("--k", type=int, default=20, help="chunks the host returns")
    options.add_argument("--extractor", default="precomputed", help="precomputed, or the name of a spaCy pipeline")
    options.add_argument("--ratio", type=float, nargs="*", default=[], help="also compress to these shares of the host")
    arguments = options.parse_args()
    offline()
    data = load(arguments.data, arguments.limit)
    embedder = minilm()
    host = DenseHost(data.chunks, embedder)
    retrieved = host.top([question.text for question in data.questions], arguments.k)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kb.db"
        extractor = extractor_of(arguments.extractor, data.triples)
        config = APLConfig(on_error="raise")
        with AutoPrunedLayer.open(path, embedder=embedder, extractor=extractor, config=config) as layer:
            report = layer.index(data.chunks)
            share = report.carried_sentences / report.sentences
            print(f"{data.name}, k = {arguments.k}, {len(data.questions)} questions, edges by {extractor.name}")
            print(
                f"indexed {report.indexed} chunks in {report.seconds:.1f} s: {report.triples} triples; "
                f"the guard passes {report.carried_sentences} of {report.sentences} sentences = {share:.3f}"
            )
            arms = all_edges_arms(Passages(Store.open(path, read_only=True)), retrieved, data.questions)
            asked = list(zip(data.questions, retrieved, strict=True))
            turns = [layer.compress(question.text, chunks) for question, chunks in asked]
            arms.append(turn_arm("compress", turns, retrieved, data.questions))
            for ratio in arguments.ratio:
                turns = [layer.compress(question.text, chunks, ratio=ratio) for question, chunks in asked]
                arms.append(turn_arm(f"compress, ratio {ratio}", turns, retrieved, data.questions))
    rows = [row(arm, summarise(arm.records)) for arm in arms]
    host_tokens = sum(record.host_tokens for record in arms[-1].records) / len(data.questions)
    print(f"mean host tokens: {host_tokens:.1f}")
    show(rows)
    if arguments.json:
        figures = {"data": data.name, "k": arguments.k, "extractor": extractor.name, "host_tokens": host_tokens,
                   "carried": report.carried_sentences, "sentences": report.sentences, "arms": rows}  # fmt: skip
        arguments.json.write_text(json.dumps(figures, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
