"""The main door: a retriever around the retriever you have."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.config import run_in_executor
from pydantic import ConfigDict, Field, StrictInt, field_validator

from apl.errors import InputError
from langchain_apl.saying import SaysDocuments


class APLRetriever(SaysDocuments, BaseRetriever):
    """Asks the host retriever, then says its documents through the layer.

    Extra keyword arguments of `invoke` reach the host. The scope is read from `config["metadata"]`: `apl_tenant`,
    `apl_user`, `apl_session`. An error inside apl hands the host's documents on and counts in `errors`; an error of the
    host is the host's.

    Example:
        >>> retriever = APLRetriever(host=vectorstore.as_retriever(), layer=layer)  # doctest: +SKIP
        >>> retriever.invoke("Which subsidiaries were acquired after 2021?")  # doctest: +SKIP

    Attributes:
        host: Any retriever, or any runnable from a question to documents.
        layer: An open `AutoPrunedLayer`.
        layout: How the payload lies in the documents; None: the layer's config.
        budget_tokens: Upper bound in tokens; at most one of the two.
        ratio: Upper bound as a share of the host's tokens.
        keep_empty: With `per_document`, keep the documents of which nothing is said.
        k: Documents to ask the host for; None: as the host likes.
    """

    model_config = ConfigDict(extra="forbid")

    host: Any
    k: Annotated[StrictInt, Field(ge=1)] | None = None

    @field_validator("host")
    @classmethod
    def _host_is_runnable(cls, host: Any) -> Any:
        if callable(getattr(host, "invoke", None)):
            return host
        raise ValueError(f"has to be a retriever or runnable with `invoke`, not {type(host).__name__}")

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        found = self.host.invoke(query, _child_config(run_manager), **self._host_arguments(kwargs))
        return self._say(_documents(found, kwargs.get("k", self.k)), query, run_manager.metadata)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        arguments = self._host_arguments(kwargs)
        if callable(getattr(self.host, "ainvoke", None)):
            found = await self.host.ainvoke(query, _child_config(run_manager), **arguments)
        else:
            config = _child_config(run_manager.get_sync())
            found = await run_in_executor(None, partial(self.host.invoke, query, config, **arguments))
        documents = _documents(found, kwargs.get("k", self.k))
        return await run_in_executor(None, self._say, documents, query, run_manager.metadata)

    def _host_arguments(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """What the caller asked for; the constructor's `k` only for a host that can be told."""
        return {"k": self.k, **arguments} if self.k is not None and _is_retriever(self.host) else arguments


def _is_retriever(host: Any) -> bool:
    while isinstance(host, RunnableBindingBase):
        host = host.bound
    return isinstance(host, BaseRetriever)


def _child_config(run_manager: CallbackManagerForRetrieverRun | AsyncCallbackManagerForRetrieverRun) -> RunnableConfig:
    return {"callbacks": run_manager.get_child(), "metadata": dict(run_manager.metadata)}


def _documents(found: Any, k: Any) -> list[Document]:
    """The host's answer as documents; plain strings are documents without an id."""
    if not isinstance(found, list | tuple):
        raise InputError(f"the host returned {type(found).__name__}; a retriever returns a list of Documents")
    documents = [Document(page_content=item) if isinstance(item, str) else item for item in found]
    for document in documents:
        if not isinstance(document, Document):
            raise InputError(f"the host returned a list with {type(document).__name__} in it, not Documents")
    return documents[:k] if isinstance(k, int) and k >= 0 else documents
