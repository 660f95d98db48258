"""Counting tokens by name, by tokenizer object and by function."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiktoken

from apl.errors import ConfigError, TokenizerError
from apl.protocols import TokenCounter
from apl.providers import CallableCounter, HuggingFaceCounter, TiktokenCounter, as_token_counter
from apl.testing import WordCounter


@pytest.fixture
def encodings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The encodings that llama-index-core ships, so that nothing is fetched."""
    found = find_spec("llama_index.core")
    folder = Path(found.origin or "").parent / "_static" / "tiktoken_cache" if found else Path()
    if not found or not folder.is_dir():
        pytest.skip("llama-index-core, which ships the tiktoken encodings, is not installed")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(folder))


def byte_encoding(name: str = "bytes") -> tiktoken.Encoding:
    """An encoding that needs no file: one token a byte."""
    ranks = {bytes([value]): value for value in range(256)}
    return tiktoken.Encoding(name=name, pat_str=r"\w+|\W", mergeable_ranks=ranks, special_tokens={})


# --- tiktoken ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("encodings")
def test_encoding_counts_as_tiktoken_does() -> None:
    """`o200k_base` is the default and counts what tiktoken counts; nothing costs nothing."""
    counter = as_token_counter("o200k_base")
    text = "Northstar acquired DeltaPay in March 2022. 北京 😀"
    assert counter.name == TiktokenCounter().name == "tiktoken:o200k_base"
    assert counter.count(text) == len(tiktoken.get_encoding("o200k_base").encode(text))
    assert counter.count_many([text, "", "Northstar"]) == [counter.count(text), 0, counter.count("Northstar")]


@pytest.mark.usefixtures("encodings")
@pytest.mark.parametrize(("model", "encoding"), [("gpt-4o-mini", "o200k_base"), ("gpt-4", "cl100k_base")])
def test_model_name_stands_for_its_encoding(model: str, encoding: str) -> None:
    """Two models of one encoding count alike, and are called alike."""
    by_model, by_encoding = as_token_counter(model), as_token_counter(encoding)
    assert by_model.name == by_encoding.name == f"tiktoken:{encoding}"
    assert by_model.count("Northstar acquired DeltaPay.") == by_encoding.count("Northstar acquired DeltaPay.")


@pytest.mark.usefixtures("encodings")
def test_special_tokens_in_a_text_are_text() -> None:
    """A document that spells a control token neither fails nor counts as one token."""
    text = "The mark <|endoftext|> ends a text."
    encoding = tiktoken.get_encoding("o200k_base")
    assert (
        TiktokenCounter().count(text)
        == len(encoding.encode_ordinary(text))
        > len(encoding.encode(text, allowed_special="all"))
    )


@pytest.mark.usefixtures("encodings")
def test_half_a_surrogate_pair_is_counted() -> None:
    """A broken text costs tokens, not the call."""
    assert TiktokenCounter().count("Northstar \ud800") > TiktokenCounter().count("Northstar")


@pytest.mark.parametrize("name", ["gpt-99-unheard-of-model?", "", "o200k-base", "llama-3"])
def test_unknown_name_lists_the_encodings(name: str) -> None:
    """The message names the encodings there are and the other ways to count."""
    with pytest.raises(TokenizerError, match="o200k_base") as caught:
        as_token_counter(name)
    assert all(known in str(caught.value) for known in tiktoken.list_encoding_names())
    assert "Hugging Face" in str(caught.value)


def test_encoding_that_cannot_be_fetched_says_how_to_bring_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a network the message names TIKTOKEN_CACHE_DIR and the cause."""

    def offline(_name: str) -> tiktoken.Encoding:
        raise ConnectionError("no route to host")

    monkeypatch.setattr("tiktoken.get_encoding", offline)
    with pytest.raises(TokenizerError, match=r"no route to host.*TIKTOKEN_CACHE_DIR"):
        TiktokenCounter("o200k_base")


@pytest.mark.parametrize("name", ["bytes", "o200k_base"])
def test_encoding_object_counts_by_itself(name: str) -> None:
    """An Encoding that was handed over is used, whatever its name stands for elsewhere."""
    counter = as_token_counter(byte_encoding(name))
    assert counter.name == f"tiktoken:{name}"
    assert counter.count("DeltaPay") == 8


# --- callables --------------------------------------------------------------------------------------------------------


def letters(text: str) -> int:
    return len(text)


@pytest.mark.parametrize(
    "function",
    [
        letters,
        str.split,
        lambda text: text.split(),
        lambda text: tuple(text.split()),
        lambda text: np.arange(len(text)),
    ],
)
def test_callable_returns_the_number_or_the_tokens(function: Any) -> None:
    """A whole number is taken as it is, tokens are counted."""
    counted = function("Northstar acquired DeltaPay")
    expected = counted if isinstance(counted, int) else len(counted)
    counter = as_token_counter(function)
    assert counter.count("Northstar acquired DeltaPay") == expected
    assert counter.count_many(["Northstar acquired DeltaPay", ""])[0] == expected


def test_callable_may_return_a_whole_number_of_numpy() -> None:
    """`np.int64` is a whole number, and comes back as `int`."""
    counted = as_token_counter(lambda text: np.int64(len(text))).count("abc")
    assert (counted, type(counted)) == (3, int)


def test_callable_is_named_after_itself() -> None:
    """The store remembers a function by its qualified name, or by the name it was given."""
    assert as_token_counter(letters).name == "callable:letters"
    assert CallableCounter(letters, name="glm").name == "callable:glm"


@pytest.mark.parametrize("nonsense", [None, -1, 2.5, True, object()])
def test_callable_that_returns_nonsense_is_a_tokenizer_error(nonsense: object) -> None:
    """What is neither a whole number >= 0 nor has a length is named in the message."""
    with pytest.raises(TokenizerError, match="has to return the number of tokens"):
        as_token_counter(lambda _text: nonsense).count("abc")


@pytest.mark.parametrize("nonsense", [{"input_ids": [1, 2, 3], "attention_mask": [1, 1, 1]}, "abc"])
def test_length_of_a_mapping_or_text_is_no_number_of_tokens(nonsense: object) -> None:
    """`hf_tokenizer(text)` gives a mapping: its two keys are not two tokens, as letters are not."""
    with pytest.raises(TokenizerError):
        as_token_counter(lambda _text: nonsense).count("abc")


# --- Hugging Face -----------------------------------------------------------------------------------------------------


@pytest.fixture
def word_level() -> Any:
    """A tiny `tokenizers.Tokenizer` that frames every prompt with [CLS] and [SEP]."""
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "[PAD]": 3, "Northstar": 4, "acquired": 5, "DeltaPay": 6}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))  # noqa: S106
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return tokenizer


def test_tokenizer_counts_without_special_tokens(word_level: Any) -> None:
    """The frame of a whole prompt is not part of a text."""
    counter = as_token_counter(word_level)
    assert counter.name == "hf:Tokenizer"
    assert len(word_level.encode("Northstar acquired DeltaPay").ids) == 5
    assert counter.count("Northstar acquired DeltaPay") == 3
    assert counter.count_many(["", "Northstar acquired it in cash ."]) == [0, 6]


def test_tokenizer_that_cuts_or_pads_is_counted_exactly(word_level: Any) -> None:
    """Truncation and padding, as saved with many a tokenizer.json, do not change how long a text is."""
    word_level.enable_truncation(4)
    word_level.enable_padding(length=4, pad_id=3, pad_token="[PAD]")  # noqa: S106
    counter = as_token_counter(word_level)
    assert counter.count("Northstar") == 1
    assert counter.count("Northstar acquired DeltaPay " * 5) == 15
    assert len(word_level.encode("Northstar").ids) == 4, "the user's own tokenizer is left as it is"


class TransformersLike:
    """What transformers' tokenizers have: `encode` to a list, `vocab_size`, `name_or_path`."""

    vocab_size = 100
    name_or_path = "org/model"

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        return [7] * (len(text.split()) + 2 * add_special_tokens)

    def __call__(self, text: str) -> dict[str, list[int]]:
        return {"input_ids": self.encode(text)}


def test_transformers_tokenizer_counts_without_special_tokens() -> None:
    """It is known by where it was loaded from, or by the name it is given; being callable does not matter."""
    counter = as_token_counter(TransformersLike())
    assert counter.name == "hf:org/model"
    assert counter.count("Northstar acquired DeltaPay") == 3
    assert HuggingFaceCounter(TransformersLike(), name="mine").name == "hf:mine"


# --- anything else ----------------------------------------------------------------------------------------------------


def test_counter_is_used_as_it_is() -> None:
    """An object that counts already is handed through."""
    counter = WordCounter()
    assert as_token_counter(counter) is counter
    assert isinstance(as_token_counter(letters), TokenCounter)


@pytest.mark.parametrize("wrong", [None, 3, ["o200k_base"], object()])
def test_what_counts_nothing_is_a_config_error(wrong: object) -> None:
    """The message says what a tokenizer may be."""
    with pytest.raises(ConfigError, match="tiktoken encoding or model name"):
        as_token_counter(wrong)
