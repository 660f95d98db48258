"""Runs: coherent stretches of an edge sequence in reading order (paper 3.4). Pure.

Until turns are remembered nothing retrieves by run, so a text is one run; the boundaries come with the memory.
"""

from __future__ import annotations

from collections.abc import Sequence


def segment(edge_ids: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The runs of a text's edges: one, each edge at its first place; none for a text without edges."""
    run = tuple(dict.fromkeys(edge_ids))
    return (run,) if run else ()
