"""The nouns of the method: chunks, sentences, triples, runs, evidence, turns. All frozen, all comparable."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from apl.errors import InputError

Form = Literal["edge_reference", "inline_triple", "outline"]
"""An encoding that carries edges (paper 3.6; `outline` is apl's own)."""

TurnForm = Literal["edge_reference", "inline_triple", "outline", "quotes", "memory", "host_text", "empty"]
"""What a turn sent: one of the forms, nothing but quotes, nothing but memory, the host's own text, or nothing."""

Layout = Literal["spread", "per_document", "single"]
"""How a payload is laid into the host's documents (see `apl.read.placement`)."""

SentenceKind = Literal["title", "prose", "list", "table", "code", "rule"]
"""What a unit of text is; `rule` is ornament without words, such as an underline."""

ChunkState = Literal["known", "unknown", "changed", "empty", "duplicate"]
"""What the codebook knows of a host chunk."""

Outcome = Literal["edges", "quote", "passed", "dropped"]
"""How a sentence went out: as edges, verbatim, within the host's own text, or not at all."""


@dataclass(frozen=True, slots=True)
class Triple:
    """One fact as three surface forms, exactly as they will be shown."""

    head: str
    relation: str
    tail: str


@dataclass(frozen=True, slots=True)
class Sentence:
    """A unit of a chunk's text: `chunk.text[start:end] == text`, without white space around it."""

    position: int
    start: int
    end: int
    text: str
    kind: SentenceKind = "prose"


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage as the host returns it.

    `text` is byte for byte what the host hands on; the content hash is over it alone. `id` may be None: the chunk is
    then known by its content hash. `document_id` is what `layer.codebook.delete` takes (default: the chunk itself);
    `title` is a hint that its first line is a heading. `metadata` is for the caller; the store does not keep it.
    """

    text: str
    id: str | None = None
    document_id: str | None = None
    title: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk with its sentences: what an extractor reads. `language` is an ISO 639-1 code."""

    chunk: Chunk
    sentences: tuple[Sentence, ...]
    language: str = "en"


@dataclass(frozen=True, slots=True)
class ExtractedTriple:
    """A triple and, where the extractor knows it, the position of the sentence that states it."""

    triple: Triple
    sentence: int | None = None


@dataclass(frozen=True, slots=True)
class Extraction:
    """What an extractor read in one passage, in order of extraction.

    `lemmas` maps casefolded words to lemmas where a pipeline gives them; the coverage guard compares by lemma then.
    `malformed` counts the lines or triples that had to be dropped, `unsupported` those that say what the passage does
    not, `fallbacks` the sentences that had to be read without a parser. `short` gives by sentence position a shorter
    quote, which is used only where it keeps every content word.
    """

    triples: tuple[ExtractedTriple, ...] = ()
    lemmas: Mapping[str, str] = field(default_factory=dict)
    malformed: int = 0
    unsupported: int = 0
    short: Mapping[int, str] = field(default_factory=dict)
    fallbacks: int = 0


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose turn it is. Facts belong to the corpus, memory to its scope."""

    tenant: str = ""
    user: str = ""
    session: str = ""


@dataclass(frozen=True, slots=True)
class Quote:
    """A verbatim stretch of a chunk.

    `after` says how many edges of the facts channel stand before it, so that a form that keeps reading order can
    interleave, and `rank` which host document says it; neither takes part in comparison, because the index forms do
    not carry them.
    """

    text: str
    after: int = field(default=0, compare=False)
    rank: int = field(default=0, compare=False)


Run = tuple[Triple, ...]
"""A coherent stretch of edges in reading order (paper 3.4)."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a payload says: runs of related questions, prior answers and facts, and verbatim quotes (paper 3.6).

    In the same shape as `facts`, `fact_ranks` names for every edge the host documents that say it, and `fact_sentences`
    numbers the sentence it was said in; neither takes part in comparison. Empty: unknown.
    """

    questions: tuple[Run, ...] = ()
    answers: tuple[Run, ...] = ()
    facts: tuple[Run, ...] = ()
    quotes: tuple[Quote, ...] = ()
    fact_ranks: tuple[tuple[tuple[int, ...], ...], ...] = field(default=(), compare=False)
    fact_sentences: tuple[tuple[int, ...], ...] = field(default=(), compare=False)

    @property
    def has_edges(self) -> bool:
        """True when any channel holds an edge."""
        return any(run for channel in (self.questions, self.answers, self.facts) for run in channel)


@dataclass(frozen=True, slots=True)
class Part:
    """The text that stands in the place of one host document; `rank` is that document's place in the host's list."""

    rank: int
    text: str


@dataclass(frozen=True, slots=True)
class Citation:
    """Which chunks say a payload item: an edge by its index in reading order, or a quote by its index."""

    kind: Literal["edge", "quote", "text"]
    index: int
    text: str
    chunk_ids: tuple[str, ...]
    document_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """Why a sentence went out as it did (`turn.explain()`)."""

    chunk_id: str
    sentence: int
    text: str
    outcome: Outcome
    reason: str
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of an answer that was handed to `layer.remember`."""

    turn_id: str
    status: Literal["pending", "active", "rejected"]
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One question on its way: what is sent, in which form, at which cost, and why.

    `text` is exactly what the generator gets and `tokens` its count; `text` is `parts` joined by a blank line.
    `host_tokens` are those of the host's chunk texts joined by a blank line. `savings` is the share saved, never
    negative. `tokens_by_form` holds every form that was built. `error` names what went wrong inside the layer when
    the host's text had to go out for it. `shadow` is what would have been sent, where the config asks for that.
    """

    question: str
    text: str
    parts: tuple[Part, ...]
    form: TurnForm
    layout: Layout
    tokens: int
    host_tokens: int
    tokens_by_form: Mapping[str, int] = field(default_factory=dict)
    evidence: Evidence = field(default_factory=Evidence)
    citations: tuple[Citation, ...] = ()
    decisions: tuple[Decision, ...] = ()
    sources: tuple[tuple[str, str], ...] = ()
    counters: Mapping[str, int] = field(default_factory=dict)
    timings: Mapping[str, float] = field(default_factory=dict, compare=False)
    scope: Scope = field(default_factory=Scope)
    error: str | None = None
    shadow: Turn | None = None
    id: str = field(default_factory=lambda: uuid.uuid4().hex, compare=False)

    @property
    def savings(self) -> float:
        """Share of the host's tokens that were saved, in [0, 1]; 0.0 when nothing was."""
        if self.host_tokens <= 0:
            return 0.0
        return max(0.0, 1.0 - self.tokens / self.host_tokens)

    def explain(self) -> tuple[Decision, ...]:
        """For every sentence of the host's chunks: edges, quote, passed or dropped, and why."""
        return self.decisions

    def to_dict(self) -> dict[str, Any]:
        """The turn as JSON-ready values; `Turn.from_dict` gives an equal turn back."""
        dumped: dict[str, Any] = _turn_adapter().dump_python(self, mode="json")
        return dumped

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Turn:
        """The turn that `to_dict` was called on, also in another process.

        Raises:
            InputError: The values are no turn.
        """
        try:
            turn: Turn = _turn_adapter().validate_python(values)
        except ValueError as error:
            raise InputError(f"these values are no turn as to_dict gives it: {error}") from error
        return turn


@cache
def _turn_adapter() -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(Turn)
