"""What indexing would read, and what a language model would be asked for it: counted, not done."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from apl.protocols import EstimatingExtractor, TokenCounter, TripleExtractor
from apl.sentences import split_sentences
from apl.state.codebook import Codebook
from apl.state.engine import Store
from apl.symbols import Chunk, Passage
from apl.text import content_hash

_LOOKED_UP_AT_ONCE = 500


def forecast(
    chunks: Iterable[Chunk],
    counter: TokenCounter,
    extractors: Sequence[TripleExtractor],
    *,
    store: str | os.PathLike[str] | None,
    language: str,
) -> dict[str, Any]:
    """Passages and tokens, and under `estimate` what the extractor that costs money would be asked.

    Args:
        chunks: Read once.
        counter: Counts their tokens.
        extractors: Those that can estimate are asked.
        store: What it holds unchanged would not be extracted again; None: everything would. It is only read, and need
            not exist.
        language: ISO code for the sentence splitter.

    Raises:
        ForeignStoreError, SchemaVersionError, StoreError: The file is no store.
    """
    counts = {"passages": 0, "tokens": 0}

    def counted() -> Iterator[Chunk]:
        for chunk in chunks:
            counts["passages"] += 1
            counts["tokens"] += counter.count(chunk.text)
            yield chunk

    estimating = [extractor for extractor in extractors if isinstance(extractor, EstimatingExtractor)]
    if not estimating:
        deque(counted(), maxlen=0)
        return counts
    unread = (
        Passage(chunk, split_sentences(chunk.text, title=chunk.title, language=language))
        for chunk in _unread(counted(), store)
    )
    estimate = asdict(estimating[0].estimate(unread))
    return {**counts, "estimate": estimate}


def _unread(chunks: Iterator[Chunk], location: str | os.PathLike[str] | None) -> Iterator[Chunk]:
    """The chunks whose text the store does not hold under their id."""
    if location is None or not Path(location).exists():
        yield from chunks
        return
    store = Store.open(location, read_only=True)
    try:
        codebook = Codebook(store)
        while batch := list(islice(chunks, _LOOKED_UP_AT_ONCE)):
            known = codebook.find([chunk.id for chunk in batch if chunk.id is not None])
            for chunk in batch:
                stored = known.get(chunk.id or "")
                if stored is None or (stored.content_hash, stored.title) != (content_hash(chunk.text), chunk.title):
                    yield chunk
    finally:
        store.close()
