"""Triples that were extracted before."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from apl.errors import ExtractionError
from apl.protocols import TripleExtractor
from apl.providers import PrecomputedExtractor
from apl.sentences import split_sentences
from apl.symbols import Chunk, Extraction, Passage, Triple
from apl.text import content_hash

TEXT = "Northstar acquired DeltaPay."
TRIPLES = [["Northstar", "acquired", "DeltaPay"], ["DeltaPay", "is", "payment firm"]]


def extract(extractor: PrecomputedExtractor, *chunks: Chunk) -> list[Extraction]:
    return extractor.extract([Passage(chunk, split_sentences(chunk.text)) for chunk in chunks])


def triples(extraction: Extraction) -> list[Triple]:
    return [extracted.triple for extracted in extraction.triples]


def line(chunk_id: Any, entries: Any = TRIPLES) -> str:
    return json.dumps({"chunk_id": chunk_id, "triples": entries}, ensure_ascii=False) + "\n"


def test_mapping_hands_out_its_triples_in_order() -> None:
    """Each passage gets the triples of its chunk id, as many results as passages, in their order."""
    extractor = PrecomputedExtractor({"c1": [tuple(entry) for entry in TRIPLES], "c2": [Triple("a1", "b1", "c1")]})
    found = extract(extractor, Chunk(TEXT, id="c2"), Chunk(TEXT, id="c1"))
    assert [triples(e) for e in found] == [[Triple("a1", "b1", "c1")], [Triple(*entry) for entry in TRIPLES]]
    assert [e.malformed for e in found] == [0, 0]
    assert all(extracted.sentence is None for e in found for extracted in e.triples)


def test_generators_are_read_once_and_remembered() -> None:
    """Entries may come from any iterable; a second reading gives the same."""
    extractor = PrecomputedExtractor({"c1": (tuple(entry) for entry in TRIPLES)})
    first, second = (extract(extractor, Chunk(TEXT, id="c1")) for _ in range(2))
    assert first == second
    assert len(first[0].triples) == 2


def test_unknown_chunk_has_no_triples() -> None:
    """A chunk without an entry is no error; it says nothing in edges."""
    assert extract(PrecomputedExtractor({"c1": TRIPLES}), Chunk(TEXT, id="zzz")) == [Extraction()]
    assert extract(PrecomputedExtractor({}), Chunk(TEXT)) == [Extraction()]


def test_chunk_without_id_is_found_by_its_content_hash() -> None:
    """The hash is over the text alone."""
    extractor = PrecomputedExtractor({content_hash(TEXT): TRIPLES})
    assert len(extract(extractor, Chunk(TEXT, document_id="d1", title="Deals"))[0].triples) == 2


def test_malformed_entries_are_dropped_and_counted() -> None:
    """An entry is three strings with something in them."""
    malformed: list[Any] = [
        ["two", "parts"],
        ["four", "parts", "are", "many"],
        ["", "is", "empty"],
        ["white", " \t", "space"],
        ["a", "b", None],
        ["a", 2, "c"],
        "abc",
        None,
        7,
        {"h": "a", "r": "b", "t": "c"},
        Triple("a", "", "c"),
    ]
    (found,) = extract(PrecomputedExtractor({"c1": [TRIPLES[0], *malformed, TRIPLES[1]]}), Chunk(TEXT, id="c1"))
    assert triples(found) == [Triple(*entry) for entry in TRIPLES]
    assert found.malformed == len(malformed)


def test_white_space_in_names_is_tidied() -> None:
    """Line breaks and runs of blanks become one blank; the ends are trimmed."""
    extractor = PrecomputedExtractor({"c1": [("  Northstar\nLtd ", "acquired", "Delta \t Pay")]})
    assert triples(extract(extractor, Chunk(TEXT, id="c1"))[0]) == [Triple("Northstar Ltd", "acquired", "Delta Pay")]


@pytest.mark.parametrize("kind", [str, Path])
@pytest.mark.parametrize("name", ["triples.jsonl", "triples.jsonl.gz"])
def test_file_hands_out_its_triples(tmp_path: Path, name: str, kind: Any) -> None:
    """A JSONL file, plain or gzipped, is read like the mapping it spells; blank lines and other keys do not matter."""
    more = json.dumps({"model": "glm", "chunk_id": "北京", "triples": []}) + "\n"
    data = (line("c1") + "\n  \n" + more + line("c2", [["a1", "b1"], ["é", "ist", "ü"]])).encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    found = extract(PrecomputedExtractor(kind(path)), *(Chunk(TEXT, id=key) for key in ("c1", "北京", "c2")))
    assert [len(e.triples) for e in found] == [2, 0, 1]
    assert [e.malformed for e in found] == [0, 0, 1]
    assert triples(found[2]) == [Triple("é", "ist", "ü")]


BAD_LINES = {
    "no JSON": "{chunk_id: c2}",
    "cut off": line("c2").rstrip()[:-4],
    "a list": "[1, 2]",
    "no triples": '{"chunk_id": "c2"}',
    "no id": '{"triples": []}',
    "id is a number": line(2),
    "triples are a text": line("c2", "abc"),
    "triples are null": line("c2", None),
}


@pytest.mark.parametrize("bad", BAD_LINES.values(), ids=BAD_LINES)
def test_bad_line_is_named(tmp_path: Path, bad: str) -> None:
    """The error names the file and the number of the line, blank lines counted."""
    path = tmp_path / "triples.jsonl"
    path.write_text(f"{line('c1')}\n{bad.strip()}\n{line('c3')}", encoding="utf-8")
    with pytest.raises(ExtractionError, match=r"triples\.jsonl, line 3: expected"):
        PrecomputedExtractor(path)


COMPRESSED = gzip.compress(line("c1").encode() * 500)
UNREADABLE = {
    "missing": ("absent.jsonl", None),
    "not UTF-8": ("triples.jsonl", b'{"chunk_id": "\xff\xfe"}\n'),
    "not gzip": ("triples.jsonl.gz", line("c1").encode()),
    "cut gzip": ("triples.jsonl.gz", COMPRESSED[:-20]),
    "damaged gzip": ("triples.jsonl.gz", COMPRESSED[:12] + b"\xff" * 8 + COMPRESSED[20:]),
}


@pytest.mark.parametrize(("name", "data"), UNREADABLE.values(), ids=UNREADABLE)
def test_file_that_cannot_be_read_is_an_extraction_error(tmp_path: Path, name: str, data: bytes | None) -> None:
    """A missing, foreign or damaged file is named at once, not at the first chunk."""
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(ExtractionError, match=name):
        PrecomputedExtractor(tmp_path / name)


def test_damaged_gzip_is_really_damaged() -> None:
    """The bytes above do not decompress."""
    with pytest.raises(zlib.error):
        gzip.decompress(UNREADABLE["damaged gzip"][1] or b"")


@pytest.mark.parametrize("wrong", [None, 3, [("c1", TRIPLES)], b"triples.jsonl"])
def test_what_is_neither_mapping_nor_path_is_an_extraction_error(wrong: Any) -> None:
    """The message says what it takes."""
    with pytest.raises(ExtractionError, match="takes a mapping of chunk ids"):
        PrecomputedExtractor(wrong)


def test_it_is_an_extractor_with_a_name() -> None:
    """Occurrences are labelled `precomputed`, or as asked."""
    assert isinstance(PrecomputedExtractor({}), TripleExtractor)
    assert PrecomputedExtractor({}).name == "precomputed"
    assert PrecomputedExtractor({}, name="glm-4").name == "glm-4"
