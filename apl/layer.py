"""The journey: index, compress, remember, one line a step."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Container, Iterable
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import dataclass
from threading import Thread
from types import TracebackType
from typing import Any, Self, get_args

from apl import __version__
from apl.arguments import checked_chunks, checked_iterable, checked_question, checked_scope
from apl.config import APLConfig
from apl.counters import Counters
from apl.errors import ConfigError, InputError, ReadOnlyStoreError
from apl.protocols import QuestionEmbedder, TokenCounter, TripleExtractor
from apl.providers.embedding import as_embedder
from apl.providers.tokens import as_token_counter
from apl.read.compression import Compression
from apl.read.costs import Prices
from apl.reports import IndexReport, SyncReport
from apl.state.codebook import Codebook
from apl.state.engine import Store
from apl.state.memory import Memory
from apl.state.passages import Passages
from apl.symbols import Chunk, ChunkState, Layout, Scope, Turn, Verdict
from apl.write.ingestion import Ingestion
from apl.write.learning import Learner
from apl.write.syncing import Sync

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CompressOptions:
    """How questions are to be compressed, with the config's defaults. Made by `checked_options`."""

    budget_tokens: int | None
    ratio: float | None
    layout: Layout
    keep_empty: bool


class AutoPrunedLayer:
    """Wraps a retriever's chunks into the smallest payload that still holds the answer (paper 3.8).

    Made by `open`; usable from many threads; a context manager.

    Attributes:
        codebook: What is known of the corpus: `delete`, `stats`.
        memory: The turns: `turn`.
        counters: Totals of this process for a monitoring system: `snapshot`.
        config: The knobs.
    """

    def __init__(
        self,
        store: Store,
        *,
        embedder: QuestionEmbedder | None,
        extractor: TripleExtractor | None,
        counter: TokenCounter,
        config: APLConfig,
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._extractor = extractor
        self._counter = counter
        self.config = config
        self.codebook = Codebook(store)
        self.memory = Memory(store, held_turns=config.held_turns)
        self.counters = Counters()
        self._passages = Passages(store, capacity=config.cached_passages)
        self._prices = Prices(
            counter, mode=config.mode, shorten=config.quotes == "shortened", language=config.indexing.language
        )
        self._learner = Learner(
            lambda chunks: self.index(chunks, progress=False, workers=0),
            capacity=config.learn_queue,
            count=lambda learned, left: self.counters.add({"learned_chunks": learned, "unlearned_chunks": left}),
        )

    @classmethod
    def open(
        cls,
        location: str | os.PathLike[str],
        *,
        embedder: Any = None,
        extractor: TripleExtractor | None = None,
        tokenizer: Any = "o200k_base",
        config: APLConfig | None = None,
        read_only: bool = False,
    ) -> Self:
        """Open the store at a path or `sqlite:///` URL, or create it.

        Args:
            location: Where the codebook lies.
            embedder: An `Embedder`, any LangChain or LlamaIndex embeddings object, or a model's name or path. None:
                neither `index` nor a budget can be asked for.
            extractor: Reads the triples when indexing. None: sentences are indexed without edges.
            tokenizer: The generator's: a tiktoken encoding or model name, a Hugging Face tokenizer, or a callable
                text -> int.
            config: Every other knob.
            read_only: Open for reading even where writing would be possible.

        Raises:
            ForeignStoreError, SchemaVersionError, EmbedderMismatchError, StoreError: The file does not fit.
            ConfigError, TokenizerError, MissingDependency: An argument does not.
        """
        if config is not None and not isinstance(config, APLConfig):
            raise ConfigError(f"config has to be an APLConfig, not {type(config).__name__}")
        if extractor is not None and not isinstance(extractor, TripleExtractor):
            raise ConfigError(f"extractor={extractor!r} has no `name` and `extract(passages)`; see apl.providers")
        counter = as_token_counter(tokenizer)
        known_embedder = None if embedder is None else as_embedder(embedder)
        store = Store.open(location, read_only=read_only)
        try:
            layer = cls(
                store, embedder=known_embedder, extractor=extractor, counter=counter, config=config or APLConfig()
            )
            if known_embedder is not None:
                layer.codebook.check_embedder(known_embedder)
        except BaseException:
            store.close()
            raise
        return layer

    def close(self) -> None:
        """Finish what is being learned, then close the store's connections of this process."""
        self._learner.close()
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- text to state ------------------------------------------------------------------------------------------------

    def index(
        self,
        chunks: Iterable[Chunk],
        *,
        progress: bool | None = None,
        reextract: bool = False,
        workers: int | None = None,
    ) -> IndexReport:
        """Add chunks to the codebook, or bring changed ones up to date; unchanged ones cost a hash.

        A batch is committed as a whole, so an interrupted run is resumed by running it again. A chunk that cannot be
        read is in the report's `errors`; the others go on.

        Args:
            chunks: Any iterable, read once.
            progress: Show on stderr how far it is; None: on a terminal, for more than one batch.
            reextract: Read all chunks again, also those whose text has not changed; else those that another extractor
                read are kept, counted and warned of. An interrupted run is resumed by the same call.
            workers: Processes that extract while this one embeds and writes; default: the config's.

        Raises:
            ConfigError: The layer was opened without an embedder, or `reextract` is asked of one without an extractor.
            InputError: `chunks` is no iterable of chunks, or `workers` no number of processes.
            MissingDependency: A model of the extractor or embedder is not installed.
            ReadOnlyStoreError: The store is open for reading.
        """
        checked_iterable(chunks, "index takes an iterable of Chunk")
        if reextract and self._extractor is None:
            raise ConfigError("reextract reads with the layer's extractor: open the layer with extractor=...")
        ingestion = self._ingestion(workers)
        return ingestion.run(chunks, batch_size=self.config.indexing.batch_size, progress=progress, reextract=reextract)

    def sync(
        self,
        chunks: Iterable[Chunk],
        *,
        kept_documents: Container[str] = (),
        kept_chunks: Container[str] = (),
        delete_missing: bool = True,
        dry_run: bool = False,
    ) -> SyncReport:
        """Bring the codebook in step with all that a host holds: add what is missing, mend what changed, drop the rest.

        The adapters' `sync` call this with what they find in a store of theirs. A document is mended in one
        transaction. Ids are held in memory, texts are not.

        Args:
            chunks: Everything the host holds, in any order, read once.
            kept_documents: Ids of documents that the host has and cannot show: left as they are.
            kept_chunks: The same by chunk.
            delete_missing: Delete documents that the host does not hold. False where several hosts fill one codebook.
            dry_run: Only report.

        Raises:
            As `index`.
        """
        checked_iterable(chunks, "sync takes an iterable of Chunk")
        ingestion = self._ingestion(None)
        with Sync(self.codebook, ingestion, batch_size=self.config.indexing.batch_size) as sync:
            sync.gather(chunks)
            return sync.mend(
                kept_documents=kept_documents, kept_chunks=kept_chunks, delete_missing=delete_missing, dry_run=dry_run
            )

    def _ingestion(self, workers: int | None) -> Ingestion:
        if self._store.read_only:
            raise ReadOnlyStoreError("the store is open for reading only, so nothing can be indexed")
        if self._embedder is None:
            raise ConfigError("index embeds the sentences: open the layer with embedder=...")
        if workers is not None and (type(workers) is not int or workers < 0):
            raise InputError(f"workers is a number of processes, 0 for none, not {workers!r}")
        self.codebook.bind(self._embedder, self._counter)
        return Ingestion(
            self.codebook,
            embedder=self._embedder,
            extractor=self._extractor,
            counter=self._counter,
            language=self.config.indexing.language,
            max_chunk_chars=self.config.indexing.max_chunk_chars,
            workers=self.config.indexing.workers if workers is None else workers,
            version=__version__,
        )

    # --- state to payload ---------------------------------------------------------------------------------------------

    def compress(
        self,
        question: str,
        chunks: Iterable[Chunk | str],
        *,
        budget_tokens: int | None = None,
        ratio: float | None = None,
        scope: Scope | None = None,
        layout: Layout = "single",
        keep_empty: bool = False,
    ) -> Turn:
        """The smallest payload that says what the question needs of the host's chunks, never more than their tokens.

        Without a bound it is as long as the question needs (docs/selection.md); `ratio=1.0` says everything. Embeds the
        question where a choice has to be made, and writes nothing.

        Args:
            question: The user's question.
            chunks: What the host chose, in its order: `Chunk`s, or ids of stored chunks.
            budget_tokens: Upper bound in tokens of the generator's tokenizer.
            ratio: Upper bound as a share of the host's tokens, in (0, 1]; 1: everything; default: the config's.
            scope: Whose turn it is.
            layout: How the payload will lie in the host's documents. A text that you send yourself is `single`; the
                adapters ask for the config's layout.
            keep_empty: With `per_document`, keep the documents of which nothing is said, emptied.

        Returns:
            The turn. An error inside the layer hands the host's text on, with a warning and `turn.error`
            (`on_error="raise"` raises it).

        Raises:
            InputError: An argument does not fit.
            ConfigError: A budget was asked of a layer without an embedder, or the layout does not fit the forms.
        """
        options = checked_options(self, budget_tokens=budget_tokens, ratio=ratio, layout=layout, keep_empty=keep_empty)
        compression = Compression(
            question=checked_question(question),
            chunks=checked_chunks(chunks),
            scope=checked_scope(scope),
            budget_tokens=options.budget_tokens,
            ratio=options.ratio,
            layout=options.layout,
            keep_empty=options.keep_empty,
            passages=self._passages,
            embedder=self._embedder,
            counter=self._counter,
            mode=self.config.mode,
            forms=self.config.forms,
            prices=self._prices,
            selection=self.config.selection,
            context_tokens=self.config.context_tokens,
            language=self.config.indexing.language,
            shorten=self.config.quotes == "shortened",
            marked=self.config.source_marks,
            shadow=self.config.shadow,
        )
        turn = self._compressed(compression)
        self.memory.hold(turn)
        self._count(turn)
        logger.info(
            "compressed %d chunks: %s, %d of %d tokens",
            turn.counters["chunks"],
            turn.form,
            turn.tokens,
            turn.host_tokens,
        )
        return turn

    def _compressed(self, compression: Compression) -> Turn:
        """The turn, or the host's text where something inside fails or takes too long."""
        try:
            turn = (
                compression.run() if self.config.timeout_s is None else _run_within(compression, self.config.timeout_s)
            )
        except Exception as error:
            if self.config.on_error == "raise":
                raise
            logger.warning(
                "compress failed, the host's text goes out (%s: %s)", type(error).__name__, error, exc_info=True
            )
            self.counters.add({"errors": 1, "timeouts": int(isinstance(error, TimeoutError))})
            return compression.host_turn(error)
        if compression.strangers and self.config.on_unknown == "learn" and not self._store.read_only:
            self._learner.offer(compression.strangers)
        return turn

    def _count(self, turn: Turn) -> None:
        counted = {f"{state}_chunks": turn.counters.get(state, 0) for state in get_args(ChunkState)}
        passed = int(turn.form == "host_text")
        sent = {"turns": 1, "host_tokens": turn.host_tokens, "sent_tokens": turn.tokens, "passed_turns": passed}
        self.counters.add({**sent, **counted})

    def remember(self, turn: Turn | str, answer: str) -> Verdict:
        """Store the question, the answer and which versions of which chunks it was given from, as pending.

        Args:
            turn: The turn, or the id of one that this process still holds.
            answer: What the generator said.

        Raises:
            InputError: The answer is empty, or the turn is not one.
            ReadOnlyStoreError: The store is open for reading.
        """
        if not isinstance(answer, str) or not answer.strip():
            raise InputError(f"an answer is a text with something in it, not {answer!r}")
        if isinstance(turn, str):
            turn = self.memory.turn(turn)
        if not isinstance(turn, Turn):
            raise InputError(f"remember takes the Turn that compress returned, or its id, not {type(turn).__name__}")
        verdict = self.memory.store(turn, answer)
        self.counters.add({"remembered_turns": 1})
        return verdict


def _run_within(compression: Compression, timeout_s: float) -> Turn:
    """Run in a thread of its own and wait no longer than this; the thread gives up at its next step.

    Raises:
        TimeoutError: The time ran out.
    """
    compression.deadline = time.monotonic() + timeout_s
    done: Future[Turn] = Future()

    def work() -> None:
        try:
            done.set_result(compression.run())
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is waited for
            done.set_exception(error)

    Thread(target=copy_context().run, args=(work,), name="apl-compress", daemon=True).start()
    try:
        return done.result(timeout_s)
    except TimeoutError as error:
        raise TimeoutError(f"compress took longer than {timeout_s} s") from error


def checked_options(
    layer: AutoPrunedLayer, *, budget_tokens: Any, ratio: Any, layout: Any, keep_empty: Any
) -> CompressOptions:
    """The options of `compress`, checked against the layer; adapters check theirs once, when they are made.

    Raises:
        InputError: A value does not fit, or both bounds are given.
        ConfigError: The layer was not opened for what is asked.
    """
    if budget_tokens is not None and ratio is not None:
        raise InputError("give budget_tokens or ratio, not both")
    if budget_tokens is not None and (type(budget_tokens) is not int or budget_tokens < 1):
        raise InputError(f"budget_tokens is a whole number >= 1, not {budget_tokens!r}")
    if ratio is not None and (type(ratio) not in (int, float) or not 0 < ratio <= 1):
        raise InputError(f"ratio is a share of the host's tokens in (0, 1], not {ratio!r}")
    if layout not in get_args(Layout):
        raise InputError(f"layout is one of {', '.join(get_args(Layout))}, not {layout!r}")
    if type(keep_empty) is not bool:
        raise InputError(f"keep_empty is True or False, not {keep_empty!r}")
    if layout == "per_document" and layer.config.forms != ("outline",):
        raise ConfigError('layout="per_document" spreads lines, so it needs APLConfig(forms=("outline",))')
    if budget_tokens is None and ratio is None:
        ratio = layer.config.ratio
    if layer._embedder is None and not (budget_tokens is None and ratio is None):
        raise ConfigError("a budget ranks sentences by the question's vector: open the layer with embedder=...")
    return CompressOptions(budget_tokens, ratio, layout, keep_empty)
