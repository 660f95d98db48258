"""Triples as extractors hand them over: which can be stored, and which sentence says them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from apl.symbols import Sentence, Triple
from apl.text import STOP_WORDS, is_encodable, is_pronoun, words


def is_usable(triple: Triple) -> bool:
    """Three names with something in them, neither end a pronoun (a pronoun is never an entity)."""
    parts = (triple.head, triple.relation, triple.tail)
    named = all(isinstance(part, str) and part.strip() and is_encodable(part) for part in parts)
    return named and not is_pronoun(triple.head) and not is_pronoun(triple.tail)


class Aligner:
    """Finds the sentence of a passage that says a triple; its time grows with the passage, not with passage x triples.

    Args:
        sentences: All of the passage's.
    """

    def __init__(self, sentences: Sequence[Sentence]) -> None:
        self._prose: dict[str, list[int]] = {}
        self._headings: dict[str, list[int]] = {}
        for sentence in sentences:
            places = self._headings if sentence.kind == "title" else self._prose
            for word in dict.fromkeys(words(sentence.text)):
                places.setdefault(word, []).append(sentence.position)

    def find(self, triple: Triple) -> int | None:
        """The position of the sentence that holds most of the head's and tail's words; the earliest on ties.

        A heading is asked only when no other sentence holds any. None: no sentence does, the triple belongs to the
        chunk.
        """
        sought = set(words(f"{triple.head} {triple.tail}"))
        sought = {word for word in sought if word not in STOP_WORDS} or sought
        for places in (self._prose, self._headings):
            held = Counter(position for word in sought for position in places.get(word, ()))
            if held:
                return min(held, key=lambda position: (-held[position], position))
        return None
