"""Long lists of values in short statements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

MAX_VARIABLES = 500
"""Values an IN list holds; SQLite's own limit is far above, its planner's patience is not."""

_T = TypeVar("_T")


def batches(values: Sequence[_T], size: int = MAX_VARIABLES) -> Iterator[Sequence[_T]]:
    """Slices of at most `size` values."""
    for start in range(0, len(values), size):
        yield values[start : start + size]
