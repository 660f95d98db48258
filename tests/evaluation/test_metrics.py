"""The metrics count what their names say, on any text, and never divide by zero."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from apl.errors import InputError
from apl.evaluation.metrics import (
    QuestionRecord,
    Share,
    all_hops_kept,
    answers_kept,
    contains,
    contains_any,
    eligible_answers,
    exact_match,
    f1,
    identifier_survival,
    identifiers,
    is_eligible,
    is_yes_no,
    paired_bootstrap,
    summarise,
    token_use,
)

HOST = "Northstar acquired DeltaPay in 2021 for $5 million. DeltaPay was founded by Mira Chen in Zürich."
RECORD = QuestionRecord(
    question="Who founded the company that Northstar acquired?",
    answers=("Mira Chen",),
    hops=(("DeltaPay", "Delta Pay"), ("Mira Chen",)),
    host_text=HOST,
    sent_text="DeltaPay: founded by Mira Chen",
    host_tokens=40,
    sent_tokens=10,
    form="outline",
    edges=6,
    quotes=2,
)
ANY_TEXT = st.text(st.characters(), max_size=40)  # lone surrogates, marks and controls among them
TRICKY = st.text(st.sampled_from("aß İ12,.:-–_()[]{}+*'’s\u0301\u0345\ufdfaか゚京ก๕가½\u00ad\u2028\ud800…—"), max_size=25)
TEXT = ANY_TEXT | TRICKY
SCORES = st.lists(st.tuples(st.floats(-100, 100), st.floats(-100, 100)), min_size=1, max_size=30)


# --- contains ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("They are 35 years old.", "35"),
        ("NEW\n  york city", "New York"),
        ("Ｎｏｒｔｈｓｔａｒ", "Northstar"),
        ("Die STRASSE", "Straße"),
        ("I write C++, mostly", "C++"),
        ("C++17 is out", "C++"),
        ("it cost $5.", "$5"),
        ("Chen's idea", "Chen"),
        ("東京都に住む", "東京"),
        ("2020年に", "2020"),
        ("ใครอยู่กรุงเทพมหานคร", "กรุงเทพ"),
        ("서울은 수도이다", "서울"),
        ("Cafe\u0301 Central", "Café"),
        ("aba-aba", "aba-aba"),
        ("x1-1-1 done", "1-1"),
    ],
)
def test_an_answer_is_found_as_whole_words_in_any_script(text: str, answer: str) -> None:
    """Case, width and white space aside, an answer between boundaries is found."""
    assert contains(text, answer)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("in 1935", "35"),
        ("the 35th", "35"),
        ("a_35", "35"),
        ("Deltaplan", "Delta"),
        ("cost US$50", "$5"),
        ("नमस्ते", "नम"),
        ("कि", "क"),
        ("2020年", "20"),
        ("anything", ""),
        ("any thing", " \n"),
        ("", "x"),
    ],
)
def test_a_piece_of_a_word_is_not_the_answer(text: str, answer: str) -> None:
    """A letter, digit or mark beside the answer's own makes another word; an empty answer is nowhere."""
    assert not contains(text, answer)


@given(TEXT, TEXT, TEXT)
def test_an_answer_between_spaces_is_always_found(before: str, answer: str, after: str) -> None:
    """contains(x + " " + a + " " + y, a) for every a that is not white space."""
    assume(answer.strip())
    assert contains(f"{before} {answer} {after}", answer)


@given(TEXT, TEXT)
def test_no_text_makes_a_metric_raise(text: str, other: str) -> None:
    """Adversarial Unicode is data."""
    contains(text, other)
    assert is_yes_no([text]) in (True, False)
    assert 0 <= f1(text, [other, text]) <= 1
    assert exact_match(text, [other]) <= exact_match(text, [text, other])
    assert 0 <= identifier_survival(text, other).kept <= identifier_survival(text, other).total
    json.dumps(summarise([replace(RECORD, answers=(other,), host_text=text, sent_text=other)]).to_dict())


def test_any_of_the_answers_will_do() -> None:
    """contains_any asks for one, and for none of an empty list."""
    assert contains_any(HOST, ["nobody", "mira chen"])
    assert not contains_any(HOST, [])


@pytest.mark.parametrize("metric", [contains_any, exact_match, f1, lambda _, answers: is_yes_no(answers)])
def test_one_string_in_place_of_a_list_is_refused(metric) -> None:  # type: ignore[no-untyped-def]
    """Its letters would be taken for answers; the message shows the list to write."""
    with pytest.raises(InputError, match=r"write \['Paris'\]"):
        metric("Paris", "Paris")


# --- eligibility and what was kept ------------------------------------------------------------------------------------


def test_yes_no_is_a_matter_of_all_answers() -> None:
    """A bare yes or no in any dress counts; Norway's "NO" among its names does not make a yes/no question."""
    assert is_yes_no(["Yes."])
    assert is_yes_no(["no", "No"])
    assert not is_yes_no(["Norway", "NO", "NOR", "no"])
    assert not is_yes_no([])


@pytest.mark.parametrize(
    ("question", "answers", "host", "expected"),
    [
        ("Who?", ("Mira Chen", "M. Chen"), HOST, ("Mira Chen",)),
        ("Is Mira Chen the founder?", ("Mira Chen",), HOST, ()),
        ("Which Chen?", ("Chen", "Mira Chen"), HOST, ("Mira Chen",)),
        ("Is it so?", ("yes",), "yes it is", ()),
        ("Which country?", ("Norway", "NO"), "There is no such thing", ()),
        ("Who?", ("Ada",), HOST, ()),
        ("Who?", (), HOST, ()),
        ("Who?", ("",), HOST, ()),
    ],
)
def test_only_answers_that_can_be_lost_count(
    question: str, answers: tuple[str, ...], host: str, expected: tuple[str, ...]
) -> None:
    """In the host's text, not in the question, not a bare yes or no; with several, those that pass."""
    assert eligible_answers(question, answers, host) == expected
    assert is_eligible(question, answers, host) is bool(expected)


def test_answers_kept_looks_only_for_the_answers_that_counted() -> None:
    """The name that the question gave away does not save the answer; ineligible questions are not in the total."""
    given_away = replace(RECORD, question="Which Chen?", answers=("Chen", "Mira Chen"), sent_text="a Chen")
    ineligible = replace(RECORD, answers=("Ada",))
    assert answers_kept([RECORD, given_away, ineligible]) == Share(1, 2)


@given(st.lists(st.tuples(TEXT, TEXT, TEXT), max_size=4))
def test_text_sent_as_it_is_keeps_everything(rows: list[tuple[str, str, str]]) -> None:
    """answers_kept and all_hops_kept of identical text are 1.0, or None without an eligible question."""
    records = [
        replace(RECORD, question=question, answers=(answer,), hops=((answer,),), host_text=text, sent_text=text)
        for question, answer, text in ((q, a, f"{t} {a}") for q, a, t in rows)
    ]
    assert answers_kept(records).value in (1.0, None)
    assert all_hops_kept(records).value in (1.0, None)


def test_all_hops_are_asked_of_the_questions_whose_host_holds_them() -> None:
    """Any accepted string of a hop will do; a host that lacks a hop, and a question without hops, are left out."""
    lost = replace(RECORD, sent_text="Mira Chen")
    absent = replace(RECORD, hops=(("Ada",), ("Mira Chen",)))
    unknown = replace(RECORD, hops=())
    empty = replace(RECORD, hops=((), ("Mira Chen",)))
    assert all_hops_kept([RECORD, lost, absent, unknown, empty]) == Share(1, 2)


def test_a_hop_that_is_yes_or_no_is_not_looked_for() -> None:
    """It stands in no text; the other hops still count, and alone it leaves the question out."""
    compared = replace(RECORD, hops=(("DeltaPay",), ("no",)))
    alone = replace(RECORD, hops=(("yes",),))
    alias = replace(RECORD, hops=(("Norway", "NO"),), host_text="no such thing", sent_text="")
    assert all_hops_kept([compared, alone, alias]) == Share(1, 1)


# --- identifiers ------------------------------------------------------------------------------------------------------


IDENTIFIERS = """
foo_bar v1.2.3 C++ C# 2020-01-02 x->y os.path.join() os.path 12 $5 50% std::vector __init__ /usr/bin --verbose
https://example.org/a R&D >=3.11 x[0] f(a,b) 1990s ½ -5 user@example.org
"""


@pytest.mark.parametrize("name", IDENTIFIERS.split())
def test_an_identifier_is_found_whole_in_prose(name: str) -> None:
    """Quotation marks, brackets and closing punctuation around it are not part of it."""
    for text in (name, f"see {name}, then", f"(see {name})", f'"{name}"', f"`{name}`.", f"**{name}**", f"京{name}は"):
        assert identifiers(text) == (name,)


def test_plain_prose_holds_no_identifiers() -> None:
    """Hyphens, slashes, initials, plural brackets and emphasis are prose."""
    assert (
        identifiers(
            "A well-known and/or (so called) *bold* U.S. author(s) Mira(died Chen( e.g. Mira’s - don't & 東京。"
        )
        == ()
    )


def test_a_long_line_of_brackets_is_read_in_linear_time() -> None:
    """Text is data: 200,000 brackets around a number take no minutes."""
    assert len(identifiers("(" * 200_000 + "1 and 12")) == 2
    assert identifiers("a(" * 100_000) == ()


def test_identifiers_come_once_and_in_order() -> None:
    """Possessives and ranges too."""
    found = identifiers("In 2020, v2's foo_bar; 2020 again (1999–2003)…7—8")
    assert found == ("2020", "v2", "foo_bar", "1999–2003", "7", "8")


@pytest.mark.parametrize("sent", ["12.5", "2020-12-01", "v12", "112", "[3,12,4]", "twelve", ""])
def test_a_number_in_another_number_has_not_survived(sent: str) -> None:
    """Versions, dates and index tables hold digits that say something else."""
    assert identifier_survival("It took 12 days.", sent) == Share(0, 1)


def test_case_counts_in_identifiers() -> None:
    """foo_bar is not Foo_Bar."""
    assert identifier_survival("call foo_bar with 12", "Foo_Bar: takes 12.") == Share(1, 2)


@given(TEXT)
@example("5.”(12)”-–")
def test_every_identifier_survives_in_its_own_text(text: str) -> None:
    """identifier_survival(t, t) loses nothing."""
    survived = identifier_survival(text, text)
    assert survived.kept == survived.total


# --- a generator's answer ---------------------------------------------------------------------------------------------


def test_exact_match_forgives_articles_case_and_punctuation() -> None:
    """As SQuAD does, in any accepted answer."""
    assert exact_match("The  U.S.", ["USA", "us"])
    assert exact_match("東京、都。", ["東京 都"])
    assert not exact_match("Mira", ["Mira Chen"])
    assert not exact_match("", [""])
    assert not exact_match("Mira", [])


def test_f1_is_token_overlap_with_the_best_answer() -> None:
    """Repeated tokens count as often as both have them; Chinese by the character."""
    assert f1("Mira Chen of Zürich", ["nobody", "the Mira Chen"]) == pytest.approx(2 * 2 / 6)
    assert f1("no no no", ["no"]) == pytest.approx(0.5)
    assert f1("東京都", ["東京"]) == pytest.approx(0.8)
    assert f1("", ["x"]) == f1("x", [""]) == f1("x", []) == f1("", [""]) == 0.0


def test_a_text_of_punctuation_is_compared_as_it_is() -> None:
    """Otherwise "+" would be "-", and "The" nothing at all."""
    assert exact_match("+", ["+"])
    assert not exact_match("+", ["-"])
    assert exact_match("The", ["the"])


@given(TEXT, TEXT)
def test_f1_is_symmetric_and_full_on_an_exact_match(a: str, b: str) -> None:
    """Overlap has no direction."""
    assert f1(a, [b]) == pytest.approx(f1(b, [a]))
    if exact_match(a, [b]):
        assert f1(a, [b]) == 1.0


# --- costs and the summary --------------------------------------------------------------------------------------------


def test_the_token_ratio_is_given_both_ways() -> None:
    """Sum over sum, and the mean of ratios; a question without host tokens is counted, not divided by."""
    memory_only = replace(RECORD, host_tokens=0, sent_tokens=8, edges=0, quotes=0, memory=8)
    used = token_use([RECORD, replace(RECORD, host_tokens=10, sent_tokens=10, edges=0, quotes=0), memory_only])
    assert used.ratio == pytest.approx(20 / 50)
    assert used.mean_ratio == pytest.approx((0.25 + 1) / 2)
    assert (used.host_tokens, used.sent_tokens, used.without_host) == (50, 28, 1)
    assert (used.edges, used.quotes, used.memory) == pytest.approx((6 / 28, 2 / 28, 8 / 28))


def test_a_summary_of_nothing_has_no_shares() -> None:
    """None, not 0 and not 1, and still JSON."""
    empty = summarise([])
    assert (empty.answers_kept.value, empty.all_hops_kept.value, empty.identifiers.value) == (None, None, None)
    assert (empty.tokens.ratio, empty.tokens.mean_ratio, empty.tokens.edges) == (None, None, None)
    assert json.loads(json.dumps(empty.to_dict()))["answers_kept"] == {"kept": 0, "total": 0, "value": None}


def test_a_summary_gathers_every_metric() -> None:
    """One record set in, everything out, the same for any iterable."""
    passed = replace(RECORD, form="host_text", sent_text=HOST, selected_text="In 2021 for $5 and 7.")
    found = summarise(iter([RECORD, passed, RECORD]))
    assert found.questions == 3
    assert found.forms == {"host_text": 1, "outline": 2}
    assert found.answers_kept == found.all_hops_kept == Share(3, 3)
    assert found.identifiers == Share(2, 3)
    assert found == summarise([RECORD, passed, RECORD])
    as_dict = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert list(as_dict) == ["questions", "answers_kept", "all_hops_kept", "identifiers", "tokens", "forms"]
    assert as_dict["identifiers"] == {"kept": 2, "total": 3, "value": pytest.approx(2 / 3)}
    assert as_dict["tokens"]["ratio"] == 0.25


# --- the bootstrap ----------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(SCORES, st.sampled_from([1, 2, 50, 400]), st.sampled_from([0.1, 0.5, 0.95]), st.integers(0, 3))
def test_the_interval_holds_the_difference_and_mirrors_under_swap(
    scores: list[tuple[float, float]], samples: int, confidence: float, seed: int
) -> None:
    """For any scores, however few the samples; the same seed gives the same interval."""
    a, b = zip(*scores, strict=True)
    found = paired_bootstrap(a, b, samples=samples, confidence=confidence, seed=seed)
    swapped = paired_bootstrap(b, a, samples=samples, confidence=confidence, seed=seed)
    assert found.low <= found.difference <= found.high
    assert found.difference == pytest.approx(float(np.mean(np.subtract(b, a))), abs=1e-9)
    assert (swapped.low, swapped.high) == pytest.approx((-found.high, -found.low), abs=1e-9)
    assert found == paired_bootstrap(a, b, samples=samples, confidence=confidence, seed=seed)


def test_equal_arms_differ_by_nothing() -> None:
    """An interval of width zero around zero."""
    found = paired_bootstrap([1.0, 0.0, 1.0], [1.0, 0.0, 1.0])
    assert (found.difference, found.low, found.high, found.n) == (0.0, 0.0, 0.0, 3)


def test_the_interval_agrees_with_the_normal_one_on_many_questions() -> None:
    """On 400 normal differences: mean ± 1.96 standard errors; drawn in several batches."""
    differences = np.random.default_rng(1).normal(0.2, 1.0, 400)
    found = paired_bootstrap(np.zeros(400), differences, samples=6_000)
    error = 1.96 * differences.std() / 20
    assert (found.low, found.high) == pytest.approx((differences.mean() - error, differences.mean() + error), abs=0.01)


def test_a_higher_confidence_is_a_wider_interval() -> None:
    """And another seed another draw."""
    a, b = [0.0] * 8, [0.0, 1.0, 0.3, 0.2, -0.5, 0.9, 0.4, 0.1]
    narrow, wide = (paired_bootstrap(a, b, samples=500, confidence=c) for c in (0.5, 0.99))
    assert wide.low < narrow.low < narrow.high < wide.high
    assert paired_bootstrap(a, b, samples=500, seed=1) != paired_bootstrap(a, b, samples=500, seed=2)


@pytest.mark.parametrize(
    ("a", "b", "options", "mend"),
    [
        ([1.0], [1.0, 2.0], {}, "one score a question"),
        ([], [], {}, "one score a question"),
        ([[1.0]], [[1.0]], {}, "one score a question"),
        ([float("nan")], [1.0], {}, "leave questions without a score out"),
        ([1.0], [1.0], {"samples": 0}, "samples >= 1"),
        ([1.0], [1.0], {"confidence": 1.0}, "confidence < 1"),
        ([1.0], [1.0], {"seed": -1}, "seed >= 0"),
    ],
)
def test_scores_that_cannot_be_paired_are_refused(a, b, options, mend: str) -> None:  # type: ignore[no-untyped-def]
    """InputError, with the way to mend it."""
    with pytest.raises(InputError, match=mend):
        paired_bootstrap(a, b, **options)
