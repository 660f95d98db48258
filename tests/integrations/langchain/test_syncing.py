"""In step with a vector store or a record manager: what is missing, changed and surplus is named and mended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from langchain_core.document_loaders import BaseLoader
from langchain_core.documents import Document
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import CharacterTextSplitter

from apl import AutoPrunedLayer, Chunk
from apl.errors import InputError
from langchain_apl import APLRetriever, index_documents, sync_documents, turn_of


@pytest.fixture
def empty_layer(open_layer: Callable[..., AutoPrunedLayer]) -> AutoPrunedLayer:
    """A layer that knows nothing yet."""
    return open_layer(indexed=False)


@pytest.fixture
def records() -> InMemoryRecordManager:
    """LangChain's own record manager."""
    manager = InMemoryRecordManager("press")
    manager.create_schema()
    return manager


class Chromatic:
    """Lists like Chroma: pages of ids, texts and metadata, at most so many."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._documents = list(documents)
        self.pages = 0

    def similarity_search(self, query: str) -> list[Document]:
        return self._documents[:1]

    def get(self, limit: int, offset: int, include: list[str]) -> dict[str, Any]:
        self.pages += 1
        assert include == ["documents", "metadatas"]
        page = self._documents[offset : offset + limit]
        return {
            "ids": [document.id for document in page],
            "documents": [document.page_content for document in page],
            "metadatas": [document.metadata or None for document in page],
        }


class Numbered:
    """Lists like FAISS: a number to an id."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._held = {document.id: document for document in documents}
        self.index_to_docstore_id = dict(enumerate(self._held))

    def get_by_ids(self, ids: Sequence[str]) -> list[Document]:
        return [self._held[key] for key in ids if key in self._held]


class Silent:
    """Finds, and tells nothing else."""

    def similarity_search(self, query: str) -> list[Document]:
        return []


def in_memory(documents: Sequence[Document], embedding: Any) -> InMemoryVectorStore:
    store = InMemoryVectorStore(embedding)
    store.add_documents(list(documents))
    return store


def chunks_of(layer: AutoPrunedLayer) -> dict[str, dict[str, str]]:
    return layer.codebook.documents()


def known(layer: AutoPrunedLayer, host: Any, documents: Sequence[Document]) -> int:
    """How many of the documents that a host returns the layer knows."""
    found = APLRetriever(host=host, layer=layer).invoke("What?")
    turn = turn_of(found, layer)
    assert turn is not None
    return turn.counters["known"]


@pytest.mark.parametrize("kind", ["in memory", "chroma", "faiss", "ids"])
def test_a_vector_store_is_compared_document_by_document(
    empty_layer: AutoPrunedLayer, vectorstore: InMemoryVectorStore, documents: list[Document], kind: str
) -> None:
    """However it lists what it holds: an empty codebook is filled, and then mended where the store changed."""

    def store_of(held: list[Document]) -> dict[str, Any]:
        if kind == "in memory":
            return {"source": in_memory(held, vectorstore.embedding)}
        if kind == "ids":
            return {"source": in_memory(held, vectorstore.embedding), "ids": (document.id for document in held)}
        return {"source": Chromatic(held) if kind == "chroma" else Numbered(held)}

    keys = tuple(document.id for document in documents)
    report = sync_documents(empty_layer, **store_of(documents))
    assert (report.missing_chunks, report.changed_chunks, report.surplus_chunks) == (keys, (), ())
    assert sync_documents(empty_layer, **store_of(documents)).in_step
    changed = documents[1].model_copy(update={"page_content": "Northstar sold DeltaPay in 2024."})
    new = Document(id="new", page_content="Ingrid leads DeltaPay.", metadata={"source": "press/new.txt"})
    held = [documents[0], changed, *documents[3:], new]
    looked = sync_documents(empty_layer, **store_of(held), dry_run=True)
    mended = sync_documents(empty_layer, **store_of(held))
    for found in (looked, mended):
        assert found.missing_chunks == ("new",)
        assert (found.changed_chunks, found.surplus_chunks) == ((keys[1],), (keys[2],))
        assert found.gone == (documents[2].metadata["source"],)
    assert (looked.index.indexed, mended.index.indexed, mended.index.replaced) == (0, 2, 1)
    assert sync_documents(empty_layer, **store_of(held)).in_step
    assert empty_layer.codebook.stats().chunks == len(held)


def test_pages_are_turned(empty_layer: AutoPrunedLayer) -> None:
    """A store that lists by pages is read to the end."""
    store = Chromatic([Document(id=f"c{n}", page_content=f"Firm {n} pays.") for n in range(501)])
    assert len(sync_documents(empty_layer, store).missing_chunks) == 501
    assert store.pages == 2


def test_a_document_is_never_missing_in_between(empty_layer: AutoPrunedLayer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of a document come and go in one transaction: a reader sees the old ones or the new ones."""

    def pieces(*texts: str) -> list[Document]:
        return [Document(id=f"p{text}", page_content=text, metadata={"source": "d"}) for text in texts]

    sync_documents(empty_layer, pieces("One.", "Two.", "Three."))
    seen: list[set[str]] = []
    real = type(empty_layer.codebook).put

    def watched(self: Any, *arguments: Any) -> int:
        seen.append(set(chunks_of(empty_layer)["d"]))
        replaced = real(self, *arguments)
        seen.append(set(chunks_of(empty_layer)["d"]))
        return replaced

    monkeypatch.setattr(type(empty_layer.codebook), "put", watched)
    sync_documents(empty_layer, pieces("One.", "Four."))
    assert seen == [{"pOne.", "pTwo.", "pThree."}, {"pOne.", "pFour."}]


def test_a_chunk_that_moved_is_not_read_again(empty_layer: AutoPrunedLayer) -> None:
    """It is in one document or the other, never in none."""
    piece = Document(id="p", page_content="Northstar pays.", metadata={"source": "b"})
    sync_documents(empty_layer, [piece])
    report = sync_documents(empty_layer, [piece.model_copy(update={"metadata": {"source": "a"}})])
    assert (report.index.indexed, report.index.unchanged) == (0, 1)
    assert list(chunks_of(empty_layer)) == ["a"]
    report = sync_documents(empty_layer, [piece.model_copy(update={"metadata": {"source": "c"}})])
    assert (report.index.indexed, report.surplus_chunks) == (0, ())
    assert list(chunks_of(empty_layer)) == ["c"]


def test_documents_and_loaders_are_compared_too(empty_layer: AutoPrunedLayer, documents: list[Document]) -> None:
    """Split on the way, by text where there is no id."""

    class Loader(BaseLoader):
        def lazy_load(self) -> Iterator[Document]:
            for document in documents:
                yield Document(page_content=document.page_content, metadata=document.metadata)

    splitter = CharacterTextSplitter(separator=". ", chunk_size=80, chunk_overlap=0)
    index_documents(empty_layer, Loader(), splitter=splitter)
    assert sync_documents(empty_layer, Loader(), splitter=splitter).in_step
    empty_layer.codebook.delete([documents[0].metadata["source"]])
    report = sync_documents(empty_layer, Loader(), splitter=splitter)
    assert report.changed == (documents[0].metadata["source"],)
    assert len(report.missing_chunks) == report.index.indexed > 1


def test_chunks_that_cannot_be_indexed_are_in_the_report(empty_layer: AutoPrunedLayer) -> None:
    """And do not keep the others from being."""
    bad = Document(id="bad", page_content="half a pair \ud800", metadata={"source": "d"})
    good = Document(id="good", page_content="Northstar pays.", metadata={"source": "d"})
    report = sync_documents(empty_layer, [bad, good])
    assert [error.chunk_id for error in report.index.errors] == ["bad"]
    assert (report.index.indexed, report.missing_chunks) == (1, ("good",))


# --- record managers --------------------------------------------------------------------------------------------------


def test_what_langchains_index_did_reaches_the_codebook(
    empty_layer: AutoPrunedLayer, vectorstore: InMemoryVectorStore, records: InMemoryRecordManager,
    documents: list[Document],
) -> None:  # fmt: skip
    """From the documents, under the ids it gave them: the retriever's documents are known."""
    options: dict[str, Any] = {"cleanup": "full", "source_id_key": "source", "key_encoder": "sha256"}
    bare = [Document(page_content=document.page_content, metadata=document.metadata) for document in documents]
    index(bare[:4], records, vectorstore, **options)
    report = sync_documents(empty_layer, bare, record_manager=records, key_encoder="sha256")
    assert set(report.missing_chunks) == set(records.list_keys()) == set(vectorstore.store)
    host = vectorstore.as_retriever(search_kwargs={"k": 4})
    assert known(empty_layer, host, bare) == 4
    index(bare[1:], records, vectorstore, **options)
    report = sync_documents(empty_layer, bare[1:], record_manager=records, key_encoder="sha256")
    assert (len(report.missing_chunks), len(report.surplus_chunks), len(report.gone)) == (2, 1, 1)
    by_store = sync_documents(empty_layer, vectorstore, record_manager=records)
    assert by_store.in_step


@pytest.mark.filterwarnings("ignore:Using SHA-1")  # LangChain's default, and ours therefore
def test_what_the_record_manager_knows_and_nobody_shows_is_kept(
    empty_layer: AutoPrunedLayer, vectorstore: InMemoryVectorStore, records: InMemoryRecordManager,
    documents: list[Document],
) -> None:  # fmt: skip
    """Only some of the documents at hand: the others are indexed still, so they are not surplus."""
    index(documents, records, vectorstore, source_id_key="source", key_encoder="sha1")
    sync_documents(empty_layer, documents, record_manager=records)
    report = sync_documents(empty_layer, documents[:2], record_manager=records)
    assert report.in_step
    assert empty_layer.codebook.stats().chunks == len(documents)
    assert len(sync_documents(empty_layer, documents[:2]).surplus_chunks) == len(documents) - 2


def test_what_other_hosts_filled_can_be_kept(
    empty_layer: AutoPrunedLayer, vectorstore: InMemoryVectorStore, documents: list[Document]
) -> None:
    """`delete_missing=False` where several stores fill one codebook."""
    empty_layer.index([Chunk("Kept.", id="other")])
    vectorstore.add_documents(documents)
    assert sync_documents(empty_layer, vectorstore, delete_missing=False).gone == ()
    assert sync_documents(empty_layer, vectorstore).gone == ("other",)


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        (Silent(), {}, "cannot list what it holds: give ids"),
        (Silent(), {"ids": ["a"]}, "has no `get_by_ids`"),
        (Numbered([]), {"splitter": object()}, "leave out splitter"),
        ([Document(page_content="x")], {"ids": ["a"]}, "documents carry their own"),
        (["text"], {}, "expected LangChain Documents"),
        (3, {}, "expected LangChain Documents"),
    ],
)
def test_what_cannot_be_compared_is_said(
    empty_layer: AutoPrunedLayer, source: Any, options: dict[str, Any], said: str
) -> None:
    """Before anything is deleted."""
    empty_layer.index([Chunk("Kept.", id="other")])
    with pytest.raises(InputError, match=said):
        sync_documents(empty_layer, source, **options)
    assert empty_layer.codebook.stats().chunks == 1
