"""Terms: what texts share whatever their inflections, and what kinds of answers they hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apl.terms import DATE, NAME, NUMBER, distinct, from_bytes, term_of, terms_of, title_terms, to_bytes, without_marks


@pytest.mark.parametrize(
    ("one", "other"), [("acquired", "acquires"), ("company", "companies"), ("directed", "directing")]
)
def test_inflections_are_one_term(one: str, other: str) -> None:
    """A question in another tense still finds its words."""
    assert term_of(one) == term_of(other)


@pytest.mark.parametrize(("one", "other"), [("1999", "1998"), ("c++", "c#"), ("北京", "上海"), ("north", "south")])
def test_other_words_are_other_terms(one: str, other: str) -> None:
    """Numbers, code and scripts without stemmers stay as they are."""
    assert term_of(one) != term_of(other)


def test_a_language_has_its_own_stemmer_and_an_unknown_one_has_none() -> None:
    """German plurals meet in German only; a language without a stemmer compares whole words."""
    assert term_of("häuser", "de") == term_of("haus", "de")
    assert term_of("acquired", "xx") != term_of("acquires", "xx")


def test_names_are_marked_and_the_first_word_only_where_it_is_surely_one() -> None:
    """A capital at the beginning means nothing by itself."""
    marked = {value >> 1 for value in terms_of("Winters near Turin are cold.").values.tolist() if value & 1}
    assert marked == {term_of("turin")}
    marked = {value >> 1 for value in terms_of("Primo Levi wrote.").values.tolist() if value & 1}
    assert marked == {term_of("primo"), term_of("levi")}


@pytest.mark.parametrize(
    ("text", "traits"),
    [
        ("It closed on 4 May 1999.", DATE | NUMBER | NAME),
        ("it has twelve branches", NUMBER),
        ("it may close", 0),
        ("the deal with Northstar", NAME),
        ("", 0),
    ],
)
def test_traits_say_what_kinds_of_answers_a_text_holds(text: str, traits: int) -> None:
    """Dates, numbers and names, each by itself."""
    assert terms_of(text).traits == traits


def test_a_title_is_called_without_its_qualifier() -> None:
    """Other texts say Titanic, not Titanic (1997 film); a title that is all qualifier stays."""
    assert title_terms("Titanic (1997 film)").tolist() == title_terms("Titanic").tolist()
    assert len(title_terms("(untitled)")) == 1
    assert len(title_terms("")) == 0


@given(st.lists(st.text(max_size=60), max_size=5))
def test_terms_are_rising_distinct_and_travel(texts: list[str]) -> None:
    """Whatever the text: sorted, without repeats, the same after a journey through the store."""
    found = [terms_of(text).values for text in texts]
    for values in found:
        assert values.tolist() == sorted(set(values.tolist()))
        assert from_bytes(to_bytes(values)).tolist() == values.tolist()
    assert set(distinct(found).tolist()) == {term for values in found for term in without_marks(values).tolist()}
