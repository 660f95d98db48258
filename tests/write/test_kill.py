"""SIGKILL at any moment: whatever was under way, running it again ends where an uninterrupted run ends."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from apl.state.comparison import differences
from killed import run

SCRIPT = Path(__file__).with_name("killed.py")
WAYS = ("index", "workers", "reextract", "sync")


def kill_in_the_middle(way: str, store: Path, moments: random.Random) -> None:
    """Start the work, wait for a random passage and a random while more, and kill."""
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), way, str(store)], stdout=subprocess.PIPE, bufsize=0, start_new_session=True
    )
    assert process.stdout is not None
    for _ in range(moments.randint(1, 9)):
        assert process.stdout.read(1) == b".", "it was to be killed before it ended"
    time.sleep(moments.uniform(0, 0.05))
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    # the pipe is closed when the last worker has ended: none outlives the process that started it
    while process.stdout.read(4096):
        pass
    process.stdout.close()


@pytest.mark.parametrize("way", WAYS)
def test_what_was_killed_is_resumed(way: str, tmp_path: Path) -> None:
    """Killed, killed again, left alone: natural keys, sentences, edges, guard and vectors as if nothing had been."""
    killed, whole = tmp_path / "killed.db", tmp_path / "whole.db"
    if way in ("reextract", "sync"):
        run("index", str(whole), 0.0)
        shutil.copy(whole, killed)
    moments = random.Random(f"kill {way}")  # noqa: S311 - moments, not secrets
    for _ in range(2 if way in ("index", "sync") else 1):
        kill_in_the_middle(way, killed, moments)
    run("index" if way == "workers" else way, str(killed), 0.0)
    run("index" if way == "workers" else way, str(whole), 0.0)
    assert differences(killed, whole) == []


def test_differences_are_found(tmp_path: Path) -> None:
    """What the tests above compare by tells stores apart."""
    run("index", str(tmp_path / "one.db"), 0.0)
    shutil.copy(tmp_path / "one.db", tmp_path / "other.db")
    assert differences(tmp_path / "one.db", tmp_path / "other.db") == []
    run("sync", str(tmp_path / "other.db"), 0.0)
    found = differences(tmp_path / "one.db", tmp_path / "other.db")
    assert {line.split(":")[0] for line in found} >= {"documents", "chunks", "sentences", "edges", "runs", "vectors"}
