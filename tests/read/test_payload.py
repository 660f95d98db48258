"""The encodings say what the evidence says, in the same bytes every time, and can be read back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apl.errors import PayloadError
from apl.read.payload import Outline, OutlineLine, decode, encode, encode_quotes, neutralise, outline_of
from apl.symbols import Evidence, Form, Quote, Triple

FORMS: tuple[Form, ...] = ("edge_reference", "inline_triple", "outline")
TRICKY = [
    "a: b",
    "a:",
    ": ",
    "x; y",
    ";",
    "a | b",
    "|",
    "\\",
    "a\\",
    "\\:",
    "#q",
    "#f",
    "> x",
    "  ",
    "a\nb",
    "\r\n",
    "\u2028",
]

names = st.text(max_size=12) | st.sampled_from(TRICKY)
triples = st.builds(Triple, names, names, names)
channels = st.lists(st.lists(triples, max_size=4).map(tuple), max_size=3).map(tuple)
quotes = st.lists(
    st.builds(Quote, st.text(max_size=20) | st.sampled_from([*TRICKY, "\n\n", "a\n\nb", "x: y z"]), st.integers(0, 8)),
    max_size=4,
).map(lambda items: tuple(sorted(items, key=lambda quote: quote.after)))
evidences = st.builds(Evidence, channels, channels, channels, quotes)


@given(evidences)
def test_index_forms_round_trip(evidence: Evidence) -> None:
    """decode(encode(e)) == neutralise(e) for arbitrary Unicode names (contract 2)."""
    for form in ("edge_reference", "inline_triple"):
        assert decode(encode(evidence, form), form) == neutralise(evidence)


@given(evidences)
def test_outline_round_trips_to_its_statements(evidence: Evidence) -> None:
    """The outline decodes to the (head, statements) of the neutral evidence."""
    assert decode(encode(evidence, "outline"), "outline") == outline_of(neutralise(evidence))


@given(evidences)
def test_quotes_alone_round_trip(evidence: Evidence) -> None:
    """Verbatim lines need no rules and come back as they are."""
    assert decode(encode_quotes(evidence), "quotes") == Evidence(quotes=neutralise(evidence).quotes)


@given(evidences)
def test_neutralise_is_idempotent(evidence: Evidence) -> None:
    """What is neutral stays as it is."""
    assert neutralise(neutralise(evidence)) == neutralise(evidence)


@given(evidences, st.sampled_from(FORMS))
def test_a_name_or_quote_stays_on_its_line(evidence: Evidence, form: Form) -> None:
    """No stored text breaks a line or smuggles a control character into a payload (contract 6)."""
    text = encode(evidence, form)
    assert not any(ord(character) < 32 and character != "\n" for character in text)
    if text and form != "outline":
        assert text.count("\n") == 1


@given(evidences, st.sampled_from(FORMS))
def test_encoding_is_a_function_of_the_evidence(evidence: Evidence, form: Form) -> None:
    """Equal evidence gives equal bytes (contract 1)."""
    copy = Evidence(*(tuple(tuple(run) for run in channel) for channel in (evidence.questions, evidence.answers, evidence.facts)), evidence.quotes)  # fmt: skip
    assert encode(evidence, form) == encode(copy, form)


def test_edge_reference_is_the_papers() -> None:
    """Keys and indices as in the paper: e, r, edge_matrix, then the channels as runs of row numbers."""
    acquired, subject = Triple("Northstar", "acquired", "DeltaPay"), Triple("DeltaPay", "is subject to", "DSA")
    rules, body = encode(
        Evidence(questions=((acquired,),), facts=((acquired, subject), (acquired,))), "edge_reference"
    ).split("\n")
    assert json.loads(body) == {
        "e": ["Northstar", "DeltaPay", "DSA"],
        "r": ["acquired", "is subject to"],
        "edge_matrix": [[0, 0, 1], [1, 1, 2]],
        "q": [[0]],
        "f": [[0, 1], [0]],
    }
    assert "edge_matrix" in rules


def test_inline_triple_is_the_papers() -> None:
    """The channels hold the index triples themselves; an empty channel has no key."""
    _, body = encode(Evidence(facts=((Triple("Northstar", "acquired", "DeltaPay"),),)), "inline_triple").split("\n")
    assert json.loads(body) == {"e": ["Northstar", "DeltaPay"], "r": ["acquired"], "f": [[[0, 0, 1]]]}


def test_outline_says_a_head_once() -> None:
    """One line a head; tails of one relation are listed, other relations follow."""
    evidence = Evidence(
        facts=(
            (Triple("DeltaPay", "serves", "Germany"), Triple("Northstar", "acquired", "DeltaPay")),
            (Triple("DeltaPay", "serves", "France"), Triple("DeltaPay", "is subject to", "DSA")),
        )
    )
    assert encode(evidence, "outline").split("\n")[1:] == [
        "DeltaPay: serves Germany | France; subject to DSA",
        "Northstar: acquired DeltaPay",
    ]


def test_outline_keeps_quotes_in_their_place() -> None:
    """Facts and verbatim lines alternate in blocks, in reading order, without markers."""
    evidence = Evidence(
        facts=((Triple("Northstar", "acquired", "DeltaPay"), Triple("CloudCo", "signed with", "DeltaPay")),),
        quotes=(Quote("The price was never published.", 1),),
    )
    text = encode(evidence, "outline")
    assert (
        text.split("\n", 1)[1]
        == "Northstar: acquired DeltaPay\n\nThe price was never published.\n\nCloudCo: signed with DeltaPay"
    )
    assert decode(text, "outline") == Outline(
        facts=(
            OutlineLine("Northstar", (("acquired DeltaPay",),)),
            OutlineLine("CloudCo", (("signed with DeltaPay",),)),
        ),
        quotes=(Quote("The price was never published."),),
    )


def test_non_ascii_is_not_inflated() -> None:
    r"""Names stand as they are, never as \uXXXX."""
    for form in FORMS:
        assert "北京" in encode(Evidence(facts=((Triple("北京", "是", "首都"),),)), form)


@pytest.mark.parametrize("form", FORMS)
def test_nothing_is_encoded_as_nothing(form: Form) -> None:
    """No evidence, no bytes: not even rules."""
    assert encode(Evidence(), form) == ""
    assert decode("", form) in (Evidence(), Outline())


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("edge_reference", "no rules"),
        ("edge_reference", "rules\n[]"),
        ("edge_reference", 'rules\n{"x":1}'),
        ("edge_reference", 'rules\n{"e":["a"],"r":["b"],"edge_matrix":[[0,0,9]],"f":[[0]]}'),
        ("edge_reference", 'rules\n{"e":["a"],"r":["b"],"edge_matrix":[[0,0]],"f":[[0]]}'),
        ("edge_reference", 'rules\n{"f":[[0]]}'),
        ("inline_triple", 'rules\n{"e":["a"],"r":["b"],"f":[[[0,0,-1]]]}'),
        ("inline_triple", 'rules\n{"f":3}'),
        ("outline", "rules\nno colon here"),
        ("outline", "rules\nhead: a | b|c"),
        ("prose", "anything"),
    ],
)
def test_what_is_no_payload_is_refused(form: str, text: str) -> None:
    """A text that is not of the named form raises PayloadError, never an IndexError from the depth."""
    with pytest.raises(PayloadError):
        decode(text, form)
