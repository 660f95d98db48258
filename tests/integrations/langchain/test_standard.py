"""LangChain's own standard tests of a retriever, with apl around a plain host."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.retrievers import BaseRetriever
from langchain_tests.integration_tests import RetrieversIntegrationTests

from apl import AutoPrunedLayer
from langchain_apl import APLRetriever


class TestAPLRetrieverStandard(RetrieversIntegrationTests):
    """The payload in the first document, all documents kept: `k` means what LangChain says it means."""

    @pytest.fixture(autouse=True)
    def _parts(self, layer: AutoPrunedLayer, host: BaseRetriever, question: str) -> None:
        self._params = {"host": host, "layer": layer}
        self._question = question

    @property
    def retriever_constructor(self) -> type[APLRetriever]:
        """What is tested."""
        return APLRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        """A host that has six documents for every question, and a layer that knows them."""
        return self._params

    @property
    def retriever_query_example(self) -> str:
        """The story's question."""
        return self._question
