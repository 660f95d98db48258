"""`CombinedExtractor`: everything its extractors read, and per sentence what carries it for the fewest tokens."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apl.errors import ConfigError, ExtractionError
from apl.protocols import TripleExtractor
from apl.providers import CombinedExtractor, PrecomputedExtractor
from apl.reports import ExtractionUsage
from apl.sentences import split_sentences
from apl.symbols import Chunk, ExtractedTriple, Extraction, Passage, Triple
from apl.testing import ScriptedExtractor, WordCounter
from apl.write.alignment import align_passage

TEXT = "Northstar acquired DeltaPay in March 2022. The price was never published."
Entry = tuple[str, str, str] | tuple[str, str, str, int]
WHOLE = ("Northstar", "acquired", "DeltaPay in March 2022")
PARTS = [("Northstar", "acquired", "DeltaPay"), ("Northstar", "acquired in", "March 2022")]
PRICE = ("price", "was never", "published")


class Told:
    """Returns the extraction it was told, for every passage."""

    def __init__(self, *entries: Entry, name: str = "told", **others: object) -> None:
        triples = tuple(ExtractedTriple(Triple(*e[:3]), e[3] if len(e) > 3 else None) for e in entries)
        self.extraction = Extraction(triples, **others)  # type: ignore[arg-type]
        self.name = name

    def extract(self, passages: Sequence[Passage]) -> list[Extraction]:
        return [self.extraction] * len(passages)


def passage(text: str = TEXT) -> Passage:
    return Passage(Chunk(text, id="c1"), split_sentences(text))


def combined(*extractors: TripleExtractor, text: str = TEXT) -> Extraction:
    return CombinedExtractor(extractors, tokenizer=WordCounter()).extract([passage(text)])[0]


def said(extraction: Extraction) -> list[tuple[str, str, str, int | None]]:
    return [(e.triple.head, e.triple.relation, e.triple.tail, e.sentence) for e in extraction.triples]


def test_the_cheapest_that_carries_stands_for_the_sentence() -> None:
    """Both carry it; the one that says it in fewer tokens stays, whichever comes first, and the other goes."""
    for extractors in ((Told(WHOLE), Told(*PARTS)), (Told(*PARTS), Told(WHOLE))):
        assert said(combined(*extractors)) == [(*WHOLE, 0)]


def test_on_a_tie_the_first_extractor_wins() -> None:
    """Order is preference."""
    other = ("Northstar acquired", "DeltaPay", "in March 2022")
    assert said(combined(Told(WHOLE), Told(other))) == [(*WHOLE, 0)]
    assert said(combined(Told(other), Told(WHOLE))) == [(*other, 0)]


def test_two_that_carry_half_carry_it_together() -> None:
    """The union is a candidate as well, in the order of the extractors."""
    found = combined(Told(PARTS[0]), Told(PARTS[1]))
    assert said(found) == [(*PARTS[0], 0), (*PARTS[1], 0)]
    assert align_passage(passage(), found).sentences[0].carried


def test_where_none_carries_all_edges_stay() -> None:
    """The graph keeps them, each once; triples of no sentence stay as well, last."""
    pairs = ("Northstar", "bought", "DeltaPay")
    lost = ("CloudCo", "knows", "Globex")
    found = combined(Told(lost, PARTS[0]), Told(pairs, PARTS[0], lost))
    assert said(found) == [(*PARTS[0], 0), (*pairs, 0), (*lost, None)]


def test_each_sentence_is_decided_for_itself() -> None:
    """One extractor is better at the first, another at the second; triples come sentence by sentence."""
    found = combined(Told(PRICE, *PARTS), Told(WHOLE, ("price", "was", "published")))
    assert said(found) == [(*WHOLE, 0), (*PRICE, 1)]


def test_positions_that_are_given_count() -> None:
    """Where an extractor says the sentence it is believed, as when it is stored; else the words decide."""
    found = combined(Told((*PRICE, 0), (*WHOLE, 99)))
    assert said(found) == [(*PRICE, 0), (*WHOLE, 0)]


def test_what_cannot_be_stored_carries_nothing() -> None:
    """A pronoun is no entity: such an edge is counted, and must not push out one that is."""
    pronoun = ("It", "was acquired", "x")
    found = combined(Told(("they", "acquired", "DeltaPay in March 2022 Northstar"), pronoun), Told(*PARTS))
    assert said(found) == [(*part, 0) for part in PARTS]
    assert found.malformed == 2


def test_counts_add_up_and_lemmas_merge() -> None:
    """The first lemma of a word wins."""
    found = combined(
        Told(malformed=1, unsupported=2, fallbacks=5, lemmas={"bought": "buy"}),
        Told(malformed=3, unsupported=4, fallbacks=6, lemmas={"bought": "bought", "acquired": "acquire"}),
    )
    assert (found.malformed, found.unsupported, found.fallbacks) == (4, 6, 11)
    assert found.lemmas == {"bought": "buy", "acquired": "acquire"}


def test_the_shortest_quote_that_keeps_the_content_wins() -> None:
    """One that loses a word, is no shorter, or belongs to no sentence does not."""
    found = combined(
        Told(short={0: "Northstar acquired DeltaPay March 2022.", 1: "price published", 9: "x"}),
        Told(short={0: "Northstar acquired DeltaPay March 2022", 1: TEXT}),
    )
    assert found.short == {0: "Northstar acquired DeltaPay March 2022"}


def test_it_is_an_extractor_named_by_its_parts() -> None:
    """Another part is another name, so that chunks are read again."""
    extractor = CombinedExtractor([Told(name="a"), ScriptedExtractor({}, name="b")], tokenizer=WordCounter())
    assert isinstance(extractor, TripleExtractor)
    assert extractor.name == "a+b"
    assert extractor.extract([]) == []
    again = pickle.loads(pickle.dumps(extractor))  # noqa: S301 - our own bytes
    assert again.extract([passage()]) == extractor.extract([passage()])


def test_it_stays_in_this_process_with_a_part_that_has_to() -> None:
    """A model stays where it is; a table may go along with a parser. What parts have spent adds up."""

    class Paid(Told):
        in_process_only = True
        usage = ExtractionUsage(calls=2, cost=0.5)

    def joint(*extractors: TripleExtractor) -> CombinedExtractor:
        return CombinedExtractor(extractors, tokenizer=WordCounter())

    table = PrecomputedExtractor({})
    assert joint(Told(), Paid()).in_process_only
    assert table.in_process_only
    assert not joint(Told(), table).in_process_only
    assert joint(Paid(), Told(), Paid()).usage == ExtractionUsage(calls=4, cost=1.0)
    assert joint(Told()).usage is None


def test_what_is_no_extractor_is_a_config_error() -> None:
    """At once, and so is having none."""
    for wrong in ([], ["spacy"], [Told(), None]):
        with pytest.raises(ConfigError, match="takes objects with"):
            CombinedExtractor(wrong, tokenizer=WordCounter())  # type: ignore[arg-type]


def test_an_error_goes_through() -> None:
    """An extractor that fails fails the chunk; one that returns too little is named."""

    class Failing(Told):
        def extract(self, passages: Sequence[Passage]) -> list[Extraction]:
            raise ExtractionError("no model")

    class Short(Told):
        def extract(self, passages: Sequence[Passage]) -> list[Extraction]:
            return []

    with pytest.raises(ExtractionError, match="no model"):
        combined(Told(WHOLE), Failing())
    with pytest.raises(ExtractionError, match="short returned 0 extractions for 1 passages"):
        combined(Told(WHOLE), Short(name="short"))


WORDS = st.sampled_from("Northstar DeltaPay acquired buys bought 2022 not 12 never it price in March was".split())
PHRASES = st.lists(WORDS, min_size=1, max_size=4).map(" ".join)
TRIPLES = st.tuples(PHRASES, PHRASES, PHRASES, st.none() | st.integers(0, 3))
LEMMAS: Mapping[str, str] = {"bought": "buy", "buys": "buy", "acquired": "acquire", "was": "be"}


@st.composite
def readings(draw: st.DrawFn) -> tuple[str, list[Told]]:
    """A text, and what several extractors read in it: stretches of its sentences and triples of stray words."""
    sentences = draw(st.lists(st.lists(WORDS, min_size=2, max_size=7), min_size=1, max_size=3))
    told = []
    for number in range(draw(st.integers(1, 3))):
        entries = [*draw(st.lists(TRIPLES, max_size=4))]
        for position, sentence in enumerate(sentences):
            if len(sentence) > 2 and draw(st.booleans()):
                first, second = sorted(
                    draw(st.lists(st.integers(1, len(sentence) - 1), min_size=2, max_size=2, unique=True))
                )
                cut = (sentence[:first], sentence[first:second], sentence[second:])
                entries.append((*(" ".join(part) for part in cut), position))  # type: ignore[arg-type]
        told.append(Told(*entries, name=f"told{number}", lemmas=LEMMAS if draw(st.booleans()) else {}))  # type: ignore[arg-type]
    return "\n\n".join(" ".join(sentence) + "." for sentence in sentences), told


@given(readings())
def test_no_sentence_is_lost_that_one_of_them_carries(reading: tuple[str, list[Told]]) -> None:
    """What is stored of the whole carries every sentence that what is stored of a part carries."""
    text, told = reading
    whole = align_passage(passage(text), combined(*told, text=text))
    for part in told:
        alone = align_passage(passage(text), part.extraction)
        assert all(w.carried for w, a in zip(whole.sentences, alone.sentences, strict=True) if a.carried)
    assert {o.triple for o in whole.occurrences} <= {e.triple for part in told for e in part.extraction.triples}
