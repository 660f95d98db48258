"""Extraction in worker processes, while one process writes.

A worker holds nothing but the extractor and one end of a pipe. When this process dies, however it dies, the pipe closes
and the worker ends; when a worker dies, its batch is read again by a new one. The results are those of reading here.
"""

from __future__ import annotations

import logging
import pickle
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Protocol, Self

from apl.errors import ConfigError
from apl.protocols import TripleExtractor
from apl.symbols import Passage
from apl.write.extraction import NOT_A_BAD_CHUNK, Failure, ReadPassage, read_passages

logger = logging.getLogger(__name__)

BATCHES_PER_PROCESS = 256
"""Then a worker is replaced: parsers keep every word they have ever seen. A choice of this project."""

MAX_LONE_DEATHS = 8
"""Passages that may kill a worker; after so many it is the surroundings that kill, and reading goes on here."""

_JOIN_S = 5.0

Batch = list[ReadPassage | Failure]


class Reads(Protocol):
    """Reads batches of passages, perhaps some of them at once."""

    @property
    def ahead(self) -> int:
        """Batches that are worth handing in before the result of the first is asked for."""
        ...

    def submit(self, passages: Sequence[Passage]) -> Callable[[], Batch]:
        """A function that waits for the result of `read_passages`."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def reader(extractor: TripleExtractor | None, workers: int) -> Reads:
    """Reads in so many worker processes; in this one for fewer than two, and where the extractor cannot leave it.

    An extractor with `in_process_only = True` stays: it has threads of its own, or holds nothing but a table.
    """
    if extractor is None or workers < 2:
        return InProcess(extractor)
    if getattr(extractor, "in_process_only", False):
        logger.info("%s reads in this process, not in %d workers: it asks for that", extractor.name, workers)
        return InProcess(extractor)
    try:
        pickled = pickle.dumps(extractor)
    except Exception as error:  # noqa: BLE001 - whatever an object's own pickling raises
        logger.warning("%s reads in this process: it does not pickle (%s)", extractor.name, error)
        return InProcess(extractor)
    return Workers(extractor, pickled, workers)


class InProcess:
    """Reads where it is called, when the result is asked for."""

    ahead = 0

    def __init__(self, extractor: TripleExtractor | None) -> None:
        self._extractor = extractor

    def submit(self, passages: Sequence[Passage]) -> Callable[[], Batch]:
        """A function that reads them."""
        return lambda: read_passages(self._extractor, passages)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class _DiedError(Exception):
    """A worker process ended in the middle of a batch."""


class _UselessError(Exception):
    """A worker process cannot start here, or cannot load the extractor."""


class Workers:
    """Reads in worker processes that are started by need; a context manager that leaves none behind."""

    def __init__(self, extractor: TripleExtractor, pickled: bytes, count: int) -> None:
        self.ahead = count + 1
        self._extractor = extractor
        self._pickled = pickled
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="apl-worker")
        self._idle: SimpleQueue[_Process | None] = SimpleQueue()
        for _ in range(count):
            self._idle.put(None)
        self._lock = threading.Lock()
        self._alive: set[_Process] = set()
        self._here = threading.Lock()
        self._closed = False
        self._useless = False
        self._lone_deaths = 0

    def submit(self, passages: Sequence[Passage]) -> Callable[[], Batch]:
        """A function that waits for what a worker read."""
        if not passages:
            return list
        try:
            packed = pickle.dumps(list(passages))
        except Exception as error:  # noqa: BLE001 - whatever an object's own pickling raises
            logger.info("a batch is read in this process: its chunks do not pickle (%s)", error)
            return lambda: self._read_here(passages)
        future: Future[Batch] = self._threads.submit(self._read, passages, packed)
        return future.result

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._closed = True
            for process in self._alive:
                process.end()
        self._threads.shutdown(wait=True, cancel_futures=True)

    # --- in a thread of the pool --------------------------------------------------------------------------------------

    def _read(self, passages: Sequence[Passage], packed: bytes) -> Batch:
        """Read by a worker; a second time by another if it dies; then one passage at a time."""
        for _ in range(2):
            try:
                return self._asked(passages, packed)
            except _DiedError as error:
                self._check_open()
                logger.warning("a worker process died (%s): its batch of %d is read again", error, len(passages))
        results: Batch = []
        for passage in passages:
            try:
                results += self._asked([passage], pickle.dumps([passage]))
            except _DiedError as error:
                self._check_open()
                results.append(Failure(f"extraction failed (the worker process that read it died: {error})"))
                self._lone_deaths += 1
                self._useless = self._lone_deaths > MAX_LONE_DEATHS
        return results

    def _asked(self, passages: Sequence[Passage], packed: bytes) -> Batch:
        if self._useless:
            return self._read_here(passages)
        process = self._idle.get()
        try:
            if process is None or process.batches >= BATCHES_PER_PROCESS:
                process = self._started(process)
            answer = process.ask(packed)
        except _UselessError as error:
            self._dropped(process)
            process = None
            if not self._useless:
                logger.warning("%s reads in this process: workers are of no use (%s)", self._extractor.name, error)
            self._useless = True
            answer = None
        except BaseException:
            self._dropped(process)
            process = None
            raise
        finally:
            self._idle.put(process)
        if isinstance(answer, Exception):
            raise answer
        return self._read_here(passages) if answer is None else answer

    def _started(self, old: _Process | None) -> _Process:
        self._dropped(old)
        with self._lock:
            self._check_open()
            try:
                process = _Process()
            except (OSError, AssertionError) as error:  # no more processes, or this one may have none
                raise _UselessError(str(error)) from error
            self._alive.add(process)
        process.prepare(self._pickled)
        return process

    def _check_open(self) -> None:
        """Raise where the run has ended: what dies then was ended by this process."""
        if self._closed:
            raise CancelledError

    def _dropped(self, process: _Process | None) -> None:
        if process is not None:
            with self._lock:
                self._alive.discard(process)
            process.end()

    def _read_here(self, passages: Sequence[Passage]) -> Batch:
        with self._here:  # an extractor need not be safe in several threads
            return read_passages(self._extractor, passages)


class _Process:
    """A worker process and this end of its pipe."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self._pipe, there = context.Pipe()
        self._process = context.Process(target=_main, args=(there,), name="apl-worker", daemon=True)
        self._process.start()
        there.close()
        self._ending = threading.Lock()
        self.batches = 0

    def prepare(self, pickled: bytes) -> None:
        """Hand over the extractor.

        Raises:
            _UselessError: The process did not come up, or cannot load the extractor.
        """
        try:
            self._pipe.send_bytes(pickled)
            fault: str | None = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise _UselessError(
                "it ended before its first batch; a script that asks for workers needs its own code under "
                'if __name__ == "__main__":'
            ) from error
        if fault is not None:
            raise _UselessError(f"it cannot load the extractor: {fault}")

    def ask(self, packed: bytes) -> Batch | Exception | None:
        """What the worker read: a batch, a fault of the set-up, or None where it could not load the passages.

        Raises:
            _DiedError: It died over it.
        """
        self.batches += 1
        try:
            self._pipe.send_bytes(packed)
            answer: Batch | Exception | None = pickle.loads(self._pipe.recv_bytes())  # noqa: S301 - our own worker
        except (EOFError, OSError) as error:
            self._process.join(_JOIN_S)
            raise _DiedError(f"exit code {self._process.exitcode}") from error
        return answer

    def end(self) -> None:
        """End the process, whatever it is doing."""
        with self._ending:
            self._process.terminate()
            self._process.join(_JOIN_S)
            if self._process.is_alive():
                self._process.kill()
                self._process.join()
            with suppress(OSError):
                self._pipe.close()


# --- in the worker ----------------------------------------------------------------------------------------------------


def _main(pipe: Connection) -> None:
    """The life of a worker; ctrl-c is for the process that started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    serve(pipe)


def serve(pipe: Connection) -> None:
    """Read batches of passages from a pipe until it is closed, and answer each."""
    with suppress(EOFError, OSError):
        try:
            extractor: Any = pickle.loads(pipe.recv_bytes())  # noqa: S301 - from the process that started this one
        except EOFError:
            return
        except Exception as error:  # noqa: BLE001 - it is said by the process that started this one
            pipe.send(f"{type(error).__name__}: {error}")
            return
        pipe.send(None)
        while True:
            pipe.send_bytes(_answer(extractor, pipe.recv_bytes()))


def _answer(extractor: TripleExtractor, packed: bytes) -> bytes:
    try:
        passages = pickle.loads(packed)  # noqa: S301 - from the process that started this one
    except Exception as error:  # noqa: BLE001 - whatever an object's own pickling raises
        logger.warning("a worker cannot load its passages (%s: %s)", type(error).__name__, error)
        return pickle.dumps(None)
    try:
        return _packed(read_passages(extractor, passages))
    except NOT_A_BAD_CHUNK as error:
        try:
            packed_error = pickle.dumps(error)
            pickle.loads(packed_error)  # noqa: S301 - an error that cannot be loaded would be lost
        except Exception:  # noqa: BLE001 - whatever an object's own pickling raises
            return pickle.dumps(ConfigError(f"{type(error).__name__}: {error}"))
        return packed_error


def _packed(batch: Batch) -> bytes:
    try:
        return pickle.dumps(batch)
    except Exception as error:  # noqa: BLE001 - whatever an object's own pickling raises
        logger.warning("a worker cannot hand its results over (%s: %s)", type(error).__name__, error)
        return pickle.dumps(None)
