"""What the codebook holds, what it forgets, and what it refuses to be mixed with."""

from __future__ import annotations

import sqlite3
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apl.errors import EmbedderMismatchError, InputError, ReadOnlyStoreError
from apl.protocols import Embedder, Vectors
from apl.reports import DeleteReport, IndexReport
from apl.state.codebook import Codebook
from apl.state.engine import Store
from apl.symbols import Chunk
from apl.testing import HashEmbedder, ScriptedExtractor, WordCounter
from apl.write.ingestion import Ingestion

ACQUIRED = "Northstar acquired DeltaPay in March 2022."
PROCESSES = "DeltaPay processes card payments."
BOTH = f"{ACQUIRED} {PROCESSES}"
SCRIPT = {
    ACQUIRED: [("Northstar", "acquired", "DeltaPay in March 2022")],
    PROCESSES: [("DeltaPay", "processes", "card payments")],
    BOTH: [("Northstar", "acquired", "DeltaPay in March 2022"), ("DeltaPay", "processes", "card payments")],
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(Store.open(tmp_path / "kb.db")) as store:
        yield store


@pytest.fixture
def codebook(store: Store) -> Codebook:
    return Codebook(store)


def index(
    codebook: Codebook,
    chunks: Iterable[Chunk],
    script: Mapping[str, Any] = SCRIPT,
    *,
    batch_size: int = 100,
    embedder: Embedder | None = None,
) -> IndexReport:
    ingestion = Ingestion(
        codebook,
        embedder=embedder or HashEmbedder(8),
        extractor=ScriptedExtractor(script),
        counter=WordCounter(),
        language="en",
        max_chunk_chars=1000,
    )
    return ingestion.run(chunks, batch_size=batch_size)


def index_names(codebook: Codebook, *names: str) -> None:
    """One document a name, in which nothing but "<name> is known" is said."""
    index(codebook, [Chunk(f"{name} is known.", id=name) for name in names], {n: [(n, "is", "known")] for n in names})


def rows(store: Store, query: str) -> list[Any]:
    """A look into the file past apl."""
    with closing(sqlite3.connect(store.path)) as connection:
        found = connection.execute(query).fetchall()
    return [row[0] if len(row) == 1 else row for row in found]


ORPHANS = {
    "document without chunk": "SELECT id FROM documents WHERE id NOT IN (SELECT document_id FROM chunks)",
    "edge without occurrence": "SELECT id FROM edges WHERE id NOT IN (SELECT edge_id FROM occurrences)",
    "relation without edge": "SELECT id FROM relations WHERE id NOT IN (SELECT relation_id FROM edges)",
    "entity without edge": """
        SELECT id FROM entities WHERE id NOT IN (SELECT head_id FROM edges UNION SELECT tail_id FROM edges)""",
    "run without chunk": "SELECT id FROM runs WHERE chunk_id IS NULL",
    "run of a dead edge": """
        SELECT runs.id FROM runs, json_each(edge_ids) AS e WHERE e.value NOT IN (SELECT id FROM edges)""",
    "occurrence in a sentence of another chunk": """
        SELECT o.id FROM occurrences o JOIN sentences s ON s.id = o.sentence_id WHERE s.chunk_id != o.chunk_id""",
    "active link of a dead entity": """
        SELECT id FROM links WHERE ended_at IS NULL
        AND (left_id NOT IN (SELECT id FROM entities) OR right_id NOT IN (SELECT id FROM entities))""",
    "dangling foreign key": 'SELECT "table", rowid FROM pragma_foreign_key_check',
}


def orphans(store: Store) -> dict[str, list[Any]]:
    """Rows that hang on nothing, by kind; no kind without rows."""
    return {kind: found for kind, query in ORPHANS.items() if (found := rows(store, query))}


TRIPLES = """
    (SELECT e.id, h.name || ' | ' || r.name || ' | ' || t.name AS said FROM edges e JOIN entities h ON h.id = e.head_id
    JOIN relations r ON r.id = e.relation_id JOIN entities t ON t.id = e.tail_id)"""
CONTENT = {
    "documents": "SELECT key FROM documents",
    "chunks": """
        SELECT c.key, d.key, c.title, c.text, c.content_hash, c.tokens, c.title_terms FROM chunks c
        JOIN documents d ON d.id = c.document_id""",
    "sentences": """
        SELECT c.key, s.position, s.start, s.end, s.kind, s.carried, s.vector, s.terms, s.traits FROM sentences s
        JOIN chunks c ON c.id = s.chunk_id""",
    "terms": "SELECT term, chunks FROM terms",
    "entities": "SELECT name, normal_form FROM entities",
    "relations": "SELECT name, normal_form FROM relations",
    "edges": f"SELECT said FROM {TRIPLES}",  # noqa: S608
    "occurrences": f"""
        SELECT c.key, o.position, s.position, e.said, o.extractor, o.trust FROM occurrences o
        JOIN chunks c ON c.id = o.chunk_id LEFT JOIN sentences s ON s.id = o.sentence_id
        JOIN {TRIPLES} e ON e.id = o.edge_id""",  # noqa: S608
    "runs": f"""
        SELECT c.key, r.channel, r.position, j.key, e.said FROM runs r, json_each(r.edge_ids) j
        JOIN chunks c ON c.id = r.chunk_id JOIN {TRIPLES} e ON e.id = j.value""",  # noqa: S608
}


def content(store: Store) -> dict[str, Any]:
    """Everything a store says, by natural keys; links as the names they hold together."""
    found: dict[str, Any] = {kind: sorted(rows(store, query), key=repr) for kind, query in CONTENT.items()}
    return found | {"links": linked_names(store)}


def linked_names(store: Store) -> set[frozenset[str]]:
    """The connected components of the active links."""
    groups: dict[str, set[str]] = defaultdict(set)
    pairs = rows(
        store,
        "SELECT a.name, b.name FROM links JOIN entities a ON a.id = left_id JOIN entities b ON b.id = right_id "
        "WHERE ended_at IS NULL",
    )
    for left, right in pairs:
        joint = {left, right} | groups[left] | groups[right]
        for name in joint:
            groups[name] = joint
    return {frozenset(group) for group in groups.values() if group}


# --- stats ------------------------------------------------------------------------------------------------------------


def test_stats_of_a_new_store_are_zero(codebook: Codebook, store: Store) -> None:
    """A new store counts nothing, at generation 0, bound to no embedder and no tokenizer."""
    stats = codebook.stats()
    counts = (stats.documents, stats.chunks, stats.sentences, stats.entities, stats.relations, stats.edges, stats.links)
    assert counts == (0,) * 7
    assert (stats.generation, stats.embedder, stats.tokenizer) == (0, None, None)
    assert stats.bytes == store.path.stat().st_size > 0


def test_stats_count_rows_and_name_what_the_store_was_built_with(codebook: Codebook) -> None:
    """Symbols are counted once however often they occur; occurrences and sentences are counted each."""
    codebook.bind(HashEmbedder(8), WordCounter())
    index(codebook, [Chunk(BOTH, id="c1", document_id="d1"), Chunk(ACQUIRED, id="c2", document_id="d1")])
    stats = codebook.stats()
    assert (stats.documents, stats.chunks, stats.sentences, stats.carried_sentences) == (1, 2, 3, 3)
    assert (stats.entities, stats.relations, stats.edges, stats.occurrences) == (4, 2, 2, 3)
    assert (stats.runs, stats.links, stats.turns) == (2, 0, 0)
    assert (stats.embedder, stats.tokenizer, stats.schema_version) == ("hash-8", "words", 3)


# --- delete -----------------------------------------------------------------------------------------------------------


def test_delete_removes_what_only_the_document_says(codebook: Codebook, store: Store) -> None:
    """Chunks, sentences, edges and names go with their document; the report counts them."""
    index(codebook, [Chunk(ACQUIRED, id="c1", document_id="d1"), Chunk(PROCESSES, id="c2", document_id="d2")])
    report = codebook.delete(["d1"])
    assert report == DeleteReport(documents=1, chunks=1, sentences=1, edges=1, entities=2, relations=1)
    assert rows(store, "SELECT name FROM entities ORDER BY name") == ["DeltaPay", "card payments"]
    assert rows(store, "SELECT key FROM chunks") == ["c2"]
    assert orphans(store) == {}


def test_deleting_everything_leaves_empty_tables(codebook: Codebook, store: Store) -> None:
    """After the last document no symbol is left."""
    index(codebook, [Chunk(BOTH, id="c1", document_id="d1"), Chunk(BOTH, id="c2", document_id="d2"), Chunk(ACQUIRED)])
    codebook.delete(rows(store, "SELECT key FROM documents"))
    assert content(store) == {key: [] for key in CONTENT} | {"links": set()}


def test_shared_edge_lives_until_its_last_document_goes(codebook: Codebook, store: Store) -> None:
    """An edge two documents say survives the first deletion and dies with the second."""
    index(codebook, [Chunk(ACQUIRED, id="c1", document_id="d1"), Chunk(BOTH, id="c2", document_id="d2")])
    first = codebook.delete(["d1"])
    assert (first.edges, first.entities, first.relations) == (0, 0, 0)
    assert codebook.stats().edges == 2
    assert orphans(store) == {}
    second = codebook.delete(["d2"])
    assert (second.edges, second.entities, second.relations) == (2, 4, 2)
    assert orphans(store) == {}


def test_shared_entity_lives_until_its_last_edge_goes(codebook: Codebook, store: Store) -> None:
    """A name that is a head here and a tail there keeps its row while either edge lives."""
    script = {"c1": [("Northstar", "owns", "DeltaPay")], "c2": [("DeltaPay", "owns", "DeltaCard")]}
    index(codebook, [Chunk("One.", id="c1"), Chunk("Two.", id="c2")], script)
    assert codebook.delete(["c1"]).entities == 1
    assert rows(store, "SELECT name FROM entities ORDER BY name") == ["DeltaCard", "DeltaPay"]
    assert orphans(store) == {}


def test_chunk_without_document_is_deleted_by_its_own_id(codebook: Codebook) -> None:
    """A chunk that names no document is its own, under its chunk id."""
    index(codebook, [Chunk(ACQUIRED, id="c1")])
    assert codebook.delete(["c1"]).chunks == 1
    assert codebook.stats().chunks == 0


def test_many_documents_are_deleted_at_once(codebook: Codebook, store: Store) -> None:
    """More ids than a statement takes variables are no obstacle."""
    chunks = [Chunk(f"Northstar bought firm {n}.", id=str(n)) for n in range(1200)]
    index(codebook, chunks, {str(n): [("Northstar", "bought", f"firm {n}")] for n in range(1200)}, batch_size=1200)
    report = codebook.delete(str(n) for n in range(1, 1200))
    assert (report.documents, report.chunks, report.edges, report.entities) == (1199, 1199, 1199, 1199)
    assert codebook.stats().entities == 2
    assert orphans(store) == {}


def test_unknown_documents_are_reported(codebook: Codebook) -> None:
    """Ids the store does not hold are named in the order given, each once; the known ones go."""
    index(codebook, [Chunk(ACQUIRED, id="c1", document_id="d1")])
    report = codebook.delete(["zzz", "d1", "c1", "zzz"])
    assert report.unknown_documents == ("zzz", "c1")
    assert (report.documents, report.chunks) == (1, 1)


def test_half_a_surrogate_pair_is_an_unknown_document(codebook: Codebook) -> None:
    """An id that cannot be in the store is reported like any other."""
    assert codebook.delete(["d\ud800"]).unknown_documents == ("d\ud800",)


@pytest.mark.parametrize("document_ids", ["d1", b"d1", None, 3, ["d1", 3], ["d1", None]])
def test_delete_takes_a_list_of_strings(codebook: Codebook, document_ids: Any) -> None:
    """A bare string is not read as its letters, and nothing is deleted when one id is no string."""
    index(codebook, [Chunk(ACQUIRED, id="c1", document_id="d1"), Chunk(ACQUIRED, id="c2", document_id="d")])
    with pytest.raises(InputError):
        codebook.delete(document_ids)
    assert codebook.stats().documents == 2


def test_delete_happens_whole_or_not_at_all(codebook: Codebook, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault in its last step leaves the store as it was."""
    index(codebook, [Chunk(BOTH, id="c1", document_id="d1"), Chunk(ACQUIRED, id="c2", document_id="d2")])
    before = content(store)
    monkeypatch.setattr("apl.state.codebook.bump_generation", lambda _connection: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        codebook.delete(["d1", "d2"])
    assert content(store) == before


def test_chunks_are_deleted_by_their_ids(codebook: Codebook, store: Store) -> None:
    """With all that only they say; their document goes with the last of them, unknown ids are passed over."""
    index(codebook, [Chunk(ACQUIRED, id=key, document_id="d1") for key in ("c1", "c2")] + [Chunk(BOTH, id="c3")])
    report = codebook.delete_chunks(["c1", "c1", "zzz", "c\ud800"])
    assert (report.documents, report.chunks, report.edges) == (0, 1, 0)
    report = codebook.delete_chunks(["c2", "c3"])
    assert (report.documents, report.chunks) == (2, 2)
    assert orphans(store) == {}
    stats = codebook.stats()
    assert (stats.documents, stats.chunks, stats.entities) == (0, 0, 0)
    assert codebook.delete_chunks([]).chunks == 0
    assert codebook.stats().generation == stats.generation
    with pytest.raises(InputError, match="list of chunk ids"):
        codebook.delete_chunks("c1")


def test_documents_are_walked_page_by_page(codebook: Codebook, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every document once, in the order of its id, while the store changes; as `documents` says."""
    monkeypatch.setattr("apl.state.codebook._DOCUMENTS_A_PAGE", 4)
    assert list(codebook.chunk_hashes()) == []
    index(codebook, [Chunk(f"{ACQUIRED} {n}", id=f"c{n}", document_id=f"d{n // 2}") for n in range(16)])
    assert dict(codebook.chunk_hashes()) == codebook.documents()
    seen = []
    for document, hashes in codebook.chunk_hashes():
        assert len(hashes) == 2
        seen.append(document)
        codebook.delete([document])
    assert seen == [f"d{n}" for n in range(8)]


def test_delete_of_a_read_only_store_raises(store: Store) -> None:
    """A store that is open for reading deletes nothing."""
    with closing(Store.open(store.path, read_only=True)) as reader, pytest.raises(ReadOnlyStoreError):
        Codebook(reader).delete(["d1"])


# --- links ------------------------------------------------------------------------------------------------------------


def test_equal_normal_forms_are_linked_once_and_logged(codebook: Codebook, store: Store) -> None:
    """Each further surface form is linked to the first, with kind, score, reason and time; again and again is once."""
    for names in (("The Hague",), ("the hague",), ("Hague", "the  HaGue"), ("Hague", "The Hague")):
        index_names(codebook, *names)
    index(codebook, [Chunk("The Hague is large.", id="x")], {"x": [("The Hague", "is", "large")]})
    assert linked_names(store) == {frozenset({"The Hague", "the hague", "Hague", "the  HaGue"})}
    log = rows(store, "SELECT kind, score, reason, created_at > 0, ended_at FROM links")
    assert log == [("normal_form", 1.0, "equal normal form", 1, None)] * 3
    assert codebook.stats().links == 3


def test_surfaces_of_one_batch_and_of_two_are_linked_alike(tmp_path: Path) -> None:
    """It does not matter whether two surface forms come together or one after the other."""
    found = []
    for number, batches in enumerate([[("The Hague", "the hague")], [("The Hague",), ("the hague",)]]):
        with closing(Store.open(tmp_path / f"{number}.db")) as store:
            for names in batches:
                index_names(Codebook(store), *names)
            found.append(linked_names(store))
    assert found == [{frozenset({"The Hague", "the hague"})}] * 2


@pytest.mark.parametrize(("one", "other"), [("C++", "C#"), ("北京", "上海"), ("Gate 1", "Gate 2")])
def test_different_names_are_not_linked(codebook: Codebook, store: Store, one: str, other: str) -> None:
    """Different normal forms stay apart, however near they are."""
    index_names(codebook, one, other)
    assert linked_names(store) == set()
    assert codebook.stats().entities == 3


def test_acronym_is_not_linked_to_the_word(codebook: Codebook, store: Store) -> None:
    """Equality but for case does not make an acronym a word: US and us."""
    script = {"a": [("AIDS", "is", "known")], "b": [("aids", "are", "known")]}
    index(codebook, [Chunk("AIDS is known.", id="a"), Chunk("Aids are known.", id="b")], script)
    assert set(rows(store, "SELECT name FROM entities")) == {"AIDS", "aids", "known"}
    assert rows(store, "SELECT id FROM links") == []


@pytest.mark.parametrize(("organisation", "pronoun"), [("WHO", "who"), ("US", "us"), ("IT", "it")])
def test_pronoun_is_dropped_and_its_acronym_kept(
    codebook: Codebook, store: Store, organisation: str, pronoun: str
) -> None:
    """`who` is never an entity; `WHO` is the organisation, and nothing is linked with it."""
    script = {name: [(name, "reported", "cases")] for name in (organisation, pronoun)}
    index(codebook, [Chunk(f"{name} reported cases.", id=name) for name in script], script)
    assert set(rows(store, "SELECT name FROM entities")) == {organisation, "cases"}
    assert rows(store, "SELECT id FROM links") == []


def test_links_are_tied_anew_when_the_first_of_a_group_dies(codebook: Codebook, store: Store) -> None:
    """The survivors stay linked with each other; the old links are ended, not removed."""
    index_names(codebook, "The Hague", "the hague", "Hague")
    codebook.delete(["The Hague"])
    assert linked_names(store) == {frozenset({"the hague", "Hague"})}
    assert rows(store, "SELECT count(*), count(ended_at) FROM links") == [(3, 2)]
    assert orphans(store) == {}


def test_link_log_outlives_its_entities_without_their_names(codebook: Codebook, store: Store) -> None:
    """When both ends are gone the line is still there, ended, and says nothing of what they were called."""
    index_names(codebook, "The Hague", "the hague")
    codebook.delete(["The Hague", "the hague"])
    (line,) = rows(store, "SELECT * FROM links")
    assert line[-1] is not None
    assert codebook.stats().links == 0
    assert not [value for value in line if isinstance(value, str) and "hague" in value.casefold()]


def test_name_that_comes_back_gets_a_new_id_and_a_new_link(codebook: Codebook, store: Store) -> None:
    """Ids are never used twice, so that the log's old lines cannot be read as lines of the new entity."""
    index_names(codebook, "The Hague", "the hague")
    old = rows(store, "SELECT id FROM entities")
    codebook.delete(["The Hague", "the hague"])
    index_names(codebook, "The Hague", "the hague")
    assert set(rows(store, "SELECT id FROM entities")).isdisjoint(old)
    assert codebook.stats().links == 1


def test_symbols_of_both_versions_of_a_chunk_keep_their_ids_and_links(codebook: Codebook, store: Store) -> None:
    """A changed text that says the same edges again does not cut and tie its links."""
    script = {text: [("The Hague", "is", "known"), ("the hague", "is", "known")] for text in ("One.", "Two.")}
    index(codebook, [Chunk("One.", id="c1")], script)
    before = [rows(store, f"SELECT * FROM {table}") for table in ("entities", "edges", "links")]  # noqa: S608
    index(codebook, [Chunk("Two.", id="c1")], script)
    assert [rows(store, f"SELECT * FROM {table}") for table in ("entities", "edges", "links")] == before  # noqa: S608
    assert orphans(store) == {}


# --- generation -------------------------------------------------------------------------------------------------------


def test_generation_grows_with_every_change_and_only_then(codebook: Codebook) -> None:
    """Adding, replacing, moving, retitling and deleting are changes; repeating, reading and binding are not."""
    chunk = Chunk(ACQUIRED, id="c1", document_id="d1")
    changes: list[tuple[str, Any, bool]] = [
        ("add", lambda: index(codebook, [chunk]), True),
        ("repeat", lambda: index(codebook, [chunk]), False),
        ("nothing", lambda: index(codebook, []), False),
        ("a bad chunk", lambda: index(codebook, [Chunk("x" * 2000, id="long")]), False),
        ("bind", lambda: codebook.bind(HashEmbedder(8), WordCounter()), False),
        ("read", lambda: codebook.stats(), False),
        ("replace", lambda: index(codebook, [Chunk(BOTH, id="c1", document_id="d1")]), True),
        ("move", lambda: index(codebook, [Chunk(BOTH, id="c1", document_id="d2")]), True),
        ("retitle", lambda: index(codebook, [Chunk(BOTH, id="c1", document_id="d2", title="Deals")]), True),
        ("delete unknown", lambda: codebook.delete(["d1"]), False),
        ("delete none", lambda: codebook.delete([]), False),
        ("delete", lambda: codebook.delete(["d2"]), True),
    ]
    for what, change, grows in changes:
        before = codebook.stats().generation
        change()
        assert (what, codebook.stats().generation > before) == (what, grows)


# --- embedder and tokenizer -------------------------------------------------------------------------------------------


class _Changed(HashEmbedder):
    """A hash embedder whose vectors went through a function."""

    def __init__(self, change: Any, dimension: int = 8) -> None:
        super().__init__(dimension, name="changed")
        self._change = change

    def embed(self, texts: Sequence[str]) -> Vectors:
        changed: Vectors = self._change(super().embed(texts))
        return changed


def test_same_vectors_under_another_name_are_the_same_embedder(codebook: Codebook) -> None:
    """A model is known by its probe vector; a path or a hub name makes no difference."""
    codebook.bind(HashEmbedder(8, name="hub/model"), WordCounter())
    codebook.bind(HashEmbedder(8, name="/models/model"), WordCounter())
    assert codebook.stats().embedder == "hub/model-8"


@pytest.mark.parametrize("dimension", [8, 384, 1536])
def test_float16_rounding_makes_no_other_embedder(codebook: Codebook, dimension: int) -> None:
    """The probe is stored in float16; the same vectors in either precision are accepted."""
    codebook.bind(HashEmbedder(dimension), WordCounter())
    codebook.bind(HashEmbedder(dimension), WordCounter())
    codebook.bind(_Changed(lambda v: v.astype(np.float16).astype(np.float32), dimension), WordCounter())


@pytest.mark.parametrize("other", [HashEmbedder(16), _Changed(lambda v: v[:, ::-1]), _Changed(lambda v: -v)])
def test_other_vectors_are_another_embedder(codebook: Codebook, store: Store, other: Embedder) -> None:
    """Another dimension or other vectors of the same one raise, with both names and what to do."""
    codebook.bind(HashEmbedder(8), WordCounter())
    with pytest.raises(EmbedderMismatchError, match="open it with that embedder, or use a new file") as caught:
        codebook.bind(other, WordCounter())
    assert (caught.value.found, caught.value.expected) == ("hash-8", other.name)
    assert caught.value.location == str(store.path)
    assert codebook.stats().embedder == "hash-8"


def test_read_only_store_checks_its_embedder_and_binds_none(codebook: Codebook, store: Store) -> None:
    """Reading binds nothing and still refuses vectors that mean nothing there."""
    with closing(Store.open(store.path, read_only=True)) as reader:
        Codebook(reader).check_embedder(HashEmbedder(8))
        assert codebook.stats().embedder is None
        codebook.bind(HashEmbedder(8), WordCounter())
        with pytest.raises(EmbedderMismatchError):
            Codebook(reader).check_embedder(HashEmbedder(16))


def test_another_tokenizer_is_no_error(codebook: Codebook, store: Store) -> None:
    """The store remembers the last one and counts its chunks again."""

    class Characters(WordCounter):
        name = "characters"

        def count(self, text: str) -> int:
            return len(text)

    index_names(codebook, "Northstar", "DeltaPay")
    for counter in (WordCounter(), Characters()):
        codebook.bind(HashEmbedder(8), counter)
        assert codebook.stats().tokenizer == counter.name
        with closing(sqlite3.connect(store.path)) as rows:
            found = rows.execute("SELECT text, tokens FROM chunks").fetchall()
        assert found
        assert all(tokens == counter.count(text) for text, tokens in found)


# --- any history ------------------------------------------------------------------------------------------------------

TEXTS = {
    "Northstar acquired DeltaPay. The deal closed in 2022.": [
        ("Northstar", "acquired", "DeltaPay"),
        ("deal", "closed in", "2022"),
        ("it", "closed in", "2022"),
    ],
    "The Northstar owns DeltaPay.": [("The Northstar", "owns", "DeltaPay"), ("northstar", "owns", "deltapay")],
    "The DeltaPay serves WHO and AIDS groups.": [
        ("the DeltaPay", "serves", "AIDS"),
        ("Aids", "", "x"),
        ("a", "b", "c"),
    ],
    "Northstar acquired DeltaPay.": [("Northstar", "acquired", "DeltaPay"), ("Northstar", "acquired", "DeltaPay")],
    "Nothing is known.": [],
}
CHUNKS = st.builds(
    Chunk,
    text=st.sampled_from(sorted(TEXTS)),
    id=st.sampled_from(["c1", "c2", "c3", "c4"]),
    document_id=st.sampled_from(["d1", "d2", None]),
    title=st.sampled_from([None, "Deals"]),
)
STEPS = st.one_of(
    st.tuples(st.just("index"), st.lists(CHUNKS, min_size=1, max_size=4), st.integers(1, 3)),
    st.tuples(st.just("delete"), st.lists(st.sampled_from(["d1", "d2", "c1", "c2", "c3"]), max_size=2), st.just(0)),
)


@settings(max_examples=25, deadline=None)
@given(st.lists(STEPS, min_size=1, max_size=8))
def test_any_history_ends_where_a_fresh_store_begins(steps: list[tuple[str, list[Any], int]]) -> None:
    """Indexing, re-indexing and deleting in any order leave what indexing the final corpus gives, and no orphans."""
    corpus: dict[str, Chunk] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(Store.open(Path(folder) / "lived.db")) as lived,
        closing(Store.open(Path(folder) / "new.db")) as new,
    ):
        for action, items, batch_size in steps:
            if action == "index":
                index(Codebook(lived), items, TEXTS, batch_size=batch_size)
                corpus.update({chunk.id or "": chunk for chunk in items})
            else:
                Codebook(lived).delete(items)
                corpus = {key: c for key, c in corpus.items() if (c.document_id or c.id) not in items}
            assert orphans(lived) == {}
        index(Codebook(new), corpus.values(), TEXTS)
        assert content(lived) == content(new)
