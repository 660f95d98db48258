"""In how many chunks each term occurs, kept with every chunk that comes or goes.

Every function works inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from apl.state import schema
from apl.state.rows import batches
from apl.terms import distinct, from_bytes


def add(connection: Connection, chunks: Sequence[NDArray[np.int64]]) -> None:
    """Count the distinct terms of new chunks."""
    _change(connection, chunks, 1)


def remove_chunks(connection: Connection, chunk_ids: Sequence[int]) -> None:
    """Take back the terms of stored chunks that are about to go."""
    sentences = schema.sentences
    held: dict[int, list[NDArray[np.int64]]] = {}
    for batch in batches(chunk_ids):
        query = select(sentences.c.chunk_id, sentences.c.terms).where(sentences.c.chunk_id.in_(batch))
        for chunk_id, blob in connection.execute(query):
            held.setdefault(chunk_id, []).append(from_bytes(blob))
    _change(connection, [distinct(parts) for parts in held.values()], -1)


def find(connection: Connection, terms: Sequence[int]) -> dict[int, int]:
    """In how many chunks each of the terms occurs; those that occur in none are left out."""
    table = schema.terms
    found: dict[int, int] = {}
    for batch in batches(terms):
        rows = connection.execute(select(table.c.term, table.c.chunks).where(table.c.term.in_(batch)))
        found.update({row.term: row.chunks for row in rows})
    return found


def count_chunks(connection: Connection) -> int:
    """How many chunks the store holds."""
    return int(connection.execute(select(func.count()).select_from(schema.chunks)).scalar_one())


def _change(connection: Connection, chunks: Sequence[NDArray[np.int64]], sign: int) -> None:
    if not chunks:
        return
    values, counts = np.unique(np.concatenate(chunks), return_counts=True)
    changes: Mapping[int, int] = dict(zip(values.tolist(), (sign * counts).tolist(), strict=True))
    known = find(connection, list(changes))
    after = {term: known.get(term, 0) + change for term, change in changes.items()}
    table = schema.terms
    new = [{"term": term, "chunks": count} for term, count in after.items() if term not in known and count > 0]
    if new:
        connection.execute(insert(table), new)
    changed = [{"key": term, "count": count} for term, count in after.items() if term in known and count > 0]
    if changed:
        statement = update(table).where(table.c.term == bindparam("key")).values(chunks=bindparam("count"))
        connection.execute(statement, changed)
    gone = [term for term, count in after.items() if term in known and count <= 0]
    for batch in batches(gone):
        connection.execute(delete(table).where(table.c.term.in_(batch)))
