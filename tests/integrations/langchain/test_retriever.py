"""APLRetriever around a host: what comes through, what is counted, what happens when something breaks."""

from __future__ import annotations

import asyncio
import copy
import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

import pytest
from langchain_apl import APLRetriever, turn_of
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import ConfigurableField, RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore
from pydantic import ValidationError

from apl import APLConfig, AutoPrunedLayer, Scope
from apl.errors import APLError, ConfigError, InputError
from apl.protocols import Vectors
from apl.symbols import Layout, Turn
from apl.testing import HashEmbedder, WordCounter

LAYOUTS = get_args(Layout)
OUTLINE = {"forms": ("outline",)}
WAYS = {
    "edge_reference": {"forms": ("edge_reference",)},
    "inline_triple": {"forms": ("inline_triple",)},
    "outline": OUTLINE,
    "quotes": {"mode": "text", "ratio": 0.5, **OUTLINE},
    "host_text": {"mode": "text", **OUTLINE},
}
"""Knobs that make the story's payload go out in each form."""


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
    layer = open_layer(**WAYS[form])
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
    handed_on = APLRetriever(host=host, layer=open_layer(**WAYS[form]), layout=layout).invoke(question)
    for document in handed_on:
        document.page_content = "an application may do as it likes"
        document.metadata["rank"] = 1
    assert host.documents == before


@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_tiny_metadata_key_is_added_to_the_first_document(
    open_layer: Callable[..., AutoPrunedLayer], host: BaseRetriever, question: str, layout: Layout
) -> None:
    """`apl_turn`, a short string, on the first document only: users print metadata into prompts."""
    layer = open_layer(**OUTLINE)
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


# --- scope ------------------------------------------------------------------------------------------------------------

ADA = {"apl_tenant": "acme", "apl_user": "ada", "apl_session": "s1"}
BOB = {"apl_tenant": "acme", "apl_user": "bob", "apl_session": "s2"}
SCOPES = [Scope("acme", "ada", "s1"), Scope("acme", "bob", "s2")]


def test_scope_comes_from_the_metadata_of_the_run(layer: AutoPrunedLayer, host: BaseRetriever, question: str) -> None:
    """`config["metadata"]` says whose turn it is, in `invoke` and in every call of a `batch`."""
    retriever = APLRetriever(host=host, layer=layer)
    assert turn_behind(retriever.invoke(question, {"metadata": ADA}), layer).scope == SCOPES[0]
    batch = retriever.batch([question, question], [{"metadata": ADA}, {"metadata": BOB}])
    assert [turn_behind(documents, layer).scope for documents in batch] == SCOPES
    assert turn_behind(retriever.invoke(question), layer).scope == Scope()


async def test_scope_comes_from_the_metadata_of_the_awaited_run(
    layer: AutoPrunedLayer, host: BaseRetriever, question: str
) -> None:
    """The same with `ainvoke` and `abatch`."""
    retriever = APLRetriever(host=host, layer=layer)
    assert turn_behind(await retriever.ainvoke(question, {"metadata": ADA}), layer).scope == SCOPES[0]
    batch = await retriever.abatch([question, question], [{"metadata": ADA}, {"metadata": BOB}])
    assert [turn_behind(documents, layer).scope for documents in batch] == SCOPES
    assert turn_behind(await retriever.ainvoke(question), layer).scope == Scope()


async def test_scope_comes_through_a_chain(layer: AutoPrunedLayer, host: BaseRetriever, question: str) -> None:
    """The config of the whole chain is enough; the host hears of it as well."""
    heard: list[dict[str, Any]] = []

    class Listening(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            heard.append(dict(run_manager.metadata))
            return host.documents

    chain = RunnableLambda(str.strip) | APLRetriever(host=Listening(), layer=layer)
    assert turn_behind(chain.invoke(question, {"metadata": ADA}), layer).scope == SCOPES[0]
    assert turn_behind(await chain.ainvoke(question, {"metadata": BOB}), layer).scope == SCOPES[1]
    assert [metadata["apl_user"] for metadata in heard] == ["ada", "bob"]


def test_scope_may_stand_on_the_retriever(layer: AutoPrunedLayer, host: BaseRetriever, question: str) -> None:
    """One retriever a user, by its own `metadata` or by `with_config`."""
    own = APLRetriever(host=host, layer=layer, metadata=ADA)
    assert turn_behind(own.invoke(question), layer).scope == SCOPES[0]
    configured = APLRetriever(host=host, layer=layer).with_config(metadata=BOB)
    assert turn_behind(configured.invoke(question), layer).scope == SCOPES[1]


@pytest.mark.parametrize("user", [0, 7])
def test_numbers_are_users_too(layer: AutoPrunedLayer, host: BaseRetriever, question: str, user: int) -> None:
    """A database's user 0 is somebody, not nobody."""
    handed_on = APLRetriever(host=host, layer=layer).invoke(question, {"metadata": {"apl_user": user}})
    assert turn_behind(handed_on, layer).scope == Scope(user=str(user))


def test_scope_is_not_read_from_configurable(layer: AutoPrunedLayer, host: BaseRetriever, question: str) -> None:
    """`configurable` never reaches a retriever; nobody is taken for somebody."""
    handed_on = APLRetriever(host=host, layer=layer).invoke(question, {"configurable": {"thread_id": "t"}})
    assert turn_behind(handed_on, layer).scope == Scope()


# --- layouts and tokens -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("counter", [WordCounter(), len], ids=["words", "characters"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("form", WAYS)
def test_the_turn_counts_the_tokens_of_what_is_handed_on(
    open_layer: Callable[..., AutoPrunedLayer],
    host: BaseRetriever,
    question: str,
    counter: Any,
    layout: Layout,
    form: str,
) -> None:
    """Exactly those of the documents joined by a blank line, in every layout and form, never more than the host's."""
    if layout == "per_document" and form in ("edge_reference", "inline_triple"):
        pytest.skip("a ConfigError, tested below")
    layer = open_layer(tokenizer=counter, **WAYS[form])
    count = getattr(counter, "count", counter)
    handed_on = APLRetriever(host=host, layer=layer, layout=layout).invoke(question)
    turn = turn_behind(handed_on, layer)
    assert turn.text == joined(handed_on)
    assert turn.tokens == count(joined(handed_on)) <= turn.host_tokens == count(joined(host.documents))
    if counter is len and form == "host_text" and layout == "single":
        form = "quotes"  # parted by one line break instead of two: five characters are a gain
    if counter is len or form not in ("edge_reference", "inline_triple"):  # by words an index form saves nothing here
        assert turn.form == form
    assert turn.layout == layout


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("budget_tokens", [1, 5, 25, 60, 120, 10_000])
def test_a_budget_holds_for_what_is_handed_on(
    open_layer: Callable[..., AutoPrunedLayer], host: BaseRetriever, question: str, layout: Layout, budget_tokens: int
) -> None:
    """The bytes in the documents fit the budget, down to one that nothing fits."""
    layer = open_layer(**OUTLINE)
    retriever = APLRetriever(host=host, layer=layer, layout=layout, budget_tokens=budget_tokens)
    handed_on = retriever.invoke(question)
    assert WordCounter().count(joined(handed_on)) <= budget_tokens
    assert retriever.errors == 0
    turn = turn_of(handed_on, layer)
    assert turn is None or turn.text == joined(handed_on)


def test_a_ratio_holds_for_what_is_handed_on(layer: AutoPrunedLayer, host: BaseRetriever, question: str) -> None:
    """A share of the host's tokens."""
    handed_on = APLRetriever(host=host, layer=layer, ratio=0.2).invoke(question)
    turn = turn_behind(handed_on, layer)
    assert 0 < WordCounter().count(joined(handed_on)) == turn.tokens <= 0.2 * turn.host_tokens
    assert "acquired DeltaPay in March 2022" in turn.text


def test_spread_puts_the_payload_first_and_keeps_all_others_empty(
    layer: AutoPrunedLayer, host: BaseRetriever, question: str
) -> None:
    """The default layout: `k` documents stay `k` documents."""
    first, *others = APLRetriever(host=host, layer=layer).invoke(question)
    assert first.page_content.startswith("Facts by head:")
    assert [document.page_content for document in others] == [""] * 5


def test_single_hands_on_one_document(layer: AutoPrunedLayer, host: BaseRetriever, question: str) -> None:
    """The payload in the host's first document, nothing else."""
    (only,) = APLRetriever(host=host, layer=layer, layout="single").invoke(question)
    assert only.id == "release-purchase"
    assert only.page_content.startswith("Facts by head:")


def test_per_document_lets_each_document_say_its_own(
    open_layer: Callable[..., AutoPrunedLayer], host: BaseRetriever, question: str
) -> None:
    """Every line stands in the document it comes from; the boilerplate is said by the first that has it."""
    handed_on = APLRetriever(host=host, layer=open_layer(**OUTLINE), layout="per_document").invoke(question)
    texts = {document.id: document.page_content for document in handed_on}
    assert "310 million euros" in texts["release-purchase"]
    assert "settles card payments" in texts["release-deltapay"]
    assert "Ingrid Solberg: leads DeltaPay" in texts["release-people"]
    assert ["Bergen" in text for text in texts.values()] == [True, False, False, False, False, False]


def test_per_document_drops_documents_of_which_nothing_is_said(
    open_layer: Callable[..., AutoPrunedLayer], host: BaseRetriever, question: str
) -> None:
    """Under a budget only the documents that are quoted go on; `keep_empty` keeps all of them, emptied."""
    layer = open_layer(**OUTLINE)
    options = {"host": host, "layer": layer, "layout": "per_document", "budget_tokens": 50}
    dropped = APLRetriever(**options).invoke(question)
    kept = APLRetriever(**options, keep_empty=True).invoke(question)
    assert 0 < len(dropped) < len(kept) == 6
    assert all(document.page_content for document in dropped)
    said = [document for document in kept if document.page_content]
    assert [(d.id, d.page_content) for d in said] == [(d.id, d.page_content) for d in dropped]
    assert turn_behind(kept, layer).text == joined(kept)


def test_the_layout_of_the_config_is_the_default(
    open_layer: Callable[..., AutoPrunedLayer], host: BaseRetriever, question: str
) -> None:
    """`APLConfig(layout=...)` holds where the retriever names none, and only there."""
    layer = open_layer(layout="single")
    assert len(APLRetriever(host=host, layer=layer).invoke(question)) == 1
    assert len(APLRetriever(host=host, layer=layer, layout="spread").invoke(question)) == 6


@pytest.mark.parametrize("layout", ["spread", "per_document"])
def test_host_text_passes_unchanged(
    open_layer: Callable[..., AutoPrunedLayer], host: BaseRetriever, question: str, layout: Layout
) -> None:
    """Where nothing is saved every document keeps its own text, and the saving is reported as 0."""
    layer = open_layer(**WAYS["host_text"])
    handed_on = APLRetriever(host=host, layer=layer, layout=layout).invoke(question)
    assert [document.page_content for document in handed_on] == [d.page_content for d in host.documents]
    assert (turn_behind(handed_on, layer).form, turn_behind(handed_on, layer).savings) == ("host_text", 0)


def test_host_text_passes_in_one_document_when_one_is_asked_for(
    open_layer: Callable[..., AutoPrunedLayer], host: BaseRetriever, question: str
) -> None:
    """`single` joins the host's texts by a blank line, nothing else."""
    layer = open_layer(**WAYS["host_text"])
    (only,) = APLRetriever(host=host, layer=layer, layout="single").invoke(question)
    assert only.page_content == joined(host.documents)


def test_a_layer_that_knows_nothing_hands_on_the_hosts_text(
    open_layer: Callable[..., AutoPrunedLayer], host: BaseRetriever, question: str
) -> None:
    """Wrapped before anything was indexed, the retriever works as before."""
    layer = open_layer(indexed=False)
    handed_on = APLRetriever(host=host, layer=layer).invoke(question)
    assert [document.page_content for document in handed_on] == [d.page_content for d in host.documents]
    assert turn_behind(handed_on, layer).counters["unknown"] == 6


# --- async ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("form", ["outline", "quotes", "host_text"])
async def test_sync_and_async_agree_byte_for_byte(
    open_layer: Callable[..., AutoPrunedLayer], host: BaseRetriever, question: str, layout: Layout, form: str
) -> None:
    """The same documents, the same turn; only the turn's id differs."""
    layer = open_layer(**WAYS[form])
    retriever = APLRetriever(host=host, layer=layer, layout=layout)
    one, other = retriever.invoke(question), await retriever.ainvoke(question)
    assert turn_behind(one, layer) == turn_behind(other, layer)
    assert [d.model_dump_json() for d in _unmarked(one)] == [d.model_dump_json() for d in _unmarked(other)]


def _unmarked(documents: Sequence[Document]) -> list[Document]:
    return [document.model_copy(update={"metadata": without_mark(document)}) for document in documents]


async def test_async_asks_the_hosts_own_async_path(layer: AutoPrunedLayer, host: BaseRetriever, question: str) -> None:
    """`ainvoke` awaits the host; its sync path is not touched, and the other way round."""
    retriever = APLRetriever(host=host, layer=layer)
    await retriever.ainvoke(question)
    await retriever.abatch([question, question])
    assert [way for way, *_ in host.asked] == ["async"] * 3
    host.asked.clear()
    retriever.invoke(question)
    assert [way for way, *_ in host.asked] == ["sync"]


class GatedEmbedder(HashEmbedder):
    """Once armed, waits in `embed` until somebody else lets it go."""

    def __init__(self) -> None:
        super().__init__()
        self.armed = False
        self.entered, self.released = threading.Event(), threading.Event()

    def embed(self, texts: Sequence[str]) -> Vectors:
        """The vectors, late."""
        if self.armed:
            self.entered.set()
            if not self.released.wait(timeout=10):
                raise TimeoutError("nobody else could run")
        return super().embed(texts)


async def test_the_loop_goes_on_while_the_core_works(
    open_layer: Callable[..., AutoPrunedLayer], host: BaseRetriever, question: str
) -> None:
    """A question's vector that takes its time blocks no other task: one of them lets the embedder go."""
    embedder = GatedEmbedder()
    retriever = APLRetriever(host=host, layer=open_layer(embedder=embedder), budget_tokens=60)
    embedder.armed = True
    waiting = asyncio.create_task(retriever.ainvoke(question))
    ticks = 0
    while ticks < 20 and not waiting.done():
        await asyncio.sleep(0.001)
        ticks += embedder.entered.is_set()
    embedder.released.set()
    assert len(await waiting) == 6
    assert (ticks, retriever.errors) == (20, 0)


async def test_many_awaited_questions_do_not_get_in_each_others_way(
    layer: AutoPrunedLayer, host: BaseRetriever
) -> None:
    """Every caller gets the turn of its own question."""
    retriever = APLRetriever(host=host, layer=layer)
    questions = [f"Who leads DeltaPay? ({number})" for number in range(20)]
    answers = await asyncio.gather(*(retriever.ainvoke(asked) for asked in questions))
    assert [turn_behind(documents, layer).question for documents in answers] == questions


# --- errors inside apl ------------------------------------------------------------------------------------------------


class Breakable:
    """An embedder and counter that work until they are told to break."""

    def __init__(self) -> None:
        self.broken = False

    def check(self) -> None:
        """Break, if told to."""
        if self.broken:
            raise RuntimeError("broken on purpose")


class BreakableEmbedder(Breakable, HashEmbedder):
    """Breaks when it embeds."""

    def __init__(self) -> None:
        Breakable.__init__(self)
        HashEmbedder.__init__(self)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """The vectors."""
        self.check()
        return super().embed(texts)


class BreakableCounter(Breakable, WordCounter):
    """Breaks when it counts."""

    def count(self, text: str) -> int:
        """The tokens."""
        self.check()
        return super().count(text)


@pytest.fixture(params=["tokenizer", "embedder", "store"])
def broken(
    request: pytest.FixtureRequest, open_layer: Callable[..., AutoPrunedLayer], host: BaseRetriever, tmp_path: Path
) -> APLRetriever:
    """A retriever with something broken inside apl, after everything had worked."""
    embedder, counter, path = BreakableEmbedder(), BreakableCounter(), tmp_path / "breakable.db"
    layer = open_layer(embedder=embedder, tokenizer=counter, path=path)
    retriever = APLRetriever(host=host, layer=layer, budget_tokens=60)
    retriever.invoke("Does it work?")
    assert retriever.errors == 0
    if request.param == "store":
        layer.close()
        for file in tmp_path.glob("breakable.db*"):
            file.write_bytes(b"no database any more" * 1000)
    else:
        {"tokenizer": counter, "embedder": embedder}[request.param].broken = True
    return retriever


def test_an_error_inside_apl_hands_the_hosts_documents_on(
    broken: APLRetriever, question: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The very objects of the host, one warning, one error counted: a question is never lost to apl."""
    before = copy.deepcopy(broken.host.documents)
    handed_on = broken.invoke(question)
    assert len(handed_on) == 6
    assert all(one is other for one, other in zip(handed_on, broken.host.documents, strict=True))
    assert broken.host.documents == before
    assert broken.errors == 1
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [record.levelname for record in warnings] == ["WARNING"]
    assert warnings[0].name.startswith(("apl.", "langchain_apl."))


async def test_an_error_inside_apl_hands_the_hosts_documents_on_when_awaited(
    broken: APLRetriever, question: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The same, awaited, and counted again."""
    for errors in (1, 2):
        caplog.clear()
        handed_on = await broken.ainvoke(question)
        assert all(one is other for one, other in zip(handed_on, broken.host.documents, strict=True))
        assert broken.errors == errors
        assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == 1


def test_a_broken_embedder_is_not_needed_without_a_budget(
    open_layer: Callable[..., AutoPrunedLayer], host: BaseRetriever, question: str
) -> None:
    """Without a bound nothing is embedded, and no extractor is asked either."""
    embedder = BreakableEmbedder()
    layer = open_layer(embedder=embedder)
    embedder.broken = True
    retriever = APLRetriever(host=host, layer=layer)
    assert turn_behind(retriever.invoke(question), layer).form == "outline"
    assert retriever.errors == 0


def test_on_error_raise_raises_through_the_retriever(
    open_layer: Callable[..., AutoPrunedLayer], host: BaseRetriever, question: str
) -> None:
    """`APLConfig(on_error="raise")` is for tests of applications: the adapter does not swallow what it lets through."""
    counter = BreakableCounter()
    retriever = APLRetriever(host=host, layer=open_layer(tokenizer=counter, on_error="raise"))
    counter.broken = True
    with pytest.raises(RuntimeError, match="broken on purpose"):
        retriever.invoke(question)


async def test_errors_of_the_host_are_the_hosts(layer: AutoPrunedLayer, question: str) -> None:
    """What the host raises comes through as it is and is not counted as apl's."""

    class HostError(Exception):
        pass

    class Failing(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            raise HostError(query)

    retriever = APLRetriever(host=Failing(), layer=layer)
    with pytest.raises(HostError, match="acquire"):
        retriever.invoke(question)
    with pytest.raises(HostError, match="acquire"):
        await retriever.ainvoke(question)
    assert retriever.errors == 0


# --- options ----------------------------------------------------------------------------------------------------------

WRONG_OPTIONS: dict[str, dict[str, Any]] = {
    "both bounds": {"budget_tokens": 100, "ratio": 0.5},
    "ratio 0": {"ratio": 0},
    "ratio above 1": {"ratio": 1.5},
    "ratio no number": {"ratio": "half"},
    "budget 0": {"budget_tokens": 0},
    "budget no number": {"budget_tokens": "many"},
    "unknown layout": {"layout": "scattered"},
    "per_document with an index form": {"layout": "per_document"},
    "keep_empty no truth value": {"keep_empty": "perhaps"},
    "host without invoke": {"host": object()},
    "layer that is none": {"layer": "kb.db"},
    "negative k": {"k": -1},
    "misspelled": {"budget": 100},
}


@pytest.mark.parametrize("options", WRONG_OPTIONS.values(), ids=WRONG_OPTIONS.keys())
def test_wrong_options_raise_at_construction(
    layer: AutoPrunedLayer, host: BaseRetriever, options: dict[str, Any]
) -> None:
    """An error of apl's own that says how to mend it, before the first question."""
    with pytest.raises(APLError) as raised:
        APLRetriever(**{"host": host, "layer": layer, **options})
    assert not isinstance(raised.value, ValidationError)
    assert len(str(raised.value)) > 20


@pytest.mark.parametrize("config", [APLConfig(), APLConfig(forms=("edge_reference", "outline")), APLConfig.paper()])
def test_per_document_needs_line_forms(
    layer: AutoPrunedLayer, host: BaseRetriever, tmp_path: Path, config: APLConfig
) -> None:
    """An index form cannot be cut into documents: `ConfigError` at construction, with the way out in it."""
    with (
        AutoPrunedLayer.open(tmp_path / "paper.db", tokenizer=WordCounter(), config=config) as other,
        pytest.raises(ConfigError, match=r'forms=\("outline",\)'),
    ):
        APLRetriever(host=host, layer=other, layout="per_document")


def test_a_budget_without_an_embedder_raises_at_construction(host: BaseRetriever, tmp_path: Path) -> None:
    """Else every question would go out whole with a warning, and the budget would never hold."""
    with (
        AutoPrunedLayer.open(tmp_path / "bare.db", tokenizer=WordCounter()) as bare,
        pytest.raises(ConfigError, match="embedder"),
    ):
        APLRetriever(host=host, layer=bare, budget_tokens=100)


def test_options_can_be_configurable_fields(layer: AutoPrunedLayer, host: BaseRetriever, question: str) -> None:
    """LangChain's way to choose an option at the call works, and the choice is checked."""
    retriever = APLRetriever(host=host, layer=layer).configurable_fields(layout=ConfigurableField(id="layout"))
    assert len(retriever.invoke(question)) == 6
    assert len(retriever.with_config(configurable={"layout": "single"}).invoke(question)) == 1
    with pytest.raises(ConfigError):
        retriever.with_config(configurable={"layout": "per_document"}).invoke(question)
