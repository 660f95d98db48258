"""Progress of a long run: how much is done, how fast, how long it will take; a bar, or a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import Any

LINE_EVERY_S = 10.0
"""Between two lines where stderr is no terminal; a choice of this project."""

Advance = Callable[[int], object]


@contextmanager
def progress_of(chunks: Iterable[Any], shown: bool | None, *, batch_size: int) -> Iterator[Advance]:
    """A function that is told how many chunks are done, and shows it on stderr, or nothing.

    Args:
        chunks: What is worked off. One that knows its length, or has `share_read` (0 to 1, such as a corpus of files
            that knows how many bytes it has read), also gets the time left.
        shown: Show it; None: on a terminal, for more than one batch.
        batch_size: Chunks a batch.
    """
    total = len(chunks) if isinstance(chunks, Sized) else None
    if shown is None:
        shown = sys.stderr.isatty() and (total is None or total > batch_size)
    if not shown:
        yield lambda _count: None
        return
    pace = Pace(chunks, total)
    with _bar(pace) if sys.stderr.isatty() else _lines(pace) as show:

        def advance(count: int) -> None:
            pace.add(count)
            show()

        yield advance


class Pace:
    """How far a run is and how fast.

    Attributes:
        done: Chunks done.
        share: The share of the work that is done, in [0, 1]; None: unknown.
    """

    def __init__(self, chunks: Iterable[Any], total: int | None) -> None:
        self._chunks = chunks
        self._total = total
        self._started = time.monotonic()
        self.done = 0
        self.share: float | None = None

    def add(self, count: int) -> None:
        """So many more chunks are done."""
        self.done += count
        share = self.done / self._total if self._total else getattr(self._chunks, "share_read", None)
        self.share = min(float(share), 1.0) if isinstance(share, int | float) else None

    def said(self) -> str:
        """`1,024 of 5,000 chunks, 85 a second, 47 s left`, as far as it is known."""
        passed = time.monotonic() - self._started
        of = f" of {self._total:,}" if self._total else ""
        rate = self.done / passed if passed > 0 else 0.0
        text = f"{self.done:,}{of} chunks, {rate:,.0f} a second"
        if not self.share:
            return text
        return f"{text}, {_duration(passed * (1 - self.share) / self.share)} left"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


@contextmanager
def _bar(pace: Pace) -> Iterator[Callable[[], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("indexing"), BarColumn(), TextColumn("{task.fields[said]}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("indexing", total=None, said="")

        def show() -> None:
            total = None if pace.share is None else 1.0
            bar.update(task, total=total, completed=pace.share or 0.0, said=pace.said())

        yield show


@contextmanager
def _lines(pace: Pace) -> Iterator[Callable[[], None]]:
    told = time.monotonic()

    def show() -> None:
        nonlocal told
        if time.monotonic() - told >= LINE_EVERY_S:
            told = time.monotonic()
            _say(pace)

    yield show
    _say(pace)


def _say(pace: Pace) -> None:
    sys.stderr.write(f"indexing: {pace.said()}\n")
    sys.stderr.flush()
