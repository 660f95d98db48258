"""Chunks to rows: split, extract, align, guard, embed, and commit a batch at a time.

Extraction and embedding happen before the transaction, never in it. A chunk that cannot be read is reported and left
out; the rest goes on. Texts the store already holds under the same id cost a hash. A batch is committed whole, in the
order of the input, by this process alone: a run that was killed is resumed by running it again.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from apl.errors import EmbeddingError
from apl.protocols import Embedder, TokenCounter, TripleExtractor, Vectors
from apl.reports import ChunkError, ExtractionUsage, IndexReport
from apl.sentences import heading_words, in_context, split_sentences
from apl.state.codebook import Codebook
from apl.state.records import NewChunk, NewSentence, StoredChunk
from apl.state.vectors import to_bytes
from apl.symbols import Chunk, Passage, Sentence
from apl.terms import terms_of, title_terms
from apl.text import content_hash
from apl.write.extraction import Failure, ReadPassage, one_by_one
from apl.write.intake import document_key_of, fault_of, key_of
from apl.write.progress import progress_of
from apl.write.workers import Reads, reader

logger = logging.getLogger(__name__)

MAX_KEPT_ERRORS = 1000
"""Errors a report names; the others are counted. A choice of this project."""

_In = TypeVar("_In")


@dataclass(frozen=True, slots=True)
class Batch:
    """What is committed together: chunks to index, and keys of chunks that go with the same transaction."""

    chunks: Sequence[Chunk]
    surplus: Sequence[str] = ()


@dataclass(slots=True)
class _Prepared:
    """A chunk on its way: what is known of it so far."""

    chunk: Chunk
    key: str
    document_key: str
    content_hash: str
    passage: Passage | None = None
    read: ReadPassage | None = None
    vectors: Vectors | None = None
    tokens: int = 0
    error: str | None = None


@dataclass(slots=True)
class _Flight:
    """A batch between its look-up and its commit."""

    batch: Batch
    items: Sequence[_Prepared]
    moved: Mapping[str, tuple[str, str | None]]
    result: Callable[[], list[ReadPassage | Failure]]

    def touches(self, batch: Batch) -> bool:
        """True when the other batch has a chunk of this one, so that its look-up has to wait for this commit."""
        mine = {item.key for item in self.items}.union(self.moved, self.batch.surplus)
        return not mine.isdisjoint(batch.surplus) or any(_has_key(chunk, mine) for chunk in batch.chunks)


@dataclass(slots=True)
class _Tally:
    """What has happened so far."""

    counts: Counter[str] = field(default_factory=Counter)
    errors: list[ChunkError] = field(default_factory=list)
    others: set[str] = field(default_factory=set)

    def fail(self, chunk_id: str | None, reason: str) -> None:
        """Count an error, and keep it if it is one of the first."""
        self.counts["failed"] += 1
        if len(self.errors) < MAX_KEPT_ERRORS:
            self.errors.append(ChunkError(chunk_id, reason))


class Ingestion:
    """Indexes chunks into a codebook.

    Args:
        codebook: Where the rows go.
        embedder: Embeds the sentences.
        extractor: Reads the triples; None indexes sentences only, every one of which then goes out as a quote.
        counter: Counts the tokens of the texts.
        language: ISO code for the sentence splitter.
        max_chunk_chars: A longer text is a bad chunk.
        workers: Processes that extract; 0 or 1: this one.
        version: Of apl, whose rules may read otherwise than those of the last one.
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
        workers: int = 0,
        version: str = "",
    ) -> None:
        self._codebook = codebook
        self._embedder = embedder
        self._extractor = extractor
        self._counter = counter
        self._language = language
        self.max_chunk_chars = max_chunk_chars
        self.workers = workers
        self._version = version
        self._read_since: int | None = None

    def run(
        self, chunks: Iterable[Chunk], *, batch_size: int, progress: bool | None = None, reextract: bool = False
    ) -> IndexReport:
        """Index all chunks; what happened to each is in the report.

        Args:
            chunks: In the order of their documents. The same id twice: the last text counts.
            batch_size: Chunks committed together.
            progress: Show on stderr how far it is; None: when stderr is a terminal and there is more than one batch.
            reextract: Read every chunk again, also those whose text has not changed.
        """
        workers = 0 if isinstance(chunks, Sized) and len(chunks) <= batch_size else self.workers
        with ExitStack() as stack:
            advance = stack.enter_context(progress_of(chunks, progress, batch_size=batch_size))
            batches = (Batch(batch) for batch in batched(chunks, batch_size))
            if not reextract or self._extractor is None:
                return self.run_batches(batches, advance=advance, workers=workers)
            self._read_since = self._codebook.begin_rereading(f"{self._extractor.name}, apl {self._version}")
            report = self.run_batches(batches, advance=advance, workers=workers)
            self._codebook.end_rereading()
        return report

    def run_batches(
        self, batches: Iterable[Batch], *, advance: Callable[[int], object] = lambda _: None, workers: int = 0
    ) -> IndexReport:
        """Index batch by batch, each in a transaction of its own.

        Args:
            batches: As many are taken ahead as keep the workers busy.
            advance: Told how many chunks are done after each batch.
            workers: Processes that extract.
        """
        started = time.perf_counter()
        before = _usage_of(self._extractor)
        tally = _Tally()
        flights: deque[_Flight] = deque()
        with reader(self._extractor, workers) as reads:
            for batch in batches:
                while any(flight.touches(batch) for flight in flights):
                    self._land(flights, tally, advance)
                flights.append(self._sent(batch, reads, tally))
                while len(flights) > reads.ahead:
                    self._land(flights, tally, advance)
            while flights:
                self._land(flights, tally, advance)
        counts: dict[str, Any] = dict(tally.counts)
        spent = _usage_of(self._extractor)
        report = IndexReport(
            **counts,
            usage=spent - before if spent is not None and before is not None else spent,
            errors=tuple(tally.errors),
            seconds=time.perf_counter() - started,
        )
        self._tell(report, tally.others)
        return report

    def _tell(self, report: IndexReport, others: set[str]) -> None:
        if report.failed:
            logger.warning("%d chunks were not indexed, the first: %s", report.failed, report.errors[0].reason)
        if report.other_extractor and self._extractor is not None:
            logger.warning(
                "%d unchanged chunks keep what another extractor (%s) read: index with reextract=True, or "
                "`apl index --reextract`, to read them again with %s",
                report.other_extractor, ", ".join(sorted(others)[:3]), self._extractor.name,
            )  # fmt: skip
        logger.info(
            "indexed %d of %d chunks (%d unchanged, %d failed): %d sentences, %d triples",
            report.indexed, report.chunks, report.unchanged, report.failed, report.sentences, report.triples,
        )  # fmt: skip

    # --- one batch ----------------------------------------------------------------------------------------------------

    def _sent(self, batch: Batch, reads: Reads, tally: _Tally) -> _Flight:
        """Look up, split, and hand out what has to be read."""
        tally.counts["chunks"] += len(batch.chunks)
        prepared, moved = self._changed(self._accepted(batch.chunks, tally), tally)
        self._split(prepared)
        passages = [item.passage for item in prepared if item.passage is not None]
        return _Flight(batch, prepared, moved, reads.submit(passages))

    def _land(self, flights: deque[_Flight], tally: _Tally, advance: Callable[[int], object]) -> None:
        """Take the oldest batch back, embed and commit it."""
        flight = flights.popleft()
        split = [item for item in flight.items if item.passage is not None]
        for item, read in zip(split, flight.result(), strict=True):
            if isinstance(read, Failure):
                item.error = read.reason
            else:
                item.read = read
        self._embed(flight.items)
        rows = []
        for item in flight.items:
            if item.error is None:
                rows.append(self._row(item, tally.counts))
            else:
                tally.fail(item.chunk.id, item.error)
        if rows or flight.moved or flight.batch.surplus:
            tally.counts["replaced"] += self._codebook.put(rows, flight.moved, flight.batch.surplus)
            tally.counts["indexed"] += len(rows)
        advance(len(flight.batch.chunks))

    def _accepted(self, batch: Sequence[Chunk], tally: _Tally) -> Iterator[_Prepared]:
        """The chunks that can be read at all, with their keys."""
        for chunk in batch:
            fault = fault_of(chunk, self.max_chunk_chars)
            if fault:
                tally.fail(chunk.id if isinstance(chunk, Chunk) else None, fault)
            else:
                yield _Prepared(chunk, key_of(chunk), document_key_of(chunk), content_hash(chunk.text))

    def _changed(
        self, accepted: Iterable[_Prepared], tally: _Tally
    ) -> tuple[list[_Prepared], dict[str, tuple[str, str | None]]]:
        """Those that have to be read (of one id the last), and those that only moved."""
        latest: dict[str, _Prepared] = {}
        for item in accepted:
            tally.counts["duplicates"] += item.key in latest
            latest[item.key] = item
        stored = self._codebook.find(list(latest))
        changed, moved = [], {}
        for key, item in latest.items():
            known = stored.get(key)
            if known is None or self._differs(item, known):
                changed.append(item)
                continue
            tally.counts["unchanged"] += 1
            if self._extractor is not None and known.extractor != self._extractor.name:
                tally.counts["other_extractor"] += 1
                tally.others.add(known.extractor)
            if (known.document_key, known.title) != (item.document_key, item.chunk.title):
                moved[key] = (item.document_key, item.chunk.title)
        return changed, moved

    def _differs(self, item: _Prepared, known: StoredChunk) -> bool:
        """True when the chunk has to be read: another text, other sentences, or it is to be read again."""
        if self._read_since is not None and self._extractor is not None:
            done = known.id > self._read_since and known.extractor == self._extractor.name
            if not done:
                return True
        return known.content_hash != item.content_hash or (
            known.title != item.chunk.title and self._reads_otherwise(item.chunk, known.title)
        )

    def _reads_otherwise(self, chunk: Chunk, known_title: str | None) -> bool:
        """True when the new title makes other sentences of the text than the known one, or says otherwise of what."""
        before, after = (self._read_under(chunk.text, title) for title in (known_title, chunk.title))
        return before != after

    def _read_under(self, text: str, title: str | None) -> tuple[object, ...]:
        sentences = split_sentences(text, title=title, language=self._language)
        return sentences, in_context(sentences, title), _called(sentences, title)

    def _split(self, prepared: Sequence[_Prepared]) -> None:
        for item in prepared:
            try:
                sentences = split_sentences(item.chunk.text, title=item.chunk.title, language=self._language)
                item.passage = Passage(item.chunk, sentences, self._language)
                item.tokens = self._counter.count(item.chunk.text)
            except Exception as error:
                item.error = f"could not be split or counted ({type(error).__name__}: {error})"
                logger.debug("splitting failed", exc_info=True)

    def _embed(self, prepared: Sequence[_Prepared]) -> None:
        items = [item for item in prepared if item.error is None]

        def embed(some: Sequence[_Prepared]) -> Sequence[Vectors]:
            sizes = [len(item.passage.sentences) if item.passage else 0 for item in some]
            texts = [
                said for item in some if item.passage for said in in_context(item.passage.sentences, item.chunk.title)
            ]
            vectors = self._embedder.embed(texts)
            if len(vectors) != len(texts):
                raise EmbeddingError(f"{self._embedder.name} returned {len(vectors)} vectors for {len(texts)} texts")
            return np.split(vectors, np.cumsum(sizes)[:-1])

        for item, vectors in zip(items, one_by_one(embed, items, "embedding"), strict=True):
            if isinstance(vectors, Failure):
                item.error = vectors.reason
            else:
                item.vectors = vectors

    def _row(self, item: _Prepared, counts: Counter[str]) -> NewChunk:
        assert item.read is not None  # noqa: S101 - an item without error was read
        assert item.passage is not None  # noqa: S101 - so it was split
        assert item.vectors is not None  # noqa: S101 - and embedded
        aligned = item.read.aligned
        rows = tuple(
            NewSentence(said.sentence, said.carried, blob, said.short, terms_of(said.sentence.text, self._language))
            for said, blob in zip(aligned.sentences, to_bytes(item.vectors), strict=True)
        )
        counts["sentences"] += len(rows)
        counts["carried_sentences"] += sum(row.carried for row in rows)
        counts["triples"] += len(aligned.occurrences)
        counts["malformed_triples"] += aligned.malformed
        counts["unsupported_triples"] += item.read.unsupported
        counts["fallback_sentences"] += item.read.fallbacks
        counts["tokens"] += item.tokens
        return NewChunk(
            key=item.key,
            document_key=item.document_key,
            title=item.chunk.title,
            text=item.chunk.text,
            content_hash=item.content_hash,
            tokens=item.tokens,
            sentences=rows,
            occurrences=aligned.occurrences,
            title_terms=title_terms(_called(item.passage.sentences, item.chunk.title), self._language),
            extractor=self._extractor.name if self._extractor else "none",
        )


def _called(sentences: Sequence[Sentence], title: str | None) -> str:
    """What a chunk is called: the title it came with, else the heading it begins with."""
    first = next(iter(sentences), None)
    heading = heading_words(first.text) if first is not None and first.kind == "title" else ""
    return title or heading


def _usage_of(extractor: TripleExtractor | None) -> ExtractionUsage | None:
    """What an extractor that keeps count has spent so far."""
    usage = getattr(extractor, "usage", None)
    return usage if isinstance(usage, ExtractionUsage) else None


def _has_key(chunk: object, keys: set[str]) -> bool:
    """True when the chunk would be stored under one of the keys; what is no chunk is stored under none."""
    try:
        return isinstance(chunk, Chunk) and key_of(chunk) in keys
    except (TypeError, UnicodeError, AttributeError):
        return False  # it is reported when its turn comes


def batched(items: Iterable[_In], size: int) -> Iterator[list[_In]]:
    """Lists of `size` items, the last one shorter; nothing is read before it is needed."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
