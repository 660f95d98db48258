"""Triples by REBEL or a model trained like it: sequence to sequence, one sentence at a time, through transformers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from apl.errors import ConfigError, ExtractionError, MissingDependency
from apl.providers.extraction.linearised import Decoded, decode_linearised
from apl.symbols import ExtractedTriple, Extraction, Passage
from apl.text import words

logger = logging.getLogger(__name__)

DEFAULT_MODEL = "Babelscape/rebel-large"

_READ_KINDS = ("prose", "list")
_MARKERS = ("<triplet>", "<subj>", "<obj>")


class RebelExtractor:
    """Reads triples with a relation-extraction model such as REBEL (paper 4.4, APR-REBEL).

    Relations come from the model's own list ("country of citizenship"), so the edges rarely carry a sentence; they
    serve the graph. `Babelscape/rebel-large` is licensed CC BY-NC-SA 4.0: not for commercial use.

    Args:
        model: Hub name or path of a model, loaded at the first sentence, or a loaded `(model, tokenizer)` pair.
        batch_size: Sentences a forward pass.
        device: A torch device such as `cuda:0`; None: a GPU if there is one; a loaded model stays where it is.
        num_beams: Beams of the search; nothing is sampled, so the same batch gives the same triples.
        max_length: Tokens a sentence may be read with and its triples may take; what is over is cut off.

    A triple whose head or tail does not stand in its sentence is dropped and counted in `Extraction.unsupported`, a
    piece of output that is no triple in `Extraction.malformed`.

    Raises (by `extract`):
        MissingDependency: transformers or torch is not installed; the message names the command.
        ExtractionError: The model cannot be loaded, or its tokenizer does not know REBEL's markers.
    """

    in_process_only = True
    """torch uses every core or the GPU already."""

    def __init__(
        self,
        model: str | Path | tuple[Any, Any] = DEFAULT_MODEL,
        *,
        batch_size: int = 8,
        device: str | None = None,
        num_beams: int = 3,
        max_length: int = 256,
    ) -> None:
        if not isinstance(model, str | Path) and not (isinstance(model, tuple) and len(model) == 2):
            raise ConfigError(f"model= takes a name, a path or a (model, tokenizer) pair, not {type(model).__name__}")
        if min(batch_size, num_beams, max_length) < 1:
            raise ConfigError("batch_size, num_beams and max_length have to be at least 1")
        self._source = model
        self._batch_size = batch_size
        self._device = device
        self._num_beams = num_beams
        self._max_length = max_length
        self._lock = threading.Lock()
        self._loaded: tuple[Any, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What a worker process needs; a model that was named is loaded there again."""
        return {
            "model": self._source,
            "batch_size": self._batch_size,
            "device": self._device,
            "num_beams": self._num_beams,
            "max_length": self._max_length,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    @property
    def name(self) -> str:
        """`rebel:` and the last part of the model's name, e.g. `rebel:rebel-large`."""
        if isinstance(self._source, tuple):
            model = self._source[0]
            named = getattr(model, "name_or_path", "") or type(model).__name__
        else:
            named = str(self._source)
        return f"rebel:{Path(named).name}"

    def extract(self, passages: Sequence[Passage]) -> list[Extraction]:
        """One `Extraction` a passage: what the model reads in its prose and list items, in reading order."""
        units = [
            (number, sentence.position, " ".join(sentence.text.split()))
            for number, passage in enumerate(passages)
            for sentence in passage.sentences
            if sentence.kind in _READ_KINDS
        ]
        triples: list[list[ExtractedTriple]] = [[] for _ in passages]
        malformed, unsupported = [0] * len(passages), [0] * len(passages)
        for (number, position, text), decoded in zip(units, self._decoded([text for *_, text in units]), strict=True):
            said = words(text)
            kept = [t for t in decoded.triples if _stands_in(t.head, said) and _stands_in(t.tail, said)]
            triples[number] += [ExtractedTriple(triple, position) for triple in kept]
            malformed[number] += decoded.malformed
            unsupported[number] += len(decoded.triples) - len(kept)
        logger.info("%s: %d triples in %d sentences", self.name, sum(map(len, triples)), len(units))
        return [
            Extraction(tuple(found), malformed=bad, unsupported=invented)
            for found, bad, invented in zip(triples, malformed, unsupported, strict=True)
        ]

    def _decoded(self, texts: Sequence[str]) -> list[Decoded]:
        """What the model reads in each text; texts of like length share a batch, which spares padding."""
        found = [Decoded()] * len(texts)
        order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
        with self._lock:
            for start in range(0, len(order), self._batch_size):
                batch = order[start : start + self._batch_size]
                for number, decoded in zip(batch, self._generated([texts[n] for n in batch]), strict=True):
                    found[number] = decoded
        return found

    def _generated(self, texts: list[str]) -> Iterator[Decoded]:
        model, tokenizer = self._ready()
        import torch

        read = tokenizer(texts, padding=True, truncation=True, max_length=self._max_length, return_tensors="pt")
        with torch.inference_mode():
            written = model.generate(
                input_ids=read["input_ids"].to(model.device),
                attention_mask=read["attention_mask"].to(model.device),
                max_length=self._max_length,
                num_beams=self._num_beams,
                length_penalty=0.0,  # as the model's card has it: a longer list of triples is no worse
                do_sample=False,
            )
        silent = [token for token in tokenizer.all_special_tokens if token not in _MARKERS]
        for text in tokenizer.batch_decode(written, skip_special_tokens=False, clean_up_tokenization_spaces=False):
            yield decode_linearised(text, silent)

    def _ready(self) -> tuple[Any, Any]:
        if self._loaded is None:
            pair = self._source if isinstance(self._source, tuple) else _load(str(self._source), self._device)
            missing = [marker for marker in _MARKERS if marker not in pair[1].get_vocab()]
            if missing:
                raise ExtractionError(
                    f"'{self.name}' is no model of REBEL's kind: its tokenizer does not know {', '.join(missing)}"
                )
            pair[0].eval()
            self._loaded = pair
        return self._loaded


def _load(model: str, device: str | None) -> tuple[Any, Any]:
    try:
        import torch
        from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
    except ImportError as error:
        command = "pip install 'apl-rag[local]'"
        raise MissingDependency(f"RebelExtractor needs transformers and torch: {command}", command=command) from error
    try:
        tokenizer = AutoTokenizer.from_pretrained(model)
        loaded = AutoModelForSeq2SeqLM.from_pretrained(model)
        return loaded.to(device or ("cuda" if torch.cuda.is_available() else "cpu")), tokenizer
    except Exception as error:
        raise ExtractionError(
            f"transformers could not load {model!r} ({type(error).__name__}: {error}); give the name of a "
            "sequence-to-sequence model on the hub or the path of a folder that holds one"
        ) from error


def _stands_in(name: str, said: Sequence[str]) -> bool:
    """True when the words of a name stand side by side in those of the sentence, in any case."""
    sought = f" {' '.join(words(name))} ".casefold()
    return sought.strip() != "" and sought in f" {' '.join(said)} ".casefold()
