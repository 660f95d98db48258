"""Extraction in worker processes: the same rows, and a run that goes on whatever becomes of a worker."""

from __future__ import annotations

import logging
import multiprocessing
import pickle
import threading
from collections.abc import Iterator
from contextlib import closing
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

import pytest

from apl import APLConfig, AutoPrunedLayer, Chunk, IndexReport
from apl.config import IndexingConfig
from apl.errors import InputError, MissingDependency
from apl.state.codebook import Codebook
from apl.state.comparison import differences
from apl.symbols import Passage
from apl.testing import HashEmbedder, WordCounter
from apl.write import workers as workers_module
from apl.write.extraction import Failure, ReadPassage
from apl.write.workers import InProcess, Workers, reader, serve
from reading import Homely, Odd, Reading, Unloadable, Unpicklable

CHUNKS = [
    Chunk(f"Firm {n} pays firm {n + 1}. It was founded in {1900 + n}.", id=f"c{n:02}", document_id=f"d{n // 5}")
    for n in range(40)
]


def index(path: Path, chunks: Any, *, workers: int, extractor: Any = None, batch_size: int = 8) -> IndexReport:
    """A store at the path that has indexed the chunks."""
    with AutoPrunedLayer.open(
        path, embedder=HashEmbedder(16), extractor=extractor or Reading(), tokenizer=WordCounter(),
        config=APLConfig(indexing=IndexingConfig(batch_size=batch_size)),
    ) as layer:  # fmt: skip
        return layer.index(iter(chunks), workers=workers)


def counts(report: IndexReport) -> tuple[int, ...]:
    return report.chunks, report.indexed, report.replaced, report.unchanged, report.failed, report.triples


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    """The chunks as one process indexes them."""
    index(tmp_path / "alone.db", CHUNKS, workers=0)
    return tmp_path / "alone.db"


@pytest.fixture
def no_process_is_left() -> Iterator[None]:
    """Whatever happened, no worker outlives its run."""
    yield
    assert [process.name for process in multiprocessing.active_children()] == []


pytestmark = pytest.mark.usefixtures("no_process_is_left")


def test_workers_make_no_difference(alone: Path, tmp_path: Path) -> None:
    """Equal stores and equal reports; the workers did read, several of them, and are gone afterwards."""
    repeated = [*CHUNKS, Chunk("Other words.", id="c03"), CHUNKS[3], Chunk("RAISE", id="bad"), CHUNKS[4]]
    reports = [
        index(tmp_path / f"{count}.db", repeated, workers=count, extractor=Reading(tmp_path)) for count in (0, 2)
    ]
    assert counts(reports[0]) == counts(reports[1])
    assert [error.chunk_id for error in reports[1].errors] == ["bad"]
    assert "ValueError: cannot read" in reports[1].errors[0].reason
    assert differences(tmp_path / "0.db", tmp_path / "2.db") == []
    assert differences(tmp_path / "2.db", alone) == []
    assert len(list(tmp_path.glob("pid-*"))) == 2


def test_a_dead_workers_batch_is_read_again(alone: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is lost with it, and the log says so."""
    chunks = [*CHUNKS[:20], Chunk("KILL ONCE", id="once"), *CHUNKS[20:]]
    report = index(tmp_path / "kb.db", chunks, workers=2, extractor=Reading(tmp_path))
    assert (report.indexed, report.failed) == (41, 0)
    assert "a worker process died (exit code -9)" in caplog.text


def test_a_passage_that_kills_its_worker_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its neighbours are read; where several kill, it may be the surroundings, and the rest is read in this process."""
    monkeypatch.setattr(workers_module, "MAX_LONE_DEATHS", 1)
    killers = [Chunk("KILL", id=f"killer {number}") for number in range(3)]
    report = index(tmp_path / "kb.db", [CHUNKS[0], *killers[:2], CHUNKS[1], killers[2]], workers=2)
    assert [error.chunk_id for error in report.errors] == ["killer 0", "killer 1"]
    assert "the worker process that read it died: exit code -9" in report.errors[0].reason
    assert (report.indexed, report.triples) == (3, 2)


def test_a_fault_of_the_set_up_ends_the_run(tmp_path: Path) -> None:
    """As in this process: raised here as it was there, and what was committed stays."""
    with pytest.raises(MissingDependency) as caught:
        index(tmp_path / "kb.db", [*CHUNKS[:30], Chunk("MISSING", id="x")], workers=2)
    assert caught.value.command == "pip install x"


@pytest.mark.parametrize(
    ("extractor", "said"),
    [(Homely(), "it asks for that"), (Unpicklable(), "does not pickle"), (Unloadable(), "no such model here")],
)
def test_an_extractor_that_cannot_leave_reads_here(
    alone: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, extractor: Any, said: str
) -> None:
    """One line of the log says why."""
    caplog.set_level(logging.INFO, "apl.write.workers")
    index(tmp_path / "kb.db", CHUNKS, workers=2, extractor=extractor)
    assert sum(said in message for message in caplog.messages) == 1
    assert differences(tmp_path / "kb.db", alone) == []


@pytest.mark.parametrize("fault", [AssertionError("daemonic processes have no children"), OSError("no more processes")])
def test_where_no_process_can_be_started_this_one_reads(
    alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fault: Exception
) -> None:
    """Such as within a daemonic process."""

    def refuse() -> None:
        raise fault

    monkeypatch.setattr(workers_module, "_Process", refuse)
    index(tmp_path / "kb.db", CHUNKS, workers=2)
    assert f"workers are of no use ({fault})" in caplog.text
    assert differences(tmp_path / "kb.db", alone) == []


def test_chunks_that_do_not_pickle_are_read_here(alone: Path, tmp_path: Path) -> None:
    """The caller's metadata may hold anything."""
    held = [Chunk(c.text, c.id, c.document_id, metadata={"lock": threading.Lock()}) for c in CHUNKS]
    index(tmp_path / "kb.db", held, workers=2)
    assert differences(tmp_path / "kb.db", alone) == []


def test_an_interrupted_run_leaves_whole_batches_and_no_processes(alone: Path, tmp_path: Path) -> None:
    """What the workers were at is read again by the next run."""

    def source() -> Iterator[Chunk]:
        yield from CHUNKS[:36]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index(tmp_path / "kb.db", source(), workers=2)
    index(tmp_path / "kb.db", CHUNKS, workers=0)
    assert differences(tmp_path / "kb.db", alone) == []


def test_few_chunks_start_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list that is one batch is read here, whatever the config says; so is everything with fewer than two workers."""
    monkeypatch.setattr(workers_module, "Workers", lambda *_: pytest.fail("workers were started"))
    config = APLConfig(indexing=IndexingConfig(workers=4))
    with AutoPrunedLayer.open(
        tmp_path / "kb.db", embedder=HashEmbedder(16), extractor=Reading(), tokenizer=WordCounter(), config=config
    ) as layer:
        assert layer.index(CHUNKS).indexed == 40
        assert layer.index(iter([]), workers=1).chunks == 0
        for wrong in (-1, True, 1.5):
            with pytest.raises(InputError, match="number of processes"):
                layer.index([], workers=wrong)  # type: ignore[arg-type]


def test_a_worker_is_replaced_before_it_grows(tmp_path: Path, alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After so many batches a fresh process takes over."""
    monkeypatch.setattr(workers_module, "BATCHES_PER_PROCESS", 1)
    index(tmp_path / "kb.db", CHUNKS, workers=2, extractor=Reading(tmp_path), batch_size=14)
    assert len(list(tmp_path.glob("pid-*"))) == 3
    assert differences(tmp_path / "kb.db", alone) == []


class Ahead(InProcess):
    """Reads here, and lets three batches be handed in before the first is asked for."""

    ahead = 3


def test_reading_ahead_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the source, only a few batches are taken before the first is committed."""
    monkeypatch.setattr("apl.write.ingestion.reader", lambda extractor, _: Ahead(extractor))
    taken, ahead = 0, []

    def source() -> Iterator[Chunk]:
        nonlocal taken
        for chunk in CHUNKS:
            taken += 1
            yield chunk

    real = Codebook.put

    def noted(codebook: Codebook, *arguments: Any) -> int:
        ahead.append(taken)
        return real(codebook, *arguments)

    monkeypatch.setattr(Codebook, "put", noted)
    index(tmp_path / "kb.db", source(), workers=2, batch_size=2)
    assert ahead == [min(2 * (number + 4), 40) for number in range(20)]


def test_a_chunk_waits_for_its_earlier_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one id in several batches under way the last text counts, as it does one batch at a time."""
    monkeypatch.setattr("apl.write.ingestion.reader", lambda extractor, _: Ahead(extractor))
    one, other = Chunk("Firm 1 pays 2.", id="c"), Chunk("Firm 1 owes 2.", id="c")
    first = index(tmp_path / "kb.db", [one, other, one, one], workers=2, batch_size=1)
    assert (first.indexed, first.replaced, first.unchanged) == (3, 2, 1)
    index(tmp_path / "one.db", [one], workers=0)
    assert differences(tmp_path / "kb.db", tmp_path / "one.db") == []


# --- the worker's side ------------------------------------------------------------------------------------------------


def served(extractor: Any, *batches: Any) -> list[Any]:
    """What a worker answers, served by a thread of this process."""
    here, there = Pipe()
    thread = threading.Thread(target=serve, args=(there,))
    thread.start()
    here.send_bytes(extractor if isinstance(extractor, bytes) else pickle.dumps(extractor))
    answers = [here.recv()]
    answers += [_asked(here, batch) for batch in batches]
    here.close()
    thread.join(5)
    assert not thread.is_alive()
    return answers


def _asked(pipe: Connection, batch: Any) -> Any:
    pipe.send_bytes(batch if isinstance(batch, bytes) else pickle.dumps(batch))
    return pickle.loads(pipe.recv_bytes())  # noqa: S301


def test_a_worker_answers_every_batch() -> None:
    """Results, a failure for a bad passage, a fault of the set-up as an error, None for what it cannot load."""
    good, bad, missing = ([Passage(Chunk(text), ())] for text in ("Firm 1 pays 2.", "RAISE", "MISSING"))
    ready, read, failed, fault, unknown = served(Reading(), good, good + bad, missing, b"no pickle")
    assert ready is None
    assert [type(result) for result in read] == [ReadPassage]
    assert [type(result) for result in failed] == [ReadPassage, Failure]
    assert isinstance(fault, MissingDependency)
    assert unknown is None
    assert "odd" in str(served(Odd(), good)[1])
    (told,) = served(pickle.dumps(Unloadable()))
    assert told == "OSError: no such model here"


def test_who_reads_where() -> None:
    """Two workers and more are processes."""
    assert isinstance(reader(None, 4), InProcess)
    assert isinstance(reader(Reading(), 1), InProcess)
    with reader(Reading(), 2) as reads:
        assert isinstance(reads, Workers)
        assert reads.submit([])() == []
    with closing(Pipe()[0]) as pipe:
        assert pipe.readable
