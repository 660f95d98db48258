"""Running it: learning, shadow mode, time-outs, source marks, counters, turns that travel."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Sequence

import pytest

from apl import APLConfig, AutoPrunedLayer, Chunk, Scope, Turn
from apl.counters import COUNTED
from apl.errors import ConfigError, InputError
from apl.read.payload import decode
from apl.read.placement import place
from apl.reports import IndexReport
from apl.testing import ScriptedExtractor, WordCounter
from apl.write.learning import Learner

Open = Callable[..., AutoPrunedLayer]

NEW = Chunk("Globex acquired Initech in 2024.", id="new", document_id="deals")
WORDY = (
    "DeltaPay, which is what it is and what it has been, is and has been and is that which is based in Oslo since {}. "
)
CHUNKS = [Chunk(WORDY.format(2000 + n) + "It was never sold.", id=f"c{n}", document_id=f"d{n}") for n in range(4)]
SCRIPT = {f"c{n}": [("DeltaPay", "based in", f"Oslo since {2000 + n}")] for n in range(4)}


@pytest.fixture
def wordy_layer(open_layer: Open) -> Callable[..., AutoPrunedLayer]:
    """Opens layers over chunks that compress."""

    def open_(**knobs: object) -> AutoPrunedLayer:
        layer = open_layer(extractor=ScriptedExtractor(SCRIPT), knobs=knobs)
        layer.index(CHUNKS)
        return layer

    return open_


# --- learning


def test_unknown_and_changed_chunks_are_learned(open_layer: Open, story: Sequence[Chunk]) -> None:
    """They pass now, and the next question finds them in the codebook."""
    layer = open_layer(knobs={"on_unknown": "learn"})
    layer.index(story)
    changed = Chunk("DeltaPay was sold to Globex in 2025.", id="subsidiary")
    first = layer.compress("Who owns DeltaPay?", [NEW, changed, story[0]])
    assert (first.counters["unknown"], first.counters["changed"], first.counters["known"]) == (1, 1, 1)
    assert layer._learner.wait(20)
    second = layer.compress("Who owns DeltaPay?", [NEW, changed, story[0]])
    assert second.counters["known"] == 3
    assert layer.counters.snapshot()["learned_chunks"] == 2


def test_nothing_is_learned_unless_asked_or_on_a_read_only_store(open_layer: Open, story: Sequence[Chunk]) -> None:
    """The default passes; a read-only store stays as it is."""
    layer = open_layer()
    layer.index(story)
    reader = open_layer(read_only=True, knobs={"on_unknown": "learn"})
    for each in (layer, reader):
        each.compress("Who?", [NEW])
        assert each._learner.wait(5)
        assert each.compress("Who?", [NEW]).counters["unknown"] == 1


def test_the_queue_is_bounded() -> None:
    """What does not fit is counted and left; what waits already is not queued twice."""
    gate, counted, seen = threading.Event(), [], []

    def index(chunks: Sequence[Chunk]) -> IndexReport:
        gate.wait(20)
        seen.extend(chunk.id for chunk in chunks)
        return IndexReport(indexed=len(chunks))

    learner = Learner(index, capacity=3, count=lambda learned, left: counted.append((learned, left)))
    chunks = [Chunk(f"Text {number}.", id=f"c{number}") for number in range(200)]
    learner.offer(chunks)
    learner.offer(chunks[:1])
    gate.set()
    assert learner.wait(20)
    assert sum(left for _, left in counted) >= 100
    assert sum(learned for learned, _ in counted) == len(seen) == len(set(seen))


def test_a_failure_in_the_background_is_logged_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody waits for the learner, so it says what went wrong and goes on."""
    counted: list[tuple[int, int]] = []

    def index(chunks: Sequence[Chunk]) -> IndexReport:
        raise RuntimeError("the disk is full")

    learner = Learner(index, capacity=3, count=lambda learned, left: counted.append((learned, left)))
    with caplog.at_level(logging.WARNING):
        learner.offer([NEW])
        assert learner.wait(20)
    assert counted == [(0, 1)]
    assert "the disk is full" in caplog.text
    learner.close()
    learner.offer([NEW])
    assert learner.wait(1)


# --- shadow


def test_shadow_sends_the_host_and_keeps_what_would_have_gone_out(wordy_layer: Open) -> None:
    """The host's text goes out at its own cost; turn.shadow is the turn without shadow mode."""
    turn = wordy_layer(shadow=True, forms=("outline",)).compress("Where is DeltaPay?", CHUNKS)
    assert (turn.form, turn.tokens, turn.savings) == ("host_text", turn.host_tokens, 0.0)
    assert turn.text == "\n\n".join(chunk.text for chunk in CHUNKS)
    assert {decision.reason for decision in turn.explain()} == {"shadow mode"}
    assert turn.shadow is not None
    assert (turn.shadow.form, turn.shadow.shadow) == ("outline", None)
    assert turn.shadow.tokens < turn.host_tokens
    assert [placed.text for placed in place(turn, len(CHUNKS))] == [None] * len(CHUNKS)


# --- time


def test_a_time_out_hands_the_host_on(open_layer: Open, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever hangs inside, the host's text is there after timeout_s, with one warning, and counted."""
    hang = threading.Event()
    hanging = threading.Event()

    class Slow(WordCounter):
        def count(self, text: str) -> int:
            if hanging.is_set():
                hang.wait(20)
            return super().count(text)

    layer = open_layer(tokenizer=Slow(), config=APLConfig(timeout_s=0.2))
    layer.index(CHUNKS)
    hanging.set()
    try:
        with caplog.at_level(logging.WARNING):
            turn = layer.compress("Where is DeltaPay?", CHUNKS)
    finally:
        hang.set()
    assert turn.text == "\n\n".join(chunk.text for chunk in CHUNKS)
    assert turn.error is not None
    assert "longer than 0.2 s" in turn.error
    assert len(caplog.records) == 1
    totals = layer.counters.snapshot()
    assert (totals["errors"], totals["timeouts"]) == (1, 1)


def test_in_time_nothing_changes(wordy_layer: Open) -> None:
    """A time-out that is not needed gives the same payload."""
    assert wordy_layer(timeout_s=60).compress("Where?", CHUNKS) == wordy_layer().compress("Where?", CHUNKS)


# --- source marks


def test_every_line_names_its_documents(wordy_layer: Open) -> None:
    """`[n]` is the host's n-th document; the marks are in the tokens."""
    layer = wordy_layer(source_marks=True, forms=("outline",))
    turn = layer.compress("Where is DeltaPay?", CHUNKS)
    assert turn.form == "outline"
    lines = [line for line in turn.text.split("\n")[1:] if line]
    assert lines[0].startswith("[1,2,3,4] DeltaPay: based in")
    assert [line[:4] for line in lines[1:]] == ["[1] ", "[2] ", "[3] ", "[4] "]
    assert turn.tokens == WordCounter().count(turn.text)
    plain = wordy_layer(forms=("outline",)).compress("Where is DeltaPay?", CHUNKS)
    assert plain.tokens < turn.tokens
    assert decode(plain.text, "outline")


def test_marks_stand_in_quotes_too(open_layer: Open) -> None:
    """Quotes alone are marked line by line."""
    layer = open_layer(knobs={"source_marks": True, "forms": ("outline",)})
    layer.index(CHUNKS)
    turn = layer.compress("Was it never sold?", CHUNKS, budget_tokens=40)
    assert turn.form == "quotes"
    assert all(line[0] == "[" for line in turn.text.split("\n") if line)


def test_marks_need_lines() -> None:
    """An index form has no lines to mark."""
    with pytest.raises(ConfigError, match="outline"):
        APLConfig(source_marks=True)


# --- turns that travel


@pytest.fixture(params=["plain", "shadow", "error", "budget"])
def turn(request: pytest.FixtureRequest, wordy_layer: Open) -> Turn:
    """Turns of all kinds."""
    scope = Scope(tenant="acme", user="u1", session="s1")
    layer = wordy_layer(shadow=request.param == "shadow", on_error="host")
    if request.param == "error":
        layer._passages = None  # type: ignore[assignment]
    options = {"budget_tokens": 12} if request.param == "budget" else {}
    return layer.compress("Where is DeltaPay?", CHUNKS, scope=scope, **options)


def test_a_turn_survives_json(turn: Turn) -> None:
    """from_dict(to_dict()) is the same turn with the same id and timings, through JSON."""
    back = Turn.from_dict(json.loads(json.dumps(turn.to_dict())))
    assert back == turn
    assert (back.id, dict(back.timings)) == (turn.id, dict(turn.timings))


def test_a_turn_is_remembered_elsewhere(open_layer: Open, story: Sequence[Chunk]) -> None:
    """The dict is enough for another layer on the same store."""
    layer = open_layer()
    layer.index(story)
    values = layer.compress("Who?", story).to_dict()
    other = open_layer()
    assert other.remember(Turn.from_dict(values), "DeltaPay").status == "pending"


@pytest.mark.parametrize("values", [{}, {"question": 3}, None, [], "turn"])
def test_what_is_no_turn_is_refused(values: object) -> None:
    """An InputError that says what is missing."""
    with pytest.raises(InputError):
        Turn.from_dict(values)  # type: ignore[arg-type]


# --- counters


def test_totals_add_up(wordy_layer: Open) -> None:
    """What a monitoring system reads is the sum over the turns."""
    layer = wordy_layer()
    turns = [layer.compress("Where?", [*CHUNKS[:n], NEW]) for n in range(4)]
    layer.remember(turns[0], "Oslo")
    totals = layer.counters.snapshot()
    assert set(totals) == set(COUNTED)
    assert totals["turns"] == 4
    assert totals["host_tokens"] == sum(turn.host_tokens for turn in turns)
    assert totals["sent_tokens"] == sum(turn.tokens for turn in turns)
    assert (totals["unknown_chunks"], totals["known_chunks"], totals["remembered_turns"]) == (4, 6, 1)
    with pytest.raises(KeyError):
        layer.counters.add({"typos": 1})
