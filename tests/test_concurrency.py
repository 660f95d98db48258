"""Many threads and processes on one file: no error, and every payload is that of one state of the store."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from apl import AutoPrunedLayer, Chunk
from apl.testing import ScriptedExtractor

IDS = [f"c{number}" for number in range(12)]
COMMON = """
import json, sys, time
from apl import APLConfig, AutoPrunedLayer, Chunk
from apl.testing import HashEmbedder, ScriptedExtractor, WordCounter

path, seconds = sys.argv[1], float(sys.argv[2])
ids = [f"c{number}" for number in range(12)]
script = {f"DeltaPay {v} which is what it is and was is based in Oslo {n}.": [("DeltaPay", f"{v} based in", f"Oslo {n}")]
          for v in ("first", "second") for n in range(12)}
layer = AutoPrunedLayer.open(path, embedder=HashEmbedder(), extractor=ScriptedExtractor(script), tokenizer=WordCounter(),
                             config=APLConfig(mode="guarded", on_error="raise"))
end = time.monotonic() + seconds
"""
WRITER = (
    COMMON
    + """
rounds = 0
while time.monotonic() < end:
    version = ("second", "first")[rounds % 2]
    report = layer.index([Chunk(f"DeltaPay {version} which is what it is and was is based in Oslo {n}.", id=id_)
                          for n, id_ in enumerate(ids)])
    assert report.failed == 0 and report.replaced == 12, report
    rounds += 1
print(json.dumps(rounds))
"""
)
READER = (
    COMMON
    + """
texts, calls = set(), 0
while time.monotonic() < end:
    turn = layer.compress("Where is DeltaPay?", ids)
    texts.add((turn.form, turn.text, turn.tokens))
    calls += 1
print(json.dumps([calls, sorted(texts)]))
"""
)


def chunks(version: str) -> list[Chunk]:
    """The corpus in one of its two versions."""
    return [
        Chunk(f"DeltaPay {version} which is what it is and was is based in Oslo {n}.", id=id_)
        for n, id_ in enumerate(IDS)
    ]


def script() -> dict[str, list[tuple[str, str, str]]]:
    """The triples of both versions, by text."""
    return {
        chunk.text: [("DeltaPay", f"{version} based in", f"Oslo {number}")]
        for version in ("first", "second")
        for number, chunk in enumerate(chunks(version))
    }


def test_readers_see_one_of_two_states_while_a_process_indexes(
    open_layer: Callable[..., AutoPrunedLayer], tmp_path: Path
) -> None:
    """4 threads and 4 processes compress while one process replaces every chunk again and again."""
    layer = open_layer(extractor=ScriptedExtractor(script()))
    valid = set()
    for version in ("second", "first"):
        layer.index(chunks(version))
        turn = layer.compress("Where is DeltaPay?", IDS)
        assert turn.counters["known"] == len(IDS)
        valid.add((turn.form, turn.text, turn.tokens))
    assert len(valid) == 2

    path, seconds = str(tmp_path / "kb.db"), "3"
    writer = _python(WRITER, path, seconds)
    readers = [_python(READER, path, seconds) for _ in range(4)]
    seen: list[tuple[str, str, int]] = []
    failures: list[BaseException] = []

    def read() -> None:
        end = time.monotonic() + float(seconds)
        try:
            while time.monotonic() < end:
                turn = layer.compress("Where is DeltaPay?", IDS)
                seen.append((turn.form, turn.text, turn.tokens))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert json.loads(_output(writer)) >= 2
    assert set(seen) <= valid
    for reader in readers:
        calls, texts = json.loads(_output(reader))
        assert calls > 0
        assert {tuple(text) for text in texts} <= valid


def test_readers_never_take_the_write_lock(open_layer: Callable[..., AutoPrunedLayer], tmp_path: Path) -> None:
    """With a writer's transaction open, opening and compressing go on at once and see the state before it."""
    layer = open_layer(extractor=ScriptedExtractor(script()))
    layer.index(chunks("first"))
    expected = layer.compress("Where is DeltaPay?", IDS).text
    writer = sqlite3.connect(tmp_path / "kb.db", isolation_level=None)
    try:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("DELETE FROM chunks")
        started = time.monotonic()
        assert layer.compress("Where is DeltaPay?", IDS).text == expected
        assert open_layer().compress("Where is DeltaPay?", IDS, ratio=0.9).counters["known"] == len(IDS)
        assert time.monotonic() - started < 10  # a reader that asked for the lock would wait for three times as long
    finally:
        writer.execute("ROLLBACK")
        writer.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_opens_connections_of_its_own(open_layer: Callable[..., AutoPrunedLayer]) -> None:
    """The layer works in a child, and the parent's goes on working."""
    layer = open_layer(extractor=ScriptedExtractor(script()))
    layer.index(chunks("first"))
    expected = layer.compress("Where is DeltaPay?", IDS).text
    child = os.fork()
    if child == 0:
        try:
            same = layer.compress("Where is DeltaPay?", IDS).text == expected
            layer.index([Chunk("A child indexed this.", id="child")])
        except BaseException:
            same = False
        os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert layer.compress("Where is DeltaPay?", [*IDS, "child"]).counters["known"] == len(IDS) + 1


def _python(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def _output(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out
