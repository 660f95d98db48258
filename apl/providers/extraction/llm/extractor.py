"""Triples by any language model, a few numbered sentences a call (paper 3.3)."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from apl.errors import ConfigError, ExtractionError
from apl.protocols import TokenCounter
from apl.providers.chat import Reply, as_chat_model
from apl.providers.extraction.llm.cache import FolderCache, MemoryCache, ReplyCache
from apl.providers.extraction.llm.calls import Caller, Pace
from apl.providers.extraction.llm.parsing import ReadTriple, read_reply
from apl.providers.extraction.llm.prompt import Request, requests_of, restored
from apl.providers.extraction.llm.support import Ground, ground_of, is_supported
from apl.providers.tokens import as_token_counter
from apl.reports import Estimate, ExtractionUsage
from apl.symbols import ExtractedTriple, Extraction, Passage, Triple

logger = logging.getLogger(__name__)

COMPLETION_PER_SENTENCE_TOKEN = 1.5
"""Expected tokens of an answer for a token of the sentences asked about. A guess: the small model of
benchmarks/llm_extraction.py wrote 1.3, and 1.8 with an answer that went in circles."""

Prices = tuple[float, float]
"""Per million tokens: of prompts, of answers."""


@dataclass(frozen=True, slots=True)
class _Read:
    """What one answer says of its sentences."""

    triples: tuple[ExtractedTriple, ...]
    malformed: int
    unsupported: int
    lines: int


class LLMExtractor:
    """Reads triples with a language model: several sentences a call, several calls at once, each answer paid once.

    Every fact is checked against its sentence: what the sentence or its heading does not say is dropped and counted
    in `Extraction.unsupported`, so neither an invention nor an instruction hidden in a text becomes an edge.

    Args:
        llm: A LangChain chat model, a LlamaIndex LLM, an `OpenAICompatible`, or a function from prompt to answer.
        name: What to call the model; default: the name it tells. Answers are cached by it, so give one where two
            functions would be called alike.
        sentences_per_call: How many sentences of one passage a prompt holds.
        max_concurrency: Calls at once; 1 for a model that is not safe in threads.
        max_retries: How often a call is repeated that met a rate limit, a time-out or a server error, with growing
            waits from `backoff_s` seconds.
        requests_per_minute, tokens_per_minute: The provider's limits, if calls are to keep within them.
        cache: Folder for answers, so that they survive restarts; None: those of the last 1,024 calls stay in memory.
        prices: Per million tokens of prompts and of answers, in any currency; for the cost report.
        tokenizer: Counts tokens where the provider tells none, and for estimates; as in `AutoPrunedLayer.open`.
        clock, sleep: For tests.

    Raises:
        ConfigError: An argument does not fit. By `extract`: no call can succeed (key refused, model unknown).
        ExtractionError (by `extract`): A call failed for good; the answers of the others are cached.
    """

    in_process_only = True
    """It has threads of its own and waits for others: worker processes would gain nothing."""

    def __init__(
        self,
        llm: Any,
        *,
        name: str | None = None,
        sentences_per_call: int = 8,
        max_concurrency: int = 4,
        max_retries: int = 5,
        backoff_s: float = 1.0,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        cache: str | os.PathLike[str] | ReplyCache | None = None,
        prices: Prices | None = None,
        tokenizer: Any = "o200k_base",
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        counts = {"sentences_per_call": sentences_per_call, "max_concurrency": max_concurrency}
        limits = {"requests_per_minute": requests_per_minute, "tokens_per_minute": tokens_per_minute}
        _check_options({**counts, **limits, "max_retries": max_retries + 1, "backoff_s": backoff_s})
        self._model = as_chat_model(llm, name=name)
        self._sentences_per_call = sentences_per_call
        self._max_concurrency = max_concurrency
        self._pace = Pace(requests_per_minute, tokens_per_minute, clock=clock, sleep=sleep)
        self._caller = Caller(self._model, self._pace, max_retries=max_retries, backoff_s=backoff_s)
        self._cache = _as_cache(cache)
        self._prices = _checked_prices(prices)
        self._tokenizer = tokenizer
        self._counter: TokenCounter | None = None
        self._lock = threading.Lock()
        self._failed: dict[str, Exception] = {}
        self._usage = ExtractionUsage(cost=None if prices is None else 0.0)

    def __getstate__(self) -> dict[str, Any]:
        raise ConfigError("LLMExtractor works in one process, with max_concurrency calls at once: it does not pickle")

    @property
    def name(self) -> str:
        """`llm:` and the model's name."""
        return f"llm:{self._model.name}"

    @property
    def usage(self) -> ExtractionUsage:
        """What was asked for so far, and what it cost."""
        with self._lock:
            return self._usage

    # --- passages to triples ------------------------------------------------------------------------------------------

    def extract(self, passages: Sequence[Passage]) -> list[Extraction]:
        """One `Extraction` a passage, its triples in the order of the sentences they are read in."""
        asked = [list(requests_of(passage, self._sentences_per_call)) for passage in passages]
        requests = {request.key(self._model.name): request for group in asked for request in group}
        if len(passages) == 1:
            self._raise_known_failure(requests)
        replies = self._replies(requests, is_batch=len(passages) > 1)
        read = {key: _read(requests[key], reply) for key, reply in replies.items()}
        extractions = [_joined([read[request.key(self._model.name)] for request in group]) for group in asked]
        self._add(
            lines=sum(r.lines for r in read.values()),
            malformed_lines=sum(r.malformed for r in read.values()),
            unsupported_triples=sum(r.unsupported for r in read.values()),
        )
        logger.info("%s: %d triples in %d answers", self.name, sum(len(e.triples) for e in extractions), len(requests))
        return extractions

    def _raise_known_failure(self, requests: Iterable[str]) -> None:
        """A batch with a bad call is tried again passage by passage: the bad one is not asked, and not paid, twice."""
        with self._lock:
            known = [self._failed.pop(key) for key in requests if key in self._failed]
        if known:
            raise known[0]

    def _replies(self, requests: Mapping[str, Request], *, is_batch: bool) -> dict[str, Reply]:
        """The answers by key, in the order of the requests, from the cache or the model."""
        replies = {key: self._cache.get(key) for key in requests}
        missing = [key for key, reply in replies.items() if reply is None]
        self._add(cached_calls=len(requests) - len(missing))
        failures: dict[str, Exception] = {}
        stopped = threading.Event()
        pool = ThreadPoolExecutor(min(self._max_concurrency, max(1, len(missing))), thread_name_prefix="apl-llm")
        try:
            futures = {key: pool.submit(self._ask, key, requests[key], stopped) for key in missing}
            for key, future in futures.items():
                error = _error_of(future)
                if isinstance(error, ExtractionError):
                    failures[key] = error
                elif error is not None:
                    raise error
                else:
                    replies[key] = future.result()
        finally:
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
        if failures:
            with self._lock:
                self._failed = dict(failures) if is_batch else {}
            raise next(iter(failures.values()))
        return {key: reply for key, reply in replies.items() if reply is not None}

    def _ask(self, key: str, request: Request, stopped: threading.Event) -> Reply:
        """Ask the model, in a thread of the pool."""
        tokens = self._count(request.prompt) if self._pace.counts_tokens else 0
        try:
            reply = self._caller.ask(request.prompt, tokens, lambda: self._add(retries=1), stopped)
        except Exception:
            self._add(failed_calls=1)
            raise
        told = reply.prompt_tokens is not None and reply.completion_tokens is not None
        prompt = reply.prompt_tokens if reply.prompt_tokens is not None else self._count(request.prompt)
        completion = reply.completion_tokens if reply.completion_tokens is not None else self._count(reply.text)
        self._add(calls=1, prompt_tokens=prompt, completion_tokens=completion, counted_calls=int(not told))
        self._cache.put(key, reply)
        return reply

    def _count(self, text: str) -> int:
        with self._lock:
            if self._counter is None:
                self._counter = as_token_counter(self._tokenizer)
        return self._counter.count(text)

    def _add(self, **counts: int) -> None:
        with self._lock:
            usage = replace(self._usage, **{name: getattr(self._usage, name) + n for name, n in counts.items()})
            self._usage = replace(usage, cost=_cost(self._prices, usage.prompt_tokens, usage.completion_tokens))

    # --- what it will cost --------------------------------------------------------------------------------------------

    def estimate(self, passages: Iterable[Passage]) -> Estimate:
        """What extracting these passages would take, without a call: cached and repeated prompts cost nothing.

        Args:
            passages: Any iterable, read once.
        """
        seen: set[str] = set()
        calls = cached = prompt_tokens = sentence_tokens = 0
        for passage in passages:
            for request in requests_of(passage, self._sentences_per_call):
                key = request.key(self._model.name)
                if key in seen:
                    continue
                seen.add(key)
                if self._cache.get(key) is not None:
                    cached += 1
                    continue
                calls += 1
                prompt_tokens += self._count(request.prompt)
                sentence_tokens += sum(self._count(sentence.text) for sentence in request.sentences)
        completion_tokens = round(COMPLETION_PER_SENTENCE_TOKEN * sentence_tokens)
        cost = _cost(self._prices, prompt_tokens, completion_tokens)
        return Estimate(calls, cached, prompt_tokens, completion_tokens, cost)


def _error_of(future: Future[Reply]) -> Exception | None:
    """What a call raised; ctrl-c in this thread goes through."""
    error = future.exception()
    if error is None or isinstance(error, Exception):
        return error
    raise error


# --- an answer to triples ---------------------------------------------------------------------------------------------


def _read(request: Request, reply: Reply) -> _Read:
    """The facts of an answer that their sentences support, in the order of the sentences."""
    answer = read_reply(reply.text, len(request.sentences))
    grounds = [ground_of(sentence.text, request.titles) for sentence in request.sentences]
    placed: list[dict[Triple, None]] = [{} for _ in request.sentences]
    unsupported = 0
    for fact in answer.triples:
        found = _placed(fact, request, grounds)
        if found is None:
            unsupported += 1
        else:
            placed[found[0]].setdefault(found[1])
    triples = tuple(
        ExtractedTriple(triple, sentence.position)
        for sentence, facts in zip(request.sentences, placed, strict=True)
        for triple in facts
    )
    return _Read(triples, answer.malformed, unsupported, len(answer.triples))


def _placed(fact: ReadTriple, request: Request, grounds: Sequence[Ground]) -> tuple[int, Triple] | None:
    """The sentence that says a fact: the one it names, else the first that can; None: none does."""
    order = list(range(len(grounds)))
    if fact.number is not None:
        order.insert(0, order.pop(fact.number - 1))
    for index in order:
        shown = "\n".join((request.sentences[index].text, *request.titles))
        triple = Triple(*(restored(part, shown) for part in (fact.head, fact.relation, fact.tail)))
        if is_supported(triple, grounds[index]):
            return index, triple
    return None


def _joined(reads: Sequence[_Read]) -> Extraction:
    return Extraction(
        tuple(triple for read in reads for triple in read.triples),
        malformed=sum(read.malformed for read in reads),
        unsupported=sum(read.unsupported for read in reads),
    )


# --- options ----------------------------------------------------------------------------------------------------------


def _cost(prices: Prices | None, prompt_tokens: int, completion_tokens: int) -> float | None:
    if prices is None:
        return None
    return (prompt_tokens * prices[0] + completion_tokens * prices[1]) / 1_000_000


def _as_cache(cache: Any) -> ReplyCache:
    if cache is None:
        return MemoryCache()
    if isinstance(cache, str | os.PathLike):
        return FolderCache(cache)
    if hasattr(cache, "get") and hasattr(cache, "put"):
        kept: ReplyCache = cache
        return kept
    raise ConfigError(f"cache={cache!r}: give the path of a folder, or an object with get(key) and put(key, reply)")


def _check_options(options: Mapping[str, Any]) -> None:
    for option, value in options.items():
        limits = option.endswith("_minute")
        kinds = (int, float) if limits or option == "backoff_s" else (int,)
        if not (limits and value is None) and (type(value) not in kinds or value <= 0):
            raise ConfigError(f"{option}={value!r} has to be a number above 0")


def _checked_prices(prices: Any) -> Prices | None:
    if prices is None:
        return None
    try:
        prompt, completion = prices
        if min(float(prompt), float(completion)) >= 0:
            return float(prompt), float(completion)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"prices={prices!r}: {_PRICES}") from error
    raise ConfigError(f"prices={prices!r}: {_PRICES}")


_PRICES = "give two numbers, the price of a million prompt tokens and that of a million answer tokens"
