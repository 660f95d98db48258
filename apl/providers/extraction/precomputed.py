"""Triples that someone extracted before: a mapping, or a file in one of the formats in use, by chunk."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from apl.errors import ExtractionError
from apl.providers.extraction.graph_files import DocumentGraph, read_graph
from apl.providers.extraction.triple_files import COLUMNS, TripleFormat, format_of, read_triples
from apl.symbols import Chunk, ExtractedTriple, Extraction, Passage, Triple
from apl.text import content_hash

logger = logging.getLogger(__name__)


class PrecomputedExtractor:
    """Hands out the triples that were extracted before, by content hash or chunk id.

    Args:
        triples: `{chunk_id: [(head, relation, tail), ...]}`, the path of a file (`.gz` allowed), or for a graph the
            folder that holds `nodes.csv` and `edges.csv`, or the paths of the two. docs/extraction.md shows each.
        format: `auto` tells by ending and content; else `mapping`, `jsonl`, `csv`, `tsv`, `hipporag` or `graph`.
        name: What occurrences are labelled with.

    A key of the triples is the id of a chunk, or the content hash of its text. An entry is three non-empty strings
    and, if known, the position of the sentence, counted from 0. Other entries are dropped and counted in
    `Extraction.malformed`; a chunk without an entry has no triples and goes out as quotes. An edge of a graph that more
    than one document may have said is given only to chunks that have all its words; what is held back is counted in
    `Extraction.unsupported`.

    Raises:
        ConfigError: There is no such format.
        ExtractionError: A file cannot be read or is not of that format (the line is named).
    """

    in_process_only = True
    """It looks up a table: to copy that into worker processes costs more than they save."""

    def __init__(
        self,
        triples: Mapping[str, Iterable[Any]] | str | Path | Sequence[str | Path],
        *,
        format: TripleFormat = "auto",  # noqa: A002 - the word users know from every other reader
        name: str = "precomputed",
    ) -> None:
        self._name = name
        self._graph: DocumentGraph | None = None
        self._triples: dict[str, list[Any]] = {}
        if isinstance(triples, Mapping):
            self._triples = {key: _entries(key, value) for key, value in triples.items()}
            return
        paths = _paths(triples)
        known = format_of(paths, format)
        if known == "graph":
            self._graph = read_graph(paths)
        else:
            self._triples = read_triples(paths[0], known)

    @property
    def name(self) -> str:
        """The label of the occurrences."""
        return self._name

    def extract(self, passages: Sequence[Passage]) -> list[Extraction]:
        """One `Extraction` a passage, triples in the order they were given."""
        extractions = []
        missing = 0
        for passage in passages:
            if self._graph is not None:
                found = self._graph.extraction_for(passage.chunk)
            else:
                entries = next((self._triples[key] for key in _keys(passage.chunk) if key in self._triples), None)
                found = None if entries is None else extraction_of(entries)
            missing += found is None
            extractions.append(found or Extraction())
        if missing:
            logger.info("precomputed triples: %d of %d chunks have no entry", missing, len(passages))
        return extractions


def extraction_of(entries: Iterable[Any]) -> Extraction:
    """The well-formed of some (head, relation, tail) entries, and how many were not."""
    triples: list[ExtractedTriple] = []
    malformed = 0
    for entry in entries:
        if extracted := as_extracted(entry):
            triples.append(extracted)
        else:
            malformed += 1
    return Extraction(tuple(triples), malformed=malformed)


def as_extracted(entry: Any) -> ExtractedTriple | None:
    """A triple with the sentence its entry names: a fourth member, or the `sentence` of an object."""
    sentence = None
    if isinstance(entry, ExtractedTriple):
        entry, sentence = entry.triple, entry.sentence
    elif isinstance(entry, Mapping):
        sentence = entry.get("sentence")
        entry = [next((entry[key] for key in COLUMNS[part] if key in entry), None) for part in _PARTS]
    elif isinstance(entry, Sequence) and not isinstance(entry, str) and len(entry) == 4:
        *entry, sentence = entry
    triple = as_triple(entry)
    known = sentence is None or (type(sentence) is int and sentence >= 0)
    return ExtractedTriple(triple, sentence) if triple and known else None


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


_PARTS = ("head", "relation", "tail")


def _keys(chunk: Chunk) -> Iterator[str]:
    """What a chunk may be called in a file, the surest first: a hash cannot mean another text, an id can."""
    yield content_hash(chunk.text)
    if chunk.title:
        yield content_hash(f"{chunk.title}\n{chunk.text}")
    if chunk.id is not None:
        yield chunk.id


def _paths(triples: Any) -> list[Path]:
    if isinstance(triples, str | Path):
        return [Path(triples)]
    if isinstance(triples, list | tuple) and len(triples) in (1, 2) and all(isinstance(p, str | Path) for p in triples):
        return [Path(path) for path in triples]
    raise ExtractionError(
        "PrecomputedExtractor takes a mapping of chunk ids to triples, the path of a file, or the paths of a graph's "
        f"nodes and edges, not {type(triples).__name__}"
    )


def _entries(key: Any, value: Any) -> list[Any]:
    if not isinstance(key, str) or isinstance(value, str) or not isinstance(value, Iterable):
        raise ExtractionError(f"the triples of chunk {key!r} have to be a list, not {value!r}")
    return list(value)
