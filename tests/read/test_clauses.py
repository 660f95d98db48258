"""Parts of long sentences: where the budget is too small for the whole, and only where a part says the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apl import APLConfig, AutoPrunedLayer, Chunk, Turn
from apl.config import SelectionConfig
from apl.read.clauses import LONG_TOKENS, part_of
from apl.read.question import read_question
from apl.testing import HashEmbedder, WordCounter

QUESTION = "When was the harbour light of Lisse lit?"
LONG = (
    "The town council met in the hall above the market, which had been painted green by the guild of weavers in spring, "
    "and the harbour light of Lisse was lit on 4 May 1871, while the band of the fire brigade played a march that the "
    "schoolmaster had written for the day, and the children were given bread with plums and a cup of warm milk each."
)
ASKED = read_question(QUESTION, None, "en")
RARITY = dict.fromkeys(ASKED.terms.tolist(), 0.5)


def test_the_clauses_that_say_most_of_the_question_go_out() -> None:
    """They stand as in the text, next to each other, and are at most four fifths of it."""
    part = part_of(LONG, ASKED, RARITY, "en")
    assert part is not None
    assert "the harbour light of Lisse was lit on 4 May 1871" in part
    assert part in LONG
    assert len(part) <= 0.8 * len(LONG)


@pytest.mark.parametrize(
    "turned",
    ["It was not, as the guild had hoped, ", "If the tide allowed, ", "Nobody said, ", "Allegedly, ", "He denied it, but "],
)  # fmt: skip
def test_what_turns_a_statement_round_is_never_cut_off(turned: str) -> None:
    """A sentence with a negation, a condition or hearsay goes out whole."""
    assert part_of(turned + LONG, ASKED, RARITY, "en") is None


def test_clauses_are_known_in_english_only() -> None:
    """Elsewhere nothing is cut."""
    assert part_of(LONG, ASKED, RARITY, "de") is None


@given(
    st.lists(
        st.sampled_from(["harbour", "light", "1871", ",", "and", "(", ")", "which", "Lisse", ";", "x"]), max_size=40
    )
)
def test_a_part_is_a_piece_of_the_text(pieces: list[str]) -> None:
    """Whatever the text: a stretch of it without spaces around, shorter than the whole, or None."""
    text = " ".join(pieces)
    part = part_of(text, ASKED, RARITY, "en")
    if part is not None:
        assert part
        assert part in text
        assert part == part.strip()
        assert len(part) <= 0.8 * len(text)


@pytest.fixture
def layer(tmp_path: Path) -> AutoPrunedLayer:
    """A layer that knows one long sentence below its heading, and little else."""
    assert WordCounter().count(LONG) >= LONG_TOKENS
    chunks = [
        Chunk(f"Harbour light\n{LONG}", id="light", title="Harbour light"),
        Chunk("Bread\nBread is baked in towns.", id="bread", title="Bread"),
    ]
    config = APLConfig(selection=SelectionConfig(auto_floor_tokens=0), on_error="raise")
    with AutoPrunedLayer.open(
        tmp_path / "kb.db", embedder=HashEmbedder(), tokenizer=WordCounter(), config=config
    ) as one:
        one.index(chunks)
        yield one


def _asked(layer: AutoPrunedLayer, budget_tokens: int) -> Turn:
    return layer.compress(QUESTION, ["light", "bread"], budget_tokens=budget_tokens)


def test_a_part_says_that_it_is_one(layer: AutoPrunedLayer) -> None:
    """Within the budget, quoted as it stands, cited, with its reason."""
    turn = _asked(layer, 64)
    (decision,) = [found for found in turn.explain() if found.text == LONG]
    assert turn.tokens <= 64
    assert decision.outcome == "quote"
    assert "its clauses nearest to the question" in decision.reason
    (citation,) = [one for one in turn.citations if "4 May 1871" in one.text]
    assert citation.chunk_ids == ("light",)
    assert citation.text.removeprefix("Harbour light\n") in LONG


def test_a_part_goes_out_where_the_whole_does_not_fit(layer: AutoPrunedLayer) -> None:
    """The answer is kept with fewer tokens than the sentence has."""
    whole = WordCounter().count(LONG)
    turn = _asked(layer, whole - 4)
    assert "4 May 1871" in turn.text
    assert LONG not in turn.text


def test_a_budget_that_has_room_sends_sentences_whole(tmp_path: Path, layer: AutoPrunedLayer) -> None:
    """A sentence of less than a quarter of the budget is not cut."""
    filler = [Chunk(f"Town {n}\n" + f"Town {n} has a hall and a market of its own. " * 6, id=f"t{n}") for n in range(9)]
    layer.index(filler)
    turn = layer.compress(QUESTION, ["light", *(chunk.id or "" for chunk in filler)], budget_tokens=300)
    assert LONG in turn.text
