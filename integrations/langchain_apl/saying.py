"""What retriever and compressor share: the options, and the way of documents through the layer."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from pydantic import BaseModel, ConfigDict, PrivateAttr, StrictBool, StrictFloat, StrictInt, ValidationError

from apl.errors import ConfigError
from apl.layer import AutoPrunedLayer, CompressOptions, checked_options
from apl.read.placement import place
from apl.symbols import Layout, Turn
from langchain_apl.documents import TURN_KEY, chunk_of, scope_of

logger = logging.getLogger(__name__)


class SaysDocuments(BaseModel):
    """Options and way of a host's documents through a layer; whatever goes wrong in there, they come back as they were.

    Raises:
        ConfigError: An option is unknown or does not fit, said at construction.
        InputError: The two bounds are both given, or one is out of its range.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    layer: AutoPrunedLayer
    layout: Layout | None = None
    budget_tokens: StrictInt | None = None
    ratio: StrictFloat | StrictInt | None = None
    keep_empty: StrictBool = False
    _errors: int = PrivateAttr(default=0)

    def __init__(self, **options: Any) -> None:
        try:
            super().__init__(**options)
        except ValidationError as error:
            faults = "; ".join(
                f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors(include_url=False)
            )
            raise ConfigError(f"{type(self).__name__} cannot be made like this: {faults}") from error
        self._options()

    @property
    def errors(self) -> int:
        """How often apl failed and the host's documents went out as they were."""
        return self._errors

    def _options(self) -> CompressOptions:
        return checked_options(
            self.layer,
            budget_tokens=self.budget_tokens,
            ratio=self.ratio,
            layout=self.layout or self.layer.config.layout,
            keep_empty=self.keep_empty,
        )

    def _say(self, documents: Sequence[Document], question: str, metadata: Mapping[str, Any] | None) -> list[Document]:
        """The documents with the payload in them; the originals are not touched."""
        if not documents:
            return []
        try:
            options = self._options()
            turn = self.layer.compress(
                question,
                [chunk_of(document) for document in documents],
                budget_tokens=options.budget_tokens,
                ratio=options.ratio,
                scope=scope_of(metadata),
                layout=options.layout,
                keep_empty=options.keep_empty,
            )
            if turn.error is None:
                return _placed(documents, turn)
        except Exception as error:
            if self.layer.config.on_error == "raise":
                raise
            logger.warning("apl failed, the host's documents go out (%s)", type(error).__name__, exc_info=True)
        self._errors += 1
        return list(documents)


def _placed(documents: Sequence[Document], turn: Turn) -> list[Document]:
    placed = []
    for number, piece in enumerate(place(turn, len(documents))):
        document = documents[piece.rank]
        metadata = {key: value for key, value in document.metadata.items() if key != TURN_KEY}
        if number == 0:
            metadata[TURN_KEY] = turn.id
        text = document.page_content if piece.text is None else piece.text
        placed.append(document.model_copy(update={"page_content": text, "metadata": metadata}))
    return placed
