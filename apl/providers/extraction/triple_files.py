"""Files of triples by chunk: JSONL, CSV and TSV line by line, HippoRAG's OpenIE JSON and a plain JSON mapping whole.

What is wrong with the shape of a file stops the reading and names the line; a name that is missing in a well-shaped
row is kept as it stands, to be counted where the chunk is read.
"""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TextIO, get_args

from apl.errors import ConfigError, ExtractionError
from apl.text import content_hash

TripleFormat = Literal["auto", "mapping", "jsonl", "csv", "tsv", "hipporag", "graph"]
"""How triples are written down; docs/extraction.md shows each."""

COLUMNS = {
    "chunk_id": ("chunk_id", "chunk", "passage_id", "doc_id", "document_id", "idx", "id"),
    "head": ("head", "subject", "subj", "source"),
    "relation": ("relation", "predicate", "rel", "verb"),
    "tail": ("tail", "object", "obj", "target"),
    "sentence": ("sentence", "sentence_id", "sentence_index", "sent_id"),
}
"""What a column or key may be called, the surest name first."""

_DELIMITERS = {"csv": ",;\t", "tsv": "\t"}
_JSONL_SHAPE = '{"chunk_id": "...", "triples": [["head", "relation", "tail"], ...]}'
_HIPPORAG_SHAPE = '{"docs": [{"idx": "...", "passage": "...", "extracted_triples": [["head", "relation", "tail"]]}]}'


def format_of(paths: Sequence[Path], asked: TripleFormat) -> TripleFormat:
    """The format that was asked for, else the one that ending and content tell.

    Raises:
        ConfigError: There is no such format, or it is not one of files.
        ExtractionError: The file cannot be read.
    """
    if asked not in get_args(TripleFormat):
        raise ConfigError(f"format={asked!r} is no format of triples: {', '.join(get_args(TripleFormat))}")
    if asked == "mapping":
        asked = "hipporag"  # a JSON file may hold either, and says which
    if len(paths) == 2 and asked in ("auto", "graph"):
        return "graph"
    if len(paths) == 2:
        raise ConfigError(f"format={asked!r} is one file; two paths are the nodes and edges of a graph")
    if asked != "auto":
        return asked
    return "graph" if paths[0].is_dir() else _told_by_file(paths[0])


def _told_by_file(path: Path) -> TripleFormat:
    ending = path.with_suffix("").suffix if path.suffix.lower() == ".gz" else path.suffix
    match ending.lower():
        case ".jsonl" | ".ndjson":
            return "jsonl"
        case ".json":
            return "hipporag"
        case ".tsv":
            return "tsv"
        case ".csv":
            return "graph" if _is_graph(_first_line(path)) else "csv"
    first = _first_line(path)
    if first.startswith("{") and first.endswith("}"):
        return "jsonl"
    return "hipporag" if first.startswith(("{", "[")) else "csv"


def _first_line(path: Path) -> str:
    with opened(path) as file:
        return next((line.strip() for line in file if line.strip()), "")


def _is_graph(header: str) -> bool:
    """True for the edges of a graph, whose rows name no chunk."""
    titles = _titles(header.replace('"', "").split(","))
    return "source" in titles and "target" in titles and not set(titles) & set(COLUMNS["chunk_id"])


def read_triples(path: Path, kind: TripleFormat) -> dict[str, list[Any]]:
    """The entries of a file by chunk id or content hash, in its order.

    Raises:
        ExtractionError: The file cannot be read or is not of this format; the line is named.
    """
    if kind == "hipporag":
        return _read_json(path)
    found: dict[str, list[Any]] = {}
    for key, entries in _read_jsonl(path) if kind == "jsonl" else _read_table(path, _DELIMITERS[kind]):
        found.setdefault(key, []).extend(entries)
    return found


@contextmanager
def opened(path: Path) -> Iterator[TextIO]:
    """The text of a file, unzipped where its name ends in `.gz`; what fails in reading it is an `ExtractionError`."""
    try:
        with (
            gzip.open(path, "rt", encoding="utf-8-sig", newline="")
            if path.suffix.lower() == ".gz"
            else path.open(encoding="utf-8-sig", newline="")
        ) as file:
            yield file
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ExtractionError(f"the triples in {path} cannot be read: {error}") from error


# --- JSON -------------------------------------------------------------------------------------------------------------


def _read_jsonl(path: Path) -> Iterator[tuple[str, list[Any]]]:
    with opened(path) as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield _jsonl_entry(path, number, line)


def _jsonl_entry(path: Path, number: int, line: str) -> tuple[str, list[Any]]:
    try:
        entry = json.loads(line)
    except ValueError:
        entry = None
    match entry:
        case {"chunk_id": str(key), "triples": list(triples)}:
            return key, triples
    raise ExtractionError(f"{path}, line {number}: expected {_JSONL_SHAPE}, not {line.strip()[:80]!r}")


def _read_json(path: Path) -> dict[str, list[Any]]:
    try:
        with opened(path) as file:
            content = json.load(file)
    except (ValueError, RecursionError) as error:
        raise ExtractionError(
            f"{path} is no JSON ({error}); for one object a line give format='jsonl', for a table format='csv'"
        ) from error
    match content:
        case {"docs": list(docs)}:
            return _hipporag_entries(path, docs)
        case dict() if all(isinstance(entries, list) for entries in content.values()):
            return content
    raise ExtractionError(f'{path}: expected {_HIPPORAG_SHAPE} or {{"chunk_id": [["head", "relation", "tail"]]}}')


def _hipporag_entries(path: Path, docs: Sequence[Any]) -> dict[str, list[Any]]:
    """By the content hash of the passage and by `idx`, which HippoRAG counts or makes of another hash."""
    found: dict[str, list[Any]] = {}
    for number, doc in enumerate(docs):
        match doc:
            case {"extracted_triples": list(triples)}:
                passage, idx = doc.get("passage"), doc.get("idx")
            case _:
                passage = idx = None
        keys = [content_hash(passage)] if isinstance(passage, str) and passage else []
        keys += [str(idx)] if isinstance(idx, str | int) and str(idx) else []
        if not keys:
            raise ExtractionError(f"{path}, docs[{number}]: expected {_HIPPORAG_SHAPE}, not {str(doc)[:80]!r}")
        for key in keys:
            found[key] = [*found[key], *triples] if key in found else triples
    return found


# --- tables -----------------------------------------------------------------------------------------------------------


def _read_table(path: Path, delimiters: str) -> Iterator[tuple[str, list[Any]]]:
    with opened(path) as file:
        for row in table_rows(path, file, ("chunk_id", "head", "relation", "tail"), delimiters):
            key = row["chunk_id"].strip()
            if not key:
                raise ExtractionError(f"{path}, line {row['line']}: the row names no chunk")
            yield key, [(row["head"], row["relation"], row["tail"], _sentence(path, row))]


def _sentence(path: Path, row: dict[str, str]) -> int | None:
    told = row.get("sentence", "").strip()
    if told and not (told.isascii() and told.isdigit()):
        raise ExtractionError(
            f"{path}, line {row['line']}: the sentence has to be its position, counted from 0, not {told[:80]!r}"
        )
    return int(told) if told else None


def table_rows(
    path: Path, file: TextIO, needed: Sequence[str], delimiters: str = ",;\t", extra: Sequence[str] = ()
) -> Iterator[dict[str, str]]:
    """The rows of a table with a header, by the names in `COLUMNS` and of the `extra` columns, and their `line`.

    Raises:
        ExtractionError: A needed column is missing, a row is longer or shorter than the header, or quoting is broken.
    """
    line, first = next(((number, line) for number, line in enumerate(file, start=1) if line.strip()), (1, ""))
    blank = line - 1
    reader = csv.reader(chain([first], file), delimiter=max(delimiters, key=first.count), strict=True)
    header: list[str] | None = None
    try:
        for row in reader:
            started, line = line, blank + reader.line_num + 1
            if header is None:
                header, places = row, _places(path, row, needed, extra)
            elif len(row) == len(header):
                yield {name: row[place] for name, place in places.items()} | {"line": str(started)}
            elif row:
                raise ExtractionError(
                    f"{path}, line {started}: {len(row)} fields where the header has {len(header)}; "
                    "a field that holds the delimiter or a line break has to stand in quotation marks"
                )
    except csv.Error as error:
        raise ExtractionError(f"{path}, line {blank + reader.line_num}: {error}") from error


def _places(path: Path, header: Sequence[str], needed: Sequence[str], extra: Sequence[str]) -> dict[str, int]:
    titles = _titles(header)
    names = {**COLUMNS, **{name: (name,) for name in extra}}
    found = {
        part: titles.index(next(name for name in known if name in titles))
        for part, known in names.items()
        if any(name in titles for name in known)
    }
    missing = [part for part in needed if part not in found]
    if missing:
        raise ExtractionError(
            f"{path}, line 1: the header {','.join(header)[:80]!r} has no column for {', '.join(missing)} "
            f"(known names: {'; '.join(', '.join(names[part]) for part in missing)})"
        )
    return found


def _titles(header: Sequence[str]) -> list[str]:
    return ["_".join(title.casefold().replace("-", " ").split()) for title in header]
