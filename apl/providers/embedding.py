"""Embedders: sentence-transformers by name or path, and any embeddings object of LangChain or LlamaIndex."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from apl.errors import ConfigError, EmbeddingError, MissingDependency
from apl.protocols import Embedder, QuestionEmbedder, Vectors

DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"


def unit_rows(vectors: Any, expected_rows: int, name: str) -> Vectors:
    """The vectors as finite float32 unit rows, shape (expected_rows, dimension).

    Raises:
        EmbeddingError: The shape is wrong or a value is not finite.
    """
    try:
        array = np.asarray(vectors, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise EmbeddingError(f"{name} returned something that is no list of vectors of one length ({error})") from error
    if expected_rows == 0:
        return array.reshape(0, array.shape[-1] if array.ndim > 1 else 0)
    if array.ndim != 2 or array.shape[0] != expected_rows or array.shape[1] == 0:
        raise EmbeddingError(
            f"{name} returned shape {array.shape} for {expected_rows} texts; expected (texts, dimension)"
        )
    if not np.isfinite(array).all():
        raise EmbeddingError(f"{name} returned a vector that is not finite")
    norms = np.linalg.norm(array, axis=1, keepdims=True)
    norms[norms == 0] = 1
    unit: Vectors = array / norms
    return unit


class SentenceTransformerEmbedder:
    """Embeds with a sentence-transformers model, loaded on first use, usable from many threads.

    Args:
        model: Hub name, path, or a loaded `SentenceTransformer`.
        device: Passed to sentence-transformers; None lets it choose.
        batch_size: Texts a forward pass.

    Raises:
        MissingDependency: sentence-transformers is not installed.
    """

    def __init__(self, model: Any = DEFAULT_MODEL, *, device: str | None = None, batch_size: int = 64) -> None:
        self._model: Any = None if isinstance(model, str) or hasattr(model, "__fspath__") else model
        self._source = str(model) if self._model is None else str(getattr(model, "name_or_path", type(model).__name__))
        self._device = device
        self._batch_size = batch_size
        self._lock = threading.Lock()
        if self._model is None and find_spec("sentence_transformers") is None:
            command = "pip install 'apl-rag[local]'"
            raise MissingDependency(
                f"SentenceTransformerEmbedder needs sentence-transformers: {command}", command=command
            )

    @property
    def name(self) -> str:
        """The model's name or path."""
        return self._source

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Shape (len(texts), dimension), unit rows."""
        if not texts:
            return np.zeros((0, 0), dtype=np.float32)
        return unit_rows(self._encoded("encode_document", texts), len(texts), self.name)

    def embed_question(self, question: str) -> Vectors:
        """Shape (dimension,), with the query prompt of a model that has one."""
        vector: Vectors = unit_rows(self._encoded("encode_query", [question]), 1, self.name)[0]
        return vector

    def _encoded(self, method: str, texts: Sequence[str]) -> Any:
        with self._lock:
            if self._model is None:
                self._model = self._load()
            encode = getattr(self._model, method, None) or self._model.encode
            return encode(list(texts), batch_size=self._batch_size, show_progress_bar=False, convert_to_numpy=True)

    def _load(self) -> Any:
        from sentence_transformers import SentenceTransformer

        try:
            return SentenceTransformer(self._source, device=self._device)
        except Exception as error:
            raise EmbeddingError(
                f"sentence-transformers could not load {self._source!r} ({type(error).__name__}: {error}); "
                "give the name of a model on the hub or the path of a folder that holds one"
            ) from error


class _HostEmbedder:
    """Embeds through somebody else's object; its vectors are checked and made unit rows."""

    def __init__(self, host: Any, method: str) -> None:
        self._host = host
        self._method = method
        told = (getattr(host, key, None) for key in ("name", "model_name", "model"))
        self._name = next((name for name in told if isinstance(name, str)), type(host).__name__)

    @property
    def name(self) -> str:
        """The model the object names, else its class."""
        return self._name

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Shape (len(texts), dimension), unit rows."""
        if not texts:
            return np.zeros((0, 0), dtype=np.float32)
        return unit_rows(self._asked(self._method, list(texts)), len(texts), self.name)

    def embed_question(self, question: str) -> Vectors:
        """Shape (dimension,), by the object's own method for questions where it has one."""
        for method in ("embed_question", "embed_query", "get_query_embedding"):
            if callable(getattr(self._host, method, None)):
                vector: Vectors = unit_rows([self._asked(method, question)], 1, self.name)[0]
                return vector
        first: Vectors = self.embed([question])[0]
        return first

    def _asked(self, method: str, argument: Any) -> Any:
        try:
            return getattr(self._host, method)(argument)
        except Exception as error:
            raise EmbeddingError(f"the embedder {self.name} failed ({type(error).__name__}: {error})") from error


def as_embedder(embedder: Any) -> QuestionEmbedder:
    """A `QuestionEmbedder` from whatever embeds: one of apl's, or any LangChain or LlamaIndex embeddings object.

    Raises:
        ConfigError: The object embeds in none of the known ways.
    """
    if isinstance(embedder, SentenceTransformerEmbedder):
        return embedder
    if isinstance(embedder, str) or hasattr(embedder, "__fspath__"):
        return SentenceTransformerEmbedder(embedder)
    if isinstance(embedder, Embedder):
        return _HostEmbedder(embedder, "embed")
    for method in ("embed_documents", "get_text_embedding_batch"):
        if callable(getattr(embedder, method, None)):
            return _HostEmbedder(embedder, method)
    if callable(getattr(embedder, "encode", None)):
        return SentenceTransformerEmbedder(embedder)
    raise ConfigError(
        f"embedder={embedder!r} does not embed: give a SentenceTransformerEmbedder, a LangChain or LlamaIndex "
        "embeddings object, or an object with `name` and `embed(texts)`"
    )
