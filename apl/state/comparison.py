"""Whether two stores say the same: equal natural keys, vectors within a tolerance; row ids and times do not count."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import numpy as np

_TRIPLES = """
    (SELECT e.id, h.name || ' | ' || r.name || ' | ' || t.name AS said FROM edges e JOIN entities h ON h.id = e.head_id
    JOIN relations r ON r.id = e.relation_id JOIN entities t ON t.id = e.tail_id)"""

_CONTENT = {
    "documents": "SELECT key FROM documents",
    "chunks": """
        SELECT c.key, d.key, c.position, c.title, c.text, c.content_hash, c.tokens, hex(c.title_terms), c.extractor
        FROM chunks c
        JOIN documents d ON d.id = c.document_id""",
    "sentences": """
        SELECT c.key, s.position, s.start, s.end, s.kind, s.carried, s.short, hex(s.terms), s.traits FROM sentences s
        JOIN chunks c ON c.id = s.chunk_id""",
    "terms": "SELECT term, chunks FROM terms",
    "entities": "SELECT name, normal_form FROM entities",
    "relations": "SELECT name, normal_form FROM relations",
    "edges": f"SELECT said FROM {_TRIPLES}",  # noqa: S608
    "occurrences": f"""
        SELECT c.key, o.position, s.position, e.said, o.extractor, o.trust FROM occurrences o
        JOIN chunks c ON c.id = o.chunk_id LEFT JOIN sentences s ON s.id = o.sentence_id
        JOIN {_TRIPLES} e ON e.id = o.edge_id""",  # noqa: S608
    "runs": f"""
        SELECT c.key, r.channel, r.position, j.key, e.said FROM runs r, json_each(r.edge_ids) j
        JOIN chunks c ON c.id = r.chunk_id JOIN {_TRIPLES} e ON e.id = j.value""",  # noqa: S608
}

_VECTORS = """
    SELECT s.vector FROM sentences s JOIN chunks c ON c.id = s.chunk_id ORDER BY c.key, s.position"""

_SHOWN = 3
"""Rows that a difference names."""


def differences(one: str | os.PathLike[str], other: str | os.PathLike[str], *, tolerance: float = 1e-3) -> list[str]:
    """What one store says and the other does not, in words; empty for equal stores.

    Args:
        one: The path of a store.
        other: The path of another.
        tolerance: By how much a value of a sentence's vector may differ.
    """
    with closing(_opened(one)) as first, closing(_opened(other)) as second:
        return [*_unequal_rows(first, second), *_unequal_vectors(first, second, tolerance)]


def _opened(path: str | os.PathLike[str]) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(Path(path).absolute()))}?mode=ro", uri=True)


def _unequal_rows(first: sqlite3.Connection, second: sqlite3.Connection) -> Iterator[str]:
    for kind, query in _CONTENT.items():
        rows, others = (sorted(connection.execute(query), key=repr) for connection in (first, second))
        if rows != others:
            only, lacking = set(rows) - set(others), set(others) - set(rows)
            samples = [repr(row) for row in sorted(only | lacking, key=repr)[:_SHOWN]]
            yield f"{kind}: {len(only)} rows only in the first, {len(lacking)} only in the second: {'; '.join(samples)}"


def _unequal_vectors(first: sqlite3.Connection, second: sqlite3.Connection, tolerance: float) -> Iterator[str]:
    number = 0
    for number, ((vector,), (other,)) in enumerate(
        zip(first.execute(_VECTORS), second.execute(_VECTORS), strict=False)
    ):
        one, two = (np.frombuffer(blob or b"", dtype="<f2").astype(np.float32) for blob in (vector, other))
        if one.shape != two.shape or not np.allclose(one, two, atol=tolerance):
            yield f"vectors: that of sentence {number} differs"
            return
