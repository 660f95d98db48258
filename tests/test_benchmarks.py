"""The benchmarks measure what they say: their pure parts on texts small enough to count by hand."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from apl import Chunk
from apl.evaluation.metrics import QuestionRecord
from apl.sentences import split_sentences
from apl.symbols import Passage, Triple
from apl.testing import ScriptedExtractor, WordCounter

TEXT = "Northstar\nNorthstar acquired DeltaPay in March 2022. The price was never published. It was 40 million."
EDGES = [
    ("Northstar", "acquired", "DeltaPay"),
    ("DeltaPay", "was acquired in", "March 2022"),
    ("price", "was", "published"),
]


@pytest.fixture
def measures(benchmark_path: None) -> ModuleType:
    return import_module("measures")


@pytest.fixture
def hosts(benchmark_path: None) -> ModuleType:
    return import_module("hosts")


@pytest.fixture
def readings(measures: ModuleType) -> Any:
    """A function that reads texts with the edges that stand beside them."""

    def read(*texts: tuple[str, Sequence[tuple[str, str, str]]]) -> Any:
        chunks = [Chunk(text, id=f"c{number}", title=text.split("\n")[0]) for number, (text, _) in enumerate(texts)]
        script = {f"c{number}": edges for number, (_, edges) in enumerate(texts)}
        passages = [Passage(chunk, split_sentences(chunk.text, title=chunk.title)) for chunk in chunks]
        return measures.readings_of(passages, ScriptedExtractor(script).extract(passages))

    return read


class TestGuard:
    def test_sentences_count_as_passed_only_when_their_edges_carry_them(
        self, measures: ModuleType, readings: Any
    ) -> None:
        """One of four: "never" is lost, and two units have no edge."""
        found = measures.guard(readings((TEXT, EDGES)))
        assert found["units"] == {"kept": 1, "total": 4, "value": 0.25}
        assert found["without_titles"] == {"kept": 1, "total": 3, "value": 1 / 3}

    def test_ornaments_are_left_out(self, measures: ModuleType, readings: Any) -> None:
        found = measures.guard(readings(("News\n\nDeltaPay grew.\n\n----\n\nIt shrank.", [])))
        assert found["units"]["total"] == 3

    def test_missing_words_are_named(self, measures: ModuleType) -> None:
        absent = measures.missing("The price was never published.", [Triple("price", "was", "published")], {})
        assert dict(absent) == {"never": 1}


class TestTokens:
    def test_carried_sentences_are_weighed_without_rules_against_their_text_and_the_heading_that_is_said(
        self, measures: ModuleType, readings: Any
    ) -> None:
        edges = [("Northstar", "acquired", "DeltaPay in March 2022")]
        costs = measures.outline_costs(readings((TEXT, edges)), WordCounter())["passage"]
        outline = "Northstar: acquired DeltaPay in March 2022"
        assert costs["carried"]["sent"] == WordCounter().count(outline)
        assert costs["carried"]["host"] == WordCounter().count("Northstar Northstar acquired DeltaPay in March 2022.")

    def test_the_overall_figure_counts_edges_quotes_and_rules(self, measures: ModuleType, readings: Any) -> None:
        edges = [("Northstar", "acquired", "DeltaPay in March 2022")]
        costs = measures.outline_costs(readings((TEXT, edges)), WordCounter())["passage"]
        said = "Northstar: acquired DeltaPay in March 2022\n\nprice was never published. It was 40 million."
        assert costs["overall_without_rules"]["sent"] == WordCounter().count(said)
        assert costs["overall"]["sent"] > costs["overall_without_rules"]["sent"]
        assert costs["overall"]["host"] == WordCounter().count(TEXT)

    def test_passages_of_a_group_share_heads_and_rules(self, measures: ModuleType, readings: Any) -> None:
        edge = ("DeltaPay Inc", "grew in", "2020")
        texts = [(f"DeltaPay Inc grew in 2020. Page {number} says so.", [edge]) for number in range(3)]
        costs = measures.outline_costs(readings(*texts), WordCounter())
        alone, grouped = costs["passage"]["overall"], costs[f"groups_of_{measures.GROUP}"]["overall"]
        assert grouped["sent"] < alone["sent"]
        assert grouped["host"] == alone["host"]

    def test_text_without_edges_costs_itself(self, measures: ModuleType, readings: Any) -> None:
        text = "Northstar paid 40 million."
        costs = measures.outline_costs(readings((text, [])), WordCounter())["passage"]
        assert costs["overall"]["value"] == 1.0
        assert costs["carried"]["value"] is None


class TestHops:
    @pytest.mark.parametrize(
        ("hop", "guarded", "edges"),
        [("DeltaPay", 1, 1), ("March 2022", 1, 1), ("40 million", 1, 0), ("never", 1, 0)],
    )
    def test_a_hop_is_sought_in_what_goes_out_and_in_edges_alone(
        self, measures: ModuleType, hosts: ModuleType, readings: Any, hop: str, guarded: int, edges: int
    ) -> None:
        question = hosts.Question("q", "Which?", (hop,), ((hop,),), gold=("c0", "elsewhere"))
        found = measures.hops_carried(readings((TEXT, EDGES)), [question])
        assert (found["guarded"]["kept"], found["edges"]["kept"]) == (guarded, edges)
        assert found["edges"]["total"] == 1

    def test_a_hop_that_lost_its_article_is_lost_and_shown(
        self, measures: ModuleType, hosts: ModuleType, readings: Any
    ) -> None:
        question = hosts.Question("q", "Where?", ("in the Hague",), (("in the Hague",),), gold=("c0",))
        read = readings(("DeltaPay moved in the Hague.", [("DeltaPay", "moved in", "Hague")]))
        found = measures.hops_carried(read, [question])
        assert (found["guarded"]["kept"], found["guarded_as_squad"]["kept"]) == (0, 1)
        assert found["lost"] == [{"question": "q", "hop": ["in the Hague"]}]

    def test_hops_that_the_gold_passages_do_not_hold_are_not_asked_for(
        self, measures: ModuleType, hosts: ModuleType, readings: Any
    ) -> None:
        questions = [
            hosts.Question("absent", "Which?", ("CloudCo",), (("CloudCo",),), gold=("c0",)),
            hosts.Question("not gold", "Which?", ("DeltaPay",), (("DeltaPay",),), gold=("elsewhere",)),
        ]
        assert measures.hops_carried(readings((TEXT, EDGES)), questions)["edges"]["total"] == 0


class TestPairs:
    def held(self, measures: ModuleType, hosts: ModuleType, readings: Any, *pair: str) -> dict[str, Any]:
        document = hosts.Annotated(
            "Northstar", TEXT, tuple(TEXT.split("\n")[1].split(". ")), (((pair[0],), (pair[1],)),)
        )
        found: dict[str, Any] = measures.pairs_held(readings((TEXT, EDGES)), [document])
        return found

    @pytest.mark.parametrize(
        ("pair", "ways"),
        [
            (("DeltaPay", "Northstar"), {"one_edge_ends", "one_edge", "held"}),
            (("March 2022", "acquired"), {"one_edge", "held"}),
            (("Northstar", "March 2022"), {"two_edges", "held"}),
            (("Northstar", "published"), set()),
        ],
    )
    def test_a_pair_is_held_by_one_edge_or_by_two_that_meet(
        self, measures: ModuleType, hosts: ModuleType, readings: Any, pair: tuple[str, str], ways: set[str]
    ) -> None:
        found = self.held(measures, hosts, readings, *pair)["all"]
        assert {way for way, share in found.items() if share["kept"]} == ways
        assert all(share["total"] == 1 for share in found.values())

    def test_pairs_of_one_sentence_are_told_apart(self, measures: ModuleType, hosts: ModuleType, readings: Any) -> None:
        assert self.held(measures, hosts, readings, "Northstar", "DeltaPay")["same_sentence"]["held"]["total"] == 1
        assert self.held(measures, hosts, readings, "Northstar", "published")["same_sentence"]["held"]["total"] == 0

    def test_a_name_that_the_document_does_not_hold_is_not_asked_for(
        self, measures: ModuleType, hosts: ModuleType, readings: Any
    ) -> None:
        assert self.held(measures, hosts, readings, "Northstar", "CloudCo")["all"]["held"]["total"] == 0


@pytest.mark.parametrize(
    ("triple", "fault"),
    [
        (Triple("DeltaPay", "is in", "Berlin"), None),
        (Triple("DeltaPay", "is", "not there"), None),
        (Triple("DeltaPay", "is", "in the"), "an end of function words or punctuation"),
        (Triple("DeltaPay", "is", "..."), "an end of function words or punctuation"),
        (Triple("DeltaPay", "is part of", "list of"), "an end that hangs on a function word"),
        (Triple("DeltaPay", "met", "and CloudCo"), "an end that hangs on a function word"),
        (Triple("DeltaPay (a company", "is in", "Berlin"), "unbalanced brackets or quotes"),
        (Triple("DeltaPay", "said", "so " * 70 + "it went"), "an end longer than 200 characters"),
        (Triple("DeltaPay", "-", "Berlin"), "a relation without a word"),
        (Triple("DeltaPay", " ", "Berlin"), "an empty part"),
    ],
)
def test_plain_faults_of_edges_are_found(measures: ModuleType, triple: Triple, fault: str | None) -> None:
    found = measures.faults(triple)
    assert fault in found if fault else not found


class TestTexts:
    @pytest.mark.parametrize(
        ("tokens", "text"),
        [
            ('Wilfried " Willi " Schneider ( born 1963 ) .', 'Wilfried "Willi" Schneider (born 1963).'),
            ("the men 's event , in 1997 - 8", "the men's event, in 1997-8"),
            ("Idriss ' death", "Idriss' death"),
            ("1920 – 1992 , London – Paris", "1920–1992, London – Paris"),
        ],
    )
    def test_tokens_are_put_together_as_they_are_written(self, hosts: ModuleType, tokens: str, text: str) -> None:
        assert hosts.detokenised(tokens) == text

    def test_a_document_is_cut_into_whole_sentences_that_fit(self, hosts: ModuleType, tiktoken_offline: None) -> None:
        counter = hosts.TiktokenCounter()
        text = " ".join(f"DeltaPay recorded {number} incidents in the year {1900 + number}." for number in range(60))
        chunks = list(hosts.cut("d", text, tokens=50))
        assert " ".join(chunk.text for chunk in chunks) == text
        assert all(30 < counter.count(chunk.text) <= 50 for chunk in chunks[:-1])
        assert [chunk.id for chunk in chunks[:2]] == ["d:0", "d:1"]

    def test_a_lost_article_shows_as_a_lost_article(self, benchmark_path: None) -> None:
        payload = import_module("payload")
        kept = QuestionRecord("Where?", ("The Hague, NL",), (), "in The Hague, NL.", "in Hague NL", 6, 4, "outline")
        lost = QuestionRecord("Where?", ("The Hague, NL",), (), "in The Hague, NL.", "in Haguenau NL", 6, 4, "outline")
        assert payload.summarise([kept, lost]).answers_kept.kept == 0
        assert (payload.answers_kept_as_squad([kept, lost]).kept, payload.answers_kept_as_squad([lost]).total) == (1, 1)
