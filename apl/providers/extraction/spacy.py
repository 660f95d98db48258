"""Triples by dependency rules over a spaCy pipeline: the offline default (paper 3.3)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from apl.errors import ConfigError, ExtractionError, MissingDependency
from apl.providers.extraction.rules.clauses import sentence_triples
from apl.providers.extraction.rules.noun_phrases import noun_phrase_triples
from apl.providers.extraction.rules.reference import Topic
from apl.providers.extraction.rules.surface import telegraphic, unparsed
from apl.providers.extraction.rules.universal import Labels, labels_of, universal_triples
from apl.sentences import heading_words
from apl.symbols import ExtractedTriple, Extraction, Passage
from apl.text import NEGATIONS, is_encodable

logger = logging.getLogger(__name__)

_DEGREES = ("JJR", "JJS", "RBR", "RBS")
_READ_KINDS = ("prose", "list")


class SpacyExtractor:
    """Reads triples with a spaCy dependency parser, without a network or a language model.

    Each sentence becomes edges that together say all of it; titles stand for the pronouns that certainly mean them. A
    pipeline without a parser is read by noun phrases: fewer sentences, one edge each.

    Args:
        pipeline: Name of an installed spaCy package, path of one, or a loaded `Language` object: small, medium or
            transformer. A name or path is loaded at the first sentence.
        batch_size: Sentences that are parsed at once.
        n_process: Processes that parse. Where whole passages are read in several processes
            (`layer.index(workers=...)`), leave it at 1.

    Raises (by `extract`):
        MissingDependency: spaCy or the pipeline is not installed; the message names the command.
        ExtractionError: The path holds no pipeline.
    """

    def __init__(self, pipeline: str | Any = "en_core_web_sm", *, batch_size: int = 64, n_process: int = 1) -> None:
        for name, value in (("batch_size", batch_size), ("n_process", n_process)):
            if type(value) is not int or value < 1:
                raise ConfigError(f"{name} is a whole number >= 1, not {value!r}")
        self._pipeline = pipeline
        self._batch_size = batch_size
        self._n_process = n_process
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self._language: Any = None

    def __getstate__(self) -> dict[str, Any]:
        """What a worker process needs; a pipeline that was named is loaded there again."""
        return {"pipeline": self._pipeline, "batch_size": self._batch_size, "n_process": self._n_process}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    @property
    def name(self) -> str:
        """`spacy:` and the pipeline's package name, e.g. `spacy:en_core_web_sm`."""
        if isinstance(self._pipeline, (str, Path)):
            return f"spacy:{Path(self._pipeline).name}"
        return f"spacy:{self._pipeline.meta['lang']}_{self._pipeline.meta['name']}"

    def extract(self, passages: Sequence[Passage]) -> list[Extraction]:
        """One `Extraction` a passage: the triples of its prose and list items, in reading order."""
        units = [
            (number, sentence.position, " ".join(_encodable(sentence.text).split()))
            for number, passage in enumerate(passages)
            for sentence in passage.sentences
            if sentence.kind in _READ_KINDS
        ]
        found = [_Found(Topic(_title_of(passage))) for passage in passages]
        if units:
            language, labels = self._loaded()
            with self._forgetting(language):
                for (number, position, _), doc in zip(units, self._docs(language, units), strict=True):
                    found[number].add(position, doc, labels)
        read, fallbacks = sum(len(one.triples) for one in found), sum(one.fallbacks for one in found)
        logger.info("%s: %d triples in %d sentences", self.name, read, len(units))
        if fallbacks:
            logger.warning(
                "%s has no dependency parser that is understood: %d sentences were read by their noun phrases, which "
                "carries fewer of them; en_core_web_sm has one (python -m spacy download en_core_web_sm)",
                self.name, fallbacks,
            )  # fmt: skip
        return [one.extraction() for one in found]

    @contextmanager
    def _forgetting(self, language: Any) -> Iterator[None]:
        """Let the pipeline's vocabulary forget the words of these texts, or it grows with the corpus.

        Only for a pipeline that nobody else uses, one thread at a time; processes of its own forget by ending.
        """
        if not isinstance(self._pipeline, (str, Path)) or self._n_process > 1 or not hasattr(language, "memory_zone"):
            yield
            return
        with self._reading, language.memory_zone():
            yield

    def _docs(self, language: Any, units: Sequence[tuple[int, int, str]]) -> Iterator[Any]:
        parses = any("token.dep" in language.get_pipe_meta(pipe).assigns for pipe in language.pipe_names)
        made = (unparsed(language, text) if parses else language.make_doc(text) for _, _, text in units)
        docs: Iterator[Any] = language.pipe(
            made, batch_size=self._batch_size, n_process=self._n_process, disable=["ner"]
        )
        return docs

    def _loaded(self) -> tuple[Any, Labels]:
        with self._lock:
            if self._language is None:
                language = _load(self._pipeline) if isinstance(self._pipeline, (str, Path)) else self._pipeline
                self._language = language, labels_of(language)
                logger.debug("%s: %s labels", self.name, self._language[1])
            return self._language  # type: ignore[no-any-return]


class _Found:
    """What was read in one passage so far."""

    def __init__(self, topic: Topic) -> None:
        self.triples: list[ExtractedTriple] = []
        self.fallbacks = 0
        self._topic = topic
        self._lemmas: dict[str, str] = {}
        self._short: dict[int, str] = {}

    def add(self, position: int, doc: Any, labels: Labels) -> None:
        """Read one sentence."""
        labels = labels_of(doc) if labels == "unknown" else labels
        if labels == "clear":
            read = sentence_triples(doc, self._topic)
            self._short[position] = telegraphic(doc)
        elif labels == "unknown":
            read = noun_phrase_triples(doc)
            self.fallbacks += 1
        else:
            read = universal_triples(doc, self._topic.title or None)
        self.triples.extend(ExtractedTriple(triple, position) for triple in read)
        _note_lemmas(self._lemmas, doc)

    def extraction(self) -> Extraction:
        """All of it."""
        lemmas = {word: lemma for word, lemma in self._lemmas.items() if word != lemma}
        return Extraction(tuple(self.triples), lemmas, short=self._short, fallbacks=self.fallbacks)


def _encodable(text: str) -> str:
    """The text, with a question mark for every half of a surrogate pair, which no tokenizer takes."""
    return text if is_encodable(text) else text.encode("utf-8", "replace").decode("utf-8")


def _title_of(passage: Passage) -> str:
    """The chunk's title, or the heading its text begins with."""
    first = passage.sentences[0] if passage.sentences else None
    heading = first.text if first is not None and first.kind == "title" else None
    return heading_words(passage.chunk.title or heading or "")


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
