"""Token counters: tiktoken by encoding or model name, a Hugging Face tokenizer, or any callable."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any

import tiktoken

from apl.errors import ConfigError, TokenizerError
from apl.protocols import TokenCounter


class TiktokenCounter:
    """Counts by a tiktoken encoding; special tokens in a text are counted as ordinary text.

    Args:
        name: An encoding ("o200k_base"), a model ("gpt-4o-mini"), or a `tiktoken.Encoding`.

    Raises:
        TokenizerError: The name is unknown, or the encoding cannot be loaded.
    """

    def __init__(self, name: str | tiktoken.Encoding = "o200k_base") -> None:
        self._encoding = name if isinstance(name, tiktoken.Encoding) else _load_encoding(name)

    @property
    def name(self) -> str:
        """The encoding's name: two models of one encoding count alike."""
        return f"tiktoken:{self._encoding.name}"

    def count(self, text: str) -> int:
        """Tokens of exactly this text."""
        return len(self._encoding.encode_ordinary(text))

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text."""
        return [self.count(text) for text in texts]


def _load_encoding(name: str) -> tiktoken.Encoding:
    try:
        if name not in tiktoken.list_encoding_names():
            name = tiktoken.encoding_name_for_model(name)
        return tiktoken.get_encoding(name)
    except KeyError as error:
        known = ", ".join(tiktoken.list_encoding_names())
        raise TokenizerError(
            f"tiktoken knows neither an encoding nor a model named {name!r}. Encodings: {known}. "
            "For another model hand over its Hugging Face tokenizer, or any callable text -> int."
        ) from error
    except Exception as error:
        raise TokenizerError(
            f"the encoding {name!r} could not be loaded ({type(error).__name__}: {error}). tiktoken fetches it once; "
            "without a network point TIKTOKEN_CACHE_DIR at a folder that holds it, or give a tokenizer or a callable."
        ) from error


class HuggingFaceCounter:
    """Counts by a tokenizer of transformers or tokenizers, without the special tokens of a whole prompt."""

    def __init__(self, tokenizer: Any, *, name: str | None = None) -> None:
        self._tokenizer = _uncut(tokenizer)
        self._name = name or str(getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__)

    @property
    def name(self) -> str:
        """The path or hub name the tokenizer was loaded from, else its class."""
        return f"hf:{self._name}"

    def count(self, text: str) -> int:
        """Tokens of exactly this text."""
        encoded = self._tokenizer.encode(text, add_special_tokens=False)
        return len(getattr(encoded, "ids", encoded))

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text."""
        return [self.count(text) for text in texts]


def _uncut(tokenizer: Any) -> Any:
    """A tokenizer of `tokenizers` that neither cuts nor pads; the given one is left as it is."""
    if not (hasattr(tokenizer, "no_truncation") and hasattr(tokenizer, "no_padding")):
        return tokenizer
    uncut = copy.deepcopy(tokenizer)
    uncut.no_truncation()
    uncut.no_padding()
    return uncut


class CallableCounter:
    """Counts by a function from a text to its tokens or to their number."""

    def __init__(self, function: Callable[[str], Any], *, name: str | None = None) -> None:
        self._function = function
        self._name = name or str(getattr(function, "__qualname__", type(function).__qualname__))

    @property
    def name(self) -> str:
        """The function's qualified name."""
        return f"callable:{self._name}"

    def count(self, text: str) -> int:
        """Tokens of exactly this text.

        Raises:
            TokenizerError: The function failed, or returned neither a whole number >= 0 nor a list of tokens.
        """
        try:
            counted = self._function(text)
        except Exception as error:
            raise TokenizerError(f"the token counter {self._name} failed ({type(error).__name__}: {error})") from error
        if type(counted) is not bool and isinstance(counted, Integral) and int(counted) >= 0:
            return int(counted)
        if hasattr(counted, "__len__") and not isinstance(counted, Mapping | str | bytes):
            return len(counted)
        raise TokenizerError(
            f"the token counter {self._name} returned {counted!r}; it has to return the number of tokens"
        )

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text."""
        return [self.count(text) for text in texts]


def as_token_counter(tokenizer: Any) -> TokenCounter:
    """A counter from whatever names a tokenizer: a name, a Hugging Face tokenizer, a counter, a callable.

    Raises:
        TokenizerError: The named encoding is unknown or cannot be loaded.
        ConfigError: The object is none of these.
    """
    if isinstance(tokenizer, str):
        return TiktokenCounter(tokenizer)
    if isinstance(tokenizer, TokenCounter):
        return tokenizer
    if hasattr(tokenizer, "encode") and (hasattr(tokenizer, "get_vocab") or hasattr(tokenizer, "vocab_size")):
        return HuggingFaceCounter(tokenizer)
    if isinstance(tokenizer, tiktoken.Encoding):
        return TiktokenCounter(tokenizer)
    if callable(tokenizer):
        return CallableCounter(tokenizer)
    raise ConfigError(
        f"tokenizer={tokenizer!r} is no tokenizer: give a tiktoken encoding or model name, "
        "a Hugging Face tokenizer, or a callable text -> int"
    )
