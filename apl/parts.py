"""The parts that the options of `apl index` name: embedder, token counter, extractors. Nothing heavy before its use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from apl.errors import InputError, MissingDependency, TokenizerError

if TYPE_CHECKING:
    from apl.protocols import Embedder, TokenCounter, TripleExtractor

DEFAULT_PIPELINE = "en_core_web_sm"
DEFAULT_REBEL = "Babelscape/rebel-large"


class ExtractorName(StrEnum):
    """Where facts come from."""

    SPACY = "spacy"
    LLM = "llm"
    REBEL = "rebel"
    PRECOMPUTED = "precomputed"
    NONE = "none"


ExtractorOption = Annotated[
    list[ExtractorName] | None,
    typer.Option(
        "--extractor",
        help="Where the facts come from: a spaCy pipeline (default), a language model, REBEL, a file, or nowhere. "
        "Repeat it to combine: what carries a sentence for the fewest tokens is kept.",
    ),
]
PipelineOption = Annotated[
    str | None, typer.Option(help="spaCy pipeline: an installed package or a path. Default: en_core_web_sm.")
]
TriplesOption = Annotated[
    list[Path] | None,
    typer.Option(help="File of facts for --extractor precomputed; repeat it for a graph's nodes and edges."),
]
RebelModelOption = Annotated[
    str | None, typer.Option(help="REBEL model: a name on the hub or a path. Default: Babelscape/rebel-large.")
]
LLMModelOption = Annotated[
    str | None, typer.Option("--llm-model", envvar="APL_LLM_MODEL", help="The language model, as its server names it.")
]
LLMURLOption = Annotated[
    str | None,
    typer.Option(
        "--llm-url", envvar="APL_LLM_URL", help="Where it speaks OpenAI's chat API: http://.../v1. Default: OpenAI."
    ),
]
LLMCacheOption = Annotated[
    Path | None, typer.Option("--llm-cache", help="Folder that keeps the model's answers, so that none is paid twice.")
]
LLMPricesOption = Annotated[
    str | None,
    typer.Option("--llm-prices", help="Prices of a million prompt and a million answer tokens, such as 0.15,0.60."),
]
LLMConcurrencyOption = Annotated[
    int, typer.Option("--llm-concurrency", min=1, max=1000, help="Calls to the language model at once.")
]
LLMRateOption = Annotated[
    int | None, typer.Option("--llm-rate", min=1, help="At most so many calls to the language model a minute.")
]
ChunkCharsOption = Annotated[
    int, typer.Option(min=100, max=100_000, help="How many characters of a file become one passage, at most.")
]
BatchSizeOption = Annotated[int, typer.Option(min=1, max=100_000, help="Passages that are stored together.")]
ReextractOption = Annotated[
    bool, typer.Option("--reextract", help="Extract again from every passage, also from unchanged ones.")
]
WorkersOption = Annotated[
    int | None, typer.Option(min=0, max=256, help="Processes that extract while this one writes. Default: none.")
]
ProgressOption = Annotated[
    bool | None, typer.Option("--progress/--no-progress", help="Show how far it is. Default: on a terminal.")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Count files, passages, tokens and a model's calls; write nothing.")
]


@dataclass(frozen=True, slots=True)
class ExtractorOptions:
    """What the options say about extractors. `llm_key` comes from the environment and is never shown."""

    pipeline: str | None = None
    triples: Sequence[Path] = ()
    rebel_model: str | None = None
    llm_model: str | None = None
    llm_url: str | None = None
    llm_cache: Path | None = None
    llm_prices: str | None = None
    llm_concurrency: int = 4
    llm_rate: int | None = None

    def check(self, kinds: Sequence[ExtractorName]) -> None:
        """Every option belongs to an extractor that is asked for.

        Raises:
            InputError: One does not, or one that is needed is missing.
        """
        asked = ", ".join(kinds)
        if len(set(kinds)) < len(kinds) or (ExtractorName.NONE in kinds and len(kinds) > 1):
            raise InputError(f"--extractor {asked}: name each once, and none only by itself")
        if self.pipeline is not None and ExtractorName.SPACY not in kinds:
            raise InputError(f"--pipeline belongs to --extractor spacy, not {asked}")
        if self.rebel_model is not None and ExtractorName.REBEL not in kinds:
            raise InputError(f"--rebel-model belongs to --extractor rebel, not {asked}")
        if bool(self.triples) != (ExtractorName.PRECOMPUTED in kinds):
            raise InputError("--triples FILE and --extractor precomputed belong together: give both")
        given = {"--llm-cache": self.llm_cache, "--llm-prices": self.llm_prices, "--llm-rate": self.llm_rate}
        stray = [option for option, value in given.items() if value is not None]
        if stray and ExtractorName.LLM not in kinds:
            raise InputError(f"{stray[0]} belongs to --extractor llm, not {asked}")
        if ExtractorName.LLM in kinds and not self.llm_model:
            raise InputError("--extractor llm needs --llm-model NAME (or APL_LLM_MODEL), and --llm-url unless OpenAI's")


def make_embedder(name: str) -> Embedder:
    """The sentence-transformers model of this name or path."""
    from apl.providers import SentenceTransformerEmbedder

    return SentenceTransformerEmbedder(name)


def make_counter(name: str) -> TokenCounter:
    """Counts by a tiktoken encoding or model, or by the tokenizer.json at a path.

    Raises:
        TokenizerError: There is no such encoding, or the file cannot be loaded.
        MissingDependency: The package that reads tokenizer.json is not installed.
    """
    from apl.providers import HuggingFaceCounter, as_token_counter

    path = Path(name, "tokenizer.json") if Path(name).is_dir() else Path(name)
    if path.suffix != ".json":
        return as_token_counter(name)
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        command = "pip install tokenizers"
        raise MissingDependency(f"{path} is read by the package tokenizers: {command}", command=command) from error
    try:
        return HuggingFaceCounter(Tokenizer.from_file(str(path)), name=name)
    except Exception as error:
        raise TokenizerError(f"the tokenizer {path} could not be loaded ({error})") from error


def make_extractor(
    kind: ExtractorName, options: ExtractorOptions, counter: TokenCounter, llm_key: str | None
) -> TripleExtractor:
    """One extractor, as its options say; `none` is none of them.

    Args:
        kind: Which.
        options: What they say of it.
        counter: Counts a language model's tokens for estimates, and where its provider tells none.
        llm_key: The language model's key.

    Raises:
        InputError: An option's value does not fit.
        ExtractionError: The file of triples cannot be read.
        MissingDependency: A package is not installed.
    """
    from apl.providers import PrecomputedExtractor, SpacyExtractor

    if kind == ExtractorName.SPACY:
        return SpacyExtractor(options.pipeline or DEFAULT_PIPELINE)
    if kind == ExtractorName.PRECOMPUTED:
        return PrecomputedExtractor(options.triples[0] if len(options.triples) == 1 else list(options.triples))
    if kind == ExtractorName.REBEL:
        from apl.providers import RebelExtractor

        return RebelExtractor(options.rebel_model or DEFAULT_REBEL)
    return _make_llm(options, counter, llm_key)


def combined(extractors: Sequence[TripleExtractor], tokenizer: TokenCounter) -> TripleExtractor | None:
    """The extractors as one, in their order; None where there is none, so that sentences are stored without facts."""
    if len(extractors) < 2:
        return extractors[0] if extractors else None
    from apl.providers import CombinedExtractor

    return CombinedExtractor(extractors, tokenizer=tokenizer)


def _make_llm(options: ExtractorOptions, counter: TokenCounter, key: str | None) -> TripleExtractor:
    from apl.providers import LLMExtractor, OpenAICompatible

    return LLMExtractor(
        OpenAICompatible(options.llm_url, str(options.llm_model), key),
        max_concurrency=options.llm_concurrency,
        requests_per_minute=options.llm_rate,
        cache=options.llm_cache,
        prices=_prices(options.llm_prices),
        tokenizer=counter,
    )


def _prices(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        prompt, completion = (float(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(
            f"--llm-prices {text!r}: give two numbers parted by a comma, the price of a million prompt tokens and that "
            "of a million answer tokens, such as 0.15,0.60"
        ) from error
    return prompt, completion
