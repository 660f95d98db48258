"""Documents to chunks, loaders to a codebook, and documents back to their turn."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain_core.document_loaders import BaseLoader
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_text_splitters import CharacterTextSplitter, RecursiveCharacterTextSplitter

from apl import AutoPrunedLayer, Chunk
from apl.errors import InputError
from langchain_apl import APLRetriever, chunks_of, index_documents, turn_of


class PressLoader(BaseLoader):
    """Loads documents one by one and counts them."""

    def __init__(self, documents: list[Document]) -> None:
        self._documents = documents
        self.loaded = 0

    def lazy_load(self) -> Iterator[Document]:
        """One after the other."""
        for document in self._documents:
            self.loaded += 1
            yield document


class OldLoader:
    """A loader from before `lazy_load`."""

    def __init__(self, documents: list[Document]) -> None:
        self._documents = documents

    def load(self) -> list[Document]:
        """All at once."""
        return self._documents


@pytest.fixture
def empty_layer(open_layer: Callable[..., AutoPrunedLayer]) -> AutoPrunedLayer:
    """A layer that knows nothing yet."""
    return open_layer(indexed=False)


# --- chunks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", " two\n\nlines \t", '{braces} and {"json": 1}', "京都 café\r\n\u2028"])
def test_a_chunk_has_the_documents_text_byte_for_byte(text: str) -> None:
    """Nothing is stripped or normalised: the content hash is over what the host hands on."""
    (chunk,) = chunks_of([Document(page_content=text)])
    assert chunk.text == text
    assert chunk.id is None


def test_id_source_and_title_become_what_the_codebook_knows() -> None:
    """`source` is what `layer.codebook.delete` takes, `title` a hint; without them the chunk stands for itself."""
    metadata = {"source": "press/a.txt", "title": "A purchase", "page": 3}
    (chunk,) = chunks_of([Document(id="a", page_content="Text.", metadata=metadata)])
    assert chunk == Chunk("Text.", id="a", document_id="press/a.txt", title="A purchase")


@pytest.mark.parametrize("value", [None, "", 3, ["a"], {"path": "a"}])
def test_metadata_of_another_type_is_no_source_and_no_title(value: Any) -> None:
    """Loaders put anything there; it is left alone."""
    (chunk,) = chunks_of([Document(page_content="Text.", metadata={"source": value, "title": value})])
    assert (chunk.document_id, chunk.title) == (None, None)


def test_chunks_are_read_when_they_are_needed(documents: list[Document]) -> None:
    """A loader over a large folder is not read ahead."""
    loader = PressLoader(documents)
    chunks = chunks_of(loader)
    assert loader.loaded == 0
    assert next(chunks).id == documents[0].id
    assert loader.loaded == 1


# --- indexing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["list", "tuple", "generator", "lazy_load", "load"])
def test_documents_and_loaders_are_indexed(
    empty_layer: AutoPrunedLayer, host: BaseRetriever, question: str, documents: list[Document], kind: str
) -> None:
    """Whatever LangChain people have documents in; the retriever then finds all of them."""
    sources: dict[str, Any] = {
        "list": documents,
        "tuple": tuple(documents),
        "generator": (document for document in documents),
        "lazy_load": PressLoader(documents),
        "load": OldLoader(documents),
    }
    before = copy.deepcopy(documents)
    report = index_documents(empty_layer, sources[kind])
    assert (report.chunks, report.indexed, report.failed) == (6, 6, 0)
    turn = turn_of(APLRetriever(host=host, layer=empty_layer).invoke(question), empty_layer)
    assert turn is not None
    assert turn.counters["known"] == 6
    assert documents == before


def test_indexing_again_costs_a_hash(layer: AutoPrunedLayer, documents: list[Document]) -> None:
    """Unchanged documents are not extracted again; a changed one replaces its old text."""
    assert index_documents(layer, documents).unchanged == 6
    documents[0] = documents[0].model_copy(update={"page_content": "Northstar sold DeltaPay in 2024."})
    report = index_documents(layer, documents)
    assert (report.unchanged, report.replaced) == (5, 1)


@pytest.mark.parametrize(
    "splitter",
    [
        RecursiveCharacterTextSplitter(chunk_size=200, chunk_overlap=0),
        RecursiveCharacterTextSplitter(chunk_size=150, chunk_overlap=60, add_start_index=True),
        CharacterTextSplitter(separator=". ", chunk_size=120, chunk_overlap=0),
    ],
    ids=["plain", "overlapping", "sentences"],
)
def test_the_pieces_of_the_hosts_splitter_are_found_again(
    empty_layer: AutoPrunedLayer,
    make_host: type[BaseRetriever],
    question: str,
    documents: list[Document],
    splitter: Any,
) -> None:
    """Split by the same splitter, without ids: every piece the host returns is known by its text."""
    report = index_documents(empty_layer, documents, splitter=splitter)
    pieces = splitter.split_documents(documents)
    assert report.chunks == len(pieces) > 6
    assert report.failed == 0
    handed_on = APLRetriever(host=make_host(documents=pieces), layer=empty_layer).invoke(question)
    turn = turn_of(handed_on, empty_layer)
    assert turn is not None
    assert (turn.counters["unknown"], turn.counters["changed"]) == (0, 0)
    assert len(handed_on) == len(pieces)


def test_a_loader_is_split_on_the_way(empty_layer: AutoPrunedLayer, documents: list[Document]) -> None:
    """Loader and splitter together; the pieces belong to their source and go with it."""
    splitter = RecursiveCharacterTextSplitter(chunk_size=200, chunk_overlap=0)
    report = index_documents(empty_layer, PressLoader(documents), splitter=splitter)
    assert report.indexed == report.chunks > 6
    deleted = empty_layer.codebook.delete([f"press/{document.metadata['tags'][1]}.txt" for document in documents])
    assert (deleted.documents, deleted.chunks) == (6, report.indexed)
    assert empty_layer.codebook.stats().chunks == 0


def test_nothing_is_indexed_from_nothing(empty_layer: AutoPrunedLayer) -> None:
    """An empty source is a report of zeros."""
    assert index_documents(empty_layer, []).chunks == 0
    assert index_documents(empty_layer, PressLoader([])).chunks == 0


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("a text", "str"),
        (b"bytes", "bytes|int"),
        (None, "NoneType"),
        (7, "int"),
        ({"a": 1}, "dict|str"),
        (Document(page_content="one"), "Document"),
        (["a text"], "str"),
        ([Chunk("a chunk")], "Chunk"),
        (OldLoader(["a text"]), "str"),  # type: ignore[list-item]
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_is_neither_documents_nor_a_loader_is_an_input_error(
    empty_layer: AutoPrunedLayer, source: Any, named: str
) -> None:
    """The message names what was found; nothing is indexed."""
    with pytest.raises(InputError, match=named):
        index_documents(empty_layer, source)
    assert empty_layer.codebook.stats().chunks == 0


def test_a_splitter_that_is_none_is_an_input_error(empty_layer: AutoPrunedLayer, documents: list[Document]) -> None:
    """Say so instead of an AttributeError."""
    with pytest.raises(InputError, match="split_documents"):
        index_documents(empty_layer, documents, splitter=object())


# --- documents back to their turn -------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["spread", "per_document", "single"])
def test_the_turn_is_found_behind_the_documents(
    open_layer: Callable[..., AutoPrunedLayer], host: BaseRetriever, question: str, layout: Any
) -> None:
    """From the documents alone, also when an application has reordered or rebuilt them."""
    layer = open_layer(forms=("outline",))
    handed_on = APLRetriever(host=host, layer=layer, layout=layout).invoke(question)
    turn = turn_of(handed_on, layer)
    assert turn is not None
    assert (turn.question, turn.layout) == (question, layout)
    rebuilt = [Document(page_content=d.page_content, metadata=dict(d.metadata)) for d in reversed(handed_on)]
    assert turn_of(rebuilt, layer) is turn


def test_other_documents_have_no_turn(layer: AutoPrunedLayer, documents: list[Document]) -> None:
    """The host's own documents, or none."""
    assert turn_of(documents, layer) is None
    assert turn_of([], layer) is None


def test_a_turn_that_is_not_held_any_more_is_none(
    open_layer: Callable[..., AutoPrunedLayer], host: BaseRetriever, question: str
) -> None:
    """Only so many turns are kept, and other processes hold none: the answer is None, not an error."""
    layer = open_layer(held_turns=1)
    retriever = APLRetriever(host=host, layer=layer)
    first = retriever.invoke(question)
    retriever.invoke("Who leads DeltaPay?")
    assert turn_of(first, layer) is None


def test_the_answer_is_remembered_by_the_id_in_the_metadata(
    layer: AutoPrunedLayer, host: BaseRetriever, question: str
) -> None:
    """What an application does after the generator: hand the id and the answer back."""
    (first, *_) = APLRetriever(host=host, layer=layer).invoke(question)
    verdict = layer.remember(first.metadata["apl_turn"], "DeltaPay, in March 2022.")
    assert (verdict.turn_id, verdict.status) == (first.metadata["apl_turn"], "pending")
    assert layer.codebook.stats().turns == 1


def test_the_answer_is_remembered_by_the_turn_behind_the_documents(
    layer: AutoPrunedLayer, host: BaseRetriever, question: str
) -> None:
    """`turn_of` and `remember` fit together; the turn names every version it was given from."""
    handed_on = APLRetriever(host=host, layer=layer).invoke(question)
    turn = turn_of(handed_on, layer)
    assert turn is not None
    assert [chunk_id for chunk_id, _ in turn.sources] == [document.id for document in handed_on]
    assert layer.remember(turn, "DeltaPay").status == "pending"
