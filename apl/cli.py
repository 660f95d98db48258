"""The command line: `apl index`, `compress`, `stats`, `delete`. The only place that reads the environment.

Results go to stdout, everything else to stderr. Exit code 1: some of it failed or was unknown; 2: nothing was done.
What is heavy is imported in the command that needs it, so that `apl --help` answers at once.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from typer.core import TyperGroup

from apl import __version__
from apl.config import APLConfig, IndexingConfig, Mode, Quotes
from apl.console import flattened, print_exactly, print_json, print_table, say, say_errors, say_turn, turn_as_dict
from apl.errors import APLError, InputError
from apl.parts import (
    BatchSizeOption,
    ChunkCharsOption,
    DryRunOption,
    ExtractorName,
    ExtractorOption,
    ExtractorOptions,
    LLMCacheOption,
    LLMConcurrencyOption,
    LLMModelOption,
    LLMPricesOption,
    LLMRateOption,
    LLMURLOption,
    PipelineOption,
    ProgressOption,
    RebelModelOption,
    ReextractOption,
    TriplesOption,
    WorkersOption,
    combined,
    make_counter,
    make_embedder,
    make_extractor,
)
from apl.reports import ChunkError
from apl.symbols import Chunk, Layout

if TYPE_CHECKING:
    from apl.sources import Corpus

DEFAULT_EMBEDDER = "sentence-transformers/all-MiniLM-L6-v2"


class FormName(StrEnum):
    """`apl.symbols.Form`; typer takes no list of literals."""

    EDGE_REFERENCE = "edge_reference"
    INLINE_TRIPLE = "inline_triple"
    OUTLINE = "outline"


class _Commands(TyperGroup):
    """Says any error of a command in one line; `--debug` lets the traceback through."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as error:
            is_typers_own = isinstance(error, typer.Abort) or hasattr(error, "exit_code")
            if is_typers_own or getattr(error, "errno", None) == errno.EPIPE or ctx.params.get("debug"):
                raise
            if isinstance(error, APLError):
                say(f"error: {error}")
            else:
                say(f"unexpected error: {type(error).__name__}: {error} (`apl --debug ...` shows where)")
            raise typer.Exit(2) from error


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Index texts into one file, then say what your retriever found in as few tokens as still hold the answer.",
    epilog="Documentation: docs/cli.md",
)

StoreArgument = Annotated[str, typer.Argument(metavar="STORE", help="The file that holds the codebook, such as kb.db.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")]
EmbedderOption = Annotated[
    str,
    typer.Option(envvar="APL_EMBEDDER", help="Sentence-transformers model: a name on the hub, or a path."),
]
TokenizerOption = Annotated[
    str,
    typer.Option(
        envvar="APL_TOKENIZER",
        help="Your language model's tokenizer: a tiktoken encoding or model (gpt-4o), or the path of a tokenizer.json.",
    ),
]


def main() -> None:
    """Run the command line of this process and exit."""
    app(prog_name="apl")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"apl {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log each step to stderr.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    if verbose:
        logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")


# --- index ------------------------------------------------------------------------------------------------------------


@app.command(epilog="Example: apl index kb.db docs/")
def index(
    store: StoreArgument,
    sources: Annotated[
        list[Path],
        typer.Argument(metavar="SOURCE", help="Folders of .txt and .md files, such files, or .jsonl[.gz] files."),
    ],
    embedder: EmbedderOption = DEFAULT_EMBEDDER,
    extractor: ExtractorOption = None,
    pipeline: PipelineOption = None,
    triples: TriplesOption = None,
    rebel_model: RebelModelOption = None,
    llm_model: LLMModelOption = None,
    llm_url: LLMURLOption = None,
    llm_cache: LLMCacheOption = None,
    llm_prices: LLMPricesOption = None,
    llm_concurrency: LLMConcurrencyOption = 4,
    llm_rate: LLMRateOption = None,
    tokenizer: TokenizerOption = "o200k_base",
    chunk_chars: ChunkCharsOption = 1200,
    batch_size: BatchSizeOption = 128,
    reextract: ReextractOption = False,
    workers: WorkersOption = None,
    progress: ProgressOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Add texts to STORE, or bring it up to date: what has not changed is not read again.

    A text or Markdown file becomes a document, named by its path below the folder.
    Its passages end at headings and paragraphs. A JSONL file holds a passage a line.
    """
    from apl.sources import Corpus, find_files

    kinds = list(extractor or [ExtractorName.SPACY])
    options = ExtractorOptions(
        pipeline, triples or (), rebel_model, llm_model, llm_url, llm_cache, llm_prices, llm_concurrency, llm_rate
    )
    options.check(kinds)
    if reextract and kinds == [ExtractorName.NONE]:
        raise InputError("--reextract needs an extractor, not none")
    files, faults = find_files(sources)
    corpus = Corpus(files, chunk_chars, faults=list(faults))
    key = _llm_key(kinds, llm_url, needed=not dry_run)
    counter = make_counter(tokenizer)
    extractors = [make_extractor(kind, options, counter, key) for kind in kinds if kind != ExtractorName.NONE]
    config = APLConfig(indexing=IndexingConfig(batch_size=batch_size))
    if dry_run:
        from apl.forecast import forecast

        known = None if reextract else store
        counts = forecast(corpus, counter, extractors, store=known, language=config.indexing.language)
        counts |= {"failed": corpus.failed, "dry_run": True, "errors": corpus.faults}
    else:
        parts = {"embedder": make_embedder(embedder), "extractor": combined(extractors, counter), "tokenizer": counter}
        how = {"progress": progress, "reextract": reextract, "workers": workers}
        counts = _indexed(corpus, store, {**parts, "config": config}, how)
    _tell_counts({"files": len(files), **counts}, as_json=as_json)


def _tell_counts(counts: dict[str, Any], *, as_json: bool) -> None:
    """Print what was counted, and exit with 1 where something could not be read."""
    errors = cast(list[ChunkError], counts.pop("errors"))
    if as_json:
        print_json({**counts, "errors": [{"where": error.chunk_id, "reason": error.reason} for error in errors]})
    else:
        print_table(flattened(counts))
    say_errors(errors)
    if errors:
        raise typer.Exit(1)


def _llm_key(kinds: Sequence[ExtractorName], url: str | None, *, needed: bool) -> str | None:
    """The key of the language model from the environment; OpenAI's own is sent to OpenAI only.

    Raises:
        InputError: OpenAI is to be asked without one.
    """
    key = os.environ.get("APL_LLM_API_KEY") or (None if url else os.environ.get("OPENAI_API_KEY"))
    if needed and not key and not url and ExtractorName.LLM in kinds:
        raise InputError("no key for OpenAI: set APL_LLM_API_KEY or OPENAI_API_KEY, or give the --llm-url of a server")
    return key


def _indexed(corpus: Corpus, store: str, parts: dict[str, Any], how: dict[str, Any]) -> dict[str, Any]:
    """Index first, then remove the passages that changed files no longer have: no document is ever missing."""
    from apl import AutoPrunedLayer
    from apl.sources import remove_stale

    with AutoPrunedLayer.open(store, **parts) as layer:
        report = asdict(layer.index(corpus, **how))
        removed = remove_stale(layer.codebook, corpus.passages)
    errors = [*corpus.faults, *(ChunkError(**error) for error in report.pop("errors"))]
    failed = corpus.failed + report.pop("failed")
    if report["usage"] is None:
        del report["usage"]
    return {"passages": report.pop("chunks"), **report, "removed": removed, "failed": failed, "errors": errors}


# --- compress ---------------------------------------------------------------------------------------------------------


@app.command(epilog='Example: apl compress kb.db "Which law applies?" --ids "law.md#1,news.md#2"')
def compress(
    store: StoreArgument,
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="What the user asks.")],
    ids: Annotated[str | None, typer.Option(help="Ids of stored passages, best first, parted by commas.")] = None,
    chunks: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="JSONL file of passages as your retriever returned them; - reads stdin."),
    ] = None,
    budget: Annotated[int | None, typer.Option(min=1, help="At most so many tokens. Needs the embedder.")] = None,
    ratio: Annotated[
        float | None, typer.Option(help="At most this share of the passages' tokens, above 0 to 1. Needs the embedder.")
    ] = None,
    form: Annotated[
        list[FormName] | None, typer.Option(help="A form your model reads; repeat for more. Default: all.")
    ] = None,
    mode: Annotated[
        Mode,
        typer.Option(help="text: quotes; guarded: facts where they say everything, else quotes; symbolic: facts only."),
    ] = "text",
    quotes: Annotated[
        Quotes, typer.Option(help="verbatim: as in the passage; shortened: without words that carry nothing.")
    ] = "verbatim",
    layout: Annotated[
        Layout, typer.Option(help="How the payload would lie in the documents; single for one text.")
    ] = "single",
    embedder: Annotated[
        str | None,
        typer.Option(
            envvar="APL_EMBEDDER", help="The one that indexed; without it and without a bound everything is said."
        ),
    ] = None,
    tokenizer: TokenizerOption = "o200k_base",
    explain: Annotated[bool, typer.Option("--explain", help="Say on stderr what became of each sentence.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Print what to send to your model in place of the passages; write nothing.

    The payload alone goes to stdout, the summary to stderr.
    """
    from apl import AutoPrunedLayer
    from apl.text import is_encodable

    if not question.strip() or not is_encodable(question):
        raise InputError("the question is empty or not UTF-8 text: give what the user asks")
    host = _host_chunks(ids, chunks)
    bounded = budget is not None or ratio is not None
    knobs: dict[str, Any] = {"forms": list(dict.fromkeys(name.value for name in form))} if form else {}
    config = APLConfig(mode=mode, quotes=quotes, on_error="raise", **knobs)
    with AutoPrunedLayer.open(
        store,
        embedder=make_embedder(embedder or DEFAULT_EMBEDDER) if bounded or embedder else None,
        tokenizer=make_counter(tokenizer),
        config=config,
        read_only=True,
    ) as layer:
        wanted = [chunk for chunk in host if isinstance(chunk, str)]
        known = layer.codebook.find(wanted)
        unknown = [key for key in dict.fromkeys(wanted) if key not in known]
        turn = layer.compress(question, host, budget_tokens=budget, ratio=ratio, layout=layout)
    if as_json:
        print_json({**turn_as_dict(turn, explain=explain), "unknown_ids": unknown})
    else:
        print_exactly(turn.text)
    say_turn(turn, explain=explain and not as_json)
    if unknown:
        say(f"not in {store}: {', '.join(unknown)}")
        raise typer.Exit(1)


def _host_chunks(ids: str | None, chunks: Path | None) -> Sequence[Chunk | str]:
    """The chunks of the call, in their order.

    Raises:
        InputError: Not exactly one of the two is given, there is nothing in it, or a line is broken.
    """
    from apl.sources import read_host_chunks
    from apl.text import is_encodable

    if (ids is None) == (chunks is None):
        raise InputError("say which passages: --ids a,b,c or --chunks FILE (one of the two)")
    if chunks is not None:
        return read_host_chunks(chunks, typer.get_binary_stream("stdin"))
    keys = [key.strip() for key in (ids or "").split(",") if key.strip()]
    if not keys or not all(map(is_encodable, keys)):
        raise InputError("--ids names no passage: give ids parted by commas, as in --ids a,b,c")
    return keys


# --- stats and delete -------------------------------------------------------------------------------------------------


@app.command(epilog="Example: apl stats kb.db")
def stats(store: StoreArgument, as_json: JsonOption = False) -> None:
    """Print what STORE holds and what it was built with."""
    from apl.state.codebook import Codebook
    from apl.state.engine import Store

    opened = Store.open(store, read_only=True)
    try:
        found = asdict(Codebook(opened).stats())
    finally:
        opened.close()
    if as_json:
        print_json(found)
    else:
        print_table(found)


@app.command(epilog="Example: apl delete kb.db old/notes.md")
def delete(
    store: StoreArgument,
    document_ids: Annotated[
        list[str],
        typer.Argument(metavar="DOCUMENT_ID", help="A file's path as it was indexed, or a JSONL line's document_id."),
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Remove documents from STORE, with every fact that only they state."""
    from apl.state.codebook import Codebook
    from apl.state.engine import Store

    Store.open(store, read_only=True).close()  # a missing file is an error, not a new store
    names = ", ".join(document_ids[:3]) + (", ..." if len(document_ids) > 3 else "")
    if not yes:
        typer.confirm(f"Delete {len(document_ids)} of the documents in {store} ({names})?", abort=True, err=True)
    opened = Store.open(store)
    try:
        report = asdict(Codebook(opened).delete(document_ids))
    finally:
        opened.close()
    unknown = report["unknown_documents"]
    if as_json:
        print_json(report)
    else:
        print_table({key: value for key, value in report.items() if key != "unknown_documents"})
    if unknown:
        say(f"not in {store}: {', '.join(unknown)}")
        raise typer.Exit(1)
