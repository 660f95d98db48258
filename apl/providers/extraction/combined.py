"""Several extractors as one: everything they read, and per sentence the edges that carry it for the fewest tokens."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from apl.errors import ConfigError, ExtractionError
from apl.protocols import TripleExtractor
from apl.providers.extraction.precomputed import PrecomputedExtractor
from apl.providers.tokens import as_token_counter
from apl.reports import ExtractionUsage
from apl.symbols import ExtractedTriple, Extraction, Passage, Triple
from apl.text import is_carried, keeps_content
from apl.triples import Aligner, is_usable

logger = logging.getLogger(__name__)

_Edges = tuple[Triple, ...]


class CombinedExtractor:
    """Reads with several extractors and keeps, sentence by sentence, what carries it for the fewest tokens.

    The candidates for a sentence are the edges of each extractor and the edges of all. Of those that carry it by the
    coverage guard the cheapest stays, the first on a tie, and the others are dropped. Where none carries it, all
    edges stay: the graph keeps them, the sentence goes out as a quote. Triples of no sentence stay.

    Args:
        extractors: In order of preference.
        tokenizer: Counts what an edge costs: whatever `AutoPrunedLayer.open` takes.

    Of the lemmas of a word the first that an extractor gives counts. As long as the extractors do not differ in
    lemmas, no sentence is lost that one of them alone would carry. An error of an extractor is an error of the whole:
    half of the edges without a word would be worse.

    Raises:
        ConfigError: There is no extractor, or something is none.
        TokenizerError: The tokenizer cannot be loaded.
        ExtractionError (by `extract`): An extractor did not return one `Extraction` a passage.
    """

    def __init__(self, extractors: Iterable[TripleExtractor], *, tokenizer: Any = "o200k_base") -> None:
        self._extractors = tuple(extractors)
        self._tokenizer = tokenizer
        self._counter = as_token_counter(tokenizer)
        strange = [extractor for extractor in self._extractors if not isinstance(extractor, TripleExtractor)]
        if strange or not self._extractors:
            what = f"{strange[0]!r} is none" if strange else "there is none"
            raise ConfigError(f"extractors= takes objects with `name` and `extract(passages)`; {what}")

    def __getstate__(self) -> dict[str, Any]:
        """What a worker process needs."""
        return {"extractors": self._extractors, "tokenizer": self._tokenizer}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    @property
    def name(self) -> str:
        """The names of the extractors, e.g. `spacy:en_core_web_sm+rebel:rebel-large`."""
        return "+".join(extractor.name for extractor in self._extractors)

    @property
    def in_process_only(self) -> bool:
        """True when one of them asks for it, save for a table, which may go along with the others."""
        stay = (e for e in self._extractors if getattr(e, "in_process_only", False))
        return any(not isinstance(extractor, PrecomputedExtractor) for extractor in stay)

    @property
    def usage(self) -> ExtractionUsage | None:
        """What those that keep count have spent so far; None: none does."""
        spent = [u for e in self._extractors if isinstance(u := getattr(e, "usage", None), ExtractionUsage)]
        return sum(spent[1:], spent[0]) if spent else None

    def extract(self, passages: Sequence[Passage]) -> list[Extraction]:
        """One `Extraction` a passage, its triples sentence by sentence, those of no sentence last."""
        read = [list(extractor.extract(passages)) for extractor in self._extractors]
        for extractor, extractions in zip(self._extractors, read, strict=True):
            if len(extractions) != len(passages):
                raise ExtractionError(
                    f"{extractor.name} returned {len(extractions)} extractions for {len(passages)} passages"
                )
        combined = [self._combined(passage, own) for passage, *own in zip(passages, *read, strict=True)]
        kept, found = (sum(len(e.triples) for e in some) for some in (combined, (e for own in read for e in own)))
        logger.info("%s: %d triples kept of %d", self.name, kept, found)
        return combined

    def _combined(self, passage: Passage, extractions: Sequence[Extraction]) -> Extraction:
        lemmas = _merged(extraction.lemmas for extraction in extractions)
        aligned = [_by_sentence(extraction, passage) for extraction in extractions]
        texts: dict[int | None, str] = {sentence.position: sentence.text for sentence in passage.sentences}
        triples: list[ExtractedTriple] = []
        for position in (*texts, None):
            own = [edges for said, _ in aligned if (edges := tuple(said.get(position, ())))]
            union = tuple(dict.fromkeys(edge for edges in own for edge in edges))
            chosen = union if position is None else self._cheapest(texts[position], [*own, union], lemmas)
            triples += [ExtractedTriple(edge, position) for edge in chosen]
        return Extraction(
            tuple(triples),
            lemmas,
            malformed=sum(extraction.malformed for extraction in extractions) + sum(bad for _, bad in aligned),
            unsupported=sum(extraction.unsupported for extraction in extractions),
            short=_shortest_quotes(passage, extractions, lemmas),
            fallbacks=sum(extraction.fallbacks for extraction in extractions),
        )

    def _cheapest(self, sentence: str, candidates: Sequence[_Edges], lemmas: Mapping[str, str]) -> _Edges:
        """The first of the cheapest candidates that carry the sentence; the last one, which is all, if none does."""
        different = list(dict.fromkeys(candidates))
        carrying = [edges for edges in different if len(different) > 1 and is_carried(sentence, edges, lemmas)]
        costs = self._counter.count_many([_outline(edges) for edges in carrying])
        return min(zip(costs, carrying, strict=True), key=lambda item: item[0])[1] if carrying else candidates[-1]


def _outline(edges: _Edges) -> str:
    """The edges about as an outline says them, every head once."""
    lines: dict[str, list[str]] = {}
    for edge in edges:
        lines.setdefault(edge.head, []).append(f"{edge.relation} {edge.tail}")
    return "\n".join(f"{head}: {'; '.join(statements)}" for head, statements in lines.items())


def _merged(maps: Iterable[Mapping[str, str]]) -> dict[str, str]:
    merged: dict[str, str] = {}
    for lemmas in maps:
        merged = {**lemmas, **merged}
    return merged


def _by_sentence(extraction: Extraction, passage: Passage) -> tuple[dict[int | None, dict[Triple, None]], int]:
    """The usable triples of each sentence, aligned as they will be when they are stored, and how many were not."""
    aligner = Aligner(passage.sentences)
    said: dict[int | None, dict[Triple, None]] = {}
    dropped = 0
    for extracted in extraction.triples:
        triple, position = extracted.triple, extracted.sentence
        if not is_usable(triple):
            dropped += 1
            continue
        if position is None or not 0 <= position < len(passage.sentences):
            position = aligner.find(triple)
        said.setdefault(position, {})[triple] = None
    return said, dropped


def _shortest_quotes(passage: Passage, extractions: Sequence[Extraction], lemmas: Mapping[str, str]) -> dict[int, str]:
    def quotes(position: int, text: str) -> Iterator[str]:
        for extraction in extractions:
            short = extraction.short.get(position)
            if short is not None and len(short) < len(text) and keeps_content(text, short, lemmas):
                yield short

    found = {
        sentence.position: min(quotes(sentence.position, sentence.text), key=len, default=None)
        for sentence in passage.sentences
    }
    return {position: short for position, short in found.items() if short is not None}
