"""Totals a monitoring system can read: what a layer has done since it was opened, in this process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from threading import Lock

COUNTED = (
    "turns",
    "host_tokens",
    "sent_tokens",
    "passed_turns",
    "errors",
    "timeouts",
    "known_chunks",
    "unknown_chunks",
    "changed_chunks",
    "empty_chunks",
    "duplicate_chunks",
    "learned_chunks",
    "unlearned_chunks",
    "remembered_turns",
)
"""Every total there is. `passed_turns` sent the host's own text; `unlearned_chunks` found the queue full or failed."""


class Counters:
    """Growing totals by name, safe from many threads."""

    def __init__(self) -> None:
        self._totals: Counter[str] = Counter(dict.fromkeys(COUNTED, 0))
        self._lock = Lock()

    def add(self, amounts: Mapping[str, int]) -> None:
        """Add to several totals at once; a name that is not in `COUNTED` is a `KeyError`."""
        with self._lock:
            for name, amount in amounts.items():
                if name not in self._totals:
                    raise KeyError(name)
                self._totals[name] += amount

    def snapshot(self) -> dict[str, int]:
        """All totals at one moment."""
        with self._lock:
            return dict(self._totals)
