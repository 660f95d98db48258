"""Selection: what speaks for a sentence, what is chosen, and why; on real layers with the fakes of `apl.testing`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apl import APLConfig, AutoPrunedLayer, Chunk
from apl.config import SelectionConfig, SelectionWeights
from apl.read.costs import Price, needs_heading
from apl.read.evidence import gather
from apl.read.features import FEATURES, Corpus, features
from apl.read.question import read_question
from apl.read.selection import Candidate, choose, least_score
from apl.state.engine import Store
from apl.state.passages import Passages
from apl.terms import DATE, NAME, NUMBER
from apl.testing import HashEmbedder, WordCounter

CHUNKS = (
    Chunk("Glass Harbour\nGlass Harbour is a film of 1961. It was directed by Mara Quell.", id="film", title="Glass Harbour"),
    Chunk("Mara Quell\nMara Quell was a painter. She was born in Lisse in 1920.", id="quell", title="Mara Quell"),
    Chunk("Odo Brandt\nOdo Brandt was a painter. He was born in Delft in 1922.", id="brandt", title="Odo Brandt"),
    Chunk("Painting\nA painter paints. Many painters were born in towns.", id="painting", title="Painting"),
)  # fmt: skip
QUESTION = "Where was the director of Glass Harbour born?"

Open = Callable[..., AutoPrunedLayer]


@pytest.fixture
def layer_of(tmp_path: Path) -> Open:
    """Layers over the chunks, whose automatic budget has no floor."""

    def opened(
        *, weights: SelectionWeights | None = None, chunks: Sequence[Chunk] = CHUNKS, **knobs: object
    ) -> AutoPrunedLayer:
        selection = SelectionConfig(auto_floor_tokens=0, weights=weights or SelectionWeights())
        layer = AutoPrunedLayer.open(
            tmp_path / "kb.db",
            embedder=HashEmbedder(),
            tokenizer=WordCounter(),
            config=APLConfig(selection=selection, on_error="raise", **knobs),
        )
        layer.index(chunks)
        return layer

    return opened


def table(tmp_path: Path, question: str, chunks: Sequence[Chunk] = CHUNKS) -> dict[str, dict[str, float]]:
    """The features by sentence, of an indexed host."""
    with AutoPrunedLayer.open(tmp_path / "kb.db", embedder=HashEmbedder(), tokenizer=WordCounter()) as layer:
        layer.index(chunks)
    passages = Passages(Store.open(tmp_path / "kb.db", read_only=True))
    host = gather(chunks, passages, language="en")
    asked = read_question(question, HashEmbedder().embed([question])[0], "en")
    wanted = [*asked.terms.tolist(), *(term for chunk in host for term in chunk.title_terms.tolist())]
    values = features(host, asked, Corpus(*passages.rarities(wanted)))
    texts = [unit.sentence.text for chunk in host for unit in chunk.units]
    return {text: dict(zip(FEATURES, row, strict=True)) for text, row in zip(texts, values.tolist(), strict=True)}


class TestFeatures:
    """What speaks for a sentence."""

    def test_the_second_hop_is_found_through_the_first(self, tmp_path: Path) -> None:
        """The chunk that a relevant sentence names is linked, its twin that nobody names is not."""
        found = table(tmp_path, QUESTION)
        assert found["She was born in Lisse in 1920."]["link"] > 0
        assert found["He was born in Delft in 1922."]["link"] == 0

    def test_a_common_title_carries_little(self, tmp_path: Path) -> None:
        """A hub is called by its name everywhere, and rarely as a name."""
        assert table(tmp_path, QUESTION)["A painter paints."]["link"] == 0

    def test_rare_words_of_the_question_count_more(self, tmp_path: Path) -> None:
        """`Lisse` stands in one chunk, `born` in three."""
        found = table(tmp_path, "Who was born in Lisse?")
        assert found["She was born in Lisse in 1920."]["overlap"] == pytest.approx(1.0)
        assert 0 < found["He was born in Delft in 1922."]["overlap"] < 0.5

    @pytest.mark.parametrize(
        ("question", "expects"),
        [
            ("When was it built?", DATE), ("In what year did it close?", DATE), ("How many branches has it?", NUMBER),
            ("Who directed it?", NAME), ("Which city is it in?", NAME), ("Is it open?", 0), ("Wann war das?", 0),
        ],
    )  # fmt: skip
    def test_the_question_says_what_kind_of_answer_it_expects(self, question: str, expects: int) -> None:
        """Told from English wh-phrases; nothing where nothing is said."""
        assert read_question(question, None, "en").expects == expects

    def test_a_question_in_another_language_expects_nothing(self) -> None:
        """A hint that may mislead is none."""
        assert read_question("When was it built?", None, "de").expects == 0

    def test_a_host_without_sentences_or_known_chunks_has_features(self, tmp_path: Path) -> None:
        """Empty and unknown chunks among the others raise nothing, and unknown ones compete on their words."""
        AutoPrunedLayer.open(tmp_path / "kb.db", embedder=HashEmbedder(), tokenizer=WordCounter()).close()
        passages = Passages(Store.open(tmp_path / "kb.db", read_only=True))
        host = gather([Chunk(""), Chunk("Mara Quell was born in Lisse."), Chunk(" \n")], passages, language="en")
        asked = read_question("Who was born in Lisse?", np.ones(4, dtype=np.float32), "en")
        values = features(host, asked, Corpus({}, 0))
        assert values.shape == (1, len(FEATURES))
        assert np.isfinite(values).all()


class TestChoice:
    """What is chosen."""

    @staticmethod
    def _ranked(costs: Sequence[int], host: Sequence[object]) -> list[Candidate]:
        keys = [(chunk.rank, unit.sentence.position) for chunk in host for unit in chunk.units]  # type: ignore[attr-defined]
        pairs = zip(keys, costs, strict=False)
        return [Candidate(key, float(-place), Price(cost), "") for place, (key, cost) in enumerate(pairs)]

    @given(st.lists(st.integers(1, 20), min_size=1, max_size=8), st.integers(0, 60))
    @settings(max_examples=50)
    def test_the_estimate_keeps_to_the_budget_and_gaps_are_filled(self, costs: list[int], budget: int) -> None:
        """No choice costs more than the budget, and nothing that was left out would still fit."""
        host = gather([Chunk(f"Sentence number {n} stands here alone.") for n in range(8)], _nothing(), language="en")
        ranked = self._ranked(costs, host)
        choice = choose(ranked, host, budget_tokens=budget)
        spent = sum(candidate.price.tokens for candidate in ranked if candidate.key in choice.keys)
        assert spent <= budget
        left = [candidate for candidate in ranked if candidate.key not in choice.keys]
        assert all(spent + candidate.price.tokens > budget for candidate in left)
        assert {candidate.key for candidate in left} == choice.dropped.keys()

    def test_a_sentence_of_two_chunks_is_said_once(self, layer_of: Open) -> None:
        """The second is dropped, and `explain` says why."""
        twice = [
            Chunk("Odd. Mara Quell was born in Lisse.", id="a"),
            Chunk("Even. Mara Quell was born in Lisse.", id="b"),
        ]
        turn = layer_of(chunks=twice).compress("Where was Mara Quell born?", twice, budget_tokens=13)
        assert turn.text.count("born in Lisse") == 1
        assert "another chunk says the same sentence" in {decision.reason for decision in turn.explain()}

    def test_the_same_words_of_two_things_are_two_facts(self, layer_of: Open) -> None:
        """Both films were released in 2020; of one film twice it is said once."""
        said = "It was released in 2020."
        films = [Chunk(f"{t}\n{said} Much else happened here, too.", id=t, title=t) for t in ("Red Mill", "Blue Mill")]
        again = Chunk(f"Red Mill\nOther words stand first. {said}", id="again", title="Red Mill")
        layer = layer_of(chunks=[*films, again], mode="text")
        turn = layer.compress("Which film was released in 2020?", [*films, again], budget_tokens=22)
        assert turn.text.count("released in 2020") == 2
        assert "another chunk says the same sentence" in {decision.reason for decision in turn.explain()}

    @pytest.mark.parametrize(("facts", "times"), [("unique", 1), ("all", 2), ("none", 0)])
    def test_the_facts_channel_holds_what_it_is_told_to(self, tmp_path: Path, facts: str, times: int) -> None:
        """What two chunks say is said once, as often as it is said, or not at all (paper 3.6)."""
        same = "Mara Quell was born in Lisse."
        twice = [
            Chunk(f"Odd words stand here first. {same}", id="a"),
            Chunk(f"{same} Even words stand here last.", id="b"),
        ]
        config = APLConfig(selection=SelectionConfig(facts=facts, auto_floor_tokens=0), on_error="raise")
        with AutoPrunedLayer.open(
            tmp_path / "kb.db", embedder=HashEmbedder(), tokenizer=WordCounter(), config=config
        ) as layer:
            layer.index(twice)
            turn = layer.compress("Where was Mara Quell born?", twice, budget_tokens=15)
        assert turn.text.count("Lisse") == times
        if facts == "none":
            assert {decision.reason for decision in turn.explain()} == {"the facts channel is off"}

    def test_the_threshold_stands_above_the_mean(self) -> None:
        """Sentences of equal worth all go out; of nothing there is no threshold."""
        equal = [Candidate((0, n), 0.5, Price(1), "") for n in range(3)]
        assert least_score(equal, 0.25) <= 0.5
        assert least_score([], 0.25) == float("-inf")


class TestAutomatic:
    """Without a budget."""

    def test_a_payload_is_as_long_as_the_question_needs(self, layer_of: Open) -> None:
        """Both hops go out, less than the host's text does, and the dropped say that they were not worth it."""
        turn = layer_of().compress(QUESTION, CHUNKS)
        assert "directed by Mara Quell" in turn.text
        assert "Lisse" in turn.text
        assert turn.tokens < turn.host_tokens
        assert "what it adds is not worth its tokens" in {decision.reason for decision in turn.explain()}

    def test_a_chosen_sentence_says_why(self, layer_of: Open) -> None:
        """`explain` names what speaks most for it, and its score."""
        turn = layer_of().compress(QUESTION, CHUNKS)
        chosen = [decision for decision in turn.explain() if decision.outcome in ("quote", "edges") and decision.score]
        assert chosen
        assert all(";" in decision.reason for decision in chosen)

    def test_chunks_the_codebook_does_not_know_go_out_whole(self, layer_of: Open) -> None:
        """What was never indexed passes as text; only a budget lets its sentences compete."""
        new = Chunk("The weather was fine. Nobody came. The harbour froze over.", id="new")
        turn = layer_of().compress(QUESTION, [*CHUNKS, new])
        assert "The weather was fine. Nobody came. The harbour froze over." in turn.text

    def test_no_sentence_of_an_unknown_chunk_is_lost_to_an_estimate(self, layer_of: Open) -> None:
        """A host of nothing but unknown chunks passes as the host's own text, headings and repeated sentences included."""
        new = [
            Chunk(f"Title {n}\nThe {n}. day was cold. Nobody came. Nobody came.", title=f"Title {n}") for n in range(40)
        ]
        turn = layer_of().compress(QUESTION, new)
        assert {decision.outcome for decision in turn.explain()} == {"passed"}
        mixed = layer_of().compress(QUESTION, [*CHUNKS, *new])
        kept = [decision for decision in mixed.explain() if "Nobody" in decision.text or "day" in decision.text]
        assert {decision.outcome for decision in kept} <= {"quote", "passed"}

    def test_a_quote_brings_the_heading_it_needs(self, layer_of: Open) -> None:
        """`She was born` without her name is no answer."""
        turn = layer_of(mode="text").compress("Who was born in Lisse in 1920?", CHUNKS, budget_tokens=12)
        assert "She was born in Lisse in 1920." in turn.text
        assert "Mara Quell" in turn.text

    @pytest.mark.parametrize(
        ("text", "needed"), [("She was born.", True), ("The film won.", True), ("Mara was born.", False)]
    )
    def test_which_sentences_need_their_heading(self, text: str, needed: bool) -> None:
        """Those that begin with a word that may stand for it; in other languages all."""
        assert needs_heading(text, "en") is needed
        assert needs_heading(text, "de")

    def test_small_hosts_go_out_whole(self, tmp_path: Path) -> None:
        """Below the floor there is little to gain, and the question is not embedded."""
        layer = AutoPrunedLayer.open(tmp_path / "kb.db", embedder=HashEmbedder(), tokenizer=WordCounter())
        layer.index(CHUNKS)
        turn = layer.compress(QUESTION, CHUNKS)
        assert "question_embedding_ms" not in turn.timings
        dropped = {decision.reason for decision in turn.explain() if decision.outcome == "dropped"}
        assert dropped <= {"the next sentence begins with the heading"}

    def test_without_an_embedder_everything_is_said(self, layer_of: Open, tmp_path: Path) -> None:
        """There is nothing to rank by."""
        layer_of().close()
        config = APLConfig(selection=SelectionConfig(auto_floor_tokens=0))
        with AutoPrunedLayer.open(tmp_path / "kb.db", tokenizer=WordCounter(), config=config) as layer:
            turn = layer.compress(QUESTION, CHUNKS)
        assert "Many painters were born in towns." in turn.text

    def test_the_context_window_is_a_hard_bound(self, layer_of: Open) -> None:
        """Whatever else is asked for."""
        layer = layer_of(context_tokens=9)
        for options in ({}, {"ratio": 1.0}, {"budget_tokens": 500}):
            assert layer.compress(QUESTION, CHUNKS, **options).tokens <= 9


def _nothing() -> Passages:
    class Nothing:
        def find(self, keys: Sequence[str], hashes: Sequence[str]) -> object:
            from apl.state.passages import PassageLookup

            return PassageLookup({}, {})

    return Nothing()  # type: ignore[return-value]
