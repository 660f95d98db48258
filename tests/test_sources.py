"""Files to chunks: what is found, how a text is cut, and how a broken line is named."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apl.errors import InputError
from apl.reports import ChunkError
from apl.sources import Corpus, find_files, read_jsonl, split_document
from apl.symbols import Chunk

GUIDE = """# Northstar

## Acquisition

Northstar acquired DeltaPay in March 2022. The price was never published.

DeltaPay became a subsidiary.

## Law ##

DeltaPay is subject to the EU Digital Services Act.

```python
# not a heading

def incidents(): return 12
```
"""


def texts_of(text: str, chunk_chars: int = 1200) -> list[str]:
    return [chunk.text for chunk in split_document(text, "d", chunk_chars=chunk_chars)]


def faults_of(*lines: bytes) -> list[tuple[str | None, str]]:
    return [(item.chunk_id, item.reason) for item in read_jsonl(lines, "f.jsonl") if isinstance(item, ChunkError)]


def test_a_heading_begins_a_passage_and_is_its_title() -> None:
    """Passages end before headings; headings in a row stay together; `#` within code is none."""
    chunks = split_document(GUIDE, "guide.md", chunk_chars=1200)
    assert [chunk.id for chunk in chunks] == ["guide.md#1", "guide.md#2"]
    assert [chunk.title for chunk in chunks] == ["Acquisition", "Law"]
    assert {chunk.document_id for chunk in chunks} == {"guide.md"}
    assert chunks[0].text.startswith("# Northstar\n\n## Acquisition\n\nNorthstar acquired")
    assert chunks[0].text.endswith("DeltaPay became a subsidiary.")
    assert "# not a heading" in chunks[1].text


def test_an_underlined_heading_is_a_heading() -> None:
    """`Law` over `===` is one heading, and the line under it belongs to it."""
    chunks = split_document("One sentence here.\n\nLaw\n===\n\nAnother sentence.", "d", chunk_chars=1200)
    assert [(chunk.title, chunk.text) for chunk in chunks] == [
        (None, "One sentence here."),
        ("Law", "Law\n===\n\nAnother sentence."),
    ]


def test_paragraphs_are_kept_together() -> None:
    """Whole paragraphs are gathered while they fit; the next one begins a passage, under the same title."""
    text = "# Title\n\n" + "\n\n".join(f"Paragraph {n} has a few words. And it has two sentences." for n in range(6))
    chunks = split_document(text, "d", chunk_chars=120)
    assert len(chunks) == 3
    assert all(chunk.title == "Title" for chunk in chunks)
    assert all(chunk.text.endswith("And it has two sentences.") for chunk in chunks)
    assert all(len(chunk.text) <= 120 for chunk in chunks)


def test_a_long_paragraph_is_cut_between_sentences() -> None:
    """A paragraph over the limit is cut where sentences end; only a single longer sentence exceeds it."""
    pieces = texts_of(" ".join(f"This is sentence number {n} of one paragraph." for n in range(20)), 200)
    assert len(pieces) > 3
    assert all(len(piece) <= 200 and piece.endswith("paragraph.") for piece in pieces)
    long = "word " * 60 + "end."
    assert texts_of(f"Short one. {long} Short two.", 100) == ["Short one.", long, "Short two."]


def test_nothing_becomes_nothing() -> None:
    """A text without words has no passage; headings alone are one."""
    assert texts_of("") == texts_of(" \n\n\t\n") == []
    assert texts_of("# A\n\n# B\n") == ["# A\n\n# B"]


@given(st.text(st.sampled_from("aB.# \n-=`|1é:")), st.integers(1, 40))
def test_no_word_is_lost(text: str, chunk_chars: int) -> None:
    """Passages are stretches of the text in its order, and leave nothing but white space between them."""
    cursor = 0
    for piece in texts_of(text, chunk_chars):
        start = text.index(piece, cursor)
        assert not text[cursor:start].strip()
        cursor = start + len(piece)
    assert not text[cursor:].strip()


def test_folders_are_walked_in_a_fixed_order(tmp_path: Path) -> None:
    """All text and Markdown below, named from the folder; hidden, other and doubly named files are left out."""
    for name in ("b.txt", "a/z.MD", "a/y.markdown", ".git/c.txt", ".hidden.md", "d.pdf", "e.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    files, faults = find_files([tmp_path, tmp_path / "a" / ".." / "b.txt"])
    assert [file.name for file in files] == ["b.txt", "a/y.markdown", "a/z.MD"]
    assert faults == ()


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    """They would overwrite each other without a word."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "readme.md").write_text("x")
    with pytest.raises(InputError, match=r"would both become document 'readme\.md'"):
        find_files([tmp_path / "a", tmp_path / "b"])


def test_the_corpus_says_what_it_read(tmp_path: Path) -> None:
    """Line ends become plain, a byte order mark goes; counts of passages and faults are kept."""
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfOne line.\r\n\r\nAnother line.\r")
    (tmp_path / "empty.txt").write_text(" \n")
    (tmp_path / "latin.txt").write_bytes("Zürich".encode("latin-1"))
    (tmp_path / "binary.txt").write_bytes(b"MZ\0\0")
    with gzip.open(tmp_path / "p.jsonl.gz", "wt") as lines:
        lines.write('{"text": "Hello.", "doc_id": "d", "extra": 1}\n\nnonsense\n')
    files, _ = find_files([tmp_path, tmp_path / "p.jsonl.gz"])
    corpus = Corpus(files, 1200)
    assert [(chunk.id, chunk.text) for chunk in corpus] == [
        ("a.txt#1", "One line.\n\nAnother line."),
        (None, "Hello."),
    ]
    assert corpus.passages == {"a.txt": 1, "empty.txt": 0}
    assert [Path(fault.chunk_id or "").name for fault in corpus.faults] == [
        "binary.txt",
        "latin.txt",
        "p.jsonl.gz, line 3",
    ]


def test_a_jsonl_line_is_a_chunk() -> None:
    """`document_id` goes before `doc_id`; null is absent; unknown keys are ignored."""
    line = b'\xef\xbb\xbf{"text": "T", "id": "i", "doc_id": "no", "document_id": "d", "title": null, "score": [1]}'
    (chunk,) = read_jsonl([line, b" \n"], "f")
    assert isinstance(chunk, Chunk)
    assert (chunk.text, chunk.id, chunk.document_id, chunk.title) == ("T", "i", "d", None)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"text": "cut', "not JSON"),
        (b'["text"]', "expected"),
        (b'{"id": "x"}', "expected"),
        (b'{"text": 5}', "expected"),
        (b'{"text": "T", "id": 7}', '"id" has to be a text with something in it, not 7'),
        (b'{"text": "T", "id": ""}', '"id" has to be a text'),
        (b'{"text": "T", "document_id": ["d"]}', '"document_id" has to be a text'),
        (b'{"text": "T", "title": 1}', '"title" has to be a text'),
        (b'{"text": "\\ud800"}', "half a surrogate pair"),
        (b'{"text": "\xff"}', "not UTF-8 (byte 11)"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_a_broken_line_is_named(line: bytes, reason: str) -> None:
    """File, line number, and what is wrong; the other lines are read."""
    ((where, said),) = faults_of(b'{"text": "fine"}\n', line)
    assert where == "f.jsonl, line 2"
    assert reason in said


def test_a_corpus_knows_how_far_it_is(tmp_path: Path) -> None:
    """The share of its files' bytes, compressed ones as they lie there; 1 at the end, also of nothing."""
    (tmp_path / "a.txt").write_text("One line.\n" * 100)
    with gzip.open(tmp_path / "p.jsonl.gz", "wt") as lines:
        lines.writelines(f'{{"text": "Line {n}."}}\n' for n in range(20_000))
    (tmp_path / "gone.txt").write_text("x")
    files, _ = find_files([tmp_path, tmp_path / "p.jsonl.gz"])
    corpus = Corpus(files, 1200)
    (tmp_path / "gone.txt").unlink()
    shares = [corpus.share_read for _ in corpus]
    assert shares[0] == 0
    assert shares == sorted(shares)
    assert len(set(shares)) > 3
    assert corpus.share_read == pytest.approx(1, abs=1e-3)
    assert Corpus((), 1200).share_read == 1


def test_faults_are_counted_beyond_those_that_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A corpus of nothing but faults does not fill the memory."""
    monkeypatch.setattr("apl.sources._MAX_KEPT_FAULTS", 3)
    (tmp_path / "p.jsonl").write_text("broken\n" * 9)
    corpus = Corpus(find_files([tmp_path / "p.jsonl"])[0], 1200)
    assert list(corpus) == []
    assert (len(corpus.faults), corpus.failed) == (3, 9)
