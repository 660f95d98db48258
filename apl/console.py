"""What the command line says: results to stdout (exactly, as a table, as JSON), all else to stderr."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import typer

from apl.reports import ChunkError
from apl.symbols import Turn

SHOWN_ERRORS = 5

_HOST_STATES = ("unknown", "changed", "empty", "duplicate")


def say(message: str) -> None:
    """One line on stderr, whatever is in the message: control characters are shown, not obeyed."""
    line = " ".join(message.split())
    typer.echo("".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line), err=True)


def say_errors(errors: Sequence[ChunkError]) -> None:
    """The first few errors and how many more there are."""
    for error in errors[:SHOWN_ERRORS]:
        say(f"failed: {error.chunk_id}: {error.reason}")
    if len(errors) > SHOWN_ERRORS:
        say(f"... and {len(errors) - SHOWN_ERRORS} more")


def say_turn(turn: Turn, *, explain: bool) -> None:
    """What became of each sentence, if it was asked for, and what was saved."""
    for decision in turn.explain() if explain else ():
        say(f"{decision.outcome} | {decision.chunk_id} | {decision.reason} | {decision.text}")
    states = ", ".join(f"{turn.counters[state]} {state}" for state in _HOST_STATES if turn.counters.get(state))
    say(
        f"form {turn.form}: {turn.tokens} tokens, {turn.host_tokens} in the passages, {turn.savings:.0%} saved"
        + (f" (of {turn.counters['chunks']} passages {states})" if states else "")
    )


def print_json(entry: Mapping[str, Any]) -> None:
    """One JSON object on stdout, in UTF-8; half a surrogate pair becomes its JSON escape."""
    typer.echo(json.dumps(entry, ensure_ascii=False).encode("utf-8", "backslashreplace"))


def print_exactly(text: str) -> None:
    """The bytes of the text and nothing else on stdout; a terminal gets a line end."""
    typer.echo(text.encode(), nl=typer.get_text_stream("stdout").isatty())


def print_table(entries: Mapping[str, Any]) -> None:
    """Names and values on stdout, a row each."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE, show_header=False)
    for name, value in entries.items():
        table.add_row(name.replace("_", " "), _shown(value))
    Console(markup=False, highlight=False, emoji=False).print(table)


def flattened(entries: Mapping[str, Any]) -> dict[str, Any]:
    """The entries with those of an object in its place, for a table; money is shown to the hundredth of a cent."""
    flat: dict[str, Any] = {}
    for name, value in entries.items():
        if isinstance(value, Mapping):
            flat |= {f"{name} {inner}": f"{v:.4f}" if isinstance(v, float) else v for inner, v in value.items()}
        else:
            flat[name] = value
    return flat


def turn_as_dict(turn: Turn, *, explain: bool) -> dict[str, Any]:
    """What a caller of `apl compress --json` gets of a turn."""
    names = ("text", "form", "layout", "tokens", "host_tokens", "savings", "tokens_by_form", "counters")
    told = {name: getattr(turn, name) for name in names}
    told["citations"] = [asdict(citation) for citation in turn.citations]
    if explain:
        told["decisions"] = [asdict(decision) for decision in turn.explain()]
    return told


def _shown(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "-"}[value]
    if isinstance(value, float):
        return f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
