"""A host's chunks against the codebook's: what is missing, changed, surplus, and how it is mended.

The host is read once, in any order. Of each chunk its id and hash are kept in memory; the text of one that the codebook
does not hold goes to a temporary file, from which it is read when its document is mended.
"""

from __future__ import annotations

import logging
import pickle
import tempfile
from collections import Counter, deque
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import IO, Self

from apl.reports import IndexReport, SyncReport
from apl.state.codebook import Codebook
from apl.symbols import Chunk
from apl.text import content_hash
from apl.write.ingestion import Batch, Ingestion, batched
from apl.write.intake import document_key_of, fault_of, key_of

logger = logging.getLogger(__name__)

_READ_AT_ONCE = 500

_FAULTY = "\0"
"""Before the key of a chunk that cannot be indexed: the errors of the index name it."""


@dataclass(slots=True)
class _Held:
    """A chunk of the host: its hash, and where its text lies; None: the codebook has the very same."""

    content_hash: str
    place: int | None


@dataclass(slots=True)
class _Plan:
    """What a document lacks and has too much."""

    missing: dict[str, int] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)
    surplus: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.missing or self.changed or self.surplus)


class Sync:
    """Brings a codebook in step with a host: `gather` what the host holds, then `mend`. A context manager.

    Args:
        codebook: What is known.
        ingestion: Indexes what is missing.
        batch_size: Chunks a transaction; a document that has more goes in one all the same.
    """

    def __init__(self, codebook: Codebook, ingestion: Ingestion, *, batch_size: int) -> None:
        self._codebook = codebook
        self._ingestion = ingestion
        self._batch_size = batch_size
        self._documents: dict[str, dict[str, _Held]] = {}
        self._moved: set[str] = set()
        self._kept = 0
        self._texts: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the sync

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._texts.close()

    def gather(self, chunks: Iterable[Chunk]) -> None:
        """Take in what the host holds."""
        for batch in batched(chunks, _READ_AT_ONCE):
            sound = {
                id(chunk): key_of(chunk) for chunk in batch if fault_of(chunk, self._ingestion.max_chunk_chars) is None
            }
            stored = self._codebook.find(list(sound.values()))
            for chunk in batch:
                if id(chunk) not in sound:
                    self._gather_faulty(chunk)
                    continue
                key, document = sound[id(chunk)], document_key_of(chunk)
                held, known = content_hash(chunk.text), stored.get(key)
                is_here = known is not None and known.document_key == document
                is_same = known is not None and is_here and (known.content_hash, known.title) == (held, chunk.title)
                if known is not None and not is_here:
                    self._moved.add(key)
                self._documents.setdefault(document, {})[key] = _Held(held, None if is_same else self._put(chunk))

    def _gather_faulty(self, chunk: Chunk) -> None:
        """Keep a chunk that cannot be indexed, so that the report of the index names it."""
        document = chunk.document_id if isinstance(chunk, Chunk) and isinstance(chunk.document_id, str) else ""
        place = self._put(chunk)
        self._documents.setdefault(document, {})[f"{_FAULTY}{place}"] = _Held("", place)

    def mend(
        self, *, kept_documents: Container[str], kept_chunks: Container[str], delete_missing: bool, dry_run: bool
    ) -> SyncReport:
        """Compare, and unless it is a dry run index what is missing and delete what is surplus.

        Args:
            kept_documents: Documents that are left as they are where the host shows nothing of them.
            kept_chunks: Chunks that are not surplus, though the host does not show them.
            delete_missing: Delete documents that the host does not hold.
            dry_run: Only report.
        """
        said = _Said()
        plans = self._plans(kept_documents, kept_chunks, delete_missing, said)
        if dry_run:
            deque(plans, maxlen=0)
            report = IndexReport()
        else:
            workers = self._ingestion.workers if self._kept > self._batch_size else 0
            report = self._ingestion.run_batches(self._batches(plans), workers=workers)
        logger.info(
            "%s: %d chunks missing, %d changed, %d surplus; %d documents gone",
            "compared" if dry_run else "synced",
            len(said.missing), len(said.changed_chunks), len(said.surplus), len(said.gone),
        )  # fmt: skip
        return SyncReport(
            tuple(said.changed), tuple(said.gone), report,
            tuple(said.missing), tuple(said.changed_chunks), tuple(said.surplus), dry_run,
        )  # fmt: skip

    def _plans(
        self, kept_documents: Container[str], kept_chunks: Container[str], delete_missing: bool, said: _Said
    ) -> Iterator[_Plan]:
        """What to mend: the documents of the codebook first, then those it does not know."""
        for document, stored in self._codebook.chunk_hashes():
            held = self._documents.pop(document, None)
            if held is None and document in kept_documents:
                continue
            plan = _compared(held or {}, stored)
            plan.surplus = [key for key in plan.surplus if key not in kept_chunks and key not in self._moved]
            if held is None and not delete_missing:
                continue
            if plan:
                said.add(document, plan, is_gone=held is None)
                yield plan
        while self._documents:
            document = next(iter(self._documents))
            plan = _compared(self._documents.pop(document), {})
            if plan:
                said.add(document, plan, is_gone=False)
                yield plan

    def _batches(self, plans: Iterable[_Plan]) -> Iterator[Batch]:
        """Whole documents together up to a batch, so that each is mended in one transaction."""
        chunks: list[Chunk] = []
        surplus: list[str] = []
        for plan in plans:
            if chunks and len(chunks) + len(plan.missing) + len(plan.changed) > self._batch_size:
                yield Batch(chunks, surplus)
                chunks, surplus = [], []
            chunks += [self._get(place) for place in sorted({**plan.changed, **plan.missing}.values())]
            surplus += plan.surplus
            if len(surplus) >= _READ_AT_ONCE:
                yield Batch(chunks, surplus)
                chunks, surplus = [], []
        if chunks or surplus:
            yield Batch(chunks, surplus)

    def _put(self, chunk: Chunk) -> int:
        self._kept += 1
        place = self._texts.seek(0, 2)
        try:
            packed = pickle.dumps(chunk)
        except Exception:
            logger.debug("a chunk's metadata do not pickle, it is indexed without", exc_info=True)
            packed = pickle.dumps(Chunk(chunk.text, chunk.id, chunk.document_id, chunk.title))
        self._texts.write(packed)
        return place

    def _get(self, place: int) -> Chunk:
        self._texts.seek(place)
        chunk: Chunk = pickle.load(self._texts)  # noqa: S301 - what `_put` wrote
        return chunk


@dataclass(slots=True)
class _Said:
    """The ids for the report."""

    changed: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    changed_chunks: list[str] = field(default_factory=list)
    surplus: list[str] = field(default_factory=list)

    def add(self, document: str, plan: _Plan, *, is_gone: bool) -> None:
        """Note what a plan is about to do."""
        (self.gone if is_gone else self.changed).append(document)
        self.missing += [key for key in plan.missing if not key.startswith(_FAULTY)]
        self.changed_chunks += plan.changed
        self.surplus += plan.surplus


def _compared(held: Mapping[str, _Held], stored: Mapping[str, str]) -> _Plan:
    """A document as the host holds it against the same as it is stored.

    A chunk under another id is the same chunk if it has the same text: node parsers give new ids in every run.
    """
    plan = _Plan()
    spare = Counter(content_hash for key, content_hash in stored.items() if key not in held)
    matched: Counter[str] = Counter()
    for key, chunk in held.items():
        if chunk.place is None:
            continue
        if key in stored:
            plan.changed[key] = chunk.place
        elif matched[chunk.content_hash] < spare[chunk.content_hash]:
            matched[chunk.content_hash] += 1
        else:
            plan.missing[key] = chunk.place
    for key, found in stored.items():
        if key in held:
            continue
        if matched[found] > 0:
            matched[found] -= 1
        else:
            plan.surplus.append(key)
    return plan
