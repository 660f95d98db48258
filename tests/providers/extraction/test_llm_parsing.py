"""The tolerant parser: every shape a model answers in, and no text that makes it raise."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apl.providers.extraction.llm.parsing import MAX_REPLY_CHARS, ReadTriple, read_reply

FACT = ReadTriple("DeltaPay", "is subject to", "EU Act", 2)
UNNUMBERED = ReadTriple("DeltaPay", "is subject to", "EU Act")
PARTS = ["DeltaPay", "is subject to", "EU Act"]

SHAPES = {
    "asked for": "2 | DeltaPay | is subject to | EU Act",
    "tight": "2|DeltaPay|is subject to|EU Act",
    "table row": "| 2 | DeltaPay | is subject to | EU Act |",
    "table": "| number | head | relation | tail |\n|---|---|---|---|\n| 2 | DeltaPay | is subject to | EU Act |",
    "header": "number | head | relation | tail\n2 | DeltaPay | is subject to | EU Act",
    "bullet": "- 2 | DeltaPay | is subject to | EU Act",
    "starred": "* **2** | **DeltaPay** | *is subject to* | `EU Act`",
    "quoted": '2 | "DeltaPay" | is subject to | “EU Act”',
    "angle brackets": "2 | <DeltaPay> | <is subject to> | <EU Act>",
    "square brackets": "2 | [DeltaPay] | [is subject to] | [EU Act]",
    "number in brackets": "[2] | DeltaPay | is subject to | EU Act",
    "number named": "Sentence 2 | DeltaPay | is subject to | EU Act",
    "number before": "2. DeltaPay | is subject to | EU Act",
    "bracket before": "[2] DeltaPay | is subject to | EU Act",
    "parenthesis before": "2) DeltaPay | is subject to | EU Act",
    "heading before": "Sentence 2:\nDeltaPay | is subject to | EU Act",
    "bold heading": "**2.**\n- DeltaPay | is subject to | EU Act",
    "fence": "```text\n2 | DeltaPay | is subject to | EU Act\n```",
    "open fence": "```\n2 | DeltaPay | is subject to | EU Act",
    "preamble": "Sure! Here are the facts:\n\n2 | DeltaPay | is subject to | EU Act\n\nLet me know if you need more.",
    "thoughts": "<think>\n1 | what | is | this\n</think>\n2 | DeltaPay | is subject to | EU Act",
    "thoughts without a beginning": "1 | hm | hm | hm</think>2 | DeltaPay | is subject to | EU Act",
    "full-width": "2｜DeltaPay｜is subject to｜EU Act",
    "tabs": "2\tDeltaPay\tis subject to\tEU Act",
    "arrows": "2 -> DeltaPay -> is subject to -> EU Act",
    "tuple": "(2, DeltaPay, is subject to, EU Act)",
    "none for another": "1 | none\n2 | DeltaPay | is subject to | EU Act\n3 | none | none | none",
    "windows": "2 | DeltaPay | is subject to | EU Act\r\n",
    "json array": json.dumps([[2, *PARTS]]),
    "json objects": json.dumps([{"number": 2, "head": PARTS[0], "relation": PARTS[1], "tail": PARTS[2]}]),
    "json, other names": json.dumps([{"sentence": "2", "subject": PARTS[0], "predicate": PARTS[1], "object": PARTS[2]}]),
    "json wrapped": json.dumps({"triples": [{"id": 2, "subj": PARTS[0], "rel": PARTS[1], "obj": PARTS[2]}]}),
    "json by number": json.dumps({"2": [PARTS]}),
    "json by sentence": json.dumps([{"sentence": 2, "triples": [PARTS]}]),
    "json of lines": json.dumps({"facts": ["2 | DeltaPay | is subject to | EU Act"]}),
    "json fenced": "```json\n" + json.dumps([[2, *PARTS]], indent=2) + "\n```",
    "json lines": json.dumps({"n": 2, "h": PARTS[0], "r": PARTS[1], "t": PARTS[2]}) + "\n",
    "json cut off": json.dumps([[2, *PARTS], [2, "Delta"]])[:-12],
    "json cut off, pretty": json.dumps([{"n": 2, "h": PARTS[0], "r": PARTS[1], "t": PARTS[2]}, {"n": 2}], indent=1)[:-9],
    "json after words": "Here you are: \n" + json.dumps([[2, *PARTS]]) + "\nDone.",
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_a_fact_is_read_in_every_shape(shape: str) -> None:
    """One fact of sentence 2, nothing malformed."""
    read = read_reply(SHAPES[shape], 3)
    assert read.triples == (FACT,), shape
    assert read.malformed == 0


@pytest.mark.parametrize(
    "answer",
    [
        "DeltaPay | is subject to | EU Act",
        "(DeltaPay, is subject to, EU Act)",
        "<triplet> DeltaPay <subj> EU Act <obj> is subject to",
        json.dumps(PARTS),
        "9 | DeltaPay | is subject to | EU Act",
        "0 | DeltaPay | is subject to | EU Act",
    ],
)
def test_a_fact_without_a_valid_number_keeps_none(answer: str) -> None:
    """Which sentence it is of, its words will tell."""
    assert read_reply(answer, 3).triples == (UNNUMBERED,)


def test_rebel_tags_share_a_head() -> None:
    """Several pairs after one head, several heads in one line."""
    read = read_reply("<s><triplet> A <subj> B <obj> r <subj> C <obj> q <triplet> D <subj> E <obj> p</s>", 1)
    assert [(t.head, t.relation, t.tail) for t in read.triples] == [("A", "r", "B"), ("A", "q", "C"), ("D", "p", "E")]


@pytest.mark.parametrize(
    ("line", "fact"),
    [
        ("1 | DeltaPay | acquired Northstar", ("DeltaPay", "acquired", "Northstar")),
        ("1 | DeltaPay | was founded in 1999", ("DeltaPay", "was founded in", "1999")),
        ("1 | DeltaPay | is subject to the EU Act", ("DeltaPay", "is subject to", "the EU Act")),
        ("1 | DeltaPay | is not a bank", ("DeltaPay", "is not a", "bank")),
        ("1 | therapy | seeks to help clients", ("therapy", "seeks", "to help clients")),
        ("1 | First seen in 1911 | The Review is one of many", ("First seen in 1911", "The Review is", "one of many")),
        ("DeltaPay | recorded 12 incidents", ("DeltaPay", "recorded", "12 incidents")),
        ("1 | DeltaPay | recorded | 12 incidents | in 2022", ("DeltaPay", "recorded", "12 incidents in 2022")),
    ],
)
def test_an_odd_line_is_salvaged(line: str, fact: tuple[str, str, str]) -> None:
    """Two fields are cut where the tail begins, a fifth joins the tail; both are counted."""
    read = read_reply(line, 1)
    assert [(t.head, t.relation, t.tail) for t in read.triples] == [fact]
    assert (read.salvaged, read.malformed) == (1, 0)


@pytest.mark.parametrize(
    "line",
    ["1 | DeltaPay | New York", "DeltaPay | bank", "1 | DeltaPay | is |", "1 | | is | bank", "<triplet> DeltaPay is",
     '["a", "b"]', '[1, "a", "b", "c", "d"]', '{"head": "a", "relation": "b"}', "1 | a | b | " + "c" * 2000],
)  # fmt: skip
def test_what_cannot_be_read_is_counted(line: str) -> None:
    """No fact, one malformed line."""
    read = read_reply(line, 1)
    assert (read.triples, read.malformed) == ((), 1)


@pytest.mark.parametrize(
    "noise", ["", "None", "Sure, here you are:", "1 | none", "---", "I cannot help with that.", "```"]
)
def test_noise_is_no_fault(noise: str) -> None:
    """What was never meant as a fact is neither read nor counted."""
    assert read_reply(noise, 1) == read_reply("", 1)


def test_control_characters_do_not_survive() -> None:
    """A field is one line, whatever a JSON escape says."""
    (fact,) = read_reply('[["a\\nb\\u0000c\\ud800", "is", "x\\u2028y"]]', 1).triples
    assert (fact.head, fact.tail) == ("a b c", "x y")


PIECES = st.sampled_from(
    ["|", " | ", "1", "2.", "[", "]", "{", "}", '"', ":", ",", "\n", "```", "<triplet>", "<subj>", "<obj>", "<think>",
     "</think>", "head", "none", "->", "\t", "(", ")", "\\", "DeltaPay", "is", "\x00", "\u2028", "é", "北京", "\ud800"]
)  # fmt: skip


@given(st.one_of(st.text(), st.lists(PIECES, max_size=60).map("".join)), st.integers(0, 12))
def test_no_text_makes_it_raise(text: str, count: int) -> None:
    """Facts have three filled fields on one line each and name a sentence there is."""
    for fact in read_reply(text, count).triples:
        for field in (fact.head, fact.relation, fact.tail):
            assert field.strip()
            assert len(field.splitlines()) == 1
            field.encode()
        assert fact.number is None or 1 <= fact.number <= count


NAMES = st.text(st.characters(codec="utf-8", categories=("L", "N", "Zs")), min_size=1, max_size=20).map(
    lambda name: " ".join(name.split())
)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(1, 9), st.from_regex(r"[A-Z][a-z]{1,8}( [A-Z][a-z]{1,8})?", fullmatch=True),
                          st.from_regex(r"[a-z]{2,8} by", fullmatch=True), NAMES.filter(bool)), max_size=8))  # fmt: skip
def test_what_was_asked_for_is_read_back(facts: list[tuple[int, str, str, str]]) -> None:
    """Lines as the prompt wants them lose nothing and keep their order."""
    kept = [fact for fact in facts if fact[3].casefold() not in ("none", "na", "null", "nil", "unknown")]
    kept = [
        fact
        for fact in kept
        if fact[1].casefold() not in ("none", "na", "null", "nil", "unknown", "head", "subject", "entity")
    ]
    read = read_reply("\n".join(" | ".join(map(str, fact)) for fact in kept), 9)
    assert [(t.number, t.head, t.relation, t.tail) for t in read.triples] == kept
    assert read.malformed == 0


@pytest.mark.parametrize("sign", ["[", "{", '{"a":', "|", "1 | ", "<triplet>", "<think>", "(", " -> ", '[["a"'])
def test_hostile_answers_take_no_time(sign: str) -> None:
    """As long as answers are read at all, in seconds at most."""
    started = time.perf_counter()
    read_reply(sign * (MAX_REPLY_CHARS // len(sign)), 5)
    assert time.perf_counter() - started < 10
