"""Edges to outline lines: what one sentence says of one head stays together, and loses no word."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from apl.read.payload import decode, encode, neutralise, outline_of
from apl.read.payload.statements import grouped
from apl.symbols import Evidence, Triple


def said(triples: Sequence[tuple[str, str, str]], sentences: Sequence[int] = ()) -> list[str]:
    """The lines of one run as text."""
    lines = grouped([[Triple(*triple) for triple in triples]], [sentences] if sentences else ())
    return [f"{line.head}: {'; '.join(' | '.join(statement) for statement in line.statements)}" for line in lines]


def test_phrases_of_one_verb_and_sentence_are_one_statement() -> None:
    """`born in` and `born on` of one sentence need the verb once, and a date no preposition."""
    triples = [("Ann Lee", "born in", "Cork"), ("Ann Lee", "born on", "3 March 1970")]
    assert said(triples, (1, 1)) == ["Ann Lee: born in Cork 3 March 1970"]
    assert said(triples, (1, 2)) == ["Ann Lee: born in Cork; born 3 March 1970"]


def test_only_dates_go_without_their_preposition() -> None:
    """A person called May and the Olympics of a year are no dates; a day, a month with a year and a year are."""
    for tail in ("May Smith", "August Wilson's play", "1984 Olympics", "June", "2010 votes", "2,010 votes"):
        assert said([("It", "relied on", tail)]) == [f"It: relied on {tail}"]
    for tail in ("4 May 2010", "May 4, 2010", "May 2010", "2010", "2010, the last year", "2010 and 2011"):
        assert said([("It", "ended in", tail)]) == [f"It: ended {tail}"]


def test_a_relation_may_repeat_its_object() -> None:
    """`acquired DeltaPay in` goes on from `acquired` DeltaPay."""
    triples = [("Northstar", "acquired", "DeltaPay"), ("Northstar", "acquired DeltaPay in", "March 2022")]
    assert said(triples, (1, 1)) == ["Northstar: acquired DeltaPay March 2022"]


def test_what_belongs_to_one_sentence_is_not_mixed_with_another() -> None:
    """Two prizes with their years stay two statements, and never one list of prizes and one of years."""
    triples = [
        ("Ann Lee", "won", "Prize A"),
        ("Ann Lee", "won Prize A in", "1990"),
        ("Ann Lee", "won", "Prize B"),
        ("Ann Lee", "won Prize B in", "1992"),
    ]
    assert said(triples, (1, 1, 2, 2)) == ["Ann Lee: won Prize A 1990; won Prize B 1992"]


def test_a_simple_statement_takes_up_tails_of_other_sentences() -> None:
    """One relation, several tails: said once, a tail never twice."""
    triples = [("DeltaPay", "serves", "Cork"), ("DeltaPay", "serves", "Dublin"), ("DeltaPay", "serves", "Cork")]
    assert said(triples, (1, 2, 3)) == ["DeltaPay: serves Cork | Dublin"]


def test_the_copula_that_every_reader_supplies_is_left_out() -> None:
    """`is` goes, `was` and `is not` keep what they say."""
    assert said([("DeltaPay", "is", "company")]) == ["DeltaPay: company"]
    assert said([("DeltaPay", "was", "company")]) == ["DeltaPay: was company"]
    assert said([("DeltaPay", "is not", "company")]) == ["DeltaPay: not company"]


NAMES = st.sampled_from(["Ann Lee", "won", "won in", "won Prize in", "is", "Prize", "1990", "in", "company", ""])
RUNS = st.lists(st.tuples(NAMES, NAMES, NAMES, st.integers(0, 2)), max_size=8)


@given(RUNS)
def test_no_word_is_lost_in_an_outline(edges: list[tuple[str, str, str, int]]) -> None:
    """Every tail stands in the line of its head, and the payload decodes to the outline that was meant."""
    run = tuple(Triple(*edge[:3]) for edge in edges)
    evidence = neutralise(Evidence(facts=(run,), fact_sentences=(tuple(edge[3] for edge in edges),)))
    outline = outline_of(evidence)
    text = encode(evidence, "outline")
    if text:
        decoded = decode(text, "outline")
        assert decoded == outline
    lines = {line.head: " ".join(" ".join(statement) for statement in line.statements) for line in outline.facts}
    for triple in (triple for kept in evidence.facts for triple in kept):
        assert set(triple.tail.split()) <= set(lines[triple.head].split())
