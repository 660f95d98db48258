"""A token counter whose time is noted among a turn's timings."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from apl.protocols import TokenCounter

logger = logging.getLogger(__name__)


class TimedCounter:
    """A counter whose time is noted; with `failing` it answers 0 where the real one fails, `silent` always."""

    def __init__(
        self, counter: TokenCounter, timings: dict[str, float], *, failing: bool = False, silent: bool = False
    ) -> None:
        self.name = counter.name
        self._counter = counter
        self._timings = timings
        self._failing = failing
        self._silent = silent

    def count(self, text: str) -> int:
        """Tokens of the text."""
        if self._silent:
            return 0
        started = time.perf_counter()
        try:
            return self._counter.count(text)
        except Exception:
            if not self._failing:
                raise
            logger.debug("the host's text could not be counted either", exc_info=True)
            return 0
        finally:
            spent = (time.perf_counter() - started) * 1000
            self._timings["counting_ms"] = self._timings.get("counting_ms", 0.0) + spent

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text."""
        return [self.count(text) for text in texts]
