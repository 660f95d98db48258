"""Triples and the sentences that say them."""

from __future__ import annotations

from apl.symbols import Sentence, Triple
from apl.triples import Aligner


def sentences(*texts: str) -> tuple[Sentence, ...]:
    """Sentences one after another."""
    return tuple(Sentence(number, 0, len(text), text) for number, text in enumerate(texts))


def test_a_triple_goes_to_the_sentence_with_most_of_its_words() -> None:
    """Head and tail count; the relation does not."""
    found = sentences("Northstar grew.", "Northstar acquired DeltaPay in March.", "DeltaPay shrank.")
    assert Aligner(found).find(Triple("Northstar", "acquired", "DeltaPay")) == 1


def test_ties_go_to_the_earliest() -> None:
    """Two sentences with as many words: the first."""
    assert Aligner(sentences("Big Northstar.", "Northstar is big.")).find(Triple("Northstar", "is", "big")) == 0


def test_a_triple_of_no_sentence_belongs_to_the_chunk() -> None:
    """No word of it anywhere: None."""
    assert Aligner(sentences("Northstar grew.")).find(Triple("Globex", "owns", "Initech")) is None


def test_a_heading_is_asked_last() -> None:
    """A heading that repeats the head does not take the triple from the sentence."""
    heading = Sentence(0, 0, 30, "Journal of Mathematical Physics", "title")
    body = Sentence(1, 31, 60, "It is edited by Jan Solovej.")
    assert Aligner([heading, body]).find(Triple("Journal of Mathematical Physics", "edited by", "Jan Solovej")) == 1
    assert Aligner([heading, body]).find(Triple("Mathematical Physics", "is", "hard")) == 0
