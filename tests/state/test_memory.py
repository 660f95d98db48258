"""Turns this process holds, and turns the store keeps."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from apl.errors import InputError, ReadOnlyStoreError
from apl.state.codebook import Codebook
from apl.state.engine import Store
from apl.state.memory import Memory
from apl.symbols import Scope, Turn, Verdict


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(Store.open(tmp_path / "kb.db")) as store:
        yield store


@pytest.fixture
def memory(store: Store) -> Memory:
    return Memory(store, held_turns=2)


def turn(question: str = "Who acquired DeltaPay?", **fields: Any) -> Turn:
    return Turn(question, text="", parts=(), form="empty", layout="single", tokens=0, host_tokens=0, **fields)


def stored(path: Path) -> list[dict[str, Any]]:
    """The rows of `turns`, past apl."""
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute("SELECT * FROM turns ORDER BY created_at")]


def test_held_turn_is_found_by_its_id(memory: Memory) -> None:
    """What compress made is the very object that comes back."""
    held = turn()
    memory.hold(held)
    assert memory.turn(held.id) is held


def test_oldest_turn_goes_first(memory: Memory) -> None:
    """Beyond the limit the process lets go of the oldest; the message says how many it keeps."""
    turns = [turn(str(number)) for number in range(3)]
    for held in turns:
        memory.hold(held)
    assert [memory.turn(held.id) for held in turns[1:]] == turns[1:]
    with pytest.raises(InputError, match="keeps the last 2") as caught:
        memory.turn(turns[0].id)
    assert turns[0].id in str(caught.value)


def test_turn_of_nowhere_is_an_input_error(memory: Memory) -> None:
    """An id this process never held asks for the Turn itself."""
    with pytest.raises(InputError, match="hand over the Turn itself"):
        memory.turn("nowhere")


def test_answer_is_stored_as_pending(memory: Memory, store: Store) -> None:
    """The row holds question, answer, scope and which version of which chunks the answer was given from."""
    scope = Scope(tenant="acme", user="ann", session="s1")
    given = turn(sources=(("c1", "ab" * 32), ("c2", "cd" * 32)), scope=scope)
    assert memory.store(given, "Northstar.") == Verdict(given.id, "pending")
    (row,) = stored(store.path)
    assert row.pop("created_at") > 0
    assert json.loads(row.pop("evidence")) == [["c1", "ab" * 32], ["c2", "cd" * 32]]
    assert row == {
        "id": given.id,
        "tenant": "acme",
        "user": "ann",
        "session": "s1",
        "question": "Who acquired DeltaPay?",
        "answer": "Northstar.",
        "status": "pending",
    }


def test_second_answer_replaces_the_first(memory: Memory, store: Store) -> None:
    """A turn has one row however often it is remembered; other turns keep theirs."""
    one, other = turn(), turn()
    for given, answer in ((one, "DeltaPay."), (other, "Nobody."), (one, "Northstar.")):
        memory.store(given, answer)
    assert {row["id"]: row["answer"] for row in stored(store.path)} == {one.id: "Northstar.", other.id: "Nobody."}
    assert Codebook(store).stats().turns == 2


def test_turn_need_not_be_held(memory: Memory, store: Store) -> None:
    """A turn of another process is stored like one's own."""
    memory.store(turn(id="from-elsewhere"), "Northstar.")
    assert [row["id"] for row in stored(store.path)] == ["from-elsewhere"]


def test_remembering_changes_no_payload(memory: Memory, store: Store) -> None:
    """A pending row alters nothing that is sent, so the generation stays."""
    memory.store(turn(), "Northstar.")
    assert Codebook(store).stats().generation == 0


def test_read_only_store_remembers_nothing(store: Store) -> None:
    """A store that is open for reading holds turns and refuses answers."""
    with closing(Store.open(store.path, read_only=True)) as reader:
        memory, given = Memory(reader, held_turns=1), turn()
        memory.hold(given)
        assert memory.turn(given.id) is given
        with pytest.raises(ReadOnlyStoreError):
            memory.store(given, "Northstar.")
    assert stored(store.path) == []


@pytest.mark.parametrize("answer", ["x\0y", "北京 😀", "a'); DROP TABLE turns; --", "line\r\nline"])
def test_answer_is_stored_byte_for_byte(memory: Memory, store: Store, answer: str) -> None:
    """Stored text is data."""
    memory.store(turn(), answer)
    assert [row["answer"] for row in stored(store.path)] == [answer]


def test_acknowledged_turn_survives_a_kill(tmp_path: Path) -> None:
    """A process that dies right after the verdict has lost nothing."""
    code = """
import os, sys
from apl.state.engine import Store
from apl.state.memory import Memory
from apl.symbols import Turn
turn = Turn("Who?", text="", parts=(), form="empty", layout="single", tokens=0, host_tokens=0, id="t1")
Memory(Store.open(sys.argv[1]), held_turns=1).store(turn, "Northstar.")
os._exit(9)
"""
    path = tmp_path / "killed.db"
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False, timeout=30).returncode == 9
    assert [(row["id"], row["answer"]) for row in stored(path)] == [("t1", "Northstar.")]
