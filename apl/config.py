"""Every knob of apl with its default and where the default comes from. Frozen; an unknown key is an error."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from apl.errors import ConfigError
from apl.symbols import Form, Layout

Mode = Literal["guarded", "symbolic", "text"]
Quotes = Literal["shortened", "verbatim"]
Channel = Literal["unique", "all", "none"]
Weight = Annotated[float, Field(allow_inf_nan=False)]


class _Section(BaseModel):
    """A frozen group of knobs whose faults surface as `ConfigError`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def __init__(self, **knobs: Any) -> None:
        try:
            super().__init__(**knobs)
        except ValidationError as error:
            raise ConfigError(_explain(type(self), error)) from error


def _explain(section: type[BaseModel], error: ValidationError) -> str:
    known = ", ".join(sorted(section.model_fields))
    faults = []
    for fault in error.errors(include_url=False):
        key = ".".join(str(part) for part in fault["loc"])
        if fault["type"] == "extra_forbidden":
            faults.append(f"{key!r} is not a knob of {section.__name__}; it has: {known}")
        else:
            faults.append(f"{key or section.__name__}: {fault['msg']} (given: {fault['input']!r})")
    return "; ".join(faults)


class IndexingConfig(_Section):
    """How texts become rows."""

    batch_size: Annotated[int, Field(ge=1)] = 128
    """Chunks extracted, embedded and committed together. A choice of this project: 128 short passages are some hundred
    sentences, enough to fill an embedder's batches, and little to lose when a run is interrupted."""

    language: str = "en"
    """ISO 639-1 code for the abbreviations of the sentence splitter; sentencex' own default."""

    max_chunk_chars: Annotated[int, Field(ge=1)] = 2_000_000
    """A longer text is reported as a bad chunk: it is a file, not a passage. A choice of this project."""

    workers: Annotated[int, Field(ge=0)] = 0
    """Processes that extract while this one embeds and writes; 0 or 1: all in this one (docs/operations.md)."""


class SelectionWeights(_Section):
    """What each of `apl.read.features.FEATURES` counts; 0 leaves it out. Fitted by benchmarks/fit_selection.py."""

    cosine: Weight = 1.0
    """Of the question with the sentence below its heading."""

    overlap: Weight = 0.76
    """The share of the question's rare words that the sentence says."""

    answer_type: Weight = 0.19
    """The sentence holds a date, a number or a new name, as the question asks for one."""

    link: Weight = 0.33
    """A relevant sentence of another chunk calls this one's subject by its name."""

    link_overlap: Weight = 1.19
    """The same, and this sentence says words of the question."""

    length: Weight = -0.07
    """A long sentence costs more."""


class SelectionConfig(_Section):
    """Which sentences go out (docs/selection.md).

    The defaults were fitted on musique-stream-200 alone, by benchmarks/fit_selection.py.
    """

    weights: SelectionWeights = Field(default_factory=lambda: SelectionWeights())
    """What each feature of a sentence counts."""

    least_deviation: Annotated[float, Field(allow_inf_nan=False)] = 0.2
    """Without a budget, a sentence goes out whose score is so many standard deviations above the mean of the host's."""

    facts: Channel = "unique"
    """What the facts channel holds: `unique`: what several chunks say is said once; `all`: as often as it is said;
    `none`: nothing, for a reader that is to have memory only (paper 3.6)."""

    auto_floor_tokens: Annotated[int, Field(ge=0)] = 256
    """Without a budget nothing is left out of so many tokens. A choice of this project: little to gain there."""


class APLConfig(_Section):
    """The layer's configuration.

    Example:
        >>> APLConfig(forms=("outline",)).forms
        ('outline',)
    """

    mode: Mode = "text"
    """`text`: quotes only, the default by measurement (docs/selection.md). `guarded`: edges where they carry the
    sentence, quotes elsewhere (apl's own). `symbolic`: edges only, the paper's mode (paper 3.6)."""

    forms: tuple[Form, ...] = ("edge_reference", "inline_triple", "outline")
    """What the reader can read; the cheapest wins, ties in this order (paper 3.6). Small readers want
    `("outline",)`."""

    quotes: Quotes = "verbatim"
    """`verbatim`: every quote stands as in the host's text; `shortened`: a quote leaves out articles, auxiliaries and
    fillers where the index knows such a way of saying it, which keeps every content word (apl's own)."""

    layout: Layout = "spread"
    """How an adapter lays the payload into the host's documents (docs/langchain.md)."""

    ratio: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    """Upper bound as a share of the host's tokens for calls that name no budget; 1.0: all that the host's chunks say;
    None: what the question needs (`selection.least_deviation`)."""

    context_tokens: Annotated[int, Field(ge=1)] | None = None
    """What the reader's context window leaves for a payload: an upper bound whatever else is asked for; None: none."""

    on_unknown: Literal["pass", "learn"] = "pass"
    """Chunks the codebook does not know pass as text; with `learn` they are also indexed in the background, unless the
    store is read-only (docs/operations.md)."""

    learn_queue: Annotated[int, Field(ge=1)] = 1024
    """Chunks that may wait to be learned; what does not fit is met again. A choice of this project."""

    timeout_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Seconds after which `compress` hands the host's text on; None: as long as it takes (docs/operations.md)."""

    shadow: bool = False
    """The host's text goes out, and what would have been sent stands on `turn.shadow` (docs/operations.md)."""

    source_marks: bool = False
    """`[n]` before every line: it says what the host's n-th document says. Outline and quotes only."""

    cached_passages: Annotated[int, Field(ge=0)] = 4096
    """Decoded passages this process keeps. A choice of this project."""

    on_error: Literal["host", "raise"] = "host"
    """What a fault inside the layer does: hand the host's text on with a warning (docs/operations.md), or raise."""

    held_turns: Annotated[int, Field(ge=1)] = 256
    """Turns this process keeps, so that `remember` takes an id. A choice of this project."""

    indexing: IndexingConfig = Field(default_factory=IndexingConfig)
    selection: SelectionConfig = Field(default_factory=SelectionConfig)

    @field_validator("forms", mode="before")
    @classmethod
    def _forms_as_tuple(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @field_validator("forms")
    @classmethod
    def _forms_named_once(cls, value: tuple[Form, ...]) -> tuple[Form, ...]:
        if not value or len(set(value)) != len(value):
            raise ValueError("name at least one form, each once: edge_reference, inline_triple, outline")
        order = ("edge_reference", "inline_triple", "outline")
        return tuple(sorted(value, key=order.index))

    @field_validator("timeout_s", mode="before")
    @classmethod
    def _whole_seconds(cls, value: Any) -> Any:
        return float(value) if type(value) is int else value

    @model_validator(mode="after")
    def _layout_fits_forms(self) -> Self:
        if self.layout == "per_document" and self.forms != ("outline",):
            raise ValueError('layout="per_document" spreads lines, so it needs forms=("outline",)')
        if self.source_marks and self.forms != ("outline",):
            raise ValueError('source_marks stand before lines, so they need forms=("outline",)')
        return self

    @classmethod
    def paper(cls) -> APLConfig:
        """The paper's own mode: edges only, its two encodings (paper 3.6)."""
        return cls(mode="symbolic", forms=("edge_reference", "inline_triple"))
