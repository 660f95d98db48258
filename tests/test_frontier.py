"""The frontier measures what it says: its curves, pooling and resuming, and a tiny run with the fakes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from apl import Chunk
from apl.errors import InputError
from apl.testing import HashEmbedder, ScriptedExtractor

pytestmark = pytest.mark.filterwarnings("ignore:`langchain-community` is being sunset:DeprecationWarning")

PEER = "Some peer"


@pytest.fixture
def modules(tiktoken_offline: None, benchmark_path: None) -> Callable[[str], ModuleType]:
    """Imports from the benchmarks' folder during one test."""
    return import_module


@pytest.fixture
def report(modules: Callable[[str], ModuleType]) -> ModuleType:
    return modules("frontier_report")


@pytest.fixture
def frontier(modules: Callable[[str], ModuleType]) -> ModuleType:
    return modules("frontier")


@pytest.fixture
def row(report: ModuleType) -> Callable[..., Any]:
    """A row with 100 host tokens; everything else as a test says."""

    def make(question: str, arm: str = "apl text", share: float | None = 0.2, **values: Any) -> Any:
        usual = {
            "data": "d", "host": 100, "tokens": 20, "form": "quotes", "edges": 0, "quotes": 20, "kept": 1,
            "kept_as_squad": 1, "hops": None, "evidence": (0, 0), "identifiers": (0, 0), "within": True, "ms": 1.0,
            "as_run_ms": None,
        }  # fmt: skip
        return report.Row(question=question, arm=arm, share=share, **{**usual, **values})

    return make


class TestTokensNeeded:
    """The share of the host's tokens at which a curve reaches a level."""

    def test_between_two_points_the_scale_is_logarithmic(self, report: ModuleType) -> None:
        """Half way up from 0.1 to 0.4 is 0.2."""
        assert report.tokens_needed([(0.4, 1.0), (0.1, 0.8)], 0.9) == pytest.approx(0.2)

    @pytest.mark.parametrize(
        ("curve", "expected"),
        [
            ([(0.1, 0.8), (0.4, 0.85)], None),
            ([(0.1, 0.95), (0.4, 0.99)], 0.1),
            ([(0.0, 0.0), (0.4, 0.99)], 0.4),
            ([(0.1, 0.9), (0.2, 0.8), (0.4, 1.0)], 0.1),
            ([], None),
        ],
    )
    def test_the_first_point_that_reaches_it_counts(
        self, report: ModuleType, curve: list[tuple[float, float]], expected: float | None
    ) -> None:
        assert report.tokens_needed(curve, 0.9) == expected


class TestPoints:
    """Figures are sums over rows."""

    def test_shares_and_ratios_are_counted(self, report: ModuleType, row: Callable[..., Any]) -> None:
        """The ratio is sum over sum; a question that cannot show a lost answer is in no share."""
        rows = [
            row("a", tokens=10, evidence=(1, 2), form="outline", edges=4, quotes=0),
            row("b", tokens=50, host=500, kept=0, kept_as_squad=1, ms=3.0, within=False),
            row("c", tokens=0, kept=None, kept_as_squad=None, as_run_ms=9.0, quotes=0),
        ]
        point = report.point_of(rows)
        assert point["kept"] == {"kept": 1, "total": 2, "value": 0.5}
        assert point["kept_as_squad"]["value"] == 1.0
        assert point["hops"] == {"kept": 0, "total": 0, "value": None}
        assert point["evidence"]["value"] == 0.5
        assert point["ratio"] == pytest.approx(60 / 700)
        assert point["mean_ratio"] == pytest.approx((0.1 + 0.1 + 0.0) / 3)
        assert point["edges"] == pytest.approx(4 / 60)
        assert point["forms"] == {"quotes": 2, "outline": 1}
        assert (point["over"], point["ms"], point["as_run_ms"]) == (1, 1.0, 9.0)

    def test_the_pooled_figures_are_those_of_all_rows(self, report: ModuleType, row: Callable[..., Any]) -> None:
        """A question of one data set weighs as much as one of another."""
        rows = [row("a"), row("b", kept=0), *(row(f"e{n}", data="e") for n in range(8))]
        figures = report.by_data(rows)
        assert list(figures) == ["d", "e", "pooled"]
        assert figures["pooled"]["points"][0]["kept"]["value"] == 0.9
        assert list(report.by_data(rows[:2])) == ["d"]


class TestDifferences:
    """Guarded minus another arm, over the questions of both."""

    def test_questions_are_paired(self, report: ModuleType, row: Callable[..., Any]) -> None:
        """Of three common questions apl keeps two more; the fourth is known to one side only."""
        ours = [row(name) for name in "abc"]
        theirs = [row(name, PEER, kept=int(name == "a")) for name in "abc"]
        (found,) = report.differences([*ours, *theirs, row("x", PEER), row("y", kept=None)], "kept")
        assert found["difference"] == pytest.approx(2 / 3)
        assert found["low"] <= 2 / 3 <= found["high"]
        assert (found["n"], found["arm"], found["best_peer"]) == (3, PEER, True)

    def test_the_best_peer_is_found_at_each_budget_and_is_never_ours(
        self, report: ModuleType, row: Callable[..., Any]
    ) -> None:
        """Neither our baseline nor another mode is a peer, whatever it keeps."""
        names = ["apl text", "apl guarded", "sentence cosine (our baseline)"]
        rows = [row("a", name, share) for name in names for share in (0.1, 0.2)]
        rows += [row("a", "first", 0.1, kept=0), row("a", "first", 0.2), row("a", "second", 0.1)]
        rows += [row("a", "second", 0.2, kept=0)]
        best = {(r["share"], r["arm"]) for r in report.differences(rows, "kept") if r["best_peer"]}
        assert best == {(0.1, "second"), (0.2, "first")}

    def test_evidence_is_compared_by_its_share(self, report: ModuleType, row: Callable[..., Any]) -> None:
        rows = [row("a", evidence=(3, 4)), row("a", PEER, evidence=(1, 4)), row("b"), row("b", PEER)]
        (found,) = report.differences(rows, "evidence")
        assert (found["difference"], found["n"]) == (0.5, 1)


class TestPooling:
    """Rows of several runs."""

    def test_a_later_run_counts(self, report: ModuleType, row: Callable[..., Any]) -> None:
        """The peers of an old run stand beside apl's new rows."""
        rows = report.merged([[row("a", kept=0), row("a", PEER)], [row("a")]])
        assert [(found.arm, found.kept) for found in rows] == [("apl text", 1), (PEER, 1)]

    def test_other_chunks_are_refused(self, report: ModuleType, row: Callable[..., Any]) -> None:
        with pytest.raises(InputError, match="over the same chunks"):
            report.merged([[row("a")], [row("a", PEER, host=99)]])

    def test_files_come_back_as_they_were_written(
        self, frontier: ModuleType, row: Callable[..., Any], tmp_path: Path
    ) -> None:
        """And files of different k are refused."""
        rows = [row("a"), row("b", PEER, None, evidence=(1, 2))]
        paths = [tmp_path / "20.json", tmp_path / "50.json"]
        for path, k in zip(paths, (20, 50), strict=True):
            path.write_text(frontier.dumped(k, rows, {}), encoding="utf-8")
        assert frontier.loaded(paths[:1]) == (20, rows)
        with pytest.raises(InputError, match="one k"):
            frontier.loaded(paths)


class TestCode:
    """What a row's key depends on."""

    def test_comments_and_docstrings_are_no_code(self, modules: Callable[[str], ModuleType]) -> None:
        digest = modules("frontier_arms").code_digest
        before = digest(['def f(x):\n    """Old."""\n    return x  # old\n'])
        assert before == digest(['def f(x):\n    """New."""\n\n    return (x)\n'])
        assert before != digest(["def f(x):\n    return x + 1\n"])

    def test_a_torn_line_is_measured_again(self, frontier: ModuleType, row: Callable[..., Any], tmp_path: Path) -> None:
        """And the row after it is whole."""
        path = tmp_path / "rows.jsonl"
        frontier.RowFile(path).add("one", row("a"))
        path.write_text(path.read_text() + '{"key": "two", "da')
        frontier.RowFile(path).add("three", row("c", hops=1))
        rows = frontier.RowFile(path)
        assert (rows.find("one"), rows.find("two"), rows.find("three")) == (row("a"), None, row("c", hops=1))


class TestBaseline:
    """Our own baseline: the nearest sentences that fit."""

    def test_what_does_not_fit_is_passed_over(self, modules: Callable[[str], ModuleType]) -> None:
        assert modules("frontier_arms").fitting([2, 0, 1, 3], [5, 3, 6, 4], 10) == [2, 1]

    def test_it_keeps_to_the_budget_in_reading_order(self, modules: Callable[[str], ModuleType]) -> None:
        arms, peers = modules("frontier_arms"), modules("peers")
        texts = ["Rain fell. DeltaPay recorded 12 incidents.", "Snow fell. Northstar bought DeltaPay."]
        baseline = arms.SentenceCosine(peers.VectorCache(HashEmbedder().embed))
        question = "Who bought DeltaPay, and how many incidents were recorded?"
        expected = "DeltaPay recorded 12 incidents.\n\nNorthstar bought DeltaPay."
        sent = baseline.compress(question, texts, peers.counter().count(expected))
        assert sent.text == expected
        assert sent.within


@pytest.fixture
def run(frontier: ModuleType, modules: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: Any) -> Any:
    """A function that runs a data set of three chunks and one question into a folder that goes away."""
    hosts, arms, peers = modules("hosts"), modules("frontier_arms"), modules("peers")
    for module in (hosts, modules("payload"), frontier):
        monkeypatch.setattr(module, "OUT", tmp_path)
    chunks = [
        Chunk("Northstar\nNorthstar acquired DeltaPay in March 2022. The price was never published.", id="a"),
        Chunk("DeltaPay recorded 12 GDPR incidents before the acquisition. Rain fell on the day.", id="b"),
        Chunk("CloudCo signed a vendor contract with DeltaPay. It runs for three years.", id="c"),
    ]
    question = hosts.Question(
        "q", "How many incidents were recorded?", ("12",), (("DeltaPay",), ("12",)), evidence=("12 incidents",)
    )
    data = hosts.Data("tiny", chunks, [question], None)
    extractor = ScriptedExtractor({"a": [("Northstar", "acquired", "DeltaPay in March 2022")]})
    embedder = HashEmbedder()

    def go(*given: str) -> list[Any]:
        baseline = arms.PeerArm(arms.SentenceCosine(peers.VectorCache(embedder.embed)), "1")
        rows: list[Any] = frontier.run(
            data, embedder, extractor, frontier.arguments_given(["--k", "3", *given]), [baseline]
        )
        return rows

    return go


class TestRun:
    """From chunks to figures, without a model or a peer."""

    def test_every_arm_is_measured_at_every_budget(self, run: Any, report: ModuleType, tmp_path: Path) -> None:
        """Three modes, guarded shortened and the baseline at six budgets, two automatic; no row goes over its budget; figures are JSON."""
        rows = run()
        assert len(rows) == 5 * 6 + 2
        assert all(row.within and row.tokens <= row.host for row in rows)
        assert {row.kept for row in rows if row.share is None} == {1}
        assert [row.hops for row in rows if row.share is None] == [1, 1]
        cold = {(row.arm, row.share) for row in rows if row.as_run_ms is not None}
        assert cold == {
            *((row.arm, 0.2) for row in rows if row.share),
            ("apl auto", None),
            ("apl guarded, auto", None),
        }
        figures = report.by_data(rows)
        assert json.loads(json.dumps(figures))["tiny"]["needed"]["evidence"]
        report.show(figures)

    def test_a_second_run_measures_nothing(self, run: Any, frontier: ModuleType, monkeypatch: Any) -> None:
        """Rows are read back, also those of some arms only."""
        first = run()
        monkeypatch.setattr(frontier, "_sent", None)
        assert run() == first
        others = ("apl guarded", "apl guarded, shortened", "apl symbolic")
        assert run("--arms", "AUTO", "text") == [row for row in first if row.arm not in others]

    def test_what_a_row_is_keyed_by(self, frontier: ModuleType) -> None:
        """Another set-up of the same name is another row."""
        keys = [
            frontier.row_key("d", "case", SimpleNamespace(name="a", version=version), share, "scoring")
            for version, share in (("1", 0.1), ("2", 0.1), ("1", None))
        ]
        assert len(set(keys)) == 3

    def test_ablations_leave_one_thing_out_each(self, run: Any, modules: Callable[[str], ModuleType]) -> None:
        """Every weight; with the guard and with the shortening, beside the default as it is."""
        setups = modules("frontier_arms").ablations()
        weights = setups["apl text"].config.selection.weights
        for name, weight in weights.model_dump().items():
            assert weight
            without = setups[f"apl without {name}"].config.selection.weights
            assert without == weights.model_copy(update={name: 0.0})
        rows = run("--ablate", "--arms", "apl text", "with guard")
        assert {row.arm for row in rows} == {"apl text", "apl with guard", "sentence cosine (our baseline)"}


class TestHosts:
    """Long chunks are found by their sentences."""

    def test_a_chunk_is_as_near_as_its_nearest_sentence(
        self, frontier: ModuleType, modules: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: Any
    ) -> None:
        """Much else in the chunk does not hide the sentence that is asked for."""
        hosts = modules("hosts")
        monkeypatch.setattr(hosts, "OUT", tmp_path)
        noise = " ".join(f"Item{n} lies on shelf{n}." for n in range(40))
        long = Chunk(f"{noise} DeltaPay recorded incidents. {noise}", id="long")
        short = Chunk("Incidents happen on roads at night.", id="short")
        data = hosts.Data("d", [short, long], [], None, 1200)
        host = frontier.host_of(data, HashEmbedder())
        assert [chunk.id for chunk in host.top(["DeltaPay recorded incidents?"], 1)[0]] == ["long"]
        assert isinstance(host, hosts.SentenceHost)
        assert isinstance(frontier.host_of(replace(data, chunk_tokens=200), HashEmbedder()), hosts.DenseHost)

    def test_only_finished_older_books_are_removed(
        self, modules: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: Any
    ) -> None:
        """A book that another process builds, or has built meanwhile, is left alone."""
        payload = modules("payload")
        monkeypatch.setattr(payload, "OUT", tmp_path)
        old, new, own = ("s-" + digit * 16 for digit in "abc")
        names = [
            f"{old}.db",
            f"{old}.json",
            f"{old}.77.db",
            f"{old}.77.db-wal",
            f"{own}.db",
            f"{new}.db",
            f"s-3-{old}.db",
        ]
        for name in names:
            (tmp_path / name).write_text("")
        started = (tmp_path / f"{new}.db").stat().st_mtime + 1
        os.utime(tmp_path / f"{new}.db", (started + 1, started + 1))
        payload._remove_older("s", tmp_path / f"{own}.db", started)
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names[2:])
