"""Same input, same bytes: over hash seeds, batch sizes and processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import json, sqlite3, sys
from apl import APLConfig, AutoPrunedLayer, Chunk
from apl.config import IndexingConfig
from apl.testing import HashEmbedder, ScriptedExtractor, WordCounter

path, batch_size = sys.argv[1], int(sys.argv[2])
names = ["Northstar", "DeltaPay", "northstar", "CloudCo", "EU", "Globex", "the CloudCo", "\u5317\u4eac"]
texts = {
    f"c{i}": f"{names[i % 8]}\\n{names[i % 8]} acquired {names[(i * 3 + 1) % 8]} in {2000 + i}. It was {i} on a scale of {i * 7}."
    for i in range(24)
}
triples = {
    key: [(names[i % 8], "acquired", names[(i * 3 + 1) % 8]), (names[i % 8], "acquired in", str(2000 + i))]
    for i, key in enumerate(texts)
}
config = APLConfig(mode="guarded", quotes="shortened", on_error="raise", indexing=IndexingConfig(batch_size=batch_size))
layer = AutoPrunedLayer.open(
    path, embedder=HashEmbedder(), extractor=ScriptedExtractor(triples), tokenizer=WordCounter(), config=config
)
chunks = [Chunk(text, id=key, document_id=f"d{int(key[1:]) // 4}") for key, text in texts.items()]
assert layer.index(chunks).failed == 0
payloads = []
for forms in (("edge_reference",), ("inline_triple",), ("outline",)):
    layer.config = config.model_copy(update={"forms": forms})
    for options in ({}, {"budget_tokens": 60}, {"ratio": 0.3}):
        turn = layer.compress("What did Northstar acquire in 2003?", list(texts)[::-1], **options)
        payloads.append([turn.form, turn.text, turn.tokens])
layer.close()
rows = sqlite3.connect(path)
queries = {
    "chunks": "select c.key, d.key, c.position, c.text, c.content_hash, c.tokens from chunks c join documents d on d.id = c.document_id",
    "sentences": "select c.key, s.position, s.start, s.end, s.kind, s.carried, hex(s.vector) from sentences s join chunks c on c.id = s.chunk_id",
    "entities": "select name, normal_form from entities",
    "relations": "select name, normal_form from relations",
    "occurrences": "select c.key, o.position, s.position, h.name, r.name, t.name, o.extractor, o.trust from occurrences o "
    "join chunks c on c.id = o.chunk_id left join sentences s on s.id = o.sentence_id join edges e on e.id = o.edge_id "
    "join entities h on h.id = e.head_id join relations r on r.id = e.relation_id join entities t on t.id = e.tail_id",
    "links": "select l.name, r.name, k.kind from links k join entities l on l.id = k.left_id join entities r on r.id = k.right_id",
}
store = {name: sorted(map(list, rows.execute(query)), key=repr) for name, query in queries.items()}
assert all(store.values()), {name: len(found) for name, found in store.items()}
print(json.dumps({"store": store, "payloads": payloads}))
"""


def build(path: Path, *, seed: str, batch_size: int) -> dict[str, object]:
    """Index and compress in a fresh process; what the store holds by natural keys, and every payload."""
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path), str(batch_size)],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    built: dict[str, object] = json.loads(done.stdout)
    return built


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """The build all others are compared with."""
    return build(tmp_path_factory.mktemp("reference") / "kb.db", seed="0", batch_size=128)


@pytest.mark.parametrize(("seed", "batch_size"), [("1", 128), ("4242", 128), ("0", 1), ("7", 5)])
def test_the_same_build_gives_the_same_store_and_bytes(
    reference: dict[str, object], tmp_path: Path, seed: str, batch_size: int
) -> None:
    """Another hash seed and another batch size change neither natural keys nor payload bytes (contract 1)."""
    built = build(tmp_path / "kb.db", seed=seed, batch_size=batch_size)
    assert built["store"] == reference["store"]
    assert built["payloads"] == reference["payloads"]
