"""How far, how fast, how long still."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from apl.write import progress
from apl.write.progress import Pace, progress_of


class Files:
    """A source that knows its share, and not its length."""

    share_read = 0.25

    def __iter__(self) -> Iterator[int]:
        return iter(range(8))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, to be set."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize(
    ("chunks", "total", "passed", "said"),
    [
        (range(5000), 5000, 10.0, "1,000 of 5,000 chunks, 100 a second, 40 s left"),
        (Files(), None, 10.0, "1,000 chunks, 100 a second, 30 s left"),
        (iter([]), None, 4.0, "1,000 chunks, 250 a second"),
        (range(100_000), 100_000, 100.0, "1,000 of 100,000 chunks, 10 a second, 2 h 45 min left"),
        (range(1500), 1500, 200.0, "1,000 of 1,500 chunks, 5 a second, 1 min 40 s left"),
        (range(1000), 1000, 200.0, "1,000 of 1,000 chunks, 5 a second, 0 s left"),
    ],
)
def test_rate_and_time_left(clock: list[float], chunks: object, total: int | None, passed: float, said: str) -> None:
    """From the number of chunks or the share of the source; without either only the rate."""
    pace = Pace(chunks, total)  # type: ignore[arg-type]
    clock[0] += passed
    pace.add(400)
    pace.add(600)
    assert pace.said() == said


def test_lines_now_and_then(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    """Where stderr is no terminal: a line every ten seconds and one at the end, never more."""
    with progress_of([0] * 40, True, batch_size=4) as advance:
        for _ in range(10):
            clock[0] += 3
            advance(4)
    printed = capsys.readouterr().err.splitlines()
    assert printed == [
        "indexing: 16 of 40 chunks, 1 a second, 18 s left",
        "indexing: 32 of 40 chunks, 1 a second, 6 s left",
        "indexing: 40 of 40 chunks, 1 a second, 0 s left",
    ]
    assert progress.LINE_EVERY_S == 10
