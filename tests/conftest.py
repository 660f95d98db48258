"""What all tests share: the paper's Northstar story, a layer over it, and folders that go away."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from apl import APLConfig, AutoPrunedLayer, Chunk
from apl.testing import HashEmbedder, ScriptedExtractor, WordCounter

STORY = (
    Chunk(
        "Northstar\nNorthstar acquired DeltaPay in March 2022. The price was never published.",
        id="acquisition",
        document_id="news",
        title="Northstar",
    ),
    Chunk(
        "DeltaPay is subject to the EU Digital Services Act. It was not subject to the act before 2022.",
        id="regulation",
        document_id="law",
    ),
    Chunk(
        "DeltaPay recorded 12 GDPR incidents before the acquisition and 5 incidents afterward.",
        id="incidents",
        document_id="audit",
    ),
    Chunk("CloudCo signed a 2024 vendor contract with DeltaPay.", id="contract", document_id="news"),
    Chunk("DeltaPay became a Northstar subsidiary after the acquisition.", id="subsidiary", document_id="news"),
)

TRIPLES = {
    "acquisition": [("Northstar", "acquired", "DeltaPay"), ("DeltaPay", "acquired in", "March 2022")],
    "regulation": [("DeltaPay", "is subject to", "EU Digital Services Act")],
    "incidents": [
        ("DeltaPay", "recorded before the acquisition", "12 GDPR incidents"),
        ("DeltaPay", "recorded afterward", "5 incidents"),
    ],
    "contract": [("CloudCo", "signed a 2024 vendor contract with", "DeltaPay")],
    "subsidiary": [("DeltaPay", "became after the acquisition", "Northstar subsidiary")],
}


@pytest.fixture
def story() -> tuple[Chunk, ...]:
    """The five documents of the paper's introduction."""
    return STORY


@pytest.fixture
def open_layer(tmp_path: Path) -> Iterator[Callable[..., AutoPrunedLayer]]:
    """Opens guarded layers with the fakes of `apl.testing`; errors inside raise; everything is closed at the end."""
    opened: list[AutoPrunedLayer] = []

    def open_(name: str = "kb.db", **options: Any) -> AutoPrunedLayer:
        knobs = {"mode": "guarded", "quotes": "shortened", "on_error": "raise", **options.pop("knobs", {})}
        options.setdefault("embedder", HashEmbedder())
        options.setdefault("extractor", ScriptedExtractor(TRIPLES))
        options.setdefault("tokenizer", WordCounter())
        options.setdefault("config", APLConfig(**knobs))
        layer = AutoPrunedLayer.open(tmp_path / name, **options)
        opened.append(layer)
        return layer

    yield open_
    for layer in opened:
        layer.close()


@pytest.fixture
def layer(open_layer: Callable[..., AutoPrunedLayer], story: tuple[Chunk, ...]) -> AutoPrunedLayer:
    """A layer that has indexed the story."""
    layer = open_layer()
    assert layer.index(story).failed == 0
    return layer


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The benchmark data, or a skip that says where it was sought."""
    folder = Path(os.environ.get("APL_DATA_DIR", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"the benchmark data is not at {folder}; point APL_DATA_DIR at it")
    return folder


@pytest.fixture
def tiktoken_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tiktoken read the encodings that llama-index ships, or skip."""
    found = find_spec("llama_index.core")
    locations = list(found.submodule_search_locations or ()) if found else []
    cache = Path(locations[0]) / "_static" / "tiktoken_cache" if locations else Path("missing")
    if not cache.is_dir():
        pytest.skip("llama-index-core, whose encodings the tests read, is not installed")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(cache))


@pytest.fixture
def benchmark_path() -> Iterator[None]:
    """The benchmarks' folder can be imported from, during one test."""
    folder = str(Path(__file__).parents[1] / "benchmarks")
    sys.path.insert(0, folder)
    yield
    sys.path.remove(folder)
