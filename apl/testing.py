"""Fakes for tests and offline trials: deterministic, dependency-free, honest about being fakes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from apl.protocols import Vectors
from apl.symbols import ExtractedTriple, Extraction, Passage, Triple
from apl.text import words


class HashEmbedder:
    """Embeds a text as the unit sum of one fixed random direction a word: shared words make near vectors.

    The same in every process and batch. Not a model: synonyms are strangers.
    """

    def __init__(self, dimension: int = 64, *, name: str = "hash") -> None:
        self._dimension = dimension
        self._name = name
        self._directions: dict[str, Vectors] = {}

    @property
    def name(self) -> str:
        """`hash-<dimension>`, or as given."""
        return f"{self._name}-{self._dimension}"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Shape (len(texts), dimension), unit rows; a text without words points along the first axis."""
        rows = np.zeros((len(texts), self._dimension), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in words(text):
                row += self._direction(word)
            norm = float(np.linalg.norm(row))
            if norm < 1e-6:
                row[0] = norm = 1.0
            row /= norm
        return rows

    def _direction(self, word: str) -> Vectors:
        if word not in self._directions:
            seed = int.from_bytes(hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest())
            direction = np.random.default_rng(seed).standard_normal(self._dimension)
            self._directions[word] = (direction / np.linalg.norm(direction)).astype(np.float32)
        return self._directions[word]


class ScriptedExtractor:
    """Returns the triples a test wrote down, by chunk id or by the chunk's text."""

    def __init__(self, script: Mapping[str, Iterable[tuple[str, str, str]]], *, name: str = "scripted") -> None:
        self._script = {key: [Triple(*triple) for triple in triples] for key, triples in script.items()}
        self._name = name

    @property
    def name(self) -> str:
        """The label of the occurrences."""
        return self._name

    def extract(self, passages: Sequence[Passage]) -> list[Extraction]:
        """One `Extraction` a passage; a passage the script does not name has none."""
        extractions = []
        for passage in passages:
            triples = self._script.get(passage.chunk.id or "", self._script.get(passage.chunk.text, []))
            extractions.append(Extraction(tuple(ExtractedTriple(triple) for triple in triples)))
        return extractions


class WordCounter:
    """Counts words and punctuation marks: a tokenizer anyone can check by hand."""

    _TOKEN = re.compile(r"\w+|[^\w\s]")

    @property
    def name(self) -> str:
        """`words`."""
        return "words"

    def count(self, text: str) -> int:
        """Runs of word characters plus single other visible characters."""
        return len(self._TOKEN.findall(text))

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text."""
        return [self.count(text) for text in texts]
