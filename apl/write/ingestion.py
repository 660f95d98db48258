"""Chunks to rows: split, extract, align, guard, embed, and commit a batch at a time.

Extraction and embedding happen before the transaction, never in it. A chunk that cannot be read is reported and left
out; the rest goes on. Texts the store already holds under the same id cost a hash.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from apl.errors import ConfigError, EmbeddingError, ExtractionError, MissingDependency
from apl.protocols import Embedder, TokenCounter, TripleExtractor, Vectors
from apl.sentences import split_sentences
from apl.state.codebook import Codebook
from apl.state.records import NewChunk, NewSentence, StoredChunk
from apl.state.vectors import to_bytes
from apl.symbols import Chunk, ChunkError, Extraction, IndexReport, Passage
from apl.text import content_hash, is_encodable
from apl.write.alignment import align_passage

logger = logging.getLogger(__name__)

_In = TypeVar("_In")
_Out = TypeVar("_Out")

_NOT_A_BAD_CHUNK = (MissingDependency, ConfigError)
"""Faults of the set-up: they would fail every chunk, so they end the run at once."""


@dataclass(slots=True)
class _Prepared:
    """A chunk on its way: what is known of it so far."""

    chunk: Chunk
    key: str
    document_key: str
    content_hash: str
    passage: Passage | None = None
    extraction: Extraction = field(default_factory=Extraction)
    vectors: Vectors | None = None
    tokens: int = 0
    error: str | None = None


class Ingestion:
    """Indexes chunks into a codebook.

    Args:
        codebook: Where the rows go.
        embedder: Embeds the sentences.
        extractor: Reads the triples; None indexes sentences only, every one of which then goes out as a quote.
        counter: Counts the tokens of the texts.
        language: ISO code for the sentence splitter.
        max_chunk_chars: A longer text is a bad chunk.
    """

    def __init__(
        self,
        codebook: Codebook,
        *,
        embedder: Embedder,
        extractor: TripleExtractor | None,
        counter: TokenCounter,
        language: str,
        max_chunk_chars: int,
    ) -> None:
        self._codebook = codebook
        self._embedder = embedder
        self._extractor = extractor
        self._counter = counter
        self._language = language
        self._max_chunk_chars = max_chunk_chars

    def run(self, chunks: Iterable[Chunk], *, batch_size: int, progress: bool | None = None) -> IndexReport:
        """Index all chunks; what happened to each is in the report.

        Args:
            chunks: In the order of their documents. The same id twice: the last text counts.
            batch_size: Chunks committed together.
            progress: Show a bar on stderr; None: when stderr is a terminal and there is more than one batch.
        """
        started = time.perf_counter()
        tally: Counter[str] = Counter()
        errors: list[ChunkError] = []
        total = len(chunks) if isinstance(chunks, Sized) else None
        with ExitStack() as stack:
            advance = _bar(stack, progress, total, batch_size)
            for batch in _batched(chunks, batch_size):
                self._index_batch(batch, tally, errors)
                advance(len(batch))
        report = IndexReport(**tally, errors=tuple(errors), seconds=time.perf_counter() - started)
        if errors:
            logger.warning("%d chunks were not indexed, the first: %s", len(errors), errors[0].reason)
        logger.info(
            "indexed %d of %d chunks (%d unchanged, %d failed): %d sentences, %d triples",
            report.indexed, report.chunks, report.unchanged, report.failed, report.sentences, report.triples,
        )  # fmt: skip
        return report

    def _index_batch(self, batch: Sequence[Chunk], tally: Counter[str], errors: list[ChunkError]) -> None:
        tally["chunks"] += len(batch)
        prepared, moved = self._changed(self._accepted(batch, errors), tally)
        self._split(prepared)
        self._extract(prepared)
        self._embed(prepared)
        rows = []
        for item in prepared:
            if item.error is None:
                rows.append(self._row(item, tally))
            else:
                errors.append(ChunkError(item.chunk.id, item.error))
        if rows or moved:
            tally["replaced"] += self._codebook.put(rows, moved)
            tally["indexed"] += len(rows)
        tally["failed"] = len(errors)

    def _accepted(self, batch: Sequence[Chunk], errors: list[ChunkError]) -> Iterator[_Prepared]:
        """The chunks that can be read at all, with their keys."""
        for chunk in batch:
            fault = _fault_of(chunk, self._max_chunk_chars)
            if fault:
                errors.append(ChunkError(chunk.id if isinstance(chunk, Chunk) else None, fault))
                continue
            key = _key_of(chunk)
            document_key = chunk.document_id if chunk.document_id is not None else key
            yield _Prepared(chunk, key, document_key, content_hash(chunk.text))

    def _changed(
        self, accepted: Iterable[_Prepared], tally: Counter[str]
    ) -> tuple[list[_Prepared], dict[str, tuple[str, str | None]]]:
        """Those whose text the store does not hold yet (of one id the last), and those that only moved."""
        latest: dict[str, _Prepared] = {}
        for item in accepted:
            tally["duplicates"] += item.key in latest
            latest[item.key] = item
        stored = self._codebook.find(list(latest))
        changed, moved = [], {}
        for key, item in latest.items():
            known = stored.get(key)
            if known is None or self._differs(item, known):
                changed.append(item)
                continue
            tally["unchanged"] += 1
            if (known.document_key, known.title) != (item.document_key, item.chunk.title):
                moved[key] = (item.document_key, item.chunk.title)
        return changed, moved

    def _differs(self, item: _Prepared, known: StoredChunk) -> bool:
        """True when the chunk has to be read again: another text, other sentences, or another extractor."""
        extractor = self._extractor.name if self._extractor else known.extractor
        return (
            known.content_hash != item.content_hash
            or known.extractor != extractor
            or (known.title != item.chunk.title and self._resplits(item.chunk, known.title))
        )

    def _resplits(self, chunk: Chunk, known_title: str | None) -> bool:
        """True when the new title makes other sentences of the text than the known one."""
        before, after = (
            split_sentences(chunk.text, title=title, language=self._language) for title in (known_title, chunk.title)
        )
        return before != after

    def _split(self, prepared: Sequence[_Prepared]) -> None:
        for item in prepared:
            try:
                sentences = split_sentences(item.chunk.text, title=item.chunk.title, language=self._language)
                item.passage = Passage(item.chunk, sentences)
                item.tokens = self._counter.count(item.chunk.text)
            except Exception as error:
                item.error = f"could not be split or counted ({type(error).__name__}: {error})"
                logger.debug("splitting failed", exc_info=True)

    def _extract(self, prepared: Sequence[_Prepared]) -> None:
        if self._extractor is None:
            return
        extractor = self._extractor

        def extract(items: Sequence[_Prepared]) -> Sequence[Extraction]:
            passages = [item.passage for item in items if item.passage is not None]
            extractions = list(extractor.extract(passages))
            if len(extractions) != len(items) or not all(isinstance(found, Extraction) for found in extractions):
                raise ExtractionError(
                    f"{extractor.name} has to return one Extraction for each of {len(items)} passages"
                )
            return extractions

        for item, extraction in _isolated(extract, prepared, "extraction"):
            item.extraction = extraction

    def _embed(self, prepared: Sequence[_Prepared]) -> None:
        def embed(items: Sequence[_Prepared]) -> Sequence[Vectors]:
            sizes = [len(item.passage.sentences) if item.passage else 0 for item in items]
            texts = [sentence.text for item in items if item.passage for sentence in item.passage.sentences]
            vectors = self._embedder.embed(texts)
            if len(vectors) != len(texts):
                raise EmbeddingError(f"{self._embedder.name} returned {len(vectors)} vectors for {len(texts)} texts")
            return np.split(vectors, np.cumsum(sizes)[:-1])

        for item, vectors in _isolated(embed, prepared, "embedding"):
            item.vectors = vectors

    def _row(self, item: _Prepared, tally: Counter[str]) -> NewChunk:
        assert item.passage is not None  # noqa: S101 - an item without error was split
        assert item.vectors is not None  # noqa: S101 - and embedded
        aligned = align_passage(item.passage, item.extraction)
        rows = tuple(
            NewSentence(said.sentence, said.carried, blob, said.short)
            for said, blob in zip(aligned.sentences, to_bytes(item.vectors), strict=True)
        )
        tally["sentences"] += len(rows)
        tally["carried_sentences"] += sum(row.carried for row in rows)
        tally["triples"] += len(aligned.occurrences)
        tally["malformed_triples"] += aligned.malformed
        tally["unsupported_triples"] += item.extraction.unsupported
        tally["tokens"] += item.tokens
        return NewChunk(
            key=item.key,
            document_key=item.document_key,
            title=item.chunk.title,
            text=item.chunk.text,
            content_hash=item.content_hash,
            tokens=item.tokens,
            sentences=rows,
            occurrences=aligned.occurrences,
            extractor=self._extractor.name if self._extractor else "none",
        )


def _key_of(chunk: Chunk) -> str:
    """The chunk's id; without one a hash of document and text, so that one text in two documents lives in both."""
    if chunk.id is not None:
        return chunk.id
    return content_hash(chunk.text if chunk.document_id is None else f"{chunk.document_id}\0{chunk.text}")


def _fault_of(chunk: Any, max_chunk_chars: int) -> str | None:
    """What is wrong with a chunk, or None."""
    if not isinstance(chunk, Chunk):
        return f"index takes Chunk objects, not {type(chunk).__name__}"
    text: Any = chunk.text
    if not isinstance(text, str):
        return f"text is {type(text).__name__}, not a string"
    for name, value in (("id", chunk.id), ("document_id", chunk.document_id), ("title", chunk.title)):
        if value is not None and (not isinstance(value, str) or (name != "title" and not value)):
            return f"{name}={value!r} is not a non-empty string"
    if len(text) > max_chunk_chars:
        return f"text has {len(text)} characters, more than {max_chunk_chars}; split it into passages first"
    if not all(is_encodable(part) for part in (text, chunk.id, chunk.document_id, chunk.title) if part):
        return "holds half a surrogate pair; decode the source with errors='replace'"
    return None


def _isolated(
    function: Callable[[Sequence[_Prepared]], Sequence[_Out]], prepared: Sequence[_Prepared], what: str
) -> Iterator[tuple[_Prepared, _Out]]:
    """Results of a batch function; when the batch fails, of one item at a time, with the bad ones marked."""
    items = [item for item in prepared if item.error is None]
    if not items:
        return
    try:
        yield from zip(items, function(items), strict=True)
    except _NOT_A_BAD_CHUNK:
        raise
    except Exception as error:
        if len(items) == 1:
            items[0].error = f"{what} failed ({type(error).__name__}: {error})"
            return
        logger.debug("%s of a batch failed, trying one chunk at a time", what, exc_info=True)
        for item in items:
            yield from _isolated(function, [item], what)


def _batched(items: Iterable[_In], size: int) -> Iterator[list[_In]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def _bar(stack: ExitStack, progress: bool | None, total: int | None, batch_size: int) -> Callable[[int], object]:
    """A function that advances the progress bar, or does nothing."""
    if progress is None:
        progress = sys.stderr.isatty() and (total is None or total > batch_size)
    if not progress:
        return lambda _count: None
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    bar = stack.enter_context(Progress(*columns, console=console, transient=console.is_terminal))
    task = bar.add_task("indexing", total=total)
    return lambda count: bar.advance(task, count)
