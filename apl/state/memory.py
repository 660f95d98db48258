"""Turns: what was asked and answered, and from which version of which chunks."""

from __future__ import annotations

import time
from collections import OrderedDict
from threading import Lock

from sqlalchemy import insert, select, update

from apl.errors import InputError
from apl.state import schema
from apl.state.engine import Store
from apl.symbols import Turn, Verdict


def storable(text: str) -> str:
    """The text with half surrogate pairs, which no database holds, as question marks."""
    return text.encode("utf-8", "replace").decode()


class Memory:
    """The turns of the store and those this process still holds. Reached as `layer.memory`."""

    def __init__(self, store: Store, *, held_turns: int) -> None:
        self._store = store
        self._limit = held_turns
        self._held: OrderedDict[str, Turn] = OrderedDict()
        self._lock = Lock()

    def hold(self, turn: Turn) -> None:
        """Keep a turn of this process, so that `turn` and `remember` find it by its id; the oldest goes first."""
        with self._lock:
            self._held[turn.id] = turn
            while len(self._held) > self._limit:
                self._held.popitem(last=False)

    def turn(self, turn_id: str) -> Turn:
        """A turn that this process compressed and still holds.

        Raises:
            InputError: It does not, or no longer.
        """
        with self._lock:
            held = self._held.get(turn_id)
        if held is None:
            raise InputError(
                f"this process holds no turn {turn_id!r} (it keeps the last {self._limit}); hand over the Turn itself"
            )
        return held

    def store(self, turn: Turn, answer: str) -> Verdict:
        """Write a pending row: question, answer, scope and the evidence's versions. A second answer replaces the first.

        The row is committed when this returns, so a kill loses nothing that was acknowledged.

        Raises:
            ReadOnlyStoreError: The store is open for reading.
        """
        values = {
            "tenant": turn.scope.tenant,
            "user": turn.scope.user,
            "session": turn.scope.session,
            "question": storable(turn.question),
            "answer": storable(answer),
            "evidence": [list(source) for source in turn.sources],
            "status": "pending",
            "created_at": time.time(),
        }
        turns = schema.turns
        with self._store.writing() as connection:
            if connection.execute(select(turns.c.id).where(turns.c.id == turn.id)).first():
                connection.execute(update(turns).where(turns.c.id == turn.id).values(**values))
            else:
                connection.execute(insert(turns).values(id=turn.id, **values))
        return Verdict(turn.id, "pending")
