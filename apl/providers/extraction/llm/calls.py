"""Asking a model that may be busy, slow or gone: what kind of fault an error is, when to ask again, and how often.

Providers are told apart by nothing but what their errors carry: a status code, headers, a name.
"""

from __future__ import annotations

import email.utils
import logging
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from apl.errors import APLError, ConfigError, ExtractionError
from apl.providers.chat import ChatModel, Reply

logger = logging.getLogger(__name__)

FaultKind = Literal["transient", "setup", "request"]
"""Worth asking again; would fail every call; fails this call only."""

MAX_WAIT_S = 600.0
_TRANSIENT_STATUS = frozenset((408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529))
_SETUP_STATUS = frozenset((401, 402, 403, 404, 407))
_TRANSIENT_NAME = re.compile(
    r"RateLimit|Timeout|TooManyRequests|ServiceUnavailable|Overloaded|InternalServer|APIConnection"
    r"|Connect(?:ion)?Error|URLError|ReadError|WriteError|RemoteProtocol|ResourceExhausted|DeadlineExceeded|Throttl"
)
_SETUP_NAME = re.compile(r"Authentication|PermissionDenied|Unauthorized|Forbidden|InvalidApiKey|NotFoundError")
_OUT_OF_CREDIT = re.compile(r"insufficient_quota|billing|credit balance", re.IGNORECASE)
_WAIT_HINT = re.compile(r"(?:try again|retry)\D{0,20}?(\d+(?:\.\d+)?)\s*(ms|s|m)\b", re.IGNORECASE)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_RESETS = ("x-ratelimit-reset-requests", "x-ratelimit-reset-tokens")


@dataclass(frozen=True, slots=True)
class Fault:
    """What an error means for the calls to come; `wait_s` is how long the provider wants to be left alone."""

    kind: FaultKind
    wait_s: float | None = None


def judge(error: BaseException) -> Fault:
    """What kind of fault an error of any client library is."""
    for link in _chain(error):
        status = _status(link)
        named = type(link).__name__
        if status == 429 and _OUT_OF_CREDIT.search(str(link)):
            return Fault("setup")
        if status in _TRANSIENT_STATUS or (status is not None and status >= 500):
            return Fault("transient", _wait_hint(link))
        if status in _SETUP_STATUS or (status is None and _SETUP_NAME.search(named)):
            return Fault("setup")
        if status is not None:
            return Fault("request")
        if isinstance(link, TimeoutError | ConnectionError) or _TRANSIENT_NAME.search(named):
            return Fault("transient", _wait_hint(link))
        if isinstance(link, APLError):
            return Fault("setup" if isinstance(link, ConfigError | ImportError) else "request")
        if isinstance(link, ImportError):
            return Fault("setup")
    return Fault("request")


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and what it was raised from or while handling, nearest first."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)


def _status(error: BaseException) -> int | None:
    response = getattr(error, "response", None)
    for place, name in ((error, "status_code"), (response, "status_code"), (error, "http_status"), (error, "code")):
        status = getattr(place, name, None)
        if isinstance(status, int) and 100 <= status < 600:
            return int(status)
    return None


def _wait_hint(error: BaseException) -> float | None:
    """Seconds the provider asks to wait: an attribute, its headers, or its words."""
    told = getattr(error, "retry_after", None)
    if isinstance(told, int | float) and told >= 0:
        return float(told)
    headers = getattr(getattr(error, "response", None), "headers", None) or getattr(error, "headers", None)
    if headers is not None and hasattr(headers, "items"):
        hinted = _header_hint({str(name).lower(): str(value) for name, value in headers.items()})
        if hinted is not None:
            return hinted
    words = _WAIT_HINT.search(str(error))
    return float(words.group(1)) * _SECONDS[words.group(2).lower()] if words else None


def _header_hint(headers: Mapping[str, str]) -> float | None:
    milliseconds, seconds = headers.get("retry-after-ms"), headers.get("retry-after")
    if milliseconds and _is_number(milliseconds):
        return float(milliseconds) / 1000
    if seconds and _is_number(seconds):
        return float(seconds)
    if seconds:
        try:
            return max(0.0, email.utils.parsedate_to_datetime(seconds).timestamp() - time.time())
        except (ValueError, TypeError, OverflowError):
            logger.debug("Retry-After: %r is neither seconds nor a date", seconds)
    waits = [_duration(headers[name]) for name in _RESETS if name in headers]
    return max(waits) if waits else None


def _is_number(text: str) -> bool:
    return bool(re.fullmatch(r"\d+(\.\d+)?", text.strip()))


def _duration(text: str) -> float:
    """Seconds of "6m0s" or "250ms"."""
    return sum(float(number) * _SECONDS[unit] for number, unit in _DURATION.findall(text))


class Pace:
    """Spaces calls evenly, so that no minute has more than so many requests or tokens; shared by all threads.

    Args:
        requests_per_minute, tokens_per_minute: None: no limit.
        clock, sleep: Seconds that only grow, and a way to wait; for tests. By default a wait ends with the run.
    """

    def __init__(
        self,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        self._request_s = 60.0 / requests_per_minute if requests_per_minute else 0.0
        self._token_s = 60.0 / tokens_per_minute if tokens_per_minute else 0.0
        self.counts_tokens = bool(tokens_per_minute)
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._free_at = 0.0

    def wait(self, tokens: int, stopped: threading.Event) -> None:
        """Return when a call of so many tokens may go out, or the run has ended."""
        with self._lock:
            now = self._clock()
            start = max(now, self._free_at)
            self._free_at = start + max(self._request_s, self._token_s * tokens)
        if start > now:
            self.sleep(start - now, stopped)

    def hold(self, seconds: float) -> None:
        """Let no call go out for so long: the provider said so to one of them."""
        with self._lock:
            self._free_at = max(self._free_at, self._clock() + seconds)

    def sleep(self, seconds: float, stopped: threading.Event) -> None:
        """Wait so long, or until the run has ended."""
        (self._sleep or stopped.wait)(seconds)


class Caller:
    """Asks a model, again where that may help, and tells a broken set-up from a bad call.

    Args:
        model: Who is asked.
        pace: When calls may go out.
        max_retries: How often one call is asked again.
        backoff_s: The first wait; each further one is twice as long, plus up to a quarter by chance, 60 s at most. A
            longer wait that the provider asks for is kept, up to `MAX_WAIT_S`.
        give_up_after: So many calls in a row that were given up end the run, because the model is gone.
    """

    def __init__(
        self, model: ChatModel, pace: Pace, *, max_retries: int = 5, backoff_s: float = 1.0, give_up_after: int = 5
    ) -> None:
        self._model = model
        self._pace = pace
        self._max_retries = max_retries
        self._backoff_s = backoff_s
        self._give_up_after = give_up_after
        self._lock = threading.Lock()
        self._given_up = 0

    def ask(self, prompt: str, tokens: int, on_retry: Callable[[], object], stopped: threading.Event) -> Reply:
        """The answer to a prompt of so many tokens; `stopped` is set when nobody waits for it any more.

        Raises:
            ConfigError: No call can succeed: the key or the model's name is refused, or nothing answers any more.
            ExtractionError: This call failed for good.
        """
        for attempt in range(self._max_retries + 1):
            self._pace.wait(tokens, stopped)
            if stopped.is_set():
                raise ExtractionError(f"the model {self._model.name} was not asked: the run has ended")
            try:
                reply = self._model.ask(prompt)
            except Exception as error:  # noqa: BLE001 - any client library's; judged and raised or tried again
                fault = judge(error)
                self._raise_if_final(error, fault, attempt)
                wait = self._wait_s(attempt, fault)
                logger.info("%s: %s; asking again in %.1f s", self._model.name, _told(error), wait)
                if fault.wait_s:
                    self._pace.hold(wait)
                on_retry()
                self._pace.sleep(wait, stopped)
            else:
                with self._lock:
                    self._given_up = 0
                return reply
        raise AssertionError("the last attempt returns or raises")

    def _wait_s(self, attempt: int, fault: Fault) -> float:
        backoff = min(60.0, self._backoff_s * 2.0**attempt) * (1 + random.random() / 4)  # noqa: S311 - not a secret
        return min(MAX_WAIT_S, max(backoff, fault.wait_s or 0.0))

    def _raise_if_final(self, error: Exception, fault: Fault, attempt: int) -> None:
        name = self._model.name
        if fault.kind == "setup":
            raise ConfigError(
                f"the model {name} cannot be used ({_told(error)}): check its name, its URL, the API key and the "
                "credit of the account. What is stored stays; run again to go on"
            ) from error
        if fault.kind == "request":
            raise ExtractionError(f"the model {name} could not answer ({_told(error)})") from error
        if attempt < self._max_retries:
            return
        with self._lock:
            self._given_up += 1
            gone = self._given_up >= self._give_up_after
        if gone:
            raise ConfigError(
                f"the model {name} did not answer {self._give_up_after} calls in a row (the last: {_told(error)}): "
                "is it running and reachable? What is stored stays; run again to go on"
            ) from error
        raise ExtractionError(
            f"the model {name} did not answer after {attempt + 1} attempts ({_told(error)}): index again later, or "
            "lower max_concurrency or requests_per_minute"
        ) from error


def _told(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
