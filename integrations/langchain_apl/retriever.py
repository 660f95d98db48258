"""The main door: a retriever around the retriever you have."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import run_in_executor
from pydantic import PrivateAttr, field_validator

from apl.errors import InputError
from apl.layer import AutoPrunedLayer
from apl.symbols import Layout
from langchain_apl.documents import DocumentRewriter


class APLRetriever(BaseRetriever):
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

    host: Any
    layer: AutoPrunedLayer
    layout: Layout | None = None
    budget_tokens: int | None = None
    ratio: float | None = None
    keep_empty: bool = False
    k: int | None = None
    _rewriter: DocumentRewriter = PrivateAttr()

    @field_validator("host")
    @classmethod
    def _host_is_runnable(cls, host: Any) -> Any:
        if not callable(getattr(host, "invoke", None)):
            raise InputError(f"host has to be a retriever or runnable with `invoke`, not {type(host).__name__}")
        return host

    def model_post_init(self, _context: Any) -> None:
        """Prepare the way through the layer."""
        self._rewriter = DocumentRewriter(
            self.layer,
            layout=self.layout,
            budget_tokens=self.budget_tokens,
            ratio=self.ratio,
            keep_empty=self.keep_empty,
        )

    @property
    def errors(self) -> int:
        """How often apl failed and the host's documents went out instead."""
        return self._rewriter.errors

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        asked = self._host_arguments(kwargs)
        found = self.host.invoke(query, _child_config(run_manager), **asked)
        return self._rewriter.rewrite(_documents(found, asked.get("k")), query, run_manager.metadata)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        asked = self._host_arguments(kwargs)
        found = await self.host.ainvoke(query, _child_config(run_manager), **asked)
        documents = _documents(found, asked.get("k"))
        return await run_in_executor(None, self._rewriter.rewrite, documents, query, run_manager.metadata)

    def _host_arguments(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments if self.k is None else {"k": self.k, **arguments}


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
    return documents[:k] if isinstance(k, int) else documents
