"""A process to be killed: brings a store up to date, one way or another, and prints a dot for every passage it reads.

Usage: python killed.py WAY STORE
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import Any

from apl.symbols import Chunk, ExtractedTriple, Extraction, Passage, Triple

OLD = [
    Chunk(f"Firm {n} pays firm {n + 1}. It was founded in {1900 + n}.", id=f"c{n:02}", document_id=f"d{n // 6}")
    for n in range(30)
]
NEW = [
    *(Chunk(f"Firm {n} owes firm {n + 1}. It was sold in {1950 + n}.", id=f"c{n:02}", document_id=f"d{n // 6}") for n in range(12)),
    *OLD[12:20],
    *(Chunk(f"Shop {n} pays firm {n}.", id=f"s{n:02}", document_id=f"e{n // 4}") for n in range(12)),
]  # fmt: skip


class Slow:
    """Reads one triple a passage, and takes its time."""

    def __init__(self, name: str = "slow", pause_s: float = 0.01) -> None:
        self.name = name
        self._pause_s = pause_s

    def extract(self, passages: Sequence[Passage]) -> list[Extraction]:
        """Dots go out as they are read."""
        found = []
        for passage in passages:
            words = passage.chunk.text.rstrip(".").split()
            found.append(Extraction((ExtractedTriple(Triple(" ".join(words[:2]), self.name, words[-1]), 0),)))
            os.write(1, b".")
            time.sleep(self._pause_s)
        return found


def run(way: str, store: str, pause_s: float) -> Any:
    """Index, index with workers, read again, or sync."""
    from apl import APLConfig, AutoPrunedLayer
    from apl.config import IndexingConfig
    from apl.testing import HashEmbedder, WordCounter

    extractor = Slow("other" if way == "reextract" else "slow", pause_s)
    with AutoPrunedLayer.open(
        store, embedder=HashEmbedder(16), extractor=extractor, tokenizer=WordCounter(),
        config=APLConfig(indexing=IndexingConfig(batch_size=4)),
    ) as layer:  # fmt: skip
        if way == "sync":
            return layer.sync(NEW)
        return layer.index(iter(OLD), workers=2 if way == "workers" else 0, reextract=way == "reextract")


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], 0.01)
