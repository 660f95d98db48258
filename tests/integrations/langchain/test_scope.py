"""Whose turn it is: the scope comes from the metadata of the run, on every way into the retriever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda

from apl import AutoPrunedLayer, Scope
from apl.symbols import Turn
from langchain_apl import APLRetriever, turn_of


def turn_behind(documents: Sequence[Document], layer: AutoPrunedLayer) -> Turn:
    """The turn, which has to be there."""
    turn = turn_of(documents, layer)
    assert turn is not None
    return turn


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
