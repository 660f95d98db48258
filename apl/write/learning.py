"""Learning: chunks that the codebook did not know are indexed in the background (`on_unknown="learn"`)."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from queue import Empty, Full, Queue
from threading import Lock, Thread

from apl.reports import IndexReport
from apl.symbols import Chunk

logger = logging.getLogger(__name__)

_MAX_BATCH = 64
_IDLE_S = 0.2


class Learner:
    """A bounded queue of chunks and one thread that indexes them.

    The thread starts with the first chunk and ends when there is nothing to do, so a process that learns nothing has
    none, and a forked child starts its own. What does not fit the queue is left: it will be met again.

    Args:
        index: Indexes a batch of chunks.
        capacity: Chunks that may wait.
        count: Told how many chunks were learned and how many were not.
    """

    def __init__(
        self,
        index: Callable[[Sequence[Chunk]], IndexReport],
        *,
        capacity: int,
        count: Callable[[int, int], None],
    ) -> None:
        self._index = index
        self._count = count
        self._capacity = capacity
        self._closed = False
        self._lock = Lock()
        self._start_over()

    def _start_over(self) -> None:
        self._pid = os.getpid()
        self._queue: Queue[Chunk] = Queue(self._capacity)
        self._waiting: set[tuple[str | None, str]] = set()
        self._thread: Thread | None = None

    def offer(self, chunks: Sequence[Chunk]) -> None:
        """Queue chunks without waiting; one that waits already is not queued twice."""
        with self._lock:
            if self._closed:
                return
            if self._pid != os.getpid():
                self._start_over()
            for chunk in chunks:
                name = (chunk.id, chunk.text)
                if name in self._waiting:
                    continue
                try:
                    self._queue.put_nowait(chunk)
                    self._waiting.add(name)
                except Full:
                    self._count(0, 1)
            if self._waiting and self._thread is None:
                self._thread = Thread(target=self._work, name="apl-learner", daemon=True)
                self._thread.start()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until everything queued is indexed; False when the time ran out first."""
        with self._lock:
            thread = self._thread
        if thread is None:
            return True
        thread.join(timeout_s)
        return not thread.is_alive()

    def close(self) -> None:
        """Take no more chunks, finish the batch at hand, and leave the rest for another time."""
        with self._lock:
            self._closed = True
            thread = self._thread
        if thread is not None and self._pid == os.getpid():
            thread.join()

    def _work(self) -> None:
        while batch := self._next_batch():
            try:
                report = self._index(batch)
                self._count(len(batch) - report.failed, report.failed)
            except Exception as error:
                logger.warning("%d chunks were not learned (%s)", len(batch), type(error).__name__, exc_info=True)
                self._count(0, len(batch))
            with self._lock:
                self._waiting.difference_update((chunk.id, chunk.text) for chunk in batch)

    def _next_batch(self) -> list[Chunk]:
        """Up to a batch of queued chunks; empty when the thread is to end, decided under the lock of `offer`."""
        batch: list[Chunk] = []
        try:
            batch.append(self._queue.get(timeout=_IDLE_S))
            while len(batch) < _MAX_BATCH:
                batch.append(self._queue.get_nowait())
        except Empty:
            pass
        with self._lock:
            if self._closed or (not batch and self._queue.empty()):
                self._thread = None
                return []
        return batch or self._next_batch()
