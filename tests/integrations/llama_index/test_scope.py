"""Whose turn it is: LlamaIndex hands no run metadata on, so the postprocessor is told, or asks."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar

from llama_index.core.schema import NodeWithScore

from apl import AutoPrunedLayer, Scope
from apl.symbols import Turn
from llama_index_apl import APLPostprocessor, turn_of

CURRENT: ContextVar[str] = ContextVar("CURRENT", default="")


def turn_behind(nodes: Sequence[NodeWithScore], layer: AutoPrunedLayer) -> Turn:
    """The turn, which has to be there."""
    turn = turn_of(nodes, layer)
    assert turn is not None
    return turn


def current_scope() -> Scope:
    """The scope of whoever asks, as a web application keeps it."""
    return Scope("acme", CURRENT.get())


async def test_the_scope_is_given_or_asked_for_at_each_question(
    layer: AutoPrunedLayer, nodes: list[NodeWithScore], question: str
) -> None:
    """A `Scope`, or a function that is called in the context of the question, sync and awaited."""
    fixed = APLPostprocessor(layer=layer, scope=Scope("acme", "ada", "s1"))
    assert turn_behind(fixed.postprocess_nodes(nodes), layer).scope == Scope("acme", "ada", "s1")
    assert turn_behind(APLPostprocessor(layer=layer).postprocess_nodes(nodes), layer).scope == Scope()
    asking = APLPostprocessor(layer=layer, scope=current_scope)
    for user in ("ada", "bob"):
        token = CURRENT.set(user)
        assert turn_behind(asking.postprocess_nodes(nodes), layer).scope == Scope("acme", user)
        assert turn_behind(await asking.apostprocess_nodes(nodes), layer).scope == Scope("acme", user)
        CURRENT.reset(token)


def test_a_scope_that_cannot_be_told_is_nobodys(layer: AutoPrunedLayer, nodes: list[NodeWithScore]) -> None:
    """Where the function fails or answers with something else, nobody is taken for somebody: the host's nodes go out."""
    for scope in (lambda: 1 / 0, lambda: "ada"):
        postprocessor = APLPostprocessor(layer=layer, scope=scope)
        handed_on = postprocessor.postprocess_nodes(nodes)
        assert all(one is other for one, other in zip(handed_on, nodes, strict=True))
        assert postprocessor.errors == 1
