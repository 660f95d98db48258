"""Interning and removing: how chunks, sentences, entities, relations, edges and links come and go as rows.

Every function works inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Table, delete, func, insert, select, tuple_, update

from apl.runs import segment
from apl.state import schema, term_rows
from apl.state.records import NewChunk
from apl.state.rows import batches
from apl.symbols import Triple
from apl.terms import distinct, to_bytes
from apl.text import normal_form

CORPUS_TRUST = "corpus"

_EdgeKey = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Removed:
    """How many symbols died with their last occurrence."""

    edges: int = 0
    entities: int = 0
    relations: int = 0


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a stored chunk stands."""

    id: int
    document_id: int
    position: int


def intern(connection: Connection, table: Table, column: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The id of every row by its unique column; rows that are new are added, in order."""
    ids = _find(connection, table, column, [row[column] for row in rows])
    missing = [dict(row) for row in rows if row[column] not in ids]
    if missing:
        connection.execute(insert(table), missing)
        ids.update(_find(connection, table, column, [row[column] for row in missing]))
    return ids


def _find(connection: Connection, table: Table, column: str, values: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for batch in batches(values):
        for row in connection.execute(select(table.c.id, table.c[column]).where(table.c[column].in_(batch))):
            found[row[1]] = row[0]
    return found


def insert_chunks(
    connection: Connection, new_chunks: Sequence[NewChunk], document_ids: Mapping[str, int], *, now: float
) -> int:
    """Insert chunks with everything that hangs on them; how many rows they replaced.

    A replaced chunk keeps its place in its document, a new one comes last. Symbols are interned before the old rows
    go, so that a symbol both versions hold keeps its id.
    """
    triples = list(dict.fromkeys(o.triple for chunk in new_chunks for o in chunk.occurrences))
    edge_ids = intern_edges(connection, triples, now=now)
    old = _places(connection, [chunk.key for chunk in new_chunks])
    positions = _positions(connection, [(chunk.key, document_ids[chunk.document_key]) for chunk in new_chunks], old)
    stale = delete_chunk_rows(connection, [place.id for place in old.values()])
    term_rows.add(connection, [chunk_terms(chunk) for chunk in new_chunks])
    for chunk in new_chunks:
        chunk_id = _insert_chunk(connection, chunk, document_ids[chunk.document_key], positions[chunk.key], now=now)
        _insert_occurrences(connection, chunk, chunk_id, edge_ids, now=now)
    _delete_unheld(connection, stale, now=now)
    return len(old)


def move_chunks(
    connection: Connection, moved: Mapping[str, tuple[str, str | None]], document_ids: Mapping[str, int]
) -> None:
    """Give chunks another (document key, title); in another document a chunk comes last."""
    old = _places(connection, list(moved))
    present = [(key, document_ids[document_key]) for key, (document_key, _) in moved.items() if key in old]
    positions = _positions(connection, present, old)
    for key, document_id in present:
        values = {"document_id": document_id, "title": moved[key][1], "position": positions[key]}
        connection.execute(update(schema.chunks).where(schema.chunks.c.key == key).values(**values))


def _places(connection: Connection, keys: Sequence[str]) -> dict[str, _Place]:
    chunks = schema.chunks
    found: dict[str, _Place] = {}
    for batch in batches(keys):
        query = select(chunks.c.key, chunks.c.id, chunks.c.document_id, chunks.c.position)
        for key, *place in connection.execute(query.where(chunks.c.key.in_(batch))):
            found[key] = _Place(*place)
    return found


def _positions(connection: Connection, chunks: Sequence[tuple[str, int]], old: Mapping[str, _Place]) -> dict[str, int]:
    """The place of each (key, document) in its document: as before, else after all others."""
    column = schema.chunks.c
    following: dict[int, int] = {}
    for batch in batches(list({document_id for _, document_id in chunks})):
        query = select(column.document_id, func.max(column.position)).where(column.document_id.in_(batch))
        following.update({row[0]: row[1] + 1 for row in connection.execute(query.group_by(column.document_id))})
    positions = {}
    for key, document_id in chunks:
        if key in old and old[key].document_id == document_id:
            positions[key] = old[key].position
        else:
            positions[key] = following.setdefault(document_id, 0)
            following[document_id] += 1
    return positions


def _insert_chunk(connection: Connection, chunk: NewChunk, document_id: int, position: int, *, now: float) -> int:
    inserted = connection.execute(
        insert(schema.chunks).values(
            key=chunk.key,
            document_id=document_id,
            position=position,
            title=chunk.title,
            text=chunk.text,
            content_hash=chunk.content_hash,
            tokens=chunk.tokens,
            title_terms=to_bytes(chunk.title_terms),
            extractor=chunk.extractor,
            indexed_at=now,
        )
    )
    return _primary_key(inserted)


def _insert_occurrences(
    connection: Connection, chunk: NewChunk, chunk_id: int, edge_ids: Mapping[Triple, int], *, now: float
) -> None:
    sentence_ids = _insert_sentences(connection, chunk, chunk_id)
    rows = [
        {
            "chunk_id": chunk_id,
            "position": position,
            "sentence_id": None if occurrence.sentence is None else sentence_ids[occurrence.sentence],
            "edge_id": edge_ids[occurrence.triple],
            "extractor": chunk.extractor,
            "trust": CORPUS_TRUST,
            "created_at": now,
        }
        for position, occurrence in enumerate(chunk.occurrences)
    ]
    if rows:
        connection.execute(insert(schema.occurrences), rows)
    runs = [
        {"channel": "f", "chunk_id": chunk_id, "position": number, "edge_ids": list(run)}
        for number, run in enumerate(segment([edge_ids[occurrence.triple] for occurrence in chunk.occurrences]))
    ]
    if runs:
        connection.execute(insert(schema.runs), runs)


def chunk_terms(chunk: NewChunk) -> NDArray[np.int64]:
    """The distinct terms of a chunk."""
    return distinct(new.terms.values for new in chunk.sentences)


def _insert_sentences(connection: Connection, chunk: NewChunk, chunk_id: int) -> dict[int, int]:
    rows = [
        {
            "chunk_id": chunk_id,
            "position": new.sentence.position,
            "start": new.sentence.start,
            "end": new.sentence.end,
            "kind": new.sentence.kind,
            "carried": new.carried,
            "short": new.short,
            "terms": to_bytes(new.terms.values),
            "traits": new.terms.traits,
            "vector": new.vector,
        }
        for new in chunk.sentences
    ]
    if not rows:
        return {}
    connection.execute(insert(schema.sentences), rows)
    sentences = schema.sentences
    stored = connection.execute(select(sentences.c.position, sentences.c.id).where(sentences.c.chunk_id == chunk_id))
    return {row.position: row.id for row in stored}


def intern_edges(connection: Connection, triples: Sequence[Triple], *, now: float) -> dict[Triple, int]:
    """The edge id of every triple; new names, links of equal normal forms and edges are added in order."""
    names = list(dict.fromkeys(name for triple in triples for name in (triple.head, triple.tail)))
    entity_ids = _intern_entities(connection, names, now=now)
    relations = list(dict.fromkeys(triple.relation for triple in triples))
    relation_rows = [{"name": name, "normal_form": normal_form(name)} for name in relations]
    relation_ids = intern(connection, schema.relations, "name", relation_rows)
    keys = [(entity_ids[t.head], relation_ids[t.relation], entity_ids[t.tail]) for t in triples]
    ids = _find_edges(connection, keys)
    missing = [dict(zip(("head_id", "relation_id", "tail_id"), key, strict=True)) for key in keys if key not in ids]
    if missing:
        connection.execute(insert(schema.edges), missing)
        ids = _find_edges(connection, keys)
    return {triple: ids[key] for triple, key in zip(triples, keys, strict=True)}


def _find_edges(connection: Connection, keys: Sequence[_EdgeKey]) -> dict[_EdgeKey, int]:
    edges = schema.edges
    named = tuple_(edges.c.head_id, edges.c.relation_id, edges.c.tail_id)
    found: dict[_EdgeKey, int] = {}
    for batch in batches(keys):
        for row in connection.execute(select(edges).where(named.in_(batch))):
            found[(row.head_id, row.relation_id, row.tail_id)] = row.id
    return found


def _intern_entities(connection: Connection, names: Sequence[str], *, now: float) -> dict[str, int]:
    entities = schema.entities
    known = _find(connection, entities, "name", names)
    forms = {name: normal_form(name) for name in names}
    ids = intern(connection, entities, "name", [{"name": name, "normal_form": forms[name]} for name in names])
    new_forms = list(dict.fromkeys(forms[name] for name in names if name not in known and forms[name]))
    _link_equal_forms(connection, new_forms, now=now)
    return ids


def _link_equal_forms(connection: Connection, forms: Sequence[str], *, now: float) -> None:
    """Link every entity to the first of its normal form, where it is not linked yet."""
    entities, links = schema.entities, schema.links
    groups: dict[str, list[int]] = {}
    for batch in batches(forms):
        query = select(entities.c.id, entities.c.normal_form).where(entities.c.normal_form.in_(batch))
        for row in connection.execute(query.order_by(entities.c.id)):
            groups.setdefault(row.normal_form, []).append(row.id)
    members = [entity_id for group in groups.values() if len(group) > 1 for entity_id in group[1:]]
    linked: set[int] = set()
    for id_batch in batches(members):
        active = select(links.c.right_id).where(
            links.c.right_id.in_(id_batch), links.c.kind == "normal_form", links.c.ended_at.is_(None)
        )
        linked.update(connection.execute(active).scalars())
    rows = [
        {
            "kind": "normal_form",
            "left_id": group[0],
            "right_id": entity_id,
            "score": 1.0,
            "reason": "equal normal form",
            "created_at": now,
        }
        for group in groups.values()
        for entity_id in group[1:]
        if entity_id not in linked
    ]
    if rows:
        connection.execute(insert(links), rows)


def delete_chunks(connection: Connection, chunk_ids: Sequence[int], *, now: float) -> Removed:
    """Remove chunks and every symbol that only they held."""
    return _delete_unheld(connection, delete_chunk_rows(connection, chunk_ids), now=now)


def delete_chunk_rows(connection: Connection, chunk_ids: Sequence[int]) -> list[int]:
    """Remove chunks, sentences, occurrences and runs; the ids of the edges they held."""
    held: dict[int, None] = {}
    term_rows.remove_chunks(connection, chunk_ids)
    for batch in batches(chunk_ids):
        occurrences = schema.occurrences
        query = select(occurrences.c.edge_id).where(occurrences.c.chunk_id.in_(batch)).order_by(occurrences.c.edge_id)
        held.update(dict.fromkeys(connection.execute(query).scalars()))
        connection.execute(delete(schema.chunks).where(schema.chunks.c.id.in_(batch)))
    return list(held)


def _delete_unheld(connection: Connection, edge_ids: Sequence[int], *, now: float) -> Removed:
    """Remove those edges that no occurrence holds any more, then the names that no edge holds."""
    edges, occurrences = schema.edges, schema.occurrences
    dead_edges: list[int] = []
    entity_ids: dict[int, None] = {}
    relation_ids: dict[int, None] = {}
    for batch in batches(edge_ids):
        held = select(occurrences.c.id).where(occurrences.c.edge_id == edges.c.id).exists()
        for row in connection.execute(select(edges).where(edges.c.id.in_(batch), ~held)):
            dead_edges.append(row.id)
            entity_ids.update({row.head_id: None, row.tail_id: None})
            relation_ids[row.relation_id] = None
    for batch in batches(dead_edges):
        connection.execute(delete(edges).where(edges.c.id.in_(batch)))
    dead_entities = _delete_entities(connection, list(entity_ids), now=now)
    dead_relations = _delete_relations(connection, list(relation_ids))
    return Removed(edges=len(dead_edges), entities=dead_entities, relations=dead_relations)


def _delete_entities(connection: Connection, entity_ids: Sequence[int], *, now: float) -> int:
    edges, entities, links = schema.edges, schema.entities, schema.links
    dead: dict[int, str] = {}
    for batch in batches(entity_ids):
        as_head = select(edges.c.id).where(edges.c.head_id == entities.c.id).exists()
        as_tail = select(edges.c.id).where(edges.c.tail_id == entities.c.id).exists()
        query = select(entities.c.id, entities.c.normal_form).where(entities.c.id.in_(batch), ~as_head, ~as_tail)
        dead.update({row.id: row.normal_form for row in connection.execute(query)})
    for batch in batches(list(dead)):
        touching = links.c.left_id.in_(batch) | links.c.right_id.in_(batch)
        connection.execute(update(links).where(touching, links.c.ended_at.is_(None)).values(ended_at=now))
        connection.execute(delete(entities).where(entities.c.id.in_(batch)))
    _link_equal_forms(connection, list(dict.fromkeys(form for form in dead.values() if form)), now=now)
    return len(dead)


def _delete_relations(connection: Connection, relation_ids: Sequence[int]) -> int:
    edges, relations = schema.edges, schema.relations
    removed = 0
    for batch in batches(relation_ids):
        held = select(edges.c.id).where(edges.c.relation_id == relations.c.id).exists()
        removed += connection.execute(delete(relations).where(relations.c.id.in_(batch), ~held)).rowcount
    return removed


def _primary_key(result: Any) -> int:
    return int(result.inserted_primary_key[0])
