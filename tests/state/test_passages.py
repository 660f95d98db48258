"""Reading stored passages back."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apl.state.codebook import Codebook
from apl.state.engine import Store
from apl.state.passages import Passages
from apl.state.records import StoredPassage
from apl.symbols import Chunk, ExtractedTriple, Extraction, Passage, Triple
from apl.testing import HashEmbedder, WordCounter
from apl.text import content_hash
from apl.write.ingestion import Ingestion

TEXT = "Northstar acquired DeltaPay.  It was paid in cash.\n\nDeltaPay processes card payments."
EDGES = (Triple("Northstar", "acquired", "DeltaPay"), Triple("DeltaPay", "processes", "card payments"))


class Placed:
    """An extractor that says in which sentence each triple stands."""

    name = "placed"

    def __init__(self, script: Mapping[str, Iterable[tuple[Triple, int | None]]]) -> None:
        self._script = script

    def extract(self, passages: Iterable[Passage]) -> list[Extraction]:
        return [
            Extraction(tuple(ExtractedTriple(*placed) for placed in self._script.get(passage.chunk.id or "", ())))
            for passage in passages
        ]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(Store.open(tmp_path / "kb.db")) as store:
        yield store


def index(store: Store, chunks: Iterable[Chunk], script: Mapping[str, Any] | None = None) -> None:
    ingestion = Ingestion(
        Codebook(store),
        embedder=HashEmbedder(32),
        extractor=Placed(script or {}),
        counter=WordCounter(),
        language="en",
        max_chunk_chars=10_000,
    )
    assert ingestion.run(chunks, batch_size=100).errors == ()


def read(store: Store, key: str) -> StoredPassage:
    return Passages(store).find([key], []).by_key[key]


def test_passage_is_read_as_it_was_indexed(store: Store) -> None:
    """Text, title, document and hash come back byte for byte, line endings and exotic characters included."""
    text = f"Deals \r\n\r\n{TEXT}\t\0 naïve e\u0301 北京 😀 "
    index(store, [Chunk(text, id="c1", document_id="d1", title="Deals")])
    passage = read(store, "c1")
    assert passage.text == text
    assert (passage.chunk.key, passage.chunk.document_key, passage.chunk.title) == ("c1", "d1", "Deals")
    assert passage.chunk.content_hash == content_hash(text)


def test_sentences_point_into_the_text_in_order(store: Store) -> None:
    """Every span cuts its sentence out of the stored text."""
    index(store, [Chunk(TEXT, id="c1")])
    sentences = [stored.sentence for stored in read(store, "c1").sentences]
    assert [s.text for s in sentences] == [
        "Northstar acquired DeltaPay.",
        "It was paid in cash.",
        "DeltaPay processes card payments.",
    ]
    assert [s.position for s in sentences] == [0, 1, 2]
    assert all(TEXT[s.start : s.end] == s.text for s in sentences)


def test_edges_stand_with_their_sentence_in_order_of_extraction(store: Store) -> None:
    """A sentence has its own edges, each once; the run has all of the chunk's, in the extractor's order."""
    loose = Triple("x1", "relates to", "y1")
    placed = [(EDGES[1], 2), (EDGES[0], 0), (loose, None), (EDGES[0], 1), (EDGES[0], 0)]
    index(store, [Chunk(TEXT, id="c1")], {"c1": placed})
    passage = read(store, "c1")
    assert [stored.triples for stored in passage.sentences] == [(EDGES[0],), (EDGES[0],), (EDGES[1],)]
    assert [stored.carried for stored in passage.sentences] == [True, False, True]
    assert passage.run == (EDGES[1], EDGES[0], loose)


def test_vectors_are_those_of_the_sentences(store: Store) -> None:
    """One float32 unit row a sentence, as the embedder gave it up to float16."""
    index(store, [Chunk(TEXT, id="c1")])
    vectors = read(store, "c1").vectors
    expected = HashEmbedder(32).embed([s.sentence.text for s in read(store, "c1").sentences])
    assert vectors.dtype == np.float32
    assert np.allclose(vectors, expected, atol=1e-3)


def test_empty_text_is_a_passage_without_sentences(store: Store) -> None:
    """Nothing but white space has no sentences, no edges and no vectors."""
    index(store, [Chunk("", id="c1"), Chunk(" \n ", id="c2")])
    for key in ("c1", "c2"):
        passage = read(store, key)
        assert (passage.sentences, passage.run, passage.vectors.size) == ((), (), 0)


def test_unknown_ids_and_hashes_are_left_out(store: Store) -> None:
    """The look-up holds what was found and nothing else; asking for nothing finds nothing."""
    index(store, [Chunk(TEXT, id="c1")])
    found = Passages(store).find(["c1", "zzz", "C1"], ["0" * 64])
    assert list(found.by_key) == ["c1"]
    assert found.by_hash == {}
    nothing = Passages(store).find([], [])
    assert (nothing.by_key, nothing.by_hash) == ({}, {})


def test_chunk_is_found_by_the_hash_of_its_text(store: Store) -> None:
    """A text without id is found by its content hash; both ways lead to the same passage."""
    index(store, [Chunk(TEXT)])
    key = content_hash(TEXT)
    found = Passages(store).find([key], [key])
    assert found.by_hash[key] is found.by_key[key]
    assert found.by_hash[key].text == TEXT


def test_first_id_stands_for_a_text_that_several_chunks_hold(store: Store) -> None:
    """Which chunk answers for a hash depends on the ids, not on the order of indexing."""
    index(store, [Chunk(TEXT, id="c2", document_id="d2")], {"c2": [(EDGES[0], 0)]})
    index(store, [Chunk(TEXT, id="c1", document_id="d1"), Chunk(TEXT, id="c3")])
    found = Passages(store).find([], [content_hash(TEXT)])
    assert found.by_hash[content_hash(TEXT)].chunk.key == "c1"


def test_more_ids_than_a_statement_takes_are_found(store: Store) -> None:
    """1,200 ids and as many hashes come back complete."""
    texts = {f"c{number}": f"Firm {number} pays." for number in range(1200)}
    index(store, [Chunk(text, id=key) for key, text in texts.items()])
    found = Passages(store).find(list(texts), [content_hash(t) for t in texts.values()])
    assert {key: passage.text for key, passage in found.by_key.items()} == texts
    assert {passage.text for passage in found.by_hash.values()} == set(texts.values())
    assert all(passage.vectors.shape == (1, 32) for passage in found.by_key.values())


def test_look_up_of_a_read_only_store(store: Store) -> None:
    """A store that is open for reading serves passages."""
    index(store, [Chunk(TEXT, id="c1")], {"c1": [(EDGES[0], 0)]})
    with closing(Store.open(store.path, read_only=True)) as reader:
        assert read(reader, "c1").run == (EDGES[0],)


def test_all_passages_are_read_from_one_state(store: Store) -> None:
    """While two chunks are replaced together again and again, a reader never sees one old and one new."""
    versions = [[Chunk(f"{word} {n}.", id=f"c{n}") for n in range(2)] for word in ("Northstar", "DeltaPay")]
    index(store, versions[0])
    stop = threading.Event()
    seen: set[tuple[str, ...]] = set()

    def look() -> None:
        passages = Passages(store)
        while not stop.is_set():
            found = passages.find(["c0", "c1"], []).by_key
            words = {key: passage.text.split()[0] for key, passage in found.items()}
            said = [stored.sentence.text.split()[0] for passage in found.values() for stored in passage.sentences]
            seen.add((*sorted({*words.values(), *said}), str(len(found))))

    reader = threading.Thread(target=look)
    reader.start()
    try:
        for number in range(1, 21):
            index(store, versions[number % 2])
    finally:
        stop.set()
        reader.join(timeout=20)
    assert seen <= {("Northstar", "2"), ("DeltaPay", "2")}
    assert seen


# --- what is kept


def test_a_passage_is_decoded_once(store: Store) -> None:
    """Until the store changes, the same object comes back, by id and by text; an unknown one is not asked for again."""
    index(store, [Chunk(TEXT, id="c1")])
    passages = Passages(store)
    first = passages.find(["c1", "nobody"], [content_hash(TEXT)])
    again = passages.find(["c1", "nobody"], [content_hash(TEXT)])
    assert first.by_key["c1"] is first.by_hash[content_hash(TEXT)]
    assert again.by_key["c1"] is first.by_key["c1"]
    assert "nobody" not in again.by_key


def test_another_writer_is_noticed_within_one_look_up(store: Store) -> None:
    """What another store on the same file commits is seen by the next look-up: changed, gone, and new chunks."""
    index(store, [Chunk(TEXT, id="c1"), Chunk("Old.", id="c2"), Chunk("Gone.", id="c3")])
    passages = Passages(store)
    passages.find(["c1", "c2", "c3", "c4"], [])
    with closing(Store.open(store.path)) as other:
        index(other, [Chunk("New.", id="c2"), Chunk("Born.", id="c4")])
        Codebook(other).delete(["c3"])
    found = passages.find(["c1", "c2", "c3", "c4"], []).by_key
    assert {key: passage.text for key, passage in found.items()} == {"c1": TEXT, "c2": "New.", "c4": "Born."}


@pytest.mark.parametrize("capacity", [0, 1, 2])
def test_no_more_is_kept_than_allowed(store: Store, capacity: int) -> None:
    """The least recently used go first, and what is not kept is read again."""
    index(store, [Chunk(f"Text {number}.", id=f"c{number}") for number in range(4)])
    passages = Passages(store, capacity=capacity)
    for _ in range(2):
        for number in range(4):
            assert passages.find([f"c{number}"], []).by_key[f"c{number}"].text == f"Text {number}."
            assert len(passages._kept) <= capacity
