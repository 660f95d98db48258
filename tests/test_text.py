"""Names, sentences, content words, the guard: what the rest stands on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apl.sentences import split_sentences
from apl.symbols import Triple
from apl.text import is_carried, is_pronoun, is_specific, normal_form, words

prose = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=300)
lines = st.lists(
    st.sampled_from(
        [
            "Northstar acquired DeltaPay in March 2022.", "The price was $3.5 million. Dr. Smith agreed!", "", "   ",
            "- a list item", "2. another one", "| a | b |", "|---|---|", "```python", "```", "x = f(1)", ">>> x",
            "# Heading", "Title", "=====", "北京是中国的首都。上海很大！", "مرحبا بالعالم. كيف حالك؟", "\t\tindented", "a\r",
        ]
    ),
    max_size=12,
).map("\n".join)  # fmt: skip


# --- names


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("The Beatles", "beatles"),
        ("  New\tYork ", "new york"),
        ("Straße", "strasse"),
        ("ＩＢＭ", "IBM"),
        ("NEW YORK", "New York"),
        ("the WHO", "WHO"),
        ("ﬁnance", "finance"),
    ],
)
def test_equal_names(left: str, right: str) -> None:
    """Case, width, white space and one leading article make no other name."""
    assert normal_form(left) == normal_form(right) != ""


@pytest.mark.parametrize(
    ("left", "right"),
    [("WHO", "who"), ("C++", "C#"), ("北京", "上海"), ("US", "us"), ("Apple", "Apple 2"), ("re-sign", "resign")],
)
def test_different_names(left: str, right: str) -> None:
    """An acronym is not a word, and punctuation and script are part of a name."""
    assert normal_form(left) != normal_form(right)


@pytest.mark.parametrize("name", ["", " ", "\n\t", "\u3000"])
def test_no_name_has_an_empty_form(name: str) -> None:
    """An empty form is possible, and the store never links by it."""
    assert normal_form(name) == ""


@pytest.mark.parametrize("name", ["The", "a", "An", "the the"])
def test_an_article_alone_is_a_name(name: str) -> None:
    """Dropping the article never leaves nothing."""
    assert normal_form(name) != ""


@given(st.text())
def test_normal_form_ignores_white_space_around(name: str) -> None:
    """Padding changes nothing, whatever the script."""
    assert normal_form(f"  {name}\n") == normal_form(name)


def test_pronouns_are_no_names() -> None:
    """He, it, this, who; but not a name that contains one."""
    assert is_pronoun(" It ")
    assert not is_pronoun("It Follows")


# --- words and guard


def test_words_keep_what_means_something() -> None:
    """Numbers, dates, versions and signs stay whole; punctuation is no word; contractions say `not`."""
    assert words("It didn't pay -3.5 % for C++ v1.2.3 on 2020-01-02, won't it?") == [
        "it", "did", "not", "pay", "-3.5%", "for", "c", "+", "+", "v1", ".2.3", "on", "2020-01-02", "will", "not", "it",
    ]  # fmt: skip


def test_cjk_is_read_by_character() -> None:
    """Scripts without spaces are compared character by character."""
    assert words("北京 is big") == ["北", "京", "is", "big"]


SENTENCE = "DeltaPay did not record 12 incidents in 2021, and recorded 5 after the acquisition."
FAITHFUL = [
    Triple("DeltaPay", "did not record", "12 incidents in 2021"),
    Triple("DeltaPay", "recorded after the acquisition", "5 incidents"),
]


def test_the_guard_passes_what_says_everything() -> None:
    """Edges that hold every content word carry the sentence, in any order and case."""
    assert is_carried(SENTENCE, FAITHFUL)


@pytest.mark.parametrize(
    ("lost", "said_instead"),
    [("not ", ""), ("12", "13"), ("12", "many"), (" in 2021", ""), ("incidents", "things"), ("after", "before")],
)
def test_the_guard_stops_what_loses_a_word(lost: str, said_instead: str) -> None:
    """A negation, number, date, noun or direction that is missing keeps the sentence verbatim."""
    changed = [
        Triple(t.head, t.relation.replace(lost, said_instead), t.tail.replace(lost, said_instead)) for t in FAITHFUL
    ]
    assert not is_carried(SENTENCE, changed)


@pytest.mark.parametrize(
    "sentence",
    [
        "It may rise.",
        "Call f(x) with y_1.",
        "The cost is $5.",
        "x < 3 holds.",
        "It is 北京.",
        "Run a&b.",
        "No one came.",
    ],
)
def test_modals_code_currency_and_signs_are_content(sentence: str) -> None:
    """None of them is on the stop list: an edge without them does not carry the sentence."""
    assert not is_carried(sentence, [Triple("it", "is", "so")])


def test_numbers_count_as_often_as_they_are_said() -> None:
    """Two threes are two numbers."""
    assert not is_carried(
        "Won 3 games in May and 3 in June.", [Triple("Won", "games in May", "3"), Triple("Won", "in", "June")]
    )


def test_without_edges_only_nothing_is_carried() -> None:
    """A sentence with a content word needs an edge; one without has nothing to lose."""
    assert not is_carried("Northstar.", [])
    assert is_carried("It is.", [])


def test_lemmas_stand_for_their_words() -> None:
    """Where a pipeline gives lemmas, `acquires` carries `acquired`."""
    lemmas = {"acquired": "acquire", "acquires": "acquire"}
    edges = [Triple("Northstar", "acquires", "DeltaPay")]
    assert not is_carried("Northstar acquired DeltaPay.", edges)
    assert is_carried("Northstar acquired DeltaPay.", edges, lemmas)


@given(prose)
def test_a_sentence_carries_itself(text: str) -> None:
    """An edge that says the sentence word for word always passes."""
    assert is_carried(text, [Triple("", text, "")])


HOLES = [
    ("Ana trusts Ben, and Ben trusts Ana.", [("Ana", "trusts", "Ben")]),
    (
        "Ana was born in Paris in 1900 and died in Paris.",
        [("Ana", "was born in", "Paris in 1900"), ("Ana", "died", "in")],
    ),
    ("Northstar was acquired by DeltaPay.", [("Northstar", "acquired", "DeltaPay")]),
    ("Revenue rose by 5 percent.", [("Revenue", "rose to", "5 percent")]),
    ("Everyone voted but Ana.", [("Everyone", "voted", "Ana")]),
    ("About 500 people died in Lyon.", [("500 people", "died in", "Lyon")]),
    ("Ana has to pay tax.", [("Ana", "pay", "tax")]),
    ("The pump stops when the tank is full.", [("pump", "does", "stops"), ("tank", "is", "full")]),
    ("Charles I was executed in 1649.", [("Charles", "was executed in", "1649")]),
    ("Vitamin A is toxic in excess.", [("Vitamin", "is toxic in", "excess")]),
    ("The Who released Tommy in 1969.", [("Tommy", "released in", "1969")]),
    ("US sanctions hit DeltaPay.", [("sanctions", "hit", "DeltaPay")]),
    ("Only one hostage survived in Lyon.", [("Only hostage", "survived in", "Lyon")]),
    ("Lows ranged from -5 to -10 degrees.", [("Lows", "ranged from", "-5 to 10 degrees")]),
    ("The low was –5 °C.", [("low", "was", "5 °C")]),
    ("The margin was -$5 million.", [("margin", "was", "$5 million")]),
    ("The error is 1e-5.", [("error", "is", "1e+5")]),
    ("The rate rose .5 percent.", [("rate", "rose", "5 percent")]),
    ("The pressure is 10² Pa.", [("pressure", "is", "102 Pa")]),
    ("The plant emits 5 mW.", [("plant", "emits", "5 MW")]),
    ('The board is 5" thick.', [("board", "is", "5' thick")]),
    ("Tea grew 5 % and rum grew 6 %.", [("Tea", "grew", "5 %"), ("rum", "grew", "6")]),
    ("Loop while a != b.", [("Loop", "while", "a = b")]),
    ("Use p->x here.", [("Use", "p>x", "here")]),
    ("Run --all -v now.", [("Run", "all v", "now")]),
    ("Take a[0] now.", [("Take", "a 0", "now")]),
    ("The call returns [] now.", [("call", "returns", "now")]),
    ("The call returns {} now.", [("call", "returns", "now")]),
    ("Read /etc/passwd now.", [("Read", "etc passwd", "now")]),
    ("Call os.path.join() now.", [("Call", "os path join", "now")]),
    ("Take x - 1 now.", [("Take", "x 1", "now")]),
    ("Learn C++ now.", [("Learn", "C+", "now")]),
    ("价格是二十二元", [("价格", "是", "二十元")]),
    ("张三打李四", [("李四", "打", "张三")]),
    ("वह दिन है", [("वह", "है", "दान")]),
    (
        "Ana has 2 sons and Ben has 2 daughters.",
        [("Ana", "has", "2 sons"), ("2 sons", "of", "Ana"), ("Ben", "has", "daughters")],
    ),
    ("Ana did not meet Ben.", [("Ana", "meet", "Ben"), ("Ana", "did not sue", "Ben")]),
]


@pytest.mark.parametrize(("sentence", "edges"), HOLES, ids=[sentence for sentence, _ in HOLES])
def test_the_guard_has_no_hole(sentence: str, edges: list[tuple[str, str, str]]) -> None:
    """Repeats, directions, names that look like function words, signs, units, code and word order are not lost."""
    assert not is_carried(sentence, [Triple(*edge) for edge in edges])


@pytest.mark.parametrize(
    ("sentence", "edges"),
    [
        ("Ana trusts Ben, and Ben trusts Ana.", [("Ana", "trusts", "Ben"), ("Ben", "trusts", "Ana")]),
        ("价格是二十二元。", [("价格", "是", "二十二元")]),
        ("DeltaPay grew 5% in 2020, to –3.5 °C.", [("DeltaPay", "grew", "5 % in 2020 to -3.5 °C")]),
        ("Northstar acquired DeltaPay.", [("Northstar", "acquired", "DeltaPay")]),
    ],
)
def test_the_guard_passes_another_way_of_writing(sentence: str, edges: list[tuple[str, str, str]]) -> None:
    """Dashes, spaces before a unit mark and full stops are no content."""
    assert is_carried(sentence, [Triple(*edge) for edge in edges])


@pytest.mark.parametrize("name", ["DeltaPay", "EU", "New York", "March 2022", "the EU"])
def test_specific_names(name: str) -> None:
    """Names that mean the same in every text, as far as their letters tell."""
    assert is_specific(name)


@pytest.mark.parametrize("name", ["film", "The film", "His father", "Summers", "公司", "", "the"])
def test_names_that_are_not_specific(name: str) -> None:
    """Names that may mean another thing in another text."""
    assert not is_specific(name)


# --- sentences


@given(lines | prose)
def test_spans_point_into_the_text_and_lose_nothing(text: str) -> None:
    """Every unit is text[start:end]; they are in order and leave nothing but white space between them."""
    rest, cursor = [], 0
    for number, sentence in enumerate(split_sentences(text)):
        assert sentence.position == number
        assert sentence.text == text[sentence.start : sentence.end] == sentence.text.strip() != ""
        assert cursor <= sentence.start < sentence.end
        rest.append(text[cursor : sentence.start])
        cursor = sentence.end
    assert not "".join([*rest, text[cursor:]]).strip()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Dr. Smith paid $3.5 million. He left.", ["Dr. Smith paid $3.5 million.", "He left."]),
        ("See Fig. 3 and Sect. 4.2 there. Done.", ["See Fig. 3 and Sect. 4.2 there.", "Done."]),
        ("The U.S. is big, e.g. in Jan. 2020.", ["The U.S. is big, e.g. in Jan. 2020."]),
        ("北京是中国的首都。上海很大！", ["北京是中国的首都。", "上海很大！"]),
        ("- one\n- two. And more.\n", ["- one", "- two.", "And more."]),
        ("| a | b |\n|---|---|\n| 1 | 2 |", ["| a | b |", "|---|---|", "| 1 | 2 |"]),
        ("```\nx = 1\n\ny = 2\n```", ["```\nx = 1\n\ny = 2\n```"]),
        ("A line that is\nwrapped softly. Next.", ["A line that is\nwrapped softly.", "Next."]),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    """Abbreviations, decimals, lists, tables, code, CJK and soft line breaks."""
    assert [sentence.text for sentence in split_sentences(text)] == expected


@pytest.mark.parametrize(
    ("text", "title", "first"),
    [
        ("Northstar\nNorthstar acquired DeltaPay in March 2022.", None, ("Northstar", "title")),
        ("Northstar\nNorthstar acquired DeltaPay.", "Northstar", ("Northstar", "title")),
        (
            'The "for" statement\n*******************\n\nThe "for" statement is used.',
            None,
            ('The "for" statement', "title"),
        ),
        ("# Heading\nText follows here.", None, ("# Heading", "title")),
        ("A first line that is wrapped\nin the middle of a sentence.", None, None),
        ("One line only", None, None),
    ],
)
def test_a_leading_title_is_a_unit_of_its_own(text: str, title: str | None, first: tuple[str, str] | None) -> None:
    """By hint, by an underline, by a heading mark, or by standing alone; a wrapped line is no title."""
    sentence = split_sentences(text, title=title)[0]
    assert first is None or (sentence.text, sentence.kind) == first
    assert (sentence.kind == "title") == (first is not None)


def test_an_endless_sentence_is_cut() -> None:
    """A stretch without a boundary is cut at white space, and nothing is lost."""
    text = "word " * 5000
    pieces = split_sentences(text)
    assert max(len(piece.text) for piece in pieces) <= 1200
    assert "".join(piece.text for piece in pieces).replace(" ", "") == "word" * 5000


@pytest.mark.parametrize(
    ("line", "kind"),
    [("=====", "rule"), ("|---|:--|", "rule"), ("... --- ...", "prose"), ("...", "prose")],
)
def test_only_one_mark_again_and_again_is_an_ornament(line: str, kind: str) -> None:
    """Underlines and table separators are; Morse code and an ellipsis say something."""
    units = split_sentences(f"The distress call is sent like this.\n\n{line}\n")
    assert {unit.kind for unit in units[1:]} == {kind}
    assert " ".join(unit.text for unit in units[1:]) == line


@pytest.mark.parametrize("text", ["f(x," * 10_000, "a(" * 20_000, "sect. " * 4_000])
def test_long_lines_are_split_in_time(text: str) -> None:
    """A minified line or endless abbreviations are units of bounded length, and nothing of them is lost."""
    units = split_sentences(text)
    assert "".join(unit.text for unit in units).replace(" ", "") == text.replace(" ", "")
    assert max(len(unit.text) for unit in units) <= 1200
