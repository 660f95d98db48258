"""Another extractor, or new rules of the same: read again on demand, and resumable."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from apl import APLConfig, AutoPrunedLayer, Chunk
from apl.config import IndexingConfig
from apl.errors import ConfigError
from apl.state.comparison import differences
from apl.testing import HashEmbedder, ScriptedExtractor, WordCounter

CHUNKS = [Chunk(f"Firm {n} pays firm {n + 1}.", id=str(n)) for n in range(9)]
OLD = {chunk.id or "": [(f"Firm {n}", "pays", f"firm {n + 1}")] for n, chunk in enumerate(CHUNKS)}
NEW = {key: [*triples, ("It", "is", "known"), ("Firm", "is", "known")] for key, triples in OLD.items()}

Open = Callable[..., AutoPrunedLayer]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Opens layers with batches of two."""
    layers: list[AutoPrunedLayer] = []

    def open_(extractor: Any, name: str = "kb.db") -> AutoPrunedLayer:
        layers.append(
            AutoPrunedLayer.open(
                tmp_path / name, embedder=HashEmbedder(16), extractor=extractor, tokenizer=WordCounter(),
                config=APLConfig(indexing=IndexingConfig(batch_size=2)),
            )
        )  # fmt: skip
        return layers[-1]

    yield open_
    for layer in layers:
        layer.close()


def test_what_another_extractor_read_is_kept_counted_and_said(opened: Open, caplog: pytest.LogCaptureFixture) -> None:
    """An extractor may be expensive: nothing is read again that was not asked for; one warning says how to."""
    opened(None).index(CHUNKS[:4])
    opened(ScriptedExtractor(OLD)).index(CHUNKS[4:])
    caplog.clear()
    report = opened(ScriptedExtractor(NEW, name="new")).index(CHUNKS)
    assert (report.unchanged, report.other_extractor, report.indexed) == (9, 9, 0)
    (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warning.startswith("9 unchanged chunks keep what another extractor (none, scripted) read")
    assert "apl index --reextract" in warning
    assert opened(None).index(CHUNKS).other_extractor == 0


@pytest.mark.parametrize("name", ["new", "scripted"])
def test_on_demand_everything_is_read_again(opened: Open, tmp_path: Path, name: str) -> None:
    """Also what an extractor of the same name read: its rules may be others now. The store is as if it were new."""
    opened(ScriptedExtractor(OLD)).index(CHUNKS)
    layer = opened(ScriptedExtractor(NEW, name=name))
    report = layer.index(CHUNKS, reextract=True)
    assert (report.indexed, report.replaced, report.unchanged) == (9, 9, 0)
    opened(ScriptedExtractor(NEW, name=name), "fresh.db").index(CHUNKS)
    assert differences(tmp_path / "kb.db", tmp_path / "fresh.db") == []
    assert layer.index(CHUNKS).unchanged == 9
    assert layer.index(CHUNKS, reextract=True).indexed == 9


class Interrupted(ScriptedExtractor):
    """Stops at a chunk, and notes what it was asked."""

    def __init__(self, script: Any, *, at: str | None = None, name: str = "scripted") -> None:
        super().__init__(script, name=name)
        self.asked: list[str] = []
        self._at = at

    def extract(self, passages: Any) -> Any:
        for passage in passages:
            if passage.chunk.id == self._at:
                raise KeyboardInterrupt
            self.asked.append(passage.chunk.id)
        return super().extract(passages)


def test_an_interrupted_reading_again_is_resumed(opened: Open, tmp_path: Path) -> None:
    """What the first run read is not read by the second; a plain index in between changes nothing of that."""
    opened(ScriptedExtractor(OLD)).index(CHUNKS)
    with pytest.raises(KeyboardInterrupt):
        opened(Interrupted(NEW, at="6")).index(CHUNKS, reextract=True)
    assert opened(ScriptedExtractor(NEW)).index(CHUNKS).unchanged == 9
    resuming = Interrupted(NEW)
    report = opened(resuming).index(CHUNKS, reextract=True)
    assert resuming.asked == ["6", "7", "8"]
    assert (report.indexed, report.unchanged) == (3, 6)
    opened(ScriptedExtractor(NEW), "fresh.db").index(CHUNKS)
    assert differences(tmp_path / "kb.db", tmp_path / "fresh.db") == []


def test_other_rules_begin_anew(opened: Open) -> None:
    """What was read by one extractor before the interruption is read again by another."""
    opened(ScriptedExtractor(OLD)).index(CHUNKS)
    with pytest.raises(KeyboardInterrupt):
        opened(Interrupted(NEW, at="6")).index(CHUNKS, reextract=True)
    assert opened(ScriptedExtractor(NEW, name="third")).index(CHUNKS, reextract=True).indexed == 9


def test_the_same_chunk_twice_is_read_again_once(opened: Open) -> None:
    """In one run, also in two batches."""
    opened(ScriptedExtractor(OLD)).index(CHUNKS)
    extractor = Interrupted(NEW)
    report = opened(extractor).index([*CHUNKS, CHUNKS[2]], reextract=True)
    assert (report.indexed, report.unchanged) == (9, 1)
    assert sorted(extractor.asked) == sorted(OLD)


def test_nothing_can_be_read_again_without_an_extractor(opened: Open) -> None:
    """It would take the facts away."""
    with pytest.raises(ConfigError, match="open the layer with extractor"):
        opened(None).index(CHUNKS, reextract=True)
