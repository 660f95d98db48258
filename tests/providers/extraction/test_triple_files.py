"""Files of triples: tables, HippoRAG's JSON, and how a format is told from another."""

from __future__ import annotations

import gzip
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from apl.errors import ConfigError, ExtractionError
from apl.providers import PrecomputedExtractor
from apl.sentences import split_sentences
from apl.symbols import Chunk, Extraction, Passage, Triple

TEXT = "Northstar acquired DeltaPay."
ACQUIRED = Triple("Northstar", "acquired", "DeltaPay")


def extract(extractor: PrecomputedExtractor, *chunks: Chunk) -> list[Extraction]:
    return extractor.extract([Passage(chunk, split_sentences(chunk.text)) for chunk in chunks])


def read(path: Path | str, chunk: Chunk | None = None, **options: Any) -> Extraction:
    """What a file says of one chunk, `c1` unless given."""
    return extract(PrecomputedExtractor(path, **options), chunk or Chunk(TEXT, id="c1"))[0]


def triples(extraction: Extraction) -> list[Triple]:
    return [extracted.triple for extracted in extraction.triples]


def written(path: Path, text: str) -> Path:
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


TABLES = {
    "comma": ("t.csv", "chunk_id,head,relation,tail\nc1,Northstar,acquired,DeltaPay\n"),
    "semicolon": ("t.csv", "chunk_id;head;relation;tail\nc1;Northstar;acquired;DeltaPay\n"),
    "tabs": ("t.tsv", "chunk_id\thead\trelation\ttail\nc1\tNorthstar\tacquired\tDeltaPay\n"),
    "gzipped": ("t.csv.gz", "chunk_id,head,relation,tail\nc1,Northstar,acquired,DeltaPay\n"),
    "other names": ("t.csv", "Passage ID,Subject,Predicate,Object\nc1,Northstar,acquired,DeltaPay\n"),
    "other order and columns": ("t.csv", "score,tail,head,chunk_id,relation\n.9,DeltaPay,Northstar,c1,acquired\n"),
    "a source column of its own": (
        "t.csv",
        "source,target,chunk_id,head,relation,tail\nweb,x,c1,Northstar,acquired,DeltaPay\n",
    ),
    "byte order mark and CRLF": ("t.csv", "\ufeffchunk_id,head,relation,tail\r\nc1,Northstar,acquired,DeltaPay\r\n"),
    "quotes": ("t.csv", '"chunk_id","head","relation","tail"\n"c1"," Northstar ","acquired","DeltaPay"\n'),
    "blank lines": ("t.csv", "\nchunk_id,head,relation,tail\n\nc1,Northstar,acquired,DeltaPay\n\n"),
    "no ending": ("triples", "chunk_id,head,relation,tail\nc1,Northstar,acquired,DeltaPay\n"),
}


@pytest.mark.parametrize(("name", "text"), TABLES.values(), ids=TABLES)
def test_a_table_is_read_whatever_its_dialect(tmp_path: Path, name: str, text: str) -> None:
    """Delimiter, column names and order, compression and line ends are told by the file."""
    found = read(written(tmp_path / name, text))
    assert triples(found) == [ACQUIRED]
    assert found.malformed == 0


def test_quoted_fields_hold_delimiters_quotes_and_line_breaks(tmp_path: Path) -> None:
    """CSV quoting is CSV quoting; Unicode is text."""
    rows = 'chunk_id,head,relation,tail\nc1,"Dvořák, Antonín","said ""so""","北\n京"\nc1,é,ist,ü\n'
    found = read(written(tmp_path / "t.csv", rows))
    assert triples(found) == [Triple("Dvořák, Antonín", 'said "so"', "北 京"), Triple("é", "ist", "ü")]


def test_rows_of_a_chunk_need_not_stand_together(tmp_path: Path) -> None:
    """Their order is that of the file."""
    rows = "chunk_id,head,relation,tail\nc1,a1,b,c\nc2,x1,y,z\nc1,d1,e,f\n"
    extractor = PrecomputedExtractor(written(tmp_path / "t.csv", rows))
    found = extract(extractor, Chunk("one", id="c2"), Chunk("two", id="c1"))
    assert [triples(e) for e in found] == [[Triple("x1", "y", "z")], [Triple("a1", "b", "c"), Triple("d1", "e", "f")]]


def test_a_row_that_lacks_a_name_is_counted(tmp_path: Path) -> None:
    """It is well-shaped, so the others are read."""
    rows = "chunk_id,head,relation,tail\nc1,Northstar,,DeltaPay\nc1,Northstar,acquired,DeltaPay\n"
    found = read(written(tmp_path / "t.csv", rows))
    assert triples(found) == [ACQUIRED]
    assert found.malformed == 1


def test_sentences_are_handed_on(tmp_path: Path) -> None:
    """A table's `sentence` column, the fourth member of a list and the key of an object say where a triple stands."""
    rows = "chunk_id,head,relation,tail,sentence\nc1,Northstar,acquired,DeltaPay,2\nc1,a1,b,c,\n"
    entries = [["Northstar", "acquired", "DeltaPay", 2], {"subject": "a1", "predicate": "b", "object": "c"}]
    table = read(written(tmp_path / "t.csv", rows))
    lines = read(written(tmp_path / "t.jsonl", json.dumps({"chunk_id": "c1", "triples": entries})))
    assert [extracted.sentence for extracted in table.triples] == [2, None]
    assert table == lines
    assert table == extract(PrecomputedExtractor({"c1": table.triples}), Chunk(TEXT, id="c1"))[0]
    wrong: list[Any] = [["a", "b", "c", -1], ["a", "b", "c", True], ["a", "b", "c", "2"], {"head": "a", "tail": "b"}]
    assert extract(PrecomputedExtractor({"c1": wrong}), Chunk(TEXT, id="c1")) == [Extraction(malformed=4)]


HEADER = "chunk_id,head,relation,tail\n"
BAD_TABLES = {
    "no column": ("chunk_id,head,tail\nc1,a,b\n", r"line 1: .*no column for relation .*predicate"),
    "empty": ("", r"line 1: .*no column"),
    "too many fields": (HEADER + "c1,a,b,c\nc1,Dvořák, Antonín,b,c\n", r"line 3: 5 fields where the header has 4"),
    "too few fields": (HEADER + 'c1,"a\nb",b,c\nc1,a\n', r"line 4: 2 fields"),
    "no chunk": (HEADER + "c1,a,b,c\n ,a,b,c\n", r"line 3: the row names no chunk"),
    "open quote": (HEADER + 'c1,"a,b,c\nc2,a,b,c\n', r"line 3: unexpected end of data"),
    "text behind a quote": (HEADER + '\nc1,"a"x,b,c\n', r"line 3: "),
    "a sentence in words": (HEADER[:-1] + ",sentence\nc1,a,b,c,It is so.\n", r"line 2: the sentence has to be"),
}


@pytest.mark.parametrize(("text", "message"), BAD_TABLES.values(), ids=BAD_TABLES)
def test_a_row_of_another_shape_is_named(tmp_path: Path, text: str, message: str) -> None:
    """A stray quotation mark or comma must not swallow triples: the file is refused, its line named."""
    with pytest.raises(ExtractionError, match=rf"t\.csv, {message}"):
        PrecomputedExtractor(written(tmp_path / "t.csv", text))


def openie(*docs: Any) -> str:
    """A file as HippoRAG saves its extraction."""
    return json.dumps({"docs": docs, "avg_ent_chars": 9.5, "avg_ent_words": 1.2})


def doc(idx: Any, passage: str | None, *entries: Any) -> dict[str, Any]:
    return {"idx": idx, "passage": passage, "extracted_entities": ["Northstar"], "extracted_triples": list(entries)}


def test_hipporag_finds_a_chunk_by_its_text_or_its_id(tmp_path: Path) -> None:
    """The text decides; `idx`, a number or a hash, is asked where the text is another; a title may stand before it."""
    path = written(
        tmp_path / "openie_results_ner_gpt-4o-mini.json",
        openie(
            doc("chunk-0a1b", TEXT, ["Northstar", "acquired", "DeltaPay"], ["Northstar", "acquired"]),
            doc(1, "Northstar\nIt grew.", ["Northstar", "grew in", "2023"]),
            doc("c3", None, ["a1", "b", "c"]),
        ),
    )
    extractor = PrecomputedExtractor(path)
    found = extract(
        extractor,
        Chunk(TEXT, id="mine"),
        Chunk("It grew.", title="Northstar"),
        Chunk("something else", id="c3"),
        Chunk("something else", id="1"),
        Chunk("nobody knows it", id="c9"),
    )
    assert [triples(e) for e in found] == [
        [ACQUIRED],
        [Triple("Northstar", "grew in", "2023")],
        [Triple("a1", "b", "c")],
        [Triple("Northstar", "grew in", "2023")],
        [],
    ]
    assert [e.malformed for e in found] == [1, 0, 0, 0, 0]


def test_a_json_file_may_hold_the_mapping_itself(tmp_path: Path) -> None:
    """`{chunk_id: [[head, relation, tail]]}`, told by content."""
    path = written(tmp_path / "t.json", json.dumps({"c1": [["Northstar", "acquired", "DeltaPay"]]}))
    assert triples(read(path)) == triples(read(path, format="mapping")) == [ACQUIRED]


BAD_JSON = {
    "a list": ("[1]", "expected"),
    "another object": ('{"nodes": {}}', "expected"),
    "cut off": (openie(doc("c1", TEXT))[:-3], "is no JSON"),
    "lines": ('{"chunk_id": "c1"}\n{"chunk_id": "c2"}', "format='jsonl'"),
    "a doc without triples": (openie({"idx": "c1", "passage": TEXT}), r"docs\[0\]: expected"),
    "a doc that nobody can find": (openie(doc("c1", TEXT), doc(None, "")), r"docs\[1\]: expected"),
}


@pytest.mark.parametrize(("text", "message"), BAD_JSON.values(), ids=BAD_JSON)
def test_json_of_another_shape_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """What cannot be matched is named, not skipped."""
    with pytest.raises(ExtractionError, match=message):
        PrecomputedExtractor(written(tmp_path / "t.json", text))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (json.dumps({"chunk_id": "c1", "triples": [["Northstar", "acquired", "DeltaPay"]]}) + "\n", "jsonl"),
        (openie(doc("c1", "", ["Northstar", "acquired", "DeltaPay"])).replace("[{", "[\n{"), "hipporag"),
        ("chunk_id,head,relation,tail\nc1,Northstar,acquired,DeltaPay\n", "csv"),
        ("chunk_id\thead\trelation\ttail\nc1\tNorthstar\tacquired\tDeltaPay\n", "tsv"),
    ],
)
def test_a_format_is_told_by_content_where_the_ending_says_nothing(tmp_path: Path, text: str, kind: Any) -> None:
    """And may be named in any case."""
    path = written(tmp_path / "triples.dat", text)
    assert triples(read(path)) == triples(read(path, format=kind)) == [ACQUIRED]


def test_a_wrong_format_is_an_error_that_names_the_known_ones(tmp_path: Path) -> None:
    """At once, not at the first chunk; two files are a graph and nothing else."""
    path = written(tmp_path / "t.csv", HEADER)
    with pytest.raises(ConfigError, match="jsonl, csv"):
        PrecomputedExtractor(path, format="xml")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="nodes and edges"):
        PrecomputedExtractor([path, path], format="csv")


def test_it_pickles(tmp_path: Path) -> None:
    """A worker process gets the same triples."""
    extractor = PrecomputedExtractor(written(tmp_path / "t.csv", HEADER + "c1,Northstar,acquired,DeltaPay\n"), name="x")
    again = pickle.loads(pickle.dumps(extractor))  # noqa: S301 - our own bytes
    assert (again.name, triples(extract(again, Chunk(TEXT, id="c1"))[0])) == ("x", [ACQUIRED])
