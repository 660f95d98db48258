"""Vectors as they lie in the store: float16 bytes, rounded once, before their first use."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from apl.protocols import Vectors


def to_bytes(vectors: Vectors) -> list[bytes]:
    """One float16 blob a row, little-endian."""
    return [row.tobytes() for row in vectors.astype("<f2")]


def from_bytes(blobs: Sequence[bytes]) -> NDArray[np.float32]:
    """Shape (len(blobs), dimension), float32; the blobs have to be of one dimension."""
    if not blobs:
        return np.zeros((0, 0), dtype=np.float32)
    return np.frombuffer(b"".join(blobs), dtype="<f2").reshape(len(blobs), -1).astype(np.float32)
