"""Embedding with sentence-transformers and with the hosts' own objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apl.errors import ConfigError, EmbeddingError, MissingDependency
from apl.protocols import Embedder
from apl.providers import SentenceTransformerEmbedder, as_embedder
from apl.testing import HashEmbedder

ROWS = [[3.0, 4.0], [0.0, 2.0]]
TEXTS = ["Northstar", "DeltaPay"]


class LangChainLike:
    """What LangChain's `Embeddings` offer."""

    def __init__(self, answer: Any = None, **attributes: Any) -> None:
        self.asked: list[list[str]] = []
        self._answer = ROWS if answer is None else answer
        self.__dict__.update(attributes)

    def embed_documents(self, texts: list[str]) -> Any:
        assert type(texts) is list
        self.asked.append(texts)
        return self._answer

    def embed_query(self, text: str) -> Any:
        raise AssertionError(f"apl embeds {text!r} as the texts it is compared with")


class LlamaIndexLike:
    """What LlamaIndex' `BaseEmbedding` offers."""

    model_name = "org/model"

    def get_text_embedding_batch(self, texts: list[str]) -> list[list[float]]:
        return [[3.0, 4.0] for _ in texts]


class SentenceTransformerLike:
    """What a loaded `SentenceTransformer` offers."""

    name_or_path = "org/model"

    def __init__(self) -> None:
        self.batch_sizes: list[int] = []

    def encode(self, texts: list[str], *, batch_size: int, show_progress_bar: bool, convert_to_numpy: bool) -> Any:
        assert (show_progress_bar, convert_to_numpy) == (False, True)
        self.batch_sizes.append(batch_size)
        return np.array([[3.0, 4.0] for _ in texts], dtype=np.float64)


# --- hosts ------------------------------------------------------------------------------------------------------------


def test_langchain_embeddings_give_unit_rows() -> None:
    """Rows become float32 of length 1; the texts go over in one list."""
    host = LangChainLike()
    vectors = as_embedder(host).embed(tuple(TEXTS))
    assert vectors.dtype == np.float32
    assert np.allclose(vectors, [[0.6, 0.8], [0.0, 1.0]])
    assert host.asked == [TEXTS]


def test_llama_index_embeddings_give_unit_rows() -> None:
    """LlamaIndex' batch method is used, and the model named."""
    embedder = as_embedder(LlamaIndexLike())
    assert embedder.name == "org/model"
    assert np.allclose(embedder.embed(TEXTS), [[0.6, 0.8]] * 2)


@pytest.mark.parametrize(
    ("attributes", "name"),
    [
        ({"model": "text-embedding-3-small"}, "text-embedding-3-small"),
        ({"model_name": "BAAI/bge", "model": "other"}, "BAAI/bge"),
        ({"model": object()}, "LangChainLike"),
        ({}, "LangChainLike"),
    ],
)
def test_host_is_named_by_its_model_else_its_class(attributes: dict[str, Any], name: str) -> None:
    """Only a name that is a string is one."""
    assert as_embedder(LangChainLike(**attributes)).name == name


def test_no_texts_ask_no_host() -> None:
    """An empty batch costs no call and has no rows."""
    host = LangChainLike()
    assert len(as_embedder(host).embed([])) == 0
    assert host.asked == []


@pytest.mark.parametrize(
    "answer",
    [
        ROWS[:1],
        [*ROWS, ROWS[0]],
        ROWS[0],
        [ROWS],
        [[], []],
        [[1.0, 2.0], [1.0]],
        [[1.0, 2.0], None],
        [["a", "b"], ["c", "d"]],
        3.0,
    ],
    ids=["too few", "too many", "one row", "three axes", "no dimension", "ragged", "a gap", "texts", "a number"],
)
def test_wrong_shape_is_an_embedding_error(answer: Any) -> None:
    """What is not one row of numbers a text is refused, with the embedder's name."""
    with pytest.raises(EmbeddingError, match="LangChainLike"):
        as_embedder(LangChainLike(answer)).embed(TEXTS)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_values_that_are_not_finite_are_an_embedding_error(value: float) -> None:
    """A vector without a direction would be nobody's neighbour, silently."""
    with pytest.raises(EmbeddingError, match="not finite"):
        as_embedder(LangChainLike([[1.0, value], [1.0, 0.0]])).embed(TEXTS)


def test_zero_vectors_stay_finite() -> None:
    """A text an embedder has nothing for keeps its zeros; no division by them."""
    vectors = as_embedder(LangChainLike([[0.0, 0.0], [0.0, 2.0]])).embed(TEXTS)
    assert vectors.tolist() == [[0.0, 0.0], [0.0, 1.0]]


def test_host_keeps_its_own_array() -> None:
    """What the host returned, and may have cached, is not written to."""
    rows = np.array(ROWS, dtype=np.float32)
    as_embedder(LangChainLike(rows)).embed(TEXTS)
    assert rows.tolist() == ROWS


# --- sentence-transformers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [SentenceTransformerEmbedder, as_embedder])
def test_loaded_model_embeds_without_loading(make: Callable[[Any], Embedder]) -> None:
    """A SentenceTransformer object is used as it is."""
    embedder = make(SentenceTransformerLike())
    assert embedder.name == "org/model"
    assert np.allclose(embedder.embed(TEXTS), [[0.6, 0.8]] * 2)
    assert len(embedder.embed([])) == 0


def test_batch_size_is_handed_on() -> None:
    """Texts a forward pass, as asked for; an empty batch makes none."""
    model = SentenceTransformerLike()
    embedder = SentenceTransformerEmbedder(model, batch_size=7)
    embedder.embed(TEXTS)
    embedder.embed([])
    assert model.batch_sizes == [7]


@pytest.mark.parametrize("model", ["org/model", Path("models/mini")])
def test_missing_package_names_its_command(monkeypatch: pytest.MonkeyPatch, model: Any) -> None:
    """Without sentence-transformers the first sentence is the command that installs it."""
    monkeypatch.setattr("apl.providers.embedding.find_spec", lambda _name: None)
    for make in (SentenceTransformerEmbedder, as_embedder):
        with pytest.raises(MissingDependency, match=r"pip install 'apl-rag\[local\]'") as caught:
            make(model)
        assert caught.value.command == "pip install 'apl-rag[local]'"


def test_loaded_model_needs_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who brings a model has what it takes."""
    monkeypatch.setattr("apl.providers.embedding.find_spec", lambda _name: None)
    assert len(SentenceTransformerEmbedder(SentenceTransformerLike()).embed(TEXTS)) == 2


@pytest.mark.parametrize("make", [SentenceTransformerEmbedder, as_embedder])
@pytest.mark.parametrize("model", ["org/model", Path("models/mini")])
def test_name_or_path_is_loaded_on_first_use(
    monkeypatch: pytest.MonkeyPatch, model: Any, make: Callable[[Any], Embedder]
) -> None:
    """A string and a path name a model; nothing is loaded before the first text, and then once."""
    monkeypatch.setattr("apl.providers.embedding.find_spec", lambda _name: object())
    loads: list[SentenceTransformerEmbedder] = []

    def load(embedder: SentenceTransformerEmbedder) -> Any:
        loads.append(embedder)
        return SentenceTransformerLike()

    monkeypatch.setattr(SentenceTransformerEmbedder, "_load", load)
    embedder = make(model)
    assert (embedder.name, loads) == (str(model), [])
    for _ in range(2):
        embedder.embed(TEXTS)
    assert loads == [embedder]


# --- anything else ----------------------------------------------------------------------------------------------------


def test_embedder_of_apl_is_used_as_it_is() -> None:
    """An embedder of apl's own needs no wrapper; anybody else's keeps its name and has its vectors checked."""
    own = SentenceTransformerEmbedder("some/model")
    assert as_embedder(own) is own
    wrapped = as_embedder(HashEmbedder())
    assert wrapped.name == HashEmbedder().name
    assert np.array_equal(wrapped.embed(["a b"]), HashEmbedder().embed(["a b"]))


class OnlyQueries:
    """An object that embeds questions but no texts."""

    def embed_query(self, text: str) -> Sequence[float]:
        return [float(len(text))]


@pytest.mark.parametrize("wrong", [None, 3, object(), [HashEmbedder()], OnlyQueries()])
def test_what_embeds_nothing_is_a_config_error(wrong: object) -> None:
    """The message says what an embedder may be."""
    with pytest.raises(ConfigError, match="LangChain or LlamaIndex"):
        as_embedder(wrong)
