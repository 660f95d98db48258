"""Files to chunks: folders of text and Markdown, single files and JSONL, as the command line reads them.

Nothing here raises for one bad file or line: it becomes a `ChunkError` that names the place, and the others go on. Only
what makes the whole call senseless (a missing source, two files of one name) is an `InputError`.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from apl.errors import InputError
from apl.reports import ChunkError
from apl.sentences import heading_words, split_sentences
from apl.symbols import Chunk, Sentence
from apl.text import is_encodable

if TYPE_CHECKING:
    from apl.state.codebook import Codebook

TEXT_ENDINGS = (".txt", ".md", ".markdown")
JSONL_ENDINGS = (".jsonl", ".jsonl.gz")

_PROBED_AT_ONCE = 8
"""Numbers beyond a document's last passage that are looked up at once; so many in a row may have failed earlier."""

_DOCUMENTS_AT_ONCE = 256
"""Documents whose passages are looked up and removed together."""

_MAX_KEPT_FAULTS = 1000
"""Faults a corpus names; the others are counted."""

_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")
_KEYS = ("text", "id", "document_id", "doc_id", "title")
_SHAPE = '{"text": "...", "id": "...", "document_id": "...", "title": "..."} (all but text optional)'


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to read; `name` is its path below the folder that was given: the document id of a text file."""

    path: Path
    name: str

    @property
    def is_jsonl(self) -> bool:
        """True when each line is a chunk, false when the file is one document."""
        return self.path.name.lower().endswith(JSONL_ENDINGS)


@dataclass(slots=True)
class Corpus:
    """The chunks of some files: iterate once, then ask what was read. One file, or one line, is in memory at a time.

    Attributes:
        files: What is read, in this order.
        chunk_chars: How long a passage of a text file may grow.
        faults: Files and lines that could not be read, the first 1,000 of them.
        failed: How many could not be read.
        passages: For each text file that was read whole: its document id and how many passages it has.
    """

    files: Sequence[SourceFile]
    chunk_chars: int
    faults: list[ChunkError] = field(default_factory=list)
    failed: int = field(init=False)
    passages: dict[str, int] = field(default_factory=dict)
    _bytes: int = field(init=False, default=0)
    _bytes_read: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.failed = len(self.faults)
        self._bytes = sum(_size_of(file.path) for file in self.files)

    @property
    def share_read(self) -> float:
        """How much of the files' bytes has been read, in [0, 1]."""
        return min(self._bytes_read / self._bytes, 1.0) if self._bytes else 1.0

    def __iter__(self) -> Iterator[Chunk]:
        """The chunks of all files; what cannot be read is kept in `faults`."""
        for file in self.files:
            before = self._bytes_read
            for item in self._lines(file, before) if file.is_jsonl else self._document(file):
                if isinstance(item, ChunkError):
                    self.failed += 1
                    if len(self.faults) < _MAX_KEPT_FAULTS:
                        self.faults.append(item)
                else:
                    yield item
            self._bytes_read = before + _size_of(file.path)

    def _lines(self, file: SourceFile, before: int) -> Iterator[Chunk | ChunkError]:
        def note(position: int) -> None:
            self._bytes_read = before + position

        return read_jsonl_file(file.path, note)

    def _document(self, file: SourceFile) -> Iterable[Chunk | ChunkError]:
        text = read_text(file.path)
        if isinstance(text, ChunkError):
            return [text]
        chunks = split_document(text, file.name, chunk_chars=self.chunk_chars)
        self.passages[file.name] = len(chunks)
        return chunks


# --- finding ----------------------------------------------------------------------------------------------------------


def find_files(sources: Sequence[Path]) -> tuple[tuple[SourceFile, ...], tuple[ChunkError, ...]]:
    """The files that the sources name, in a fixed order, and the folders below them that cannot be entered.

    Hidden files and folders (`.git`) are left out, links to folders are not followed.

    Raises:
        InputError: A source is missing or of no known kind, a folder holds nothing to read, or two files would become
            one document.
    """
    found: dict[Path, SourceFile] = {}
    faults: list[ChunkError] = []
    for source in sources:
        try:
            for file in _files_of(source, faults):
                found.setdefault(file.path.resolve(), file)
        except OSError as error:
            raise InputError(f"{source} cannot be read ({error.strerror})") from error
    _check_names(found.values())
    return tuple(found.values()), tuple(faults)


def _files_of(source: Path, faults: list[ChunkError]) -> list[SourceFile]:
    if source.is_dir():
        below = list(_walk(source, faults))
        if not below and not faults:
            raise InputError(
                f"{source} holds no {', '.join(TEXT_ENDINGS)} file; JSONL files have to be named one by one"
            )
        return below
    if not source.exists():
        raise InputError(f"{source} does not exist: give a folder, a text or Markdown file, or a JSONL file")
    if not source.is_file() or not source.name.lower().endswith(TEXT_ENDINGS + JSONL_ENDINGS):
        raise InputError(f"{source} is not of a kind apl reads ({', '.join(TEXT_ENDINGS + JSONL_ENDINGS)})")
    return [SourceFile(source, source.name)]


def _walk(folder: Path, faults: list[ChunkError]) -> Iterator[SourceFile]:
    def note(error: OSError) -> None:
        faults.append(ChunkError(str(error.filename), f"the folder cannot be read ({error.strerror})"))

    for place, folders, names in os.walk(folder, onerror=note):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(place, name)
            if name.lower().endswith(TEXT_ENDINGS) and not name.startswith(".") and path.is_file():
                yield SourceFile(path, path.relative_to(folder).as_posix())


def _check_names(files: Iterable[SourceFile]) -> None:
    known: dict[str, SourceFile] = {}
    for file in files:
        if not file.is_jsonl and (other := known.setdefault(file.name, file)) is not file:
            raise InputError(
                f"{other.path} and {file.path} would both become document {file.name!r}: "
                "index the folder that holds both instead"
            )


# --- reading ----------------------------------------------------------------------------------------------------------


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0  # it is reported where it is read


def read_text(path: Path) -> str | ChunkError:
    """The text of a UTF-8 file with plain line ends, or what is wrong with it."""
    if not is_encodable(str(path)):
        return ChunkError(str(path), "the file's name is not UTF-8: rename it")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        return ChunkError(str(path), f"cannot be read ({error.strerror})")
    except UnicodeDecodeError as error:
        return ChunkError(str(path), f"is not UTF-8 text (byte {error.start + 1}): convert it, or leave it out")
    if "\0" in text:
        return ChunkError(str(path), "is a binary file: leave it out, or convert it to text")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_jsonl_file(path: Path, note: Callable[[int], object] = lambda _: None) -> Iterator[Chunk | ChunkError]:
    """The chunks of a JSONL file, gzipped or not; see `read_jsonl`.

    Args:
        path: The file.
        note: Told before each chunk how many bytes of the file have been read.
    """
    try:
        compressed = path.name.lower().endswith(".gz")
        with path.open("rb") as file:
            lines = cast(BinaryIO, gzip.GzipFile(fileobj=file)) if compressed else file
            for item in read_jsonl(lines, str(path)):
                note(file.tell())
                yield item
    except OSError as error:
        yield ChunkError(str(path), f"cannot be read ({error.strerror or error})")
    except (EOFError, zlib.error) as error:
        yield ChunkError(str(path), f"is a broken gzip file ({error})")


def read_jsonl(lines: Iterable[bytes], name: str) -> Iterator[Chunk | ChunkError]:
    """One chunk a line, or what is wrong with the line; blank lines are nothing.

    Args:
        lines: JSON objects in UTF-8 with `text` and optional `id`, `document_id` or `doc_id`, `title`.
        name: What the file is called in messages.
    """
    for number, line in enumerate(lines, start=1):
        if line.strip():
            chunk = _chunk_of(line.removeprefix(b"\xef\xbb\xbf"))
            yield ChunkError(f"{name}, line {number}", chunk) if isinstance(chunk, str) else chunk


def _chunk_of(line: bytes) -> Chunk | str:
    """The chunk a line says, or what is wrong with it."""
    try:
        entry: Any = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        return f"not UTF-8 (byte {error.start + 1})"
    except (ValueError, RecursionError) as error:
        return f"not JSON ({error}); expected {_SHAPE}"
    if not isinstance(entry, dict) or not isinstance(entry.get("text"), str):
        return f"expected {_SHAPE}, not {line.decode('utf-8').strip()[:80]}"
    told = {key: entry[key] for key in _KEYS if entry.get(key) is not None}
    for key, value in told.items():
        if not isinstance(value, str) or (key not in ("text", "title") and not value):
            return f'"{key}" has to be a text with something in it, not {json.dumps(value)[:80]}'
        if not is_encodable(value):
            return f'"{key}" holds half a surrogate pair'
    return Chunk(
        told["text"],
        id=told.get("id"),
        document_id=told.get("document_id", told.get("doc_id")),
        title=told.get("title"),
    )


def read_host_chunks(path: Path, stdin: Iterable[bytes]) -> list[Chunk]:
    """The chunks of a JSONL file, or of stdin where the path is `-`.

    Raises:
        InputError: The file cannot be read, a line is broken, or there is no line.
    """
    is_stdin = str(path) == "-"
    chunks: list[Chunk] = []
    for item in read_jsonl(stdin, "stdin") if is_stdin else read_jsonl_file(path):
        if isinstance(item, ChunkError):
            raise InputError(f"{item.chunk_id}: {item.reason}")
        chunks.append(item)
    if not chunks:
        raise InputError(f"{'stdin' if is_stdin else path} holds no passage")
    return chunks


# --- splitting --------------------------------------------------------------------------------------------------------


def split_document(text: str, document_id: str, *, chunk_chars: int) -> list[Chunk]:
    """A document's passages, `<document id>#1`, `#2`, ..., each a stretch of the text as it stands.

    A heading begins a passage, together with headings that stand right before it. Paragraphs are kept together and
    gathered while the passage stays within `chunk_chars`; a longer paragraph is cut between its sentences. Only a
    sentence that is longer by itself makes a longer passage. The title is the nearest heading above.
    """
    chunks: list[Chunk] = []
    title: str | None = None
    for units in _gather(_paragraphs(text), chunk_chars):
        headings = [unit for unit in units if unit.kind == "title"]
        title = heading_words(headings[-1].text) if headings else title
        start = text.rfind("\n", 0, units[0].start) + 1
        if text[start : units[0].start].strip():
            start = units[0].start
        piece = text[start : units[-1].end]
        chunks.append(Chunk(piece, id=f"{document_id}#{len(chunks) + 1}", document_id=document_id, title=title))
    return chunks


def _paragraphs(text: str) -> list[list[Sentence]]:
    """Sentences by paragraph; a heading is a paragraph of its own."""
    paragraphs: list[list[Sentence]] = []
    last: Sentence | None = None
    for unit in split_sentences(text):
        apart = last is None or "title" in (last.kind, unit.kind) or _BLANK_LINE.search(text, last.end, unit.start)
        if apart and not (last and last.kind == "title" and unit.kind == "rule"):
            paragraphs.append([])
        paragraphs[-1].append(unit)
        last = unit
    return paragraphs


def _gather(paragraphs: Iterable[list[Sentence]], chunk_chars: int) -> Iterator[list[Sentence]]:
    """Paragraphs to passages; headings never end one."""
    passage: list[Sentence] = []
    for paragraph in paragraphs:
        grown = bool(passage) and paragraph[-1].end - passage[0].start > chunk_chars
        if not _all_headings(passage) and (grown or paragraph[0].kind == "title"):
            yield passage
            passage = []
        for unit in paragraph:
            if not _all_headings(passage) and unit.end - passage[0].start > chunk_chars:
                yield passage
                passage = []
            passage.append(unit)
    if passage:
        yield passage


def _all_headings(units: Iterable[Sentence]) -> bool:
    return all(unit.kind in ("title", "rule") for unit in units)


# --- bringing the store up to date ------------------------------------------------------------------------------------


def remove_stale(codebook: Codebook, passages: Mapping[str, int]) -> int:
    """Remove the passages beyond the number that a document now has; how many there were.

    They are found by their ids, so that a run that was killed before this is made up for by the next.

    Args:
        codebook: Where the documents are stored.
        passages: Document ids and how many passages each has.
    """
    removed = 0
    documents = iter(passages.items())
    while reached := dict(islice(documents, _DOCUMENTS_AT_ONCE)):
        stale: list[str] = []
        while reached:
            probed = {
                f"{document}#{number}": document
                for document, last in reached.items()
                for number in range(last + 1, last + 1 + _PROBED_AT_ONCE)
            }
            stored = codebook.find(list(probed))
            found = [key for key, chunk in stored.items() if chunk.document_key == probed[key]]
            stale += found
            reached = {probed[key]: reached[probed[key]] + _PROBED_AT_ONCE for key in found}
        if stale:
            removed += codebook.delete_chunks(stale).chunks
    return removed
