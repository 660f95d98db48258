"""A step of an ingestion pipeline that brings what it sees into the codebook."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from llama_index.core.schema import BaseNode, TransformComponent
from llama_index.core.storage.docstore import BaseDocumentStore
from pydantic import ConfigDict, PrivateAttr

from apl.reports import IndexReport, SyncReport
from llama_index_apl.docstores import KnownWithoutText, chunks_in
from llama_index_apl.holding import HoldsLayer
from llama_index_apl.nodes import index_nodes

logger = logging.getLogger(__name__)


class APLTransform(HoldsLayer, TransformComponent):
    """Indexes the nodes that pass, and hands on the very same nodes.

    Put it behind the node parser. A pipeline with a warm cache skips it, and the pipeline's upserts and deletes never
    reach it: call `sync` after such a run. An error inside apl hands the nodes on and counts in `errors`; `sync` then
    makes up for it.

    Example:
        >>> pipeline = IngestionPipeline(transformations=[splitter, APLTransform(layer=layer)])  # doctest: +SKIP

    Attributes:
        layer: An open `AutoPrunedLayer`, or a function that opens one: then the transform pickles, as a pipeline with
            `num_workers` needs it.

    Raises:
        ConfigError: An option is unknown or does not fit, or the layer has no embedder; said at construction.
        ReadOnlyStoreError: The store is open for reading.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    _report: IndexReport | None = PrivateAttr(default=None)

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.opened_layer.index([])  # a layer that cannot index says so here

    @classmethod
    def class_name(cls) -> str:
        """The name in serialised components."""
        return "APLTransform"

    @property
    def report(self) -> IndexReport | None:
        """What the last call indexed; None before the first and after an error."""
        return self._report

    def __call__(self, nodes: Sequence[BaseNode], **kwargs: Any) -> Sequence[BaseNode]:
        """Index the nodes; the same nodes are returned, untouched."""
        self._report = None
        try:
            self._report = index_nodes(self.opened_layer, nodes)
        except Exception as error:
            if self._raises:
                raise
            logger.warning("apl failed, the nodes are not indexed (%s: %s)", type(error).__name__, error, exc_info=True)
        if self._report is None or self._report.failed:
            self._held.count_error()
        return nodes

    async def acall(self, nodes: Sequence[BaseNode], **kwargs: Any) -> Sequence[BaseNode]:
        """The same; the loop is not blocked."""
        return await asyncio.to_thread(self.__call__, nodes, **kwargs)

    def sync(
        self,
        docstore: BaseDocumentStore,
        *,
        transformations: Sequence[TransformComponent] | None = None,
        delete_missing: bool = True,
        dry_run: bool = False,
    ) -> SyncReport:
        """Bring the codebook in step with a docstore: index what is missing or changed, delete what is surplus.

        The docstore's nodes themselves are compared, so no pipeline cache and no delete goes unnoticed. Chunks of the
        same text are left as they are, whatever their ids. A document whose text the docstore does not keep is left as
        it is, too. Each document is mended in one transaction; an interrupted sync is resumed by the next.

        Args:
            docstore: That of an index, which holds nodes, or that of a pipeline, which holds whole documents.
            transformations: For whole documents, the steps that make nodes of them: `pipeline.transformations`, of
                which those before an `APLTransform` are run; `[]` where documents are retrieved whole.
            delete_missing: Delete the documents of the codebook that the docstore does not know. Say False when other
                docstores fill the same codebook.
            dry_run: Only report what is missing, changed and surplus.

        Raises:
            InputError: The docstore holds whole documents, and `transformations` does not say what to do with them.
            APLError: The codebook could not be read or written; nothing is hidden here.
        """
        steps = transformations
        if steps is not None:
            steps = list(takewhile(lambda step: not isinstance(step, APLTransform), steps))
        return self.opened_layer.sync(
            chunks_in(docstore, steps),
            kept_documents=KnownWithoutText(docstore),
            delete_missing=delete_missing,
            dry_run=dry_run,
        )
