"""The paper's two encodings (paper 3.6): compact JSON over entity and relation lists, keys as in its released code."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from apl.errors import PayloadError
from apl.symbols import Evidence, Quote, Run, Triple

_CHANNELS = (("q", "questions"), ("a", "answers"), ("f", "facts"))
_MEANING = {"q": "earlier questions", "a": "earlier answers", "f": "facts"}


class _Numbering:
    """Indices from 0 in order of first appearance."""

    def __init__(self) -> None:
        self._indices: dict[Any, int] = {}

    def __call__(self, item: Any) -> int:
        return self._indices.setdefault(item, len(self._indices))

    @property
    def items(self) -> list[Any]:
        return list(self._indices)


def encode_edge_reference(evidence: Evidence) -> str:
    """Each unique edge once in `edge_matrix`; the channels are runs of its row numbers."""
    entities, relations, edges = _Numbering(), _Numbering(), _Numbering()
    channels: dict[str, Any] = {}
    for key, name in _CHANNELS:
        runs = [[edges(_row(triple, entities, relations)) for triple in run] for run in getattr(evidence, name)]
        if runs:
            channels[key] = runs
    body = {"e": entities.items, "r": relations.items, "edge_matrix": edges.items, **channels}
    rules = "edge_matrix rows are [head e, relation r, tail e]; {} of row numbers"
    return _document(rules, body, evidence)


def encode_inline_triple(evidence: Evidence) -> str:
    """The channels are runs of [head, relation, tail] index triples."""
    entities, relations = _Numbering(), _Numbering()
    channels: dict[str, Any] = {}
    for key, name in _CHANNELS:
        runs = [[_row(triple, entities, relations) for triple in run] for run in getattr(evidence, name)]
        if runs:
            channels[key] = runs
    return _document(
        "{} of [head e, relation r, tail e]", {"e": entities.items, "r": relations.items, **channels}, evidence
    )


def _row(triple: Triple, entities: _Numbering, relations: _Numbering) -> tuple[int, int, int]:
    return entities(triple.head), relations(triple.relation), entities(triple.tail)


def _document(rules: str, body: dict[str, Any], evidence: Evidence) -> str:
    """The rules for the channels that are there, then the body without empty keys."""
    if evidence.quotes:
        body["quotes"] = [quote.text for quote in evidence.quotes]
    body = {key: value for key, value in body.items() if value}
    if not body:
        return ""
    channels = ", ".join(f"{key} ({_MEANING[key]})" for key, _ in _CHANNELS if key in body)
    sentences = [rules.format(f"{channels}: runs")] if channels else []
    if evidence.quotes:
        sentences.append("quotes: verbatim")
    return "; ".join(sentences) + ".\n" + json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def decode_edge_reference(text: str) -> Evidence:
    """The evidence of an edge-reference payload.

    Raises:
        PayloadError: The text is no such payload, or an index points nowhere.
    """
    body = _body(text, {"e", "r", "edge_matrix", "q", "a", "f", "quotes"}, "edge_reference")
    edges = [_triple(row, body) for row in body.get("edge_matrix", [])]
    return _evidence(body, lambda number: _at(edges, number, "edge_matrix"))


def decode_inline_triple(text: str) -> Evidence:
    """The evidence of an inline-triple payload.

    Raises:
        PayloadError: The text is no such payload, or an index points nowhere.
    """
    body = _body(text, {"e", "r", "q", "a", "f", "quotes"}, "inline_triple")
    return _evidence(body, lambda row: _triple(row, body))


def _body(text: str, keys: set[str], form: str) -> dict[str, Any]:
    if not text:
        return {}
    _rules, found, line = text.partition("\n")
    try:
        body = json.loads(line)
    except ValueError as error:
        raise PayloadError(f"not a payload of form {form}: no JSON after the line of rules ({error})") from error
    if not found or not isinstance(body, dict) or not set(body) <= keys:
        raise PayloadError(f"not a payload of form {form}: expected one object with keys out of {sorted(keys)}")
    return body


def _evidence(body: dict[str, Any], triple_of: Callable[[Any], Triple]) -> Evidence:
    def runs(key: str) -> tuple[Run, ...]:
        return tuple(tuple(triple_of(item) for item in _list(run, key)) for run in _list(body.get(key, []), key))

    quotes = tuple(Quote(text) for text in _list(body.get("quotes", []), "quotes"))
    return Evidence(runs("q"), runs("a"), runs("f"), quotes)


def _triple(row: Any, body: dict[str, Any]) -> Triple:
    if not isinstance(row, list) or len(row) != 3:
        raise PayloadError(f"an edge is [head, relation, tail], not {row!r}")
    head, relation, tail = row
    entities, relations = _list(body.get("e", []), "e"), _list(body.get("r", []), "r")
    return Triple(_at(entities, head, "e"), _at(relations, relation, "r"), _at(entities, tail, "e"))


def _at(items: Sequence[Any], index: Any, key: str) -> Any:
    if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(items):
        raise PayloadError(f"{key} has no item {index!r}; it has {len(items)}")
    return items[index]


def _list(value: Any, key: str) -> list[Any]:
    if not isinstance(value, list):
        raise PayloadError(f"{key} has to be a list, not {value!r}")
    return value
