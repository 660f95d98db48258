"""What an operation did, as values: indexing, syncing, deleting, and what a store holds. All frozen, all comparable."""

from __future__ import annotations

from dataclasses import dataclass, field, fields


@dataclass(frozen=True, slots=True)
class ChunkError:
    """A chunk that could not be indexed, and why."""

    chunk_id: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class ExtractionUsage:
    """What a language model was asked for and what it cost.

    `calls` were answered and paid for, `cached_calls` were not made, `failed_calls` were given up, `retries` are the
    attempts that had to be repeated. Tokens are the provider's own counts; for `counted_calls` of the calls it told
    none, and a tokenizer counted them. `lines` of the answers were read as facts, `malformed_lines` could not be,
    `unsupported_triples` of the facts are not in their sentence. `cost` is None where no prices are known.
    """

    calls: int = 0
    cached_calls: int = 0
    failed_calls: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    counted_calls: int = 0
    lines: int = 0
    malformed_lines: int = 0
    unsupported_triples: int = 0
    cost: float | None = None

    def __add__(self, other: ExtractionUsage) -> ExtractionUsage:
        return self._with(other, 1)

    def __sub__(self, other: ExtractionUsage) -> ExtractionUsage:
        return self._with(other, -1)

    def _with(self, other: ExtractionUsage, sign: int) -> ExtractionUsage:
        counts = {f.name: getattr(self, f.name) + sign * getattr(other, f.name) for f in fields(self)[:-1]}
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        cost = (self.cost or 0.0) + sign * (other.cost or 0.0) if costs else None
        return ExtractionUsage(**counts, cost=cost)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What extraction would cost: the calls that are not cached, their tokens, and the cost where prices are known.

    Prompt tokens are counted on the exact prompts, completion tokens are a guess from the length of the sentences.
    """

    calls: int = 0
    cached_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What `layer.index` did. Counts are of this call; `tokens` are those of the texts it indexed.

    `other_extractor` counts those of the `unchanged` chunks whose facts another extractor read. `errors` are the first
    1,000; `failed` counts them all. `usage` is there when a language model extracted.
    """

    chunks: int = 0
    indexed: int = 0
    replaced: int = 0
    unchanged: int = 0
    other_extractor: int = 0
    duplicates: int = 0
    failed: int = 0
    sentences: int = 0
    carried_sentences: int = 0
    triples: int = 0
    malformed_triples: int = 0
    unsupported_triples: int = 0
    fallback_sentences: int = 0
    tokens: int = 0
    seconds: float = 0.0
    usage: ExtractionUsage | None = None
    errors: tuple[ChunkError, ...] = ()


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What `layer.sync` found and, unless it was a dry run, mended.

    `changed` are the ids of documents with a missing, changed or surplus chunk, `gone` those of documents that the host
    does not have. `missing_chunks` the host holds and the codebook did not, `changed_chunks` had another text or title,
    `surplus_chunks` the host does not hold, those of `gone` documents among them. `index` says what was indexed.
    """

    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    index: IndexReport = field(default_factory=IndexReport)
    missing_chunks: tuple[str, ...] = ()
    changed_chunks: tuple[str, ...] = ()
    surplus_chunks: tuple[str, ...] = ()
    dry_run: bool = False

    @property
    def in_step(self) -> bool:
        """True when there was nothing to mend."""
        return not (self.changed or self.gone)


@dataclass(frozen=True, slots=True)
class DeleteReport:
    """What `layer.codebook.delete` removed, everything in one transaction."""

    documents: int = 0
    chunks: int = 0
    sentences: int = 0
    edges: int = 0
    entities: int = 0
    relations: int = 0
    unknown_documents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StoreStats:
    """Row counts of a store and what it was built with."""

    documents: int
    chunks: int
    sentences: int
    carried_sentences: int
    entities: int
    relations: int
    edges: int
    occurrences: int
    runs: int
    links: int
    turns: int
    generation: int
    schema_version: int
    embedder: str | None
    tokenizer: str | None
    bytes: int
