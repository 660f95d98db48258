"""The AutoPruned Layer: wraps a retriever, sends the generator the smallest payload that still holds the answer.

`import apl` is light: the store's machinery is loaded when `AutoPrunedLayer` is first named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apl.config import APLConfig
from apl.errors import APLError
from apl.reports import IndexReport
from apl.symbols import Chunk, Scope, Turn, Verdict

if TYPE_CHECKING:
    from apl.layer import AutoPrunedLayer

__all__ = ["APLConfig", "APLError", "AutoPrunedLayer", "Chunk", "IndexReport", "Scope", "Turn", "Verdict"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "AutoPrunedLayer":
        from apl.layer import AutoPrunedLayer

        return AutoPrunedLayer
    raise AttributeError(f"module 'apl' has no attribute {name!r}")
