"""The tables, one schema for every backend. Vectors are float16 bytes; texts are stored as the host gave them."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

SCHEMA_VERSION = 3
"""Grows with every change of the tables below."""

STORE_FORMAT = "apl-codebook"
"""The value of the `format` row that tells an apl store from a foreign file."""

metadata = MetaData()

meta = Table(
    "meta",
    metadata,
    Column("key", String, primary_key=True),
    Column("value", Text, nullable=False),
)

documents = Table(
    "documents",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("key", String, nullable=False, unique=True),
)

chunks = Table(
    "chunks",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("key", String, nullable=False, unique=True),
    Column("document_id", ForeignKey("documents.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("position", Integer, nullable=False),
    Column("title", Text),
    Column("text", Text, nullable=False),
    Column("content_hash", String(64), nullable=False, index=True),
    Column("tokens", Integer, nullable=False),
    Column("title_terms", LargeBinary, nullable=False),
    Column("extractor", String, nullable=False),
    Column("indexed_at", Float, nullable=False),
)

sentences = Table(
    "sentences",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("chunk_id", ForeignKey("chunks.id", ondelete="CASCADE"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("start", Integer, nullable=False),
    Column("end", Integer, nullable=False),
    Column("kind", String(8), nullable=False),
    Column("carried", Boolean, nullable=False),
    Column("short", Text),
    Column("terms", LargeBinary, nullable=False),
    Column("traits", Integer, nullable=False),
    Column("vector", LargeBinary),
    UniqueConstraint("chunk_id", "position"),
)
"""`carried`: the sentence's own edges pass the coverage guard; `short`: a quote without words that carry nothing;
`terms` and `traits`: see `apl.terms`; `vector`: of the sentence below its heading."""

terms = Table(
    "terms",
    metadata,
    Column("term", BigInteger, primary_key=True, autoincrement=False),
    Column("chunks", Integer, nullable=False),
)
"""In how many chunks a term occurs; a term that occurs in none has no row."""

entities = Table(
    "entities",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("normal_form", Text, nullable=False, index=True),
    Column("vector", LargeBinary),
    sqlite_autoincrement=True,
)

relations = Table(
    "relations",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("normal_form", Text, nullable=False, index=True),
    Column("vector", LargeBinary),
    sqlite_autoincrement=True,
)

edges = Table(
    "edges",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("head_id", ForeignKey("entities.id"), nullable=False),
    Column("relation_id", ForeignKey("relations.id"), nullable=False, index=True),
    Column("tail_id", ForeignKey("entities.id"), nullable=False, index=True),
    Column("vector", LargeBinary),
    UniqueConstraint("head_id", "relation_id", "tail_id"),
    sqlite_autoincrement=True,
)

occurrences = Table(
    "occurrences",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("chunk_id", ForeignKey("chunks.id", ondelete="CASCADE"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("sentence_id", ForeignKey("sentences.id", ondelete="CASCADE"), index=True),
    Column("edge_id", ForeignKey("edges.id"), nullable=False, index=True),
    Column("extractor", String, nullable=False),
    Column("trust", String(8), nullable=False),
    Column("created_at", Float, nullable=False),
    UniqueConstraint("chunk_id", "position"),
)
"""Where an edge is said. `sentence_id` is null when no sentence holds a word of it; `trust` is `corpus`."""

runs = Table(
    "runs",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("channel", String(1), nullable=False),
    Column("chunk_id", ForeignKey("chunks.id", ondelete="CASCADE"), index=True),
    Column("position", Integer, nullable=False),
    Column("edge_ids", JSON, nullable=False),
)
"""Sequences of edges in reading order (paper 3.4); `channel` is f, q or a."""

links = Table(
    "links",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("left_id", Integer, nullable=False, index=True),
    Column("right_id", Integer, nullable=False, index=True),
    Column("score", Float, nullable=False),
    Column("reason", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("ended_at", Float),
)
"""The log of entities held to be the same; a line outlives its entities and names them by id only."""

turns = Table(
    "turns",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("tenant", String, nullable=False),
    Column("user", String, nullable=False),
    Column("session", String, nullable=False),
    Column("question", Text, nullable=False),
    Column("answer", Text, nullable=False),
    Column("evidence", JSON, nullable=False),
    Column("status", String(12), nullable=False),
    Column("created_at", Float, nullable=False),
    Index("ix_turns_scope", "tenant", "user", "session"),
)
"""`evidence` is [[chunk key, content hash], ...]: which version of which chunks the answer was given from."""
