"""Triples that someone extracted before: a mapping or a JSONL file, by chunk id."""

from __future__ import annotations

import gzip
import json
import logging
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from apl.errors import ExtractionError
from apl.symbols import ExtractedTriple, Extraction, Passage, Triple
from apl.text import content_hash

logger = logging.getLogger(__name__)


class PrecomputedExtractor:
    """Hands out the triples that were extracted before, by chunk id (or content hash for a chunk without id).

    Args:
        triples: `{chunk_id: [(head, relation, tail), ...]}`, or the path of a JSONL file (`.gz` allowed) with one
            `{"chunk_id": ..., "triples": [[head, relation, tail], ...]}` a line.
        name: What occurrences are labelled with.

    Entries that are not three non-empty strings are dropped and counted in `Extraction.malformed`; a chunk without an
    entry has no triples and goes out as quotes.

    Raises:
        ExtractionError: The file cannot be read, or a line is not such an object (the line is named).
    """

    def __init__(
        self, triples: Mapping[str, Iterable[Sequence[str]]] | str | Path, *, name: str = "precomputed"
    ) -> None:
        self._name = name
        self._triples: dict[str, list[Any]]
        if isinstance(triples, Mapping):
            self._triples = {key: _entries(key, value) for key, value in triples.items()}
        elif isinstance(triples, str | Path):
            self._triples = {}
            for key, entries in _read_jsonl(Path(triples)):
                self._triples.setdefault(key, []).extend(entries)
        else:
            raise ExtractionError(
                "PrecomputedExtractor takes a mapping of chunk ids to triples or the path of a JSONL file, "
                f"not {type(triples).__name__}"
            )

    @property
    def name(self) -> str:
        """The label of the occurrences."""
        return self._name

    def extract(self, passages: Sequence[Passage]) -> list[Extraction]:
        """One `Extraction` a passage, triples in the order they were given."""
        extractions = []
        missing = 0
        for passage in passages:
            chunk = passage.chunk
            key = chunk.id if chunk.id is not None else content_hash(chunk.text)
            entries = self._triples.get(key)
            missing += entries is None
            extractions.append(extraction_of(entries or ()))
        if missing:
            logger.info("precomputed triples: %d of %d chunks have no entry", missing, len(passages))
        return extractions


def extraction_of(entries: Iterable[Any]) -> Extraction:
    """The well-formed of some (head, relation, tail) entries, and how many were not."""
    triples: list[ExtractedTriple] = []
    malformed = 0
    for entry in entries:
        if triple := as_triple(entry):
            triples.append(ExtractedTriple(triple))
        else:
            malformed += 1
    return Extraction(tuple(triples), malformed=malformed)


def as_triple(entry: Any) -> Triple | None:
    """A triple with its white space trimmed, or None where the entry is not three non-empty strings."""
    if isinstance(entry, Triple):
        entry = (entry.head, entry.relation, entry.tail)
    if not isinstance(entry, Sequence) or isinstance(entry, str) or len(entry) != 3:
        return None
    if not all(isinstance(part, str) and part.strip() for part in entry):
        return None
    head, relation, tail = (" ".join(part.split()) for part in entry)
    return Triple(head, relation, tail)


def _entries(key: Any, value: Any) -> list[Any]:
    if not isinstance(key, str) or isinstance(value, str) or not isinstance(value, Iterable):
        raise ExtractionError(f"the triples of chunk {key!r} have to be a list, not {value!r}")
    return list(value)


def _read_jsonl(path: Path) -> Iterator[tuple[str, list[Any]]]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield _entry(path, number, line)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ExtractionError(f"the triples in {path} cannot be read: {error}") from error


def _entry(path: Path, number: int, line: str) -> tuple[str, list[Any]]:
    try:
        entry = json.loads(line)
    except ValueError:
        entry = None
    match entry:
        case {"chunk_id": str(key), "triples": list(triples)}:
            return key, triples
    raise ExtractionError(
        f'{path}, line {number}: expected {{"chunk_id": "...", "triples": [["head", "relation", "tail"], ...]}}, '
        f"not {line.strip()[:80]!r}"
    )
