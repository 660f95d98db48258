"""From chunks to rows: what is read, skipped, replaced, refused and counted."""

from __future__ import annotations

import io
import sqlite3
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apl.errors import ConfigError, MissingDependency, ReadOnlyStoreError
from apl.protocols import Vectors
from apl.reports import IndexReport
from apl.state.codebook import Codebook
from apl.state.engine import Store
from apl.state.passages import Passages
from apl.state.records import StoredPassage
from apl.symbols import Chunk, ExtractedTriple, Extraction, Passage, Triple
from apl.testing import HashEmbedder, ScriptedExtractor, WordCounter
from apl.text import content_hash
from apl.write.ingestion import Ingestion

ACQUIRED = "Northstar acquired DeltaPay."
PROCESSES = "DeltaPay processes card payments."
SCRIPT = {
    ACQUIRED: [("Northstar", "acquired", "DeltaPay")],
    PROCESSES: [("DeltaPay", "processes", "card payments")],
    "BAD": [("Northstar", "is", "bad")],
}


class Extractor(ScriptedExtractor):
    """A scripted extractor that notes what it is asked and fails where it is told to."""

    def __init__(self, script: Any = SCRIPT, *, on_bad: Callable[[], Any] | None = None) -> None:
        super().__init__(script)
        self.asked: list[list[str]] = []
        self._on_bad = on_bad

    def extract(self, passages: Sequence[Passage]) -> list[Extraction]:
        self.asked.append([passage.chunk.text for passage in passages])
        extractions = super().extract(passages)
        if self._on_bad is not None:
            for number, passage in enumerate(passages):
                if passage.chunk.text == "BAD":
                    extractions[number] = self._on_bad()
        return extractions


class BatchEmbedder(HashEmbedder):
    """A hash embedder that notes what it is asked and fails on the text `BAD` where it is told to."""

    def __init__(self, *, on_bad: Callable[[Vectors], Vectors] | None = None) -> None:
        super().__init__(32)
        self.asked: list[list[str]] = []
        self._on_bad = on_bad

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.asked.append(list(texts))
        vectors = super().embed(texts)
        return self._on_bad(vectors) if self._on_bad is not None and "BAD" in texts else vectors


class Tracked(Chunk):
    """A chunk that a weak reference can watch."""


class FussyCounter(WordCounter):
    """A counter that cannot count the text `BAD`."""

    def count(self, text: str) -> int:
        if text == "BAD":
            raise ValueError("cannot count")
        return super().count(text)


def fail(error: BaseException) -> Any:
    raise error


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(Store.open(tmp_path / "kb.db")) as store:
        yield store


@pytest.fixture
def codebook(store: Store) -> Codebook:
    return Codebook(store)


def index(
    codebook: Codebook,
    chunks: Iterable[Any],
    *,
    extractor: Any = None,
    embedder: Any = None,
    counter: Any = None,
    batch_size: int = 100,
    progress: bool | None = None,
) -> IndexReport:
    ingestion = Ingestion(
        codebook,
        embedder=embedder or BatchEmbedder(),
        extractor=extractor or Extractor(),
        counter=counter or WordCounter(),
        language="en",
        max_chunk_chars=1000,
    )
    report = ingestion.run(chunks, batch_size=batch_size, progress=progress)
    assert report.chunks == report.indexed + report.unchanged + report.duplicates + report.failed
    assert report.failed == len(report.errors)
    return report


def keys(store: Store) -> list[str]:
    with closing(sqlite3.connect(store.path)) as connection:
        return [key for (key,) in connection.execute("SELECT key FROM chunks ORDER BY key")]


def read(store: Store, *chunk_keys: str) -> list[StoredPassage]:
    found = Passages(store).find(chunk_keys, []).by_key
    return [found[key] for key in chunk_keys]


def described(store: Store) -> list[Any]:
    """All that readers see of a store, by natural keys, vectors aside."""
    return [
        (p.chunk.key, p.chunk.document_key, p.chunk.title, p.text, p.chunk.content_hash, p.sentences, p.run)
        for p in read(store, *keys(store))
    ]


# --- adding -----------------------------------------------------------------------------------------------------------


def test_report_counts_what_was_indexed(codebook: Codebook) -> None:
    """Sentences, those carried by their edges, triples and tokens are those of the indexed texts."""
    report = index(codebook, [Chunk(f"{ACQUIRED} It was paid in cash.", id="c1"), Chunk(PROCESSES, id="c2")])
    assert (report.chunks, report.indexed, report.replaced, report.errors) == (2, 2, 0, ())
    assert (report.sentences, report.carried_sentences, report.triples, report.tokens) == (3, 1, 1, 15)
    assert report.seconds > 0


def test_nothing_to_index_is_an_empty_report(codebook: Codebook) -> None:
    """No chunks, no rows, no error."""
    assert index(codebook, []).chunks == 0
    assert codebook.stats().generation == 0


def test_empty_texts_are_indexed_without_sentences(codebook: Codebook, store: Store) -> None:
    """A text of nothing but white space is known, and says nothing."""
    report = index(codebook, [Chunk("", id="c1"), Chunk(" \n\t", id="c2"), Chunk(ACQUIRED, id="c3")])
    assert (report.indexed, report.sentences) == (3, 1)
    assert keys(store) == ["c1", "c2", "c3"]


def test_without_an_extractor_sentences_are_indexed_without_edges(codebook: Codebook, store: Store) -> None:
    """`extractor=None` stores sentences and vectors; nothing is carried."""
    ingestion = Ingestion(
        codebook, embedder=HashEmbedder(), extractor=None, counter=WordCounter(), language="en", max_chunk_chars=1000
    )
    report = ingestion.run([Chunk(ACQUIRED, id="c1")], batch_size=1)
    assert (report.sentences, report.triples, report.carried_sentences) == (1, 0, 0)
    assert read(store, "c1")[0].run == ()


def test_any_iterable_is_read_once(codebook: Codebook, store: Store) -> None:
    """A generator works, in batches, and is not asked for its length."""
    report = index(codebook, (Chunk(f"Firm {n} pays.", id=str(n)) for n in range(5)), batch_size=2)
    assert report.indexed == 5
    assert keys(store) == list("01234")


def test_vectors_are_stored_as_float16_unit_rows(codebook: Codebook, store: Store) -> None:
    """One little-endian float16 row a sentence, of length 1 up to rounding."""
    index(codebook, [Chunk(f"{ACQUIRED} {PROCESSES}", id="c1")])
    with closing(sqlite3.connect(store.path)) as connection:
        blobs = [blob for (blob,) in connection.execute("SELECT vector FROM sentences ORDER BY position")]
    vectors = np.array([np.frombuffer(blob, dtype="<f2") for blob in blobs], dtype=np.float32)
    assert vectors.shape == (2, 32)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3)
    assert np.allclose(vectors, HashEmbedder(32).embed([ACQUIRED, PROCESSES]), atol=1e-3)


def test_batch_size_makes_no_difference(tmp_path: Path) -> None:
    """Batches of 1, 2, 7 and 1,000 end in equal stores, vectors within 1e-3, and equal reports."""
    chunks = [Chunk(f"{ACQUIRED} Deal {n % 9} closed.", id=f"c{n:02}", document_id=f"d{n % 4}") for n in range(25)]
    chunks += [
        Chunk(PROCESSES),
        Chunk(PROCESSES, document_id="d1"),
        Chunk("x" * 2000, id="long"),
        Chunk("", id="empty"),
    ]
    script = {chunk.text: [*SCRIPT[ACQUIRED], ("deal", "is", "closed"), ("it", "is", "x")] for chunk in chunks}
    stores, counts = [], []
    for batch_size in (1, 2, 7, 1000):
        with closing(Store.open(tmp_path / f"{batch_size}.db")) as store:
            report = index(Codebook(store), chunks, extractor=Extractor(script), batch_size=batch_size)
            counts.append((report.indexed, report.failed, report.sentences, report.triples, report.malformed_triples))
            stores.append(
                (described(store), np.concatenate([p.vectors for p in read(store, *keys(store)) if p.sentences]))
            )
    assert len(stores[0][0]) == 28
    for content, vectors in stores[1:]:
        assert content == stores[0][0]
        assert np.allclose(vectors, stores[0][1], atol=1e-3)
    assert counts == [counts[0]] * 4


def test_batches_are_embedded_and_read_in_one_call(codebook: Codebook) -> None:
    """A batch costs one call of the extractor and one of the embedder, and nothing is asked twice."""
    extractor, embedder = Extractor(), BatchEmbedder()
    texts = [f"Firm {n} pays." for n in range(5)]
    chunks = [Chunk(text, id=text) for text in texts]
    index(codebook, chunks, extractor=extractor, embedder=embedder, batch_size=3)
    assert extractor.asked == embedder.asked == [texts[:3], texts[3:]]


def test_no_lock_is_held_while_texts_are_read(codebook: Codebook, store: Store) -> None:
    """Extraction and embedding happen outside the transaction: another writer gets through meanwhile."""
    with closing(Store.open(store.path)) as other:

        def write(vectors: Vectors | None = None) -> Any:
            with other.writing() as connection:
                connection.exec_driver_sql("UPDATE meta SET value = value + 1 WHERE key = 'generation'")
            return Extraction() if vectors is None else vectors

        index(
            codebook, [Chunk("BAD", id="c1")], extractor=Extractor(on_bad=write), embedder=BatchEmbedder(on_bad=write)
        )
    assert codebook.stats().generation == 3


# --- skipping, replacing, moving --------------------------------------------------------------------------------------


def test_unchanged_texts_cost_a_hash(codebook: Codebook) -> None:
    """A text the store holds under the same id is neither extracted nor embedded again."""
    chunks = [Chunk(ACQUIRED, id="c1"), Chunk(PROCESSES, id="c2"), Chunk(PROCESSES)]
    index(codebook, chunks)
    extractor, embedder = Extractor(), BatchEmbedder()
    report = index(codebook, chunks, extractor=extractor, embedder=embedder)
    assert (report.unchanged, report.indexed, report.sentences, report.tokens) == (3, 0, 0, 0)
    assert [texts for texts in (*extractor.asked, *embedder.asked) if texts] == []


def test_only_changed_texts_are_read(codebook: Codebook) -> None:
    """Of a batch with one new text, one changed and one unchanged, two are read; one was replaced."""
    index(codebook, [Chunk(ACQUIRED, id="c1"), Chunk("Old.", id="c2")])
    extractor = Extractor()
    report = index(
        codebook, [Chunk(ACQUIRED, id="c1"), Chunk(PROCESSES, id="c2"), Chunk("New.", id="c3")], extractor=extractor
    )
    assert (report.unchanged, report.indexed, report.replaced) == (1, 2, 1)
    assert extractor.asked == [[PROCESSES, "New."]]


def test_changed_text_takes_the_place_of_the_old(codebook: Codebook, store: Store) -> None:
    """Sentences, edges and names of the old text are gone with it."""
    index(codebook, [Chunk(ACQUIRED, id="c1", document_id="d1")])
    index(codebook, [Chunk(PROCESSES, id="c1", document_id="d1")])
    (passage,) = read(store, "c1")
    assert (passage.text, passage.run) == (PROCESSES, (Triple("DeltaPay", "processes", "card payments"),))
    stats = codebook.stats()
    assert (stats.chunks, stats.sentences, stats.edges, stats.entities) == (1, 1, 1, 2)


def test_reader_in_between_sees_the_old_state(
    codebook: Codebook, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the very last step of the transaction every chunk of a batch reads as before; then every one as after."""
    index(codebook, [Chunk(ACQUIRED, id="c1"), Chunk(ACQUIRED, id="c2")])
    before, seen = described(store), []
    monkeypatch.setattr("apl.state.codebook.bump_generation", lambda _connection: seen.append(described(store)))
    index(codebook, [Chunk(PROCESSES, id="c1"), Chunk(PROCESSES, id="c2")])
    assert seen == [before]
    assert [passage.text for passage in read(store, "c1", "c2")] == [PROCESSES, PROCESSES]


def test_batch_is_committed_whole_or_not_at_all(
    codebook: Codebook, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault while rows are written takes back the batch: new, changed and moved chunks alike."""
    index(codebook, [Chunk(ACQUIRED, id="c1"), Chunk(ACQUIRED, id="c2", document_id="d1")])
    before = described(store)
    monkeypatch.setattr("apl.state.symbol_rows.insert_chunks", lambda *_, **__: 1 / 0)
    batch = [Chunk(PROCESSES, id="c1"), Chunk(ACQUIRED, id="c2", document_id="d2", title="Deals"), Chunk("N.", id="c3")]
    with pytest.raises(ZeroDivisionError):
        index(codebook, batch)
    assert described(store) == before


def test_moved_chunk_is_not_read_again(codebook: Codebook, store: Store) -> None:
    """Another document of the same text is brought up to date for the price of a hash."""
    index(codebook, [Chunk(ACQUIRED, id="c1", document_id="d1", title="Deals")])
    extractor = Extractor()
    report = index(codebook, [Chunk(ACQUIRED, id="c1", document_id="d2", title="Deals")], extractor=extractor)
    assert (report.unchanged, report.indexed) == (1, 0)
    assert [texts for texts in extractor.asked if texts] == []
    (passage,) = read(store, "c1")
    assert (passage.chunk.document_key, passage.chunk.title) == ("d2", "Deals")
    assert codebook.stats().documents == 1
    assert codebook.delete(["d1"]).unknown_documents == ("d1",)


def test_a_chunk_of_another_title_is_read_again(codebook: Codebook, store: Store) -> None:
    """The title is part of what a sentence is about, so its vector and what the chunk is called change with it."""
    index(codebook, [Chunk(ACQUIRED, id="c1", title="Deals")])
    (before,) = read(store, "c1")
    assert index(codebook, [Chunk(ACQUIRED, id="c1", title="Purchases")]).indexed == 1
    (after,) = read(store, "c1")
    assert after.chunk.title == "Purchases"
    assert before.title_terms.tolist() != after.title_terms.tolist()
    assert (before.vectors != after.vectors).any()


def test_new_title_leaves_what_a_fresh_store_would_hold(tmp_path: Path) -> None:
    """A title that is the text's first line makes it a heading, whether it came with the text or later."""
    text = f"DeltaPay.\n{ACQUIRED}"
    stores = []
    for number, titles in enumerate([("DeltaPay.",), (None, "DeltaPay.")]):
        with closing(Store.open(tmp_path / f"{number}.db")) as store:
            for title in titles:
                index(Codebook(store), [Chunk(text, id="c1", title=title)])
            stores.append(described(store))
    assert stores[0] == stores[1]


def test_chunk_keeps_its_place_in_its_document(tmp_path: Path) -> None:
    """Equal corpora are equal stores: a chunk that is indexed again alone stands where it stood."""
    positions = []
    for number, again in enumerate([False, True]):
        chunks = [Chunk(ACQUIRED, id="c1", document_id="d1"), Chunk(PROCESSES, id="c2", document_id="d1")]
        with closing(Store.open(tmp_path / f"{number}.db")) as store:
            if again:
                index(Codebook(store), [chunks[0], Chunk("Old.", id="c2", document_id="d1")])
                index(Codebook(store), chunks[1:])
            else:
                index(Codebook(store), chunks)
            with closing(sqlite3.connect(store.path)) as connection:
                positions.append(connection.execute("SELECT key, position FROM chunks ORDER BY key").fetchall())
    assert positions[0] == positions[1]


# --- duplicates and identity ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("last", [ACQUIRED, PROCESSES])
def test_of_one_id_in_a_batch_the_last_text_counts(codebook: Codebook, store: Store, last: str) -> None:
    """Same text or another: the earlier ones are duplicates and are not read."""
    extractor = Extractor()
    report = index(
        codebook, [Chunk(ACQUIRED, id="c1"), Chunk("Middle.", id="c1"), Chunk(last, id="c1")], extractor=extractor
    )
    assert (report.duplicates, report.indexed) == (2, 1)
    assert extractor.asked == [[last]]
    assert read(store, "c1")[0].text == last


def test_of_one_id_in_two_batches_the_last_text_counts(codebook: Codebook, store: Store) -> None:
    """The second batch replaces, or finds the text unchanged."""
    report = index(
        codebook, [Chunk(ACQUIRED, id="c1"), Chunk(PROCESSES, id="c1"), Chunk(PROCESSES, id="c1")], batch_size=1
    )
    assert (report.indexed, report.replaced, report.unchanged) == (2, 1, 1)
    assert read(store, "c1")[0].text == PROCESSES


def test_chunk_without_id_is_known_by_its_content_hash(codebook: Codebook, store: Store) -> None:
    """The same text again is unchanged; its hash is the id and the document it can be deleted by."""
    index(codebook, [Chunk(ACQUIRED)])
    assert index(codebook, [Chunk(ACQUIRED)]).unchanged == 1
    assert keys(store) == [content_hash(ACQUIRED)]
    assert codebook.delete([content_hash(ACQUIRED)]).chunks == 1


@pytest.mark.parametrize("ids", [(None, None), ("c1", "c2")])
def test_same_text_in_two_documents_lives_in_both(codebook: Codebook, store: Store, ids: tuple[Any, Any]) -> None:
    """Deleting one document leaves the other with its chunk and edges."""
    report = index(codebook, [Chunk(ACQUIRED, id=ids[n], document_id=f"d{n}") for n in range(2)])
    assert report.indexed == 2
    assert codebook.delete(["d0"]).edges == 0
    (passage,) = read(store, *keys(store))
    assert (passage.chunk.document_key, passage.text, len(passage.run)) == ("d1", ACQUIRED, 1)


# --- bad chunks -------------------------------------------------------------------------------------------------------

MALFORMED: dict[str, tuple[Any, str]] = {
    "a string": ("text", "index takes Chunk objects, not str"),
    "None": (None, "not NoneType"),
    "text is None": (Chunk(None, id="bad"), "text is NoneType"),  # type: ignore[arg-type]
    "text is bytes": (Chunk(b"x", id="bad"), "text is bytes"),  # type: ignore[arg-type]
    "half a surrogate pair": (Chunk("x\ud800", id="bad"), "surrogate"),
    "half a surrogate pair in the title": (Chunk("x", id="bad", title="\udfff"), "surrogate"),
    "half a surrogate pair in the id": (Chunk("x", id="bad\ud800"), "surrogate"),
    "too long": (Chunk("x" * 1001, id="bad"), "1001 characters, more than 1000"),
    "empty id": (Chunk("x", id=""), "id='' is not"),
    "id is a number": (Chunk("x", id=3), "id=3 is not"),  # type: ignore[arg-type]
    "empty document id": (Chunk("x", id="bad", document_id=""), "document_id='' is not"),
    "title is a number": (Chunk("x", id="bad", title=3), "title=3 is not"),  # type: ignore[arg-type]
    "title is an empty list": (Chunk("x", id="bad", title=[]), r"title=\[\] is not"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize(("bad", "reason"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_chunk_is_reported_and_the_rest_goes_on(
    codebook: Codebook, store: Store, bad: Any, reason: str, batch_size: int
) -> None:
    """The report names the chunk and what is wrong with it; its neighbours are indexed."""
    report = index(codebook, [Chunk(ACQUIRED, id="c1"), bad, Chunk(PROCESSES, id="c2")], batch_size=batch_size)
    assert (report.indexed, report.failed) == (2, 1)
    assert report.errors[0].chunk_id == (bad.id if isinstance(bad, Chunk) else None)
    assert reason.replace("\\", "") in report.errors[0].reason
    assert keys(store) == ["c1", "c2"]


FAILING: dict[str, tuple[dict[str, Any], str]] = {
    "extractor raises": ({"extractor": Extractor(on_bad=lambda: fail(ValueError("cannot read")))}, "cannot read"),
    "extractor returns nothing usable": ({"extractor": Extractor(on_bad=lambda: None)}, "extraction"),
    "embedder raises": (
        {"embedder": BatchEmbedder(on_bad=lambda _: fail(OSError("no more memory")))},
        "no more memory",
    ),
    "embedder returns too few": ({"embedder": BatchEmbedder(on_bad=lambda vectors: vectors[:-1])}, "0 vectors for 1"),
    "counter raises": ({"counter": FussyCounter()}, "cannot count"),
}


@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize(("parts", "reason"), FAILING.values(), ids=FAILING)
def test_chunk_that_a_part_fails_on_is_reported_and_the_rest_goes_on(
    codebook: Codebook, store: Store, parts: dict[str, Any], reason: str, batch_size: int
) -> None:
    """A failing batch is read one chunk at a time; only the chunk at fault is left out."""
    chunks = [Chunk(ACQUIRED, id="c1"), Chunk("BAD", id="bad"), Chunk(PROCESSES, id="c2")]
    report = index(codebook, chunks, batch_size=batch_size, **parts)
    assert (report.indexed, report.failed, report.triples) == (2, 1, 2)
    assert report.errors[0].chunk_id == "bad"
    assert reason in report.errors[0].reason
    assert keys(store) == ["c1", "c2"]


def test_chunk_that_fails_keeps_its_old_text(codebook: Codebook, store: Store) -> None:
    """A changed text that cannot be read does not take the old one away."""
    index(codebook, [Chunk(ACQUIRED, id="c1")])
    assert index(codebook, [Chunk("BAD", id="c1")], counter=FussyCounter()).failed == 1
    assert read(store, "c1")[0].text == ACQUIRED


@pytest.mark.parametrize("error", [MissingDependency("no pipeline", command="pip install x"), ConfigError("wrong")])
@pytest.mark.parametrize("part", ["extractor", "embedder"])
def test_fault_of_the_set_up_ends_the_run(codebook: Codebook, store: Store, error: Exception, part: str) -> None:
    """What would fail every chunk is raised at once; batches that were committed stay."""
    parts = {
        "extractor": Extractor(on_bad=lambda: fail(error)),
        "embedder": BatchEmbedder(on_bad=lambda _: fail(error)),
    }
    with pytest.raises(type(error)) as caught:
        index(codebook, [Chunk(ACQUIRED, id="c1"), Chunk("BAD", id="c2")], batch_size=1, **{part: parts[part]})
    assert caught.value is error
    assert keys(store) == ["c1"]


def test_errors_are_counted_beyond_those_that_are_kept(codebook: Codebook, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report of a large corpus does not grow with its faults."""
    monkeypatch.setattr("apl.write.ingestion.MAX_KEPT_ERRORS", 3)
    ingestion = Ingestion(
        codebook, embedder=HashEmbedder(), extractor=None, counter=WordCounter(), language="en", max_chunk_chars=5
    )
    report = ingestion.run([Chunk(f"too long {n}", id=str(n)) for n in range(10)] + [Chunk("fits")], batch_size=4)
    assert (report.chunks, report.failed, report.indexed) == (11, 10, 1)
    assert [error.chunk_id for error in report.errors] == ["0", "1", "2"]


def test_only_a_few_batches_of_a_source_are_in_memory(codebook: Codebook) -> None:
    """A batch is let go when it is committed, however long the source."""
    alive: weakref.WeakSet[Tracked] = weakref.WeakSet()
    most = 0

    def source() -> Iterator[Chunk]:
        nonlocal most
        for number in range(60):
            made = Tracked(f"Firm {number} pays.", id=str(number))
            alive.add(made)
            most = max(most, len(alive))
            yield made

    assert index(codebook, source(), batch_size=5).indexed == 60
    assert most <= 15


def test_read_only_store_takes_no_chunks(codebook: Codebook, store: Store) -> None:
    """A store that is open for reading says so."""
    with closing(Store.open(store.path, read_only=True)) as reader, pytest.raises(ReadOnlyStoreError):
        index(Codebook(reader), [Chunk(ACQUIRED, id="c1")])
    assert codebook.stats().chunks == 0


@pytest.mark.parametrize("interruption", [RuntimeError("source broke"), KeyboardInterrupt()])
def test_interrupted_run_is_resumed_by_running_it_again(
    codebook: Codebook, store: Store, interruption: BaseException
) -> None:
    """Committed batches stay; the second run reads only what is missing."""
    chunks = [Chunk(f"Firm {n} pays.", id=str(n)) for n in range(8)]

    def source() -> Iterator[Chunk]:
        yield from chunks[:5]
        raise interruption

    with pytest.raises(type(interruption)):
        index(codebook, source(), batch_size=2)
    assert keys(store) == list("0123")
    report = index(codebook, chunks, batch_size=2)
    assert (report.unchanged, report.indexed) == (4, 4)


# --- triples ----------------------------------------------------------------------------------------------------------


def test_pronouns_and_malformed_triples_are_dropped_and_counted(codebook: Codebook, store: Store) -> None:
    """A pronoun names nothing, an empty name is none; what the extractor dropped itself is counted too."""
    triples = [
        ("Northstar", "acquired", "DeltaPay"),
        ("It", "acquired", "DeltaPay"),
        ("Northstar", "acquired", "them"),
        ("", "acquired", "DeltaPay"),
        ("Northstar", "  ", "DeltaPay"),
        ("Northstar", "acquired", None),
    ]
    extraction = Extraction(tuple(ExtractedTriple(Triple(*t)) for t in triples), malformed=2)  # type: ignore[arg-type]
    report = index(codebook, [Chunk("BAD", id="c1")], extractor=Extractor(on_bad=lambda: extraction))
    assert (report.indexed, report.triples, report.malformed_triples) == (1, 1, 7)
    assert read(store, "c1")[0].run == (Triple("Northstar", "acquired", "DeltaPay"),)


def test_triple_that_cannot_be_stored_stops_no_other_chunk(codebook: Codebook, store: Store) -> None:
    """Half a surrogate pair in a name costs the triple or its chunk, and is counted."""
    broken = Extraction((ExtractedTriple(Triple("North\ud800", "is", "bad")),))
    chunks = [Chunk(ACQUIRED, id="c1"), Chunk("BAD", id="bad"), Chunk(PROCESSES, id="c2")]
    report = index(codebook, chunks, extractor=Extractor(on_bad=lambda: broken))
    assert report.failed + report.malformed_triples == 1
    assert {"c1", "c2"} <= set(keys(store))


def test_triples_are_aligned_with_the_sentence_that_states_them(codebook: Codebook, store: Store) -> None:
    """The sentence with most of the names' words holds the edge; one that no sentence holds belongs to the chunk."""
    text = f"DeltaPay deals\n\n{PROCESSES} {ACQUIRED} It grew in 2022."
    triples = [
        ("Northstar", "acquired", "DeltaPay"),
        ("DeltaPay", "processes", "card payments"),
        ("growth", "happened in", "2022"),
        ("Unmentioned", "is", "absent"),
    ]
    index(codebook, [Chunk(text, id="c1")], extractor=Extractor({"c1": triples}))
    (passage,) = read(store, "c1")
    assert [(stored.sentence.kind, stored.triples) for stored in passage.sentences] == [
        ("title", ()),
        ("prose", (Triple(*triples[1]),)),
        ("prose", (Triple(*triples[0]),)),
        ("prose", (Triple(*triples[2]),)),
    ]
    assert [triple.head for triple in passage.run] == ["Northstar", "DeltaPay", "growth", "Unmentioned"]


class Placing(Extractor):
    """States one triple in the sentences a test names, by chunk id."""

    def __init__(self, places: dict[str, list[int | None]]) -> None:
        super().__init__()
        self._places = places

    def extract(self, passages: Sequence[Passage]) -> list[Extraction]:
        triple = Triple("Northstar", "acquired", "DeltaPay")
        return [
            Extraction(tuple(ExtractedTriple(triple, place) for place in self._places[passage.chunk.id or ""]))
            for passage in passages
        ]


def test_sentence_the_extractor_names_is_believed(codebook: Codebook, store: Store) -> None:
    """A position within the chunk is kept; one outside is aligned by words."""
    places: dict[str, list[int | None]] = {"inside": [1], "outside": [7], "before": [-1], "unknown": [None]}
    index(codebook, [Chunk(f"{ACQUIRED} Both agreed.", id=key) for key in places], extractor=Placing(places))
    held = {p.chunk.key: [len(s.triples) for s in p.sentences] for p in read(store, *places)}
    assert held == {"inside": [0, 1], "outside": [1, 0], "before": [1, 0], "unknown": [1, 0]}


def test_repeated_triple_is_one_occurrence_a_sentence(codebook: Codebook) -> None:
    """The same triple three times in one sentence counts once; in another sentence it counts again."""
    report = index(codebook, [Chunk(f"{ACQUIRED} Both agreed.", id="c1")], extractor=Placing({"c1": [0, 0, None, 1]}))
    assert (report.triples, codebook.stats().occurrences, codebook.stats().edges) == (2, 2, 1)


# --- progress ---------------------------------------------------------------------------------------------------------

CHUNKS = [Chunk(f"Firm {n} pays.", id=str(n)) for n in range(4)]


class Terminal(io.StringIO):
    """A stderr that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("progress", [None, False])
def test_no_bar_where_nobody_looks(
    codebook: Codebook, capfd: pytest.CaptureFixture[str], progress: bool | None
) -> None:
    """Without a terminal nothing is printed."""
    index(codebook, CHUNKS, batch_size=2, progress=progress)
    assert capfd.readouterr() == ("", "")


def test_bar_on_request(codebook: Codebook, capsys: pytest.CaptureFixture[str]) -> None:
    """`progress=True` writes to stderr, also where that is a file, and never to stdout."""
    index(codebook, CHUNKS, batch_size=2, progress=True)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "indexing" in printed.err


@pytest.mark.parametrize(("batch_size", "progress", "shown"), [(2, None, True), (4, None, False), (2, False, False)])
def test_bar_on_a_terminal(
    codebook: Codebook, monkeypatch: pytest.MonkeyPatch, batch_size: int, progress: bool | None, shown: bool
) -> None:
    """A terminal shows a bar for more than one batch, unless it was refused."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    index(codebook, CHUNKS, batch_size=batch_size, progress=progress)
    assert ("indexing" in sys.stderr.getvalue()) == shown  # type: ignore[attr-defined]
