"""How the payload lies in the documents, and that the counted tokens are those that are handed on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, get_args

import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from apl import AutoPrunedLayer
from apl.symbols import Form, Layout, Turn
from apl.testing import WordCounter
from langchain_apl import APLRetriever, turn_of

LAYOUTS = get_args(Layout)
FORMS = (*get_args(Form), "quotes", "host_text")


def joined(documents: Sequence[Document]) -> str:
    """What a chain makes of documents."""
    return "\n\n".join(document.page_content for document in documents)


def turn_behind(documents: Sequence[Document], layer: AutoPrunedLayer) -> Turn:
    """The turn, which has to be there."""
    turn = turn_of(documents, layer)
    assert turn is not None
    return turn


@pytest.mark.parametrize("counter", [WordCounter(), len], ids=["words", "characters"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("form", FORMS)
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
        pytest.skip("a ConfigError, tested in test_failures")
    layer = open_layer(tokenizer=counter, form=form)
    count = getattr(counter, "count", counter)
    handed_on = APLRetriever(host=host, layer=layer, layout=layout).invoke(question)
    turn = turn_behind(handed_on, layer)
    assert turn.text == joined(handed_on)
    assert turn.tokens == count(joined(handed_on)) <= turn.host_tokens == count(joined(host.documents))
    if counter is len or form not in ("edge_reference", "inline_triple"):  # by words an index form saves nothing here
        assert turn.form == form
    assert turn.layout == layout


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("budget_tokens", [1, 5, 25, 60, 120, 10_000])
def test_a_budget_holds_for_what_is_handed_on(
    open_layer: Callable[..., AutoPrunedLayer], host: BaseRetriever, question: str, layout: Layout, budget_tokens: int
) -> None:
    """The bytes in the documents fit the budget, down to one that nothing fits."""
    layer = open_layer(form="outline")
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
    assert first.page_content.startswith("Facts by head")
    assert [document.page_content for document in others] == [""] * 5


def test_single_hands_on_one_document(layer: AutoPrunedLayer, host: BaseRetriever, question: str) -> None:
    """The payload in the host's first document, nothing else."""
    (only,) = APLRetriever(host=host, layer=layer, layout="single").invoke(question)
    assert only.id == "release-purchase"
    assert only.page_content.startswith("Facts by head")


def test_per_document_lets_each_document_say_its_own(
    open_layer: Callable[..., AutoPrunedLayer], host: BaseRetriever, question: str
) -> None:
    """Every line stands in the document it comes from; boilerplate is said by each that has it."""
    handed_on = APLRetriever(host=host, layer=open_layer(form="outline"), layout="per_document").invoke(question)
    texts = {document.id: document.page_content for document in handed_on}
    assert "310 million euros" in texts["release-purchase"]
    assert "settles card payments" in texts["release-deltapay"]
    assert "Ingrid Solberg: leads DeltaPay" in texts["release-people"]
    assert all("Bergen" in text for text in texts.values())


def test_per_document_drops_documents_of_which_nothing_is_said(
    open_layer: Callable[..., AutoPrunedLayer], host: BaseRetriever, question: str
) -> None:
    """Under a budget only the documents that are quoted go on; `keep_empty` keeps all of them, emptied."""
    layer = open_layer(form="outline")
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
    layer = open_layer(form="host_text")
    handed_on = APLRetriever(host=host, layer=layer, layout=layout).invoke(question)
    assert [document.page_content for document in handed_on] == [d.page_content for d in host.documents]
    assert (turn_behind(handed_on, layer).form, turn_behind(handed_on, layer).savings) == ("host_text", 0)


def test_host_text_passes_in_one_document_when_one_is_asked_for(
    open_layer: Callable[..., AutoPrunedLayer], host: BaseRetriever, question: str
) -> None:
    """`single` joins the host's texts by a blank line, nothing else."""
    layer = open_layer(form="host_text")
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
