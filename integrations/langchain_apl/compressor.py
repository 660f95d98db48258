"""The side door: a document compressor for pipelines that have a place for one."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.runnables.config import run_in_executor
from pydantic import ConfigDict

from langchain_apl.saying import SaysDocuments


class APLCompressor(SaysDocuments, BaseDocumentCompressor):
    """Says retrieved documents through the layer.

    `ContextualCompressionRetriever` (in `langchain_classic`) never calls a compressor on an empty result;
    `APLRetriever` has no such gap. The scope comes from the metadata of the callbacks' run. An error inside apl hands
    the documents on and counts in `errors`.

    Attributes:
        layer: An open `AutoPrunedLayer`.
        layout: How the payload lies in the documents; None: the layer's config.
        budget_tokens: Upper bound in tokens; at most one of the two.
        ratio: Upper bound as a share of the host's tokens.
        keep_empty: With `per_document`, keep the documents of which nothing is said.
    """

    model_config = ConfigDict(extra="forbid")

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """The documents with the payload in them."""
        return self._say(documents, query, getattr(callbacks, "metadata", None))

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """The same; the loop is not blocked."""
        return await run_in_executor(None, self.compress_documents, documents, query, callbacks)
