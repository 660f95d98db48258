"""Triples by dependency rules over a spaCy pipeline: the offline default (paper 3.3)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from apl.errors import ExtractionError, MissingDependency
from apl.providers.extraction.clauses import sentence_triples, unparsed
from apl.symbols import ExtractedTriple, Extraction, Passage
from apl.text import NEGATIONS

logger = logging.getLogger(__name__)

_DEGREES = ("JJR", "JJS", "RBR", "RBS")
_READ_KINDS = ("prose", "list", "title")


class SpacyExtractor:
    """Reads triples with a spaCy dependency parser, without a network or a language model.

    Args:
        pipeline: Name of an installed spaCy package, path of one, or a loaded `Language` object. A name or path is
            loaded at the first sentence.
        batch_size: Sentences that are parsed at once.

    Raises (by `extract`):
        MissingDependency: spaCy or the pipeline is not installed; the message names the command.
        ExtractionError: The pipeline has no dependency parser, or the path holds no pipeline.
    """

    def __init__(self, pipeline: str | Any = "en_core_web_sm", *, batch_size: int = 64) -> None:
        self._pipeline = pipeline
        self._batch_size = batch_size
        self._lock = threading.Lock()
        self._language: Any = None

    def __getstate__(self) -> dict[str, Any]:
        """What a worker process needs; a pipeline that was named is loaded there again."""
        return {"pipeline": self._pipeline, "batch_size": self._batch_size}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    @property
    def name(self) -> str:
        """`spacy:` and the pipeline's package name, e.g. `spacy:en_core_web_sm`."""
        if isinstance(self._pipeline, (str, Path)):
            return f"spacy:{Path(self._pipeline).name}"
        return f"spacy:{self._pipeline.meta['lang']}_{self._pipeline.meta['name']}"

    def extract(self, passages: Sequence[Passage]) -> list[Extraction]:
        """One `Extraction` a passage: the triples of its prose, list items and headings, in reading order."""
        units = [
            (number, sentence.position, " ".join(sentence.text.split()))
            for number, passage in enumerate(passages)
            for sentence in passage.sentences
            if sentence.kind in _READ_KINDS
        ]
        triples: list[list[ExtractedTriple]] = [[] for _ in passages]
        lemmas: list[dict[str, str]] = [{} for _ in passages]
        language = self._loaded() if units else None
        docs = (unparsed(language, text) for _, _, text in units)
        if language is not None:
            docs = language.pipe(docs, batch_size=self._batch_size, disable=["ner"])
        for (number, position, _), doc in zip(units, docs, strict=True):
            triples[number].extend(ExtractedTriple(triple, position) for triple in sentence_triples(doc))
            _note_lemmas(lemmas[number], doc)
        logger.info("%s: %d triples in %d sentences", self.name, sum(map(len, triples)), len(units))
        return [
            Extraction(tuple(found), {word: lemma for word, lemma in known.items() if word != lemma})
            for found, known in zip(triples, lemmas, strict=True)
        ]

    def _loaded(self) -> Any:
        with self._lock:
            if self._language is None:
                language = _load(self._pipeline) if isinstance(self._pipeline, (str, Path)) else self._pipeline
                if not any("token.dep" in language.get_pipe_meta(pipe).assigns for pipe in language.pipe_names):
                    raise ExtractionError(
                        f"The spaCy pipeline '{self.name}' has no dependency parser: enable it, or use one that has, "
                        "such as en_core_web_sm (python -m spacy download en_core_web_sm)."
                    )
                self._language = language
            return self._language


def _load(pipeline: str | Path) -> Any:
    try:
        import spacy
    except ImportError as error:
        command = "pip install 'apl-rag[spacy]'"
        raise MissingDependency(f"SpacyExtractor needs spaCy: {command}", command=command) from error
    try:
        return spacy.load(pipeline)
    except OSError as error:
        if Path(pipeline).exists():
            raise ExtractionError(f"'{pipeline}' is not a spaCy pipeline: {error}") from error
        command = f"python -m spacy download {pipeline}"
        message = f"The spaCy pipeline '{pipeline}' is not installed: {command}"
        raise MissingDependency(message, command=command) from error


def _note_lemmas(known: dict[str, str], doc: Any) -> None:
    """Keep the first lemma of each word; negations and degrees ("more" is not "many") stay as they are."""
    if doc.has_annotation("LEMMA"):
        for token in doc:
            word, lemma = token.text.casefold(), token.lemma_.strip().casefold()
            if token.is_alpha and lemma and word not in NEGATIONS and token.tag_ not in _DEGREES:
                known.setdefault(word, lemma)
