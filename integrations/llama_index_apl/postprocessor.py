"""The main door: a node postprocessor behind the retriever you have."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import BaseNode, MetadataMode, Node, NodeWithScore, QueryBundle
from pydantic import ConfigDict, StrictBool, StrictFloat, StrictInt, field_serializer

from apl.errors import PayloadError
from apl.layer import CompressOptions, checked_options
from apl.read.placement import place
from apl.symbols import Layout, Scope, Turn
from llama_index_apl.holding import HoldsLayer
from llama_index_apl.nodes import TURN_KEY, chunk_of

logger = logging.getLogger(__name__)


class APLPostprocessor(HoldsLayer, BaseNodePostprocessor):
    """Says retrieved nodes through the layer.

    The nodes that are handed on are copies with the ids, metadata, relationships, scores and order of the host's. Their
    metadata is kept out of the prompt, so that it holds the payload and nothing else; where the host's own text goes
    out unbounded, it goes out as the host would print it. An error inside apl hands the host's nodes on and counts in
    `errors`.

    With the response modes `refine` and `accumulate` every node is a model call of its own: use `layout="single"`.
    `simple_summarize` prints a Python list around the payload and fails over several nodes without text; both are
    LlamaIndex's own.

    Example:
        >>> engine = index.as_query_engine(node_postprocessors=[APLPostprocessor(layer=layer)])  # doctest: +SKIP
        >>> engine.query("Which subsidiaries were acquired after 2021?")  # doctest: +SKIP

    Attributes:
        layer: An open `AutoPrunedLayer`, or a function that opens one: then the postprocessor pickles.
        layout: How the payload lies in the nodes; None: the layer's config.
        budget_tokens: Upper bound in tokens; at most one of the two.
        ratio: Upper bound as a share of the host's tokens.
        keep_empty: With `per_document`, keep the nodes of which nothing is said.
        scope: Whose turn it is, or a function that says so at each question: LlamaIndex hands no run metadata on. It
            is called in the context of the question, so it can read a `ContextVar`.

    Raises:
        ConfigError: An option is unknown or does not fit, said at construction.
        InputError: The two bounds are both given, or one is out of its range.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    layout: Layout | None = None
    budget_tokens: StrictInt | None = None
    ratio: StrictFloat | StrictInt | None = None
    keep_empty: StrictBool = False
    scope: Scope | Callable[[], Scope] | None = None

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._options()

    @classmethod
    def class_name(cls) -> str:
        """The name in serialised components."""
        return "APLPostprocessor"

    @field_serializer("scope")
    def _scope_said(self, scope: Any) -> Any:
        return (
            asdict(scope)
            if isinstance(scope, Scope)
            else getattr(scope, "__qualname__", scope and type(scope).__name__)
        )

    def _options(self) -> CompressOptions:
        layer = self.opened_layer
        return checked_options(
            layer,
            budget_tokens=self.budget_tokens,
            ratio=self.ratio,
            layout=self.layout or layer.config.layout,
            keep_empty=self.keep_empty,
        )

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        """The nodes with the payload in them; the originals are not touched."""
        if not nodes:
            return []
        try:
            options = self._options()
            turn = self.opened_layer.compress(
                "" if query_bundle is None else query_bundle.query_str,
                [chunk_of(node) for node in nodes],
                budget_tokens=options.budget_tokens,
                ratio=options.ratio,
                scope=self.scope() if callable(self.scope) else self.scope,
                layout=options.layout,
                keep_empty=options.keep_empty,
            )
            if turn.error is None:
                bounded = not (options.budget_tokens is None and options.ratio is None)
                return _placed(nodes, turn, bare=bounded and turn.shadow is None)
        except Exception as error:
            if self._raises:
                raise
            logger.warning("apl failed, the host's nodes go out (%s: %s)", type(error).__name__, error, exc_info=True)
        self._held.count_error()
        return list(nodes)

    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        """The same; the loop is not blocked."""
        return await asyncio.to_thread(self._postprocess_nodes, nodes, query_bundle)


def _placed(nodes: Sequence[NodeWithScore], turn: Turn, *, bare: bool) -> list[NodeWithScore]:
    """Copies of the nodes with the payload in them; `bare`: no metadata is printed, not even beside the host's text."""
    placed = []
    for number, piece in enumerate(place(turn, len(nodes))):
        handed_on = _copy_of(nodes[piece.rank])
        node = handed_on.node
        node.metadata.pop(TURN_KEY, None)
        if number == 0:
            node.metadata[TURN_KEY] = turn.id
            node.excluded_llm_metadata_keys = _with(node.excluded_llm_metadata_keys, [TURN_KEY])
            node.excluded_embed_metadata_keys = _with(node.excluded_embed_metadata_keys, [TURN_KEY])
        if piece.text is not None or bare:
            node.excluded_llm_metadata_keys = _with(node.excluded_llm_metadata_keys, list(node.metadata))
        if piece.text is not None:
            _say(node, piece.text)
        placed.append(handed_on)
    return placed


def _copy_of(found: NodeWithScore) -> NodeWithScore:
    """A deep copy, but for what is costly to copy and never changed in place: embedding and `IndexNode.obj`."""
    kept = (found.node.embedding, getattr(found.node, "obj", None))
    return copy.deepcopy(found, {id(value): copy.copy(value) if isinstance(value, list) else value for value in kept})


def _with(keys: Sequence[str], more: Sequence[str]) -> list[str]:
    return [*keys, *(key for key in more if key not in keys)]


def _say(node: BaseNode, text: str) -> None:
    """Put a text in the place of the node's.

    Raises:
        PayloadError: This kind of node would put something else into the prompt.
    """
    if node.get_content(metadata_mode=MetadataMode.NONE) != text:
        if isinstance(node, Node) and node.text_resource is not None:
            node.text_resource.text = text  # `set_content` would drop whatever else the resource holds
        else:
            node.set_content(text)
    if node.get_content(metadata_mode=MetadataMode.LLM) != text:
        raise PayloadError(f"{type(node).__name__} does not print the text that is put into it")
