"""The journey through the public surface: index, compress, explain, remember."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence

import pytest

from apl import APLConfig, AutoPrunedLayer, Chunk, Scope, Turn
from apl.errors import ConfigError, InputError, ReadOnlyStoreError
from apl.protocols import Vectors
from apl.read.payload import decode
from apl.symbols import Evidence, Extraction, Layout, Passage
from apl.testing import HashEmbedder, ScriptedExtractor, WordCounter

Open = Callable[..., AutoPrunedLayer]

# A text of which the edges save much, so that a form wins over the host's text with the hand-countable WordCounter.
LONG = Chunk(
    "DeltaPay, which is what it is and what it has been, and which was and is that in which it has been and is, is a "
    "company that is based in Berlin, and it is and has been in the hands of the Northstar and of it and of itself, "
    "as it was and as it has been, since 2022. The price was never published by either of the two companies.",
    id="long",
    document_id="profile",
)
LONG_TRIPLES = {
    "long": [
        ("DeltaPay", "company based in", "Berlin"),
        ("DeltaPay", "in hands of", "Northstar since 2022"),
    ]
}


@pytest.fixture
def long_layer(open_layer: Open) -> AutoPrunedLayer:
    """A layer whose one chunk compresses."""
    layer = open_layer(extractor=ScriptedExtractor(LONG_TRIPLES), knobs={"forms": ("outline",), "quotes": "verbatim"})
    layer.index([LONG])
    return layer


def test_never_more_tokens_than_the_host(layer: AutoPrunedLayer, story: Sequence[Chunk]) -> None:
    """Where no form is smaller the host's text passes, byte for byte, and savings are 0 (contract 3)."""
    for count in range(1, len(story) + 1):
        turn = layer.compress("What is DeltaPay subject to?", story[:count])
        assert turn.tokens <= turn.host_tokens
        assert turn.host_tokens == WordCounter().count("\n\n".join(chunk.text for chunk in story[:count]))
        if turn.form == "host_text":
            assert turn.text == "\n\n".join(chunk.text for chunk in story[:count])
            assert turn.savings == 0.0


def test_the_count_is_that_of_the_bytes_sent(long_layer: AutoPrunedLayer) -> None:
    """tokens is the tokenizer's count of exactly turn.text (contract 2)."""
    turn = long_layer.compress("Where is DeltaPay based?", [LONG])
    assert turn.form == "outline"
    assert turn.tokens == WordCounter().count(turn.text) < turn.host_tokens
    assert turn.savings == pytest.approx(1 - turn.tokens / turn.host_tokens)
    assert turn.tokens_by_form["outline"] == turn.tokens


def test_a_carried_sentence_goes_out_as_edges_another_verbatim(long_layer: AutoPrunedLayer) -> None:
    """The guard decides sentence by sentence, and explain() says which way and why."""
    turn = long_layer.compress("Where is DeltaPay based?", [LONG])
    decisions = turn.explain()
    assert [decision.outcome for decision in decisions] == ["edges", "quote"]
    assert all(decision.reason for decision in decisions)
    assert decisions[1].text in turn.text
    assert decisions[0].text not in turn.text
    assert decode(turn.text, turn.form) is not None


def test_citations_map_items_to_chunks(long_layer: AutoPrunedLayer) -> None:
    """Every edge and quote of the payload names the chunks and documents that say it (contract 4)."""
    turn = long_layer.compress("Where is DeltaPay based?", [LONG])
    assert [citation.kind for citation in turn.citations] == ["edge", "edge", "quote"]
    assert {citation.chunk_ids for citation in turn.citations} == {("long",)}
    assert {citation.document_ids for citation in turn.citations} == {("profile",)}


def test_an_edge_of_two_chunks_is_said_once_and_cited_twice(open_layer: Open) -> None:
    """The same fact from two documents costs once."""
    triple = ("DeltaPay", "is subsidiary of", "Northstar")
    texts = ["DeltaPay is a subsidiary of the Northstar.", "DeltaPay has been the subsidiary of Northstar."]
    chunks = [Chunk(text, id=f"c{number}") for number, text in enumerate(texts)]
    layer = open_layer(extractor=ScriptedExtractor({chunk.id or "": [triple] for chunk in chunks}), tokenizer=len)
    layer.index(chunks)
    turn = layer.compress("Whose subsidiary is DeltaPay?", chunks * 3)
    assert turn.form == "outline"
    assert turn.text.count("subsidiary of Northstar") == 1
    assert turn.citations[0].chunk_ids == ("c0", "c1")


def test_chunks_come_by_id_by_text_or_by_both(long_layer: AutoPrunedLayer) -> None:
    """An id alone is enough, a text alone is found by its content hash, and all say the same."""
    question = "Where is DeltaPay based?"
    turns = [
        long_layer.compress(question, chunks)
        for chunks in ([LONG], ["long"], [Chunk(LONG.text)], [Chunk(LONG.text, id="a hash the host made up")])
    ]
    assert {turn.text for turn in turns} == {turns[0].text}
    assert all(turn.counters["known"] == 1 for turn in turns)


def test_unknown_changed_empty_and_repeated_chunks_pass_and_are_counted(long_layer: AutoPrunedLayer) -> None:
    """What the codebook does not know goes out verbatim (contract 5)."""
    chunks = [
        LONG,
        Chunk("Nobody indexed this sentence.", id="new"),
        Chunk("DeltaPay moved to Paris.", id="long"),
        Chunk("", id="blank"),
        Chunk(LONG.text, id="copy"),
        "an id nobody stored",
    ]
    turn = long_layer.compress("Where is DeltaPay?", chunks)
    states = {name: turn.counters[name] for name in ("known", "unknown", "changed", "empty", "duplicate")}
    assert states == {"known": 1, "unknown": 2, "changed": 1, "empty": 1, "duplicate": 1}
    assert turn.form == "outline"
    for text in ("Nobody indexed this sentence.", "DeltaPay moved to Paris."):
        assert text in turn.text


def test_no_chunks_and_blank_chunks_are_a_result(layer: AutoPrunedLayer) -> None:
    """Empty input never raises."""
    assert layer.compress("Anything?", []).form == "empty"
    turn = layer.compress("Anything?", [Chunk("", id="a"), Chunk("  \n", id="b")])
    assert (turn.form, turn.savings) == ("empty", 0.0)


@pytest.mark.parametrize("layout", ["single", "spread"])
@pytest.mark.parametrize("budget", [1, 5, 10, 20, 40, 80, 1000])
def test_a_budget_is_a_bound(layer: AutoPrunedLayer, story: Sequence[Chunk], budget: int, layout: Layout) -> None:
    """budget_tokens is never exceeded, on exact tokens of what is sent."""
    turn = layer.compress("What is DeltaPay subject to?", story, budget_tokens=budget, layout=layout)
    assert WordCounter().count("\n\n".join(part.text for part in turn.parts)) == turn.tokens <= budget


def test_a_budget_keeps_what_the_question_asks_for(layer: AutoPrunedLayer, story: Sequence[Chunk]) -> None:
    """Sentences compete by cosine and word overlap; the others are dropped, and explain() says so."""
    turn = layer.compress("Is DeltaPay subject to the EU Digital Services Act?", story, budget_tokens=12)
    assert "EU Digital Services Act" in turn.text
    dropped = [decision for decision in turn.explain() if decision.outcome == "dropped"]
    assert dropped
    scored = [decision for decision in dropped if decision.score is not None]
    assert scored
    assert {decision.reason for decision in scored} == {"over the budget"}
    assert {decision.reason for decision in dropped if decision.score is None} <= {"nothing that goes out needs it"}


def test_ratio_is_a_share_of_the_hosts_tokens(layer: AutoPrunedLayer, story: Sequence[Chunk]) -> None:
    """ratio bounds each question by its own host text; the config's ratio is the default."""
    turn = layer.compress("What is DeltaPay subject to?", story, ratio=0.4)
    assert 0 < turn.tokens <= 0.4 * turn.host_tokens


def test_unknown_chunks_compete_under_a_budget(layer: AutoPrunedLayer, story: Sequence[Chunk]) -> None:
    """A chunk that is not in the codebook is split on the fly and its sentences compete as quotes."""
    new = Chunk("The weather was fine. EU regulators audited Globex. Nothing else happened.", id="new")
    turn = layer.compress("Which company did EU regulators audit?", [*story, new], budget_tokens=6)
    assert turn.text == "EU regulators audited Globex."


def test_modes(open_layer: Open) -> None:
    """`text` sends sentences only, `symbolic` edges only in the paper's two forms."""
    texts = {}
    for mode in ("text", "symbolic"):
        config = APLConfig.paper() if mode == "symbolic" else APLConfig(mode="text")
        layer = open_layer(f"{mode}.db", extractor=ScriptedExtractor(LONG_TRIPLES), config=config, tokenizer=len)
        layer.index([LONG])
        texts[mode] = layer.compress("Where?", [LONG] * 2)
    assert texts["text"].form == "quotes"
    assert texts["symbolic"].form in ("edge_reference", "inline_triple")
    assert set(texts["symbolic"].tokens_by_form) == {"edge_reference", "inline_triple"}
    evidence = decode(texts["symbolic"].text, texts["symbolic"].form)
    assert isinstance(evidence, Evidence)
    assert len(evidence.facts[0]) == 2
    assert not evidence.quotes


def test_an_error_inside_hands_the_host_on(open_layer: Open, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever fails inside, the host's text goes out with one warning and the reason on the turn (contract 5)."""

    class Broken(HashEmbedder):
        def embed(self, texts: Sequence[str]) -> Vectors:
            if list(texts) == ["Where?"]:
                raise RuntimeError("the model is gone")
            return super().embed(texts)

    layer = open_layer(embedder=Broken(), extractor=ScriptedExtractor(LONG_TRIPLES), config=APLConfig())
    layer.index([LONG])
    with caplog.at_level(logging.WARNING):
        turn = layer.compress("Where?", [LONG], budget_tokens=10)
    assert (turn.text, turn.form, turn.counters["errors"]) == (LONG.text, "host_text", 1)
    assert turn.error == "EmbeddingError: the embedder hash-64 failed (RuntimeError: the model is gone)"
    assert len(caplog.records) == 1


def test_on_error_raise_is_for_tests(open_layer: Open) -> None:
    """on_error="raise" lets the fault through."""
    layer = open_layer()
    layer.index([LONG])
    layer._counter = object()  # type: ignore[assignment]
    with pytest.raises(AttributeError):
        layer.compress("Where?", [LONG])


@pytest.mark.parametrize(
    "arguments",
    [
        {"question": None},
        {"question": b"bytes"},
        {"chunks": "one string"},
        {"chunks": None},
        {"chunks": [3]},
        {"chunks": Chunk("a chunk, not a list")},
        {"chunks": [Chunk(None)]},  # type: ignore[arg-type]
        {"chunks": [Chunk("x", id=3)]},  # type: ignore[arg-type]
        {"budget_tokens": 0},
        {"budget_tokens": -1},
        {"budget_tokens": 1.5},
        {"budget_tokens": True},
        {"ratio": 0},
        {"ratio": 1.1},
        {"ratio": "half"},
        {"budget_tokens": 5, "ratio": 0.5},
        {"layout": "diagonal"},
        {"scope": "acme"},
        {"keep_empty": "yes"},
    ],
)
def test_wrong_arguments_are_said_clearly(layer: AutoPrunedLayer, arguments: dict[str, object]) -> None:
    """A caller's mistake raises InputError before any work, whatever on_error says."""
    with pytest.raises(InputError):
        layer.compress(**{"question": "What?", "chunks": [], **arguments})  # type: ignore[arg-type]


def test_wrong_set_up_is_said_clearly(open_layer: Open, story: Sequence[Chunk]) -> None:
    """What the layer was not opened for is a ConfigError that says how to open it."""
    bare = open_layer(embedder=None)
    with pytest.raises(ConfigError, match="embedder"):
        bare.index(story)
    with pytest.raises(ConfigError, match="embedder"):
        bare.compress("What?", story, budget_tokens=5)
    assert bare.compress("What?", story).counters["unknown"] == len(story)
    for options in ({"config": {}}, {"extractor": object()}, {"tokenizer": object()}, {"embedder": object()}):
        with pytest.raises(ConfigError):
            open_layer("other.db", **options)
    with pytest.raises(ConfigError, match="outline"):
        bare.compress("What?", story, layout="per_document")


def test_remember_stores_a_pending_turn(layer: AutoPrunedLayer, story: Sequence[Chunk]) -> None:
    """The verdict is pending, by turn or by its id, and a second answer replaces the first."""
    turn = layer.compress("What is DeltaPay subject to?", story, scope=Scope(tenant="acme", session="s1"))
    assert layer.remember(turn, "The EU Digital Services Act").status == "pending"
    assert layer.remember(turn.id, "The DSA").turn_id == turn.id
    assert layer.codebook.stats().turns == 1
    assert layer.memory.turn(turn.id) == turn


@pytest.mark.parametrize(
    ("turn", "answer"), [("no such id", "yes"), (None, "yes"), ("turn", ""), ("turn", " "), ("turn", 3)]
)
def test_remember_refuses_what_is_no_turn_or_no_answer(layer: AutoPrunedLayer, turn: object, answer: object) -> None:
    """An unknown id or an empty answer is an InputError."""
    given = layer.compress("What?", []) if turn == "turn" else turn
    with pytest.raises(InputError):
        layer.remember(given, answer)  # type: ignore[arg-type]


def test_a_read_only_layer_compresses(open_layer: Open, layer: AutoPrunedLayer, story: Sequence[Chunk]) -> None:
    """Reading needs no right to write; writing says so."""
    reader = open_layer(read_only=True)
    turn = reader.compress("What?", story)
    assert turn.counters["known"] == len(story)
    for write in (lambda: reader.index([LONG]), lambda: reader.remember(turn, "x"), lambda: reader.codebook.delete([])):
        with pytest.raises(ReadOnlyStoreError):
            write()


def test_the_layer_is_a_context_manager(open_layer: Open) -> None:
    """Leaving the block closes the store."""
    with open_layer() as layer:
        assert isinstance(layer.compress("What?", []), Turn)


def test_host_chunks_are_not_touched(layer: AutoPrunedLayer, story: Sequence[Chunk]) -> None:
    """Chunks are frozen and come back as they went in."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        story[0].text = "other"  # type: ignore[misc]


def test_per_document_parts_stand_in_their_own_documents(open_layer: Open) -> None:
    """Every document holds its own lines; one without any is left out, or kept empty on request."""
    layer = open_layer(
        extractor=ScriptedExtractor({**LONG_TRIPLES, "second": LONG_TRIPLES["long"][:1]}), knobs={"forms": ("outline",)}
    )
    second = Chunk(LONG.text.replace("Berlin", "Munich"), id="second")
    layer.index([LONG, second])
    chunks = [LONG, Chunk(LONG.text, id="copy"), second]
    turn = layer.compress("Where?", chunks, layout="per_document")
    assert turn.form == "outline"
    assert [part.rank for part in turn.parts] == [0, 2]
    assert "Munich" in turn.parts[1].text
    kept = layer.compress("Where?", chunks, layout="per_document", keep_empty=True)
    assert [part.text == "" for part in kept.parts] == [False, True, False]
    assert kept.tokens == WordCounter().count(kept.text)


def test_lines_that_mean_something_stay_lines(open_layer: Open) -> None:
    """A soft line break in prose becomes a space; a table of short lines keeps its rows and its columns."""
    layer = open_layer(extractor=None, tokenizer=len, knobs={"mode": "text", "quotes": "verbatim"})
    wrapped = "The price of the acquisition was never published by\neither of the two companies, as it is said."
    table = "Name   Age   City\nAnna   12    Bonn\nBen    13    Rome 5\n7 Cora   14 Oslo"
    layer.index([Chunk(wrapped, id="wrapped"), Chunk(table, id="table")])
    turn = layer.compress("Who?", ["wrapped", "table", "wrapped", "table"])
    assert turn.form == "quotes"
    assert wrapped.replace("\n", " ") in turn.text
    assert table.replace("\n", "\\n") in turn.text or all(row in turn.text.split("\n") for row in table.split("\n"))


def test_every_said_edge_has_its_own_citation(open_layer: Open) -> None:
    """`film` may be another film in each chunk: said in each, cited by each, in reading order."""
    triple = ("film", "nominated for", "Oscar")
    text = "The film {} is what it is and was and has been, and it was nominated for the Oscar which it is and was."
    chunks = [Chunk(text.format(""), id="a"), Chunk(text.format("that"), id="b")]
    layer = open_layer(extractor=ScriptedExtractor({"a": [triple], "b": [triple]}), knobs={"forms": ("outline",)})
    layer.index(chunks)
    turn = layer.compress("Which?", chunks)
    edges = [citation for citation in turn.citations if citation.kind == "edge"]
    assert len(edges) == sum(len(run) for run in turn.evidence.facts) == 2
    assert [citation.chunk_ids for citation in edges] == [("a",), ("b",)]


def test_sources_are_the_chunks_something_was_said_of(layer: AutoPrunedLayer, story: Sequence[Chunk]) -> None:
    """An answer is given from what was sent, not from what a budget left out."""
    turn = layer.compress("Is DeltaPay subject to the EU Digital Services Act?", story, budget_tokens=12)
    said = {decision.chunk_id for decision in turn.explain() if decision.outcome != "dropped"}
    assert {chunk_id for chunk_id, _ in turn.sources} == said
    assert len(said) < len(story)


def test_a_budget_holds_over_many_emptied_documents(open_layer: Open) -> None:
    """Where the separators of emptied documents alone cost more than the budget, one document goes on."""
    layer = open_layer(tokenizer=len)
    chunks = [Chunk(f"Sentence number {number} is here.", id=f"c{number}") for number in range(60)]
    layer.index(chunks)
    turn = layer.compress("Which?", chunks, budget_tokens=1, layout="spread")
    assert (turn.tokens, turn.form, len(turn.parts)) == (0, "empty", 1)


def test_another_extractor_reads_again_on_demand(open_layer: Open) -> None:
    """Edges come when an extractor comes and is asked to; without one, what is stored stays."""
    assert open_layer(extractor=None).index([LONG]).triples == 0
    layer = open_layer(extractor=ScriptedExtractor(LONG_TRIPLES))
    assert layer.index([LONG]).other_extractor == 1
    assert layer.index([LONG], reextract=True).replaced == 1
    assert open_layer(extractor=None).index([LONG]).unchanged == 1
    assert open_layer().codebook.stats().edges == 2


class _Shortening(ScriptedExtractor):
    """Knows a shorter quote of each sentence, one of which would lose a word."""

    def extract(self, passages: Sequence[Passage]) -> list[Extraction]:
        return [
            Extraction(short={s.position: s.text.replace("the ", "").replace("lost ", "") for s in passage.sentences})
            for passage in passages
        ]


def test_quotes_are_shortened_where_nothing_is_lost(open_layer: Open) -> None:
    """A shorter quote goes out if it keeps every content word; `quotes="verbatim"` turns that off."""
    text = "The price of the sale was named by the bank. The bank lost the case in the court."
    for quotes, sent in (
        ("shortened", "The price of sale was named by bank. The bank lost the case in the court."),
        ("verbatim", text),
    ):
        layer = open_layer(f"{quotes}.db", extractor=_Shortening({}), knobs={"quotes": quotes})
        layer.index([Chunk(text, id="c")])
        assert layer.compress("What was lost?", ["c"]).text == sent


def test_symbolic_mode_keeps_what_two_sentences_say_apart(open_layer: Open) -> None:
    """A place of one sentence and a year of the next are no single statement."""
    triples = [("Ann Lee", "moved to", "Paris"), ("Ann Lee", "moved in", "1990")]
    layer = open_layer(extractor=ScriptedExtractor({"c": triples}), knobs={"mode": "symbolic", "forms": ("outline",)})
    layer.index(
        [Chunk("As it is said that it was, Ann Lee had moved to Paris. Ann Lee had moved, so it is, in 1990.", id="c")]
    )
    assert layer.compress("When?", ["c"]).text.endswith("Ann Lee: moved to Paris; moved 1990")


def test_a_heading_that_the_next_sentence_repeats_is_not_said_twice(open_layer: Open) -> None:
    """The quote begins with the heading's words, so the heading itself goes."""
    layer = open_layer(extractor=None)
    layer.index([Chunk("# DeltaPay\n\nDeltaPay sued CloudCo.", id="c")])
    turn = layer.compress("Who sued?", ["c"])
    assert turn.text == "DeltaPay sued CloudCo."
    assert [decision.outcome for decision in turn.explain()] == ["dropped", "quote"]


def test_sync_brings_a_codebook_in_step(open_layer: Open, story: Sequence[Chunk]) -> None:
    """Whatever was there before, afterwards the store says what a fresh one would; what the host cannot show is kept."""
    layer = open_layer()
    layer.index([Chunk("Old text.", id="contract", document_id="news"), LONG, Chunk("Hidden.", id="hidden")])
    report = layer.sync(story, kept_documents={"hidden"})
    assert (report.missing_chunks, report.changed_chunks) == (
        ("acquisition", "subsidiary", "regulation", "incidents"),
        ("contract",),
    )
    assert (report.surplus_chunks, report.gone) == (("long",), ("profile",))
    assert layer.sync(story, kept_chunks={"hidden"}).in_step
    assert layer.sync(story, delete_missing=False).in_step
    assert layer.sync(story).gone == ("hidden",)
    fresh = open_layer("fresh.db")
    fresh.index(story)
    assert dict(layer.codebook.chunk_hashes()).keys() == dict(fresh.codebook.chunk_hashes()).keys()
    assert layer.codebook.stats().edges == fresh.codebook.stats().edges
    with pytest.raises(InputError, match="sync takes an iterable"):
        layer.sync("text")  # type: ignore[arg-type]
