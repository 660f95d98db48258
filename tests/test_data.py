"""On real passages: never worse than the host, and nothing that answers is lost."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from apl import AutoPrunedLayer, Chunk
from apl.evaluation.metrics import contains_any, is_eligible
from apl.providers import PrecomputedExtractor
from apl.read.payload import neutralise


@pytest.mark.data
def test_musique_is_never_worse(open_layer: Callable[..., AutoPrunedLayer], data_folder: Path) -> None:
    """With the LLM's triples, on every question: tokens <= the host's; where everything is said, so is the answer."""
    folder = data_folder / "musique-100"
    lines = {
        name: [json.loads(line) for line in gzip.decompress((folder / f"{name}.jsonl.gz").read_bytes()).splitlines()]
        for name in ("chunks", "questions")
    }
    passages = {
        row["id"]: Chunk(f"{row['title']}\n{row['text']}", id=row["id"], document_id=row["doc_id"], title=row["title"])
        for row in lines["chunks"][:400]
    }
    layer = open_layer(extractor=PrecomputedExtractor(folder / "triples.jsonl.gz"))
    assert layer.index(passages.values()).failed == 0
    asked = [row for row in lines["questions"] if all(chunk_id in passages for chunk_id in row["gold"])]
    assert len(asked) >= 10
    filler = list(passages)
    for number, row in enumerate(asked):
        chosen = list(dict.fromkeys([*row["gold"], *filler[number * 7 : number * 7 + 12]]))
        for options in ({}, {"ratio": 1.0}, {"ratio": 0.5}):
            turn = layer.compress(row["question"], chosen, **options)
            assert turn.tokens <= turn.host_tokens * options.get("ratio", 1.0)
        turn = layer.compress(row["question"], chosen, ratio=1.0)
        host = "\n\n".join(passages[chunk_id].text for chunk_id in chosen)
        if turn.form != "host_text" and is_eligible(row["question"], row["answers"], host):
            evidence = neutralise(turn.evidence)
            said = [" ".join((t.head, t.relation, t.tail)) for run in evidence.facts for t in run]
            assert contains_any("\n".join([*said, *(quote.text for quote in evidence.quotes)]), row["answers"])
