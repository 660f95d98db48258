"""APLRetriever around a host: what survives, what is known again, which hosts it takes."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Sequence
from typing import Any, get_args

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore

from apl import AutoPrunedLayer
from apl.errors import InputError
from apl.symbols import Layout, Turn
from langchain_apl import APLRetriever, turn_of

LAYOUTS = get_args(Layout)


def joined(documents: Sequence[Document]) -> str:
    """What a chain makes of documents."""
    return "\n\n".join(document.page_content for document in documents)


def turn_behind(documents: Sequence[Document], layer: AutoPrunedLayer) -> Turn:
    """The turn, which has to be there."""
    turn = turn_of(documents, layer)
    assert turn is not None
    return turn


def without_mark(document: Document) -> dict[str, Any]:
    """A document's metadata without the one key apl adds."""
    return {key: value for key, value in document.metadata.items() if key != "apl_turn"}


# --- what survives ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("form", ["outline", "quotes", "host_text"])
def test_ids_metadata_scores_and_order_survive(
    open_layer: Callable[..., AutoPrunedLayer], host: BaseRetriever, question: str, layout: Layout, form: str
) -> None:
    """Whatever goes out stands in documents with the host's ids, metadata, scores and order."""
    layer = open_layer(form=form)
    handed_on = APLRetriever(host=host, layer=layer, layout=layout).invoke(question)

    assert turn_behind(handed_on, layer).form == form
    originals = {document.id: document for document in host.documents}
    ids = [document.id for document in handed_on]
    assert ids == [key for key in originals if key in ids]
    assert len(set(ids)) == len(ids) > 0
    for document in handed_on:
        assert without_mark(document) == originals[document.id].metadata
        assert document.type == originals[document.id].type


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("form", ["outline", "quotes", "host_text"])
def test_host_objects_are_never_mutated(
    open_layer: Callable[..., AutoPrunedLayer], host: BaseRetriever, question: str, layout: Layout, form: str
) -> None:
    """The host's documents are after the call as before, and what is handed on are other objects."""
    before = copy.deepcopy(host.documents)
    handed_on = APLRetriever(host=host, layer=open_layer(form=form), layout=layout).invoke(question)
    for document in handed_on:
        document.page_content = "an application may do as it likes"
        document.metadata["rank"] = 1
    assert host.documents == before


@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_tiny_metadata_key_is_added_to_the_first_document(
    open_layer: Callable[..., AutoPrunedLayer], host: BaseRetriever, question: str, layout: Layout
) -> None:
    """`apl_turn`, a short string, on the first document only: users print metadata into prompts."""
    layer = open_layer(form="outline")
    handed_on = APLRetriever(host=host, layer=layer, layout=layout).invoke(question)
    originals = {document.id: document for document in host.documents}
    added = [set(document.metadata) - set(originals[document.id].metadata) for document in handed_on]
    assert added == [{"apl_turn"}, *([set()] * (len(handed_on) - 1))]
    mark = handed_on[0].metadata["apl_turn"]
    assert isinstance(mark, str)
    assert len(mark) <= 32


def test_subclasses_of_document_stay_what_they_are(
    layer: AutoPrunedLayer, make_host: type[BaseRetriever], documents: list[Document], question: str
) -> None:
    """A host with its own kind of document gets its own kind back."""

    class Scored(Document):
        score: float = 0.0

    scored = [Scored(**document.model_dump(exclude={"type"}), score=rank) for rank, document in enumerate(documents)]
    handed_on = APLRetriever(host=make_host(documents=scored), layer=layer).invoke(question)
    assert [(type(document), document.score) for document in handed_on] == [(Scored, rank) for rank in range(6)]


# --- mapping to the codebook ------------------------------------------------------------------------------------------


def test_documents_without_id_are_mapped_by_their_text(
    layer: AutoPrunedLayer, make_host: type[BaseRetriever], documents: list[Document], question: str
) -> None:
    """Text splitters and others leave `Document.id` None: the content hash finds the edges, and None stays None."""
    nameless = [document.model_copy(update={"id": None}) for document in documents]
    handed_on = APLRetriever(host=make_host(documents=nameless), layer=layer).invoke(question)
    turn = turn_behind(handed_on, layer)
    assert turn.counters["known"] == 6
    assert turn.form == "outline"
    assert [document.id for document in handed_on] == [None] * 6
    assert turn.text == joined(APLRetriever(host=make_host(documents=documents), layer=layer).invoke(question))


def test_ids_that_the_indexing_api_replaced_by_hashes_are_mapped_by_text(
    layer: AutoPrunedLayer, vectorstore: InMemoryVectorStore, documents: list[Document], question: str
) -> None:
    """LangChain's `index()` stores documents under hashes: the content hash finds the edges, the hashes survive."""
    records = InMemoryRecordManager("press")
    records.create_schema()
    index(documents, records, vectorstore, key_encoder="sha256")
    host = vectorstore.as_retriever(search_kwargs={"k": 6})
    hashes = [document.id for document in host.invoke(question)]
    assert not set(hashes) & {document.id for document in documents}

    handed_on = APLRetriever(host=host, layer=layer).invoke(question)
    turn = turn_behind(handed_on, layer)
    assert (turn.counters["known"], turn.counters["unknown"], turn.form) == (6, 0, "outline")
    assert [document.id for document in handed_on] == hashes


def test_unknown_documents_pass_as_text_and_are_counted(
    layer: AutoPrunedLayer, make_host: type[BaseRetriever], documents: list[Document], question: str
) -> None:
    """A document the codebook does not know goes out word for word beside the edges of the others."""
    text = "Kestrel Bank bid for DeltaPay too, but withdrew in January."
    host = make_host(documents=[*documents, Document(id="fresh", page_content=text, metadata={"source": "wire"})])
    handed_on = APLRetriever(host=host, layer=layer).invoke(question)
    turn = turn_behind(handed_on, layer)
    assert (turn.counters["known"], turn.counters["unknown"]) == (6, 1)
    assert turn.form == "outline"
    assert text in joined(handed_on)
    assert handed_on[-1].id == "fresh"


def test_changed_documents_pass_as_their_new_text(
    layer: AutoPrunedLayer, make_host: type[BaseRetriever], documents: list[Document], question: str
) -> None:
    """A known id with another text says what the host's text says now, never what was indexed."""
    text = "Northstar sold DeltaPay in 2024."
    documents[0] = documents[0].model_copy(update={"page_content": text})
    handed_on = APLRetriever(host=make_host(documents=documents), layer=layer).invoke(question)
    turn = turn_behind(handed_on, layer)
    assert (turn.counters["known"], turn.counters["changed"]) == (5, 1)
    assert text in joined(handed_on)
    assert "310 million" not in joined(handed_on)


def test_empty_results_are_results(
    layer: AutoPrunedLayer, make_host: type[BaseRetriever], question: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A host that finds nothing, or only blank documents, is no error."""
    nothing = APLRetriever(host=make_host(documents=[]), layer=layer)
    assert nothing.invoke(question) == []
    blank = APLRetriever(host=make_host(documents=[Document(page_content="  ", id="blank")]), layer=layer)
    (handed_on,) = blank.invoke(question)
    assert (handed_on.page_content, handed_on.id) == ("  ", "blank")
    assert nothing.errors == blank.errors == 0
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_empty_results_are_results_on_the_async_path(
    layer: AutoPrunedLayer, make_host: type[BaseRetriever], question: str
) -> None:
    """The same, awaited."""
    assert await APLRetriever(host=make_host(documents=[]), layer=layer).ainvoke(question) == []


def test_a_document_returned_twice_is_said_once(
    layer: AutoPrunedLayer, make_host: type[BaseRetriever], documents: list[Document], question: str
) -> None:
    """Hosts that merge several searches repeat documents: both stay, the text is said once."""
    handed_on = APLRetriever(host=make_host(documents=[*documents, documents[0]]), layer=layer).invoke(question)
    assert [document.id for document in handed_on][-1] == documents[0].id
    assert turn_behind(handed_on, layer).counters["duplicate"] == 1
    assert joined(handed_on).count("310 million") == 1


# --- hosts ------------------------------------------------------------------------------------------------------------


def test_extra_arguments_of_invoke_reach_the_host(layer: AutoPrunedLayer, host: BaseRetriever, question: str) -> None:
    """`k` and `filter` are the host's, word for word."""

    def keep(document: Document) -> bool:
        return "deltapay" not in document.metadata["tags"]

    handed_on = APLRetriever(host=host, layer=layer).invoke(question, k=2, filter=keep)
    assert host.asked == [("sync", question, {"k": 2, "filter": keep})]
    assert [document.id for document in handed_on] == ["release-purchase", "release-bluegate"]


async def test_extra_arguments_of_ainvoke_reach_the_host(
    layer: AutoPrunedLayer, host: BaseRetriever, question: str
) -> None:
    """The same, awaited."""
    handed_on = await APLRetriever(host=host, layer=layer).ainvoke(question, k=2)
    assert host.asked == [("async", question, {"k": 2})]
    assert len(handed_on) == 2


def test_extra_arguments_reach_a_vector_store(
    layer: AutoPrunedLayer, vectorstore: InMemoryVectorStore, documents: list[Document], question: str
) -> None:
    """The retriever most people have: `k` and `filter` at the call."""
    vectorstore.add_documents(documents)
    retriever = APLRetriever(host=vectorstore.as_retriever(), layer=layer)
    assert len(retriever.invoke(question)) == 4  # the vector store's own default
    assert len(retriever.invoke(question, k=6)) == 6
    (only,) = retriever.invoke(question, filter=lambda document: document.metadata["source"] == "press/people.txt")
    assert only.id == "release-people"


@pytest.mark.parametrize("knows", ["nothing", "everything"])
def test_k_holds_for_any_host(layer: AutoPrunedLayer, documents: list[Document], question: str, knows: str) -> None:
    """A retriever that knows no `k` is asked without it, and its documents are cut."""

    class Stubborn(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return documents

    class Obliging(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any, k: int = 6) -> list[Document]:
            return documents[:k]

    host = Stubborn() if knows == "nothing" else Obliging()
    assert len(APLRetriever(host=host, layer=layer, k=2).invoke(question)) == 2
    assert len(APLRetriever(host=host, layer=layer).invoke(question, k=3)) == 3
    assert len(APLRetriever(host=host, layer=layer, k=2).invoke(question, k=4)) == 4


def test_any_runnable_is_a_host(layer: AutoPrunedLayer, documents: list[Document], question: str) -> None:
    """A function or a chain from question to documents is a host, too."""
    chain = RunnableLambda(str.lower) | RunnableLambda(lambda lowered: documents if "northstar" in lowered else [])
    handed_on = APLRetriever(host=chain, layer=layer).invoke(question)
    assert turn_behind(handed_on, layer).counters["known"] == 6


def test_k_cuts_the_documents_of_a_function_that_knows_no_k(
    layer: AutoPrunedLayer, documents: list[Document], question: str
) -> None:
    """`k` at construction works for the simplest of hosts."""
    host = RunnableLambda(lambda _: documents)
    assert len(APLRetriever(host=host, layer=layer, k=2).invoke(question)) == 2


def test_hosts_of_plain_strings_are_mapped_by_text(
    layer: AutoPrunedLayer, documents: list[Document], question: str
) -> None:
    """A host without `Document` has no ids; the texts are enough."""
    host = RunnableLambda(lambda _: [document.page_content for document in documents])
    handed_on = APLRetriever(host=host, layer=layer).invoke(question)
    assert turn_behind(handed_on, layer).counters["known"] == 6


@pytest.mark.parametrize("answer", [None, "text", {"documents": []}, [1]])
def test_a_host_that_returns_no_documents_is_told_so(layer: AutoPrunedLayer, question: str, answer: Any) -> None:
    """What is not a list of documents is an `InputError` that names the type."""
    retriever = APLRetriever(host=RunnableLambda(lambda _: answer), layer=layer)
    kind = type(answer[0] if isinstance(answer, list) else answer).__name__
    with pytest.raises(InputError, match=kind):
        retriever.invoke(question)


def test_the_hosts_run_stands_under_apls_run_in_a_trace(
    layer: AutoPrunedLayer, host: BaseRetriever, question: str
) -> None:
    """Callbacks see both retrievers, the host's run as child of apl's, and what each handed on."""

    class Trace(BaseCallbackHandler):
        def __init__(self) -> None:
            self.parents: list[tuple[Any, Any]] = []
            self.ends: list[Sequence[Document]] = []

        def on_retriever_start(self, *_: Any, run_id: Any, parent_run_id: Any = None, **__: Any) -> None:
            self.parents.append((run_id, parent_run_id))

        def on_retriever_end(self, documents: Sequence[Document], **_: Any) -> None:
            self.ends.append(documents)

    trace = Trace()
    handed_on = APLRetriever(host=host, layer=layer).invoke(question, {"callbacks": [trace]})
    (outer, above), (_, parent) = trace.parents
    assert (above, parent) == (None, outer)
    assert trace.ends == [host.documents, handed_on]
