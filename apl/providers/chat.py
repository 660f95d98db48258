"""One way of asking whatever language model a user has: LangChain, LlamaIndex, an OpenAI-compatible URL, a function.

Recognised by their methods; no host is imported. An answer carries the provider's own token counts where it tells them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from apl.errors import ConfigError, ExtractionError, MissingDependency

_PROMPT_KEYS = ("prompt_tokens", "input_tokens", "prompt_token_count", "prompt_eval_count")
_COMPLETION_KEYS = ("completion_tokens", "output_tokens", "candidates_token_count", "eval_count")
_USAGE_PLACES = ("usage_metadata", "usage", "token_usage", "response_metadata", "additional_kwargs", "raw")


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer and, where the provider told them, the tokens it counted for prompt and answer."""

    text: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


@runtime_checkable
class ChatModel(Protocol):
    """Answers a prompt."""

    @property
    def name(self) -> str:
        """The model's name; answers are cached and occurrences are labelled by it."""
        ...

    def ask(self, prompt: str) -> Reply:
        """The answer to one prompt, sent as one user message."""
        ...


class OpenAICompatible:
    """A model behind a URL that speaks OpenAI's chat API: OpenAI, vLLM, Ollama, LM Studio, llama.cpp, ...

    Args:
        base_url: Such as `http://localhost:8000/v1`; None: OpenAI.
        model: The model's name there.
        api_key: None: none is sent; it is never shown.
        temperature: None leaves it to the server, as some reasoning models want it.
        max_tokens: Upper bound of an answer, in tokens; None: the server's.
        timeout_s: How long to wait for an answer, in seconds.
        extra: More fields of the request, such as `{"reasoning_effort": "low"}`.

    Raises:
        MissingDependency: The package openai is not installed.
    """

    def __init__(
        self,
        base_url: str | None,
        model: str,
        api_key: str | None = None,
        *,
        temperature: float | None = 0.0,
        max_tokens: int | None = None,
        timeout_s: float = 120.0,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        try:
            from openai import OpenAI
        except ImportError as error:
            command = "pip install 'apl-rag[llm]'"
            message = f"OpenAICompatible needs the package openai: {command}"
            raise MissingDependency(message, command=command) from error
        if not model or not isinstance(model, str):
            raise ConfigError(f"model={model!r}: give the name the server knows the model by")
        self._model = model
        self._options: dict[str, Any] = dict(extra or {})
        if temperature is not None:
            self._options["temperature"] = temperature
        if max_tokens is not None:
            self._options["max_tokens"] = max_tokens
        # retries are the caller's, who counts them
        self._client = OpenAI(base_url=base_url, api_key=api_key or "none", max_retries=0, timeout=timeout_s)

    def __repr__(self) -> str:
        return f"OpenAICompatible({str(self._client.base_url)!r}, {self._model!r})"

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model

    def ask(self, prompt: str) -> Reply:
        """The answer, with the server's usage numbers."""
        messages: Any = [{"role": "user", "content": prompt}]
        answer = self._client.chat.completions.create(model=self._model, messages=messages, **self._options)
        text = answer.choices[0].message.content if answer.choices else None
        return Reply(text or "", *_usage_of(answer))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __call__(self, prompt: str) -> Reply:
        """`ask`, for where a plain function is wanted."""
        return self.ask(prompt)


class _Asked:
    """A model that is asked by one of its methods."""

    def __init__(self, ask: Callable[[str], Any], name: str) -> None:
        self._ask = ask
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def ask(self, prompt: str) -> Reply:
        return as_reply(self._ask(prompt))


def as_chat_model(llm: Any, *, name: str | None = None) -> ChatModel:
    """A chat model from a LangChain model, a LlamaIndex LLM, a `ChatModel`, or a function from prompt to answer.

    Args:
        llm: The model. A function returns a string, a `Reply`, or the answer object of one of the hosts.
        name: What to call it; default: the name it tells, else its function's or class's name.

    Raises:
        ConfigError: The object is none of these.
    """
    if isinstance(llm, ChatModel) and not isinstance(llm, type):
        return llm if name is None else _Asked(llm.ask, name)
    if isinstance(llm, type):
        raise ConfigError(f"llm={llm.__name__} is a class: give an object of it")
    for method in ("invoke", "complete"):
        if callable(getattr(llm, method, None)):
            return _Asked(getattr(llm, method), name or _name_of(llm))
    if callable(llm):
        return _Asked(llm, name or str(getattr(llm, "__qualname__", type(llm).__qualname__)))
    raise ConfigError(
        f"llm={type(llm).__name__} cannot be asked: give a LangChain chat model, a LlamaIndex LLM, an "
        "OpenAICompatible, or a function that takes the prompt and returns the answer"
    )


def _name_of(llm: Any) -> str:
    told = (getattr(llm, "model_name", None), getattr(llm, "model", None), getattr(llm, "model_id", None))
    metadata = getattr(getattr(llm, "metadata", None), "model_name", None)
    names = [name for name in (*told, metadata) if isinstance(name, str) and name and name != "unknown"]
    return names[0] if names else type(llm).__name__


def as_reply(answer: Any) -> Reply:
    """The answer's text and token counts, whatever a model returned.

    Raises:
        ExtractionError: There is no text in it.
    """
    if isinstance(answer, Reply):
        return answer
    text = _text_of(answer)
    if text is None:
        raise ExtractionError(
            f"the model returned {type(answer).__name__}, in which no text was found: return a string, or an apl Reply"
        )
    return Reply(text, *_usage_of(answer))


def _text_of(answer: Any) -> str | None:
    if isinstance(answer, str):
        return str(answer)
    content = getattr(answer, "content", None)  # LangChain: a string or a list of blocks
    if isinstance(content, list):
        blocks = [block if isinstance(block, str) else _block_text(block) for block in content]
        return "".join(blocks)
    for found in (content, getattr(answer, "text", None)):  # LlamaIndex: text
        if isinstance(found, str):
            return str(found)
    message = getattr(answer, "message", None)
    return None if message is None else _text_of(message)


def _block_text(block: Any) -> str:
    text = block.get("text") if isinstance(block, Mapping) else getattr(block, "text", None)
    return text if isinstance(text, str) else ""


def _usage_of(answer: Any) -> tuple[int | None, int | None]:
    """Tokens of prompt and answer as the provider counted them; None for what it does not tell."""
    for place in _places(answer, 0):
        prompt, completion = (_count_in(place, keys) for keys in (_PROMPT_KEYS, _COMPLETION_KEYS))
        if prompt is not None and completion is not None:
            return prompt, completion
    return None, None


def _places(answer: Any, depth: int) -> Iterator[Any]:
    """Where the hosts put usage numbers: on the answer, in its metadata, in the provider's raw response."""
    if answer is None or isinstance(answer, str) or depth > 2:
        return
    yield answer
    for name in _USAGE_PLACES:
        yield from _places(_get(answer, name), depth + 1)


def _get(place: Any, name: str) -> Any:
    return place.get(name) if isinstance(place, Mapping) else getattr(place, name, None)


def _count_in(place: Any, keys: tuple[str, ...]) -> int | None:
    found = (_get(place, key) for key in keys)
    return next((count for count in found if type(count) is int and count >= 0), None)
