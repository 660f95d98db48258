"""Knobs: their names, their values, their faults."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from apl.config import APLConfig, IndexingConfig, SelectionConfig
from apl.errors import ConfigError

SECTIONS: list[type[BaseModel]] = [APLConfig, IndexingConfig, SelectionConfig]


def test_defaults() -> None:
    """The defaults that the documentation names."""
    config = APLConfig()
    assert (config.mode, config.quotes, config.layout, config.ratio) == ("text", "verbatim", "spread", None)
    assert config.forms == ("edge_reference", "inline_triple", "outline")
    assert (config.on_unknown, config.on_error, config.held_turns) == ("pass", "host", 256)
    assert (config.indexing.batch_size, config.indexing.language) == (128, "en")
    assert config.selection.weights.overlap == 0.76


@pytest.mark.parametrize("section", SECTIONS)
def test_unknown_knob_names_the_known_ones(section: type[BaseModel]) -> None:
    """A misspelt knob of any section is a `ConfigError` that lists what there is."""
    with pytest.raises(ConfigError, match=f"'knbo' is not a knob of {section.__name__}") as caught:
        section(knbo=1)
    assert all(knob in str(caught.value) for knob in section.model_fields)


@pytest.mark.parametrize(
    ("section", "knobs"),
    [("IndexingConfig", {"indexing": {"batch": 3}}), ("SelectionConfig", {"selection": {"w": 1.0}})],
)
def test_unknown_knob_of_a_nested_mapping_names_the_known_ones(section: str, knobs: dict[str, Any]) -> None:
    """A section may be given as a mapping, as it comes from a file; its faults are as clear."""
    with pytest.raises(ConfigError, match=f"is not a knob of {section}; it has:"):
        APLConfig(**knobs)


def test_sections_may_be_objects_or_mappings() -> None:
    """Both ways give equal configs."""
    by_object = APLConfig(indexing=IndexingConfig(batch_size=3))
    by_mapping = APLConfig(indexing={"batch_size": 3})  # type: ignore[arg-type]
    assert by_object == by_mapping
    assert by_mapping.indexing.batch_size == 3


def test_every_fault_is_named_at_once() -> None:
    """Two wrong knobs are two sentences of one error."""
    with pytest.raises(ConfigError, match=r"ratio: .*; 'knbo' is not a knob"):
        APLConfig(ratio=2.0, knbo=1)  # type: ignore[call-arg]


def test_validating_a_mapping_raises_config_errors_too() -> None:
    """`model_validate` says the same as the constructor."""
    with pytest.raises(ConfigError, match="'knbo' is not a knob"):
        APLConfig.model_validate({"knbo": 1})


@pytest.mark.parametrize(
    "knobs",
    [
        {"mode": "symbols"},
        {"mode": None},
        {"layout": "both"},
        {"ratio": 0},
        {"ratio": -0.5},
        {"ratio": 1.01},
        {"ratio": float("nan")},
        {"ratio": "0.5"},
        {"on_unknown": "drop"},
        {"on_error": "ignore"},
        {"held_turns": 0},
        {"held_turns": 2.5},
        {"held_turns": True},
        {"forms": ()},
        {"forms": ("outline", "outline")},
        {"forms": ("prose",)},
        {"forms": "outline"},
        {"forms": {"outline"}},
        {"indexing": 3},
        {"indexing": {"batch_size": 0}},
        {"indexing": {"batch_size": "3"}},
        {"indexing": {"max_chunk_chars": 0}},
        {"indexing": {"language": None}},
        {"selection": {"auto_floor_tokens": -1}},
        {"selection": {"weights": {"overlap": float("nan")}}},
        {"selection": {"weights": {"overlap": "high"}}},
    ],
    ids=str,
)
def test_value_that_does_not_fit_is_a_config_error(knobs: dict[str, Any]) -> None:
    """The message names the knob and what was given."""
    with pytest.raises(ConfigError) as caught:
        APLConfig(**knobs)
    name, value = next(iter(knobs.items()))
    if isinstance(value, dict):
        name, value = next(iter(value.items()))
    if isinstance(value, dict):
        name, value = next(iter(value.items()))
    assert name in str(caught.value)
    assert f"given: {value!r}" in str(caught.value) or isinstance(value, tuple)


@pytest.mark.parametrize("ratio", [1, 1.0, 0.001])
def test_ratio_may_be_all_of_the_host(ratio: float) -> None:
    """1 is the host's own length, and may be written without a point."""
    assert APLConfig(ratio=ratio).ratio == ratio


def test_config_is_frozen() -> None:
    """No knob turns after the layer was opened, in no section."""
    config = APLConfig()
    for section, knob in ((config, "mode"), (config.indexing, "batch_size"), (config.selection, "least_deviation")):
        before = getattr(section, knob)
        with pytest.raises(ValidationError, match="frozen"):
            setattr(section, knob, before)


def test_equal_configs_are_equal_and_travel() -> None:
    """A config is a value: compared, hashed and pickled by its knobs."""
    one, other = APLConfig(ratio=0.5, forms=("outline",)), APLConfig(ratio=0.5, forms=("outline",))
    assert one == other != APLConfig()
    assert hash(one) == hash(other)
    assert pickle.loads(pickle.dumps(one)) == one  # noqa: S301 - our own bytes


def test_forms_are_kept_in_the_order_of_ties() -> None:
    """However they are named, ties go to edge-reference, then inline, then outline; a list is as good as a tuple."""
    assert APLConfig(forms=("outline", "edge_reference")).forms == ("edge_reference", "outline")
    assert APLConfig(forms=["outline", "inline_triple"]).forms == ("inline_triple", "outline")  # type: ignore[arg-type]


@pytest.mark.parametrize("forms", [("edge_reference", "outline"), ("inline_triple",)])
def test_per_document_layout_needs_the_outline_alone(forms: Any) -> None:
    """An index table cannot be spread over documents; the message says which forms fit."""
    with pytest.raises(ConfigError, match=r'needs forms=\("outline",\)'):
        APLConfig(layout="per_document", forms=forms)


def test_per_document_layout_does_not_fit_the_default_forms() -> None:
    """The layout is never changed silently."""
    with pytest.raises(ConfigError, match="per_document"):
        APLConfig(layout="per_document")
    assert APLConfig(layout="per_document", forms=("outline",)).layout == "per_document"


def test_paper_is_edges_only_in_the_papers_two_encodings() -> None:
    """`APLConfig.paper()` changes the mode and the forms, and nothing else."""
    assert APLConfig.paper() == APLConfig(mode="symbolic", forms=("edge_reference", "inline_triple"))
