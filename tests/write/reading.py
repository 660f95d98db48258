"""Extractors for the tests of worker processes, in a module that a worker loads quickly."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from apl.errors import MissingDependency
from apl.symbols import ExtractedTriple, Extraction, Passage, Triple


class Reading:
    """Reads what a firm pays; some texts make it do other things. Pickles, as it stands in a module."""

    name = "reading"

    def __init__(self, marks: Path | None = None) -> None:
        self._marks = marks

    def extract(self, passages: Sequence[Passage]) -> list[Extraction]:
        for passage in passages:
            self._obey(passage.chunk.text)
        return [self._read(passage.chunk.text) for passage in passages]

    def _obey(self, text: str) -> None:
        in_worker = multiprocessing.parent_process() is not None
        if text == "RAISE":
            raise ValueError("cannot read")
        if text == "MISSING":
            raise MissingDependency("no pipeline", command="pip install x")
        if text == "KILL" and in_worker:
            os.kill(os.getpid(), signal.SIGKILL)
        if text == "KILL ONCE" and in_worker and self._marks and not (self._marks / "killed").exists():
            (self._marks / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if self._marks and in_worker:
            (self._marks / f"pid-{os.getpid()}").touch()

    @staticmethod
    def _read(text: str) -> Extraction:
        words = text.split()
        return Extraction((ExtractedTriple(Triple(f"Firm {words[1]}", "pays", words[-1]), 0),) if words[1:] else ())


class Homely(Reading):
    """Wants to stay where it is."""

    in_process_only = True


class Unpicklable(Reading):
    """Holds a lock."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()


class Unloadable(Reading):
    """Pickles, and cannot be loaded anywhere."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _refuse, ()


def _refuse() -> None:
    raise OSError("no such model here")


class OddError(MissingDependency):
    """Does not pickle."""

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("no")


class Odd(Reading):
    """Raises an error that does not pickle."""

    def extract(self, passages: Sequence[Passage]) -> list[Extraction]:
        raise OddError("odd", command="pip install odd")
