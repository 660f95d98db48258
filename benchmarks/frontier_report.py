"""What the rows of the frontier add up to: figures, tables, a picture; pure but for the last two.

A row is one question in one arm at one budget. Figures are sums over rows, so those of several data sets are pooled by
putting their rows together.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

from apl.errors import InputError
from apl.evaluation.metrics import paired_bootstrap

LEVELS = (0.90, 0.95, 0.98)
OURS = "apl text"
POOLED = "pooled"

Measure = Literal["kept", "evidence"]
"""What a curve shows: answers kept, or the evidence's content words."""


@dataclass(frozen=True, slots=True)
class Row:
    """What one question got in one arm at one budget.

    `share` is the budget as a share of the host's tokens, None where there was none. `kept`, `kept_as_squad` and `hops` are
    0 or 1, None where the question cannot show it. `evidence` and `identifiers` are (kept, of so many). `edges` and
    `quotes` are tokens.
    """

    data: str
    question: str
    arm: str
    share: float | None
    host: int
    tokens: int
    form: str
    edges: int
    quotes: int
    kept: int | None
    kept_as_squad: int | None
    hops: int | None
    evidence: tuple[int, int]
    identifiers: tuple[int, int]
    within: bool
    ms: float
    as_run_ms: float | None


COLUMNS = tuple(field.name for field in fields(Row))


def row_of(values: Mapping[str, Any]) -> Row:
    """The row whose fields these JSON values are."""
    pairs = {name: tuple(values[name]) for name in ("evidence", "identifiers")}
    return Row(**{**values, **pairs})


# --- figures ----------------------------------------------------------------------------------------------------------


def figures_of(rows: Sequence[Row]) -> dict[str, Any]:
    """Every figure over these rows, ready for JSON."""
    points = [point_of(group) for group in _grouped(rows).values()]
    measures: list[Measure] = ["kept", "evidence"] if any(row.evidence[1] for row in rows) else ["kept"]
    return {
        "points": points,
        "needed": {measure: needed_by_arm(points, measure) for measure in measures},
        "differences": {measure: differences(rows, measure) for measure in measures},
    }


def _grouped(rows: Iterable[Row]) -> dict[tuple[str, float | None], list[Row]]:
    found: dict[tuple[str, float | None], list[Row]] = {}
    for row in rows:
        found.setdefault((row.arm, row.share), []).append(row)
    return found


def point_of(rows: Sequence[Row]) -> dict[str, Any]:
    """One arm at one budget: shares as kept, total and value; `ratio` is sum over sum, `over` counts budgets not kept to."""
    hosts, sent = sum(row.host for row in rows), sum(row.tokens for row in rows)
    cold = [row.as_run_ms for row in rows if row.as_run_ms is not None]
    return {
        "arm": rows[0].arm,
        "share": rows[0].share,
        "questions": len(rows),
        **{name: _flags(getattr(row, name) for row in rows) for name in ("kept", "kept_as_squad", "hops")},
        **{name: _sums(getattr(row, name) for row in rows) for name in ("evidence", "identifiers")},
        "tokens": sent / len(rows),
        "ratio": sent / hosts if hosts else None,
        "mean_ratio": statistics.fmean(row.tokens / row.host for row in rows if row.host) if hosts else None,
        "edges": sum(row.edges for row in rows) / sent if sent else None,
        "quotes": sum(row.quotes for row in rows) / sent if sent else None,
        "forms": dict(Counter(row.form for row in rows).most_common()),
        "over": sum(not row.within for row in rows),
        "ms": statistics.median(row.ms for row in rows),
        "as_run_ms": statistics.median(cold) if cold else None,
    }


def _flags(flags: Iterable[int | None]) -> dict[str, Any]:
    return _sums((flag, 1) for flag in flags if flag is not None)


def _sums(pairs: Iterable[tuple[int, int]]) -> dict[str, Any]:
    known = list(pairs)
    kept, total = sum(pair[0] for pair in known), sum(pair[1] for pair in known)
    return {"kept": kept, "total": total, "value": kept / total if total else None}


def needed_by_arm(points: Sequence[Mapping[str, Any]], measure: Measure) -> dict[str, dict[str, float | None]]:
    """By arm with budgets and level: the share of the host's tokens that it takes, None where it is not reached."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for point in points:
        ratio, kept = point["ratio"], point[measure]["value"]
        if point["share"] is not None and ratio is not None and kept is not None:
            curves.setdefault(point["arm"], []).append((ratio, kept))
    return {arm: {f"{level:.2f}": tokens_needed(curve, level) for level in LEVELS} for arm, curve in curves.items()}


def tokens_needed(curve: Iterable[tuple[float, float]], level: float) -> float | None:
    """The ratio at which the curve of (ratio, kept) first reaches the level, on a logarithmic scale between its points.

    The first ratio where that is enough already; None where no ratio is.
    """
    before: tuple[float, float] | None = None
    for ratio, kept in sorted(curve):
        if kept >= level:
            if before is None or before[0] <= 0:
                return ratio
            part = (level - before[1]) / (kept - before[1])
            return math.exp(math.log(before[0]) + part * (math.log(ratio) - math.log(before[0])))
        before = ratio, kept
    return None


def is_peer(arm: str) -> bool:
    """The arm is another tool: neither apl nor our baseline."""
    return not arm.startswith(("apl", "sentence cosine"))


def differences(rows: Sequence[Row], measure: Measure) -> list[dict[str, Any]]:
    """At each budget apl's default minus every other arm, over the questions of both, with the paired 95 % interval.

    `best_peer` marks the peer that keeps most there, whatever tokens it took.
    """
    scores: dict[tuple[str, float | None], dict[tuple[str, str], float]] = {}
    for row in rows:
        score = score_of(row, measure)
        if score is not None:
            scores.setdefault((row.arm, row.share), {})[row.data, row.question] = score
    found: list[dict[str, Any]] = []
    for (arm, share), others in scores.items():
        ours = scores.get((OURS, share), {})
        both = [key for key in others if key in ours]
        if arm == OURS or not both:
            continue
        theirs = [others[key] for key in both]
        interval = paired_bootstrap(theirs, [ours[key] for key in both])
        found.append({"share": share, "arm": arm, "theirs": statistics.fmean(theirs), **asdict(interval)})
    peers = [figure for figure in found if is_peer(figure["arm"])]
    for figure in found:
        at_share = [peer for peer in peers if peer["share"] == figure["share"]]
        figure["best_peer"] = bool(at_share) and figure is max(at_share, key=lambda peer: float(peer["theirs"]))
    return found


def score_of(row: Row, measure: Measure) -> float | None:
    """What the question adds to the measure; None where it cannot show it."""
    if measure == "kept":
        return row.kept
    return row.evidence[0] / row.evidence[1] if row.evidence[1] else None


# --- pooling ----------------------------------------------------------------------------------------------------------


def merged(runs: Iterable[Sequence[Row]]) -> list[Row]:
    """The rows of all runs; where two runs measured the same, the later one counts.

    Raises:
        InputError: A question had other host chunks in one run than in another.
    """
    found: dict[tuple[str, str, str, float | None], Row] = {}
    hosts: dict[tuple[str, str], int] = {}
    for row in (row for rows in runs for row in rows):
        if hosts.setdefault((row.data, row.question), row.host) != row.host:
            raise InputError(
                f"{row.data}, question {row.question}: {row.host} host tokens in one file and "
                f"{hosts[row.data, row.question]} in another; pool runs over the same chunks"
            )
        found[row.data, row.question, row.arm, row.share] = row
    return list(found.values())


def by_data(rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """The figures of each data set and, if there are several, of all together under `pooled`."""
    names = list(dict.fromkeys(row.data for row in rows))
    found = {name: figures_of([row for row in rows if row.data == name]) for name in names}
    return found if len(names) < 2 else {**found, POOLED: figures_of(rows)}


# --- tables -----------------------------------------------------------------------------------------------------------


def show(figures: Mapping[str, Mapping[str, Any]]) -> None:
    """Every data set's curves, tokens needed and differences; the last one, that is the pooled, with all its figures."""
    console = Console(width=200)
    for name, found in figures.items():
        measures: list[Measure] = list(found["needed"])
        if name == list(figures)[-1]:
            console.print(_points_table(name, found["points"]))
        for measure in measures:
            console.print(_curves_table(name, measure, found))
            console.print(_differences_table(name, measure, found["differences"][measure]))


def _points_table(name: str, points: Sequence[Mapping[str, Any]]) -> Table:
    shares = ("kept", "kept_as_squad", "hops", "evidence", "identifiers")
    shown = [share for share in shares if any(point[share]["total"] for point in points)]
    titles = [share.replace("_", " ") for share in shown]
    table = Table(
        "arm", "budget", "ratio", "mean", *titles, "edges", "quotes", "ms", "cold", "over", "forms", title=name
    )
    for point in points:
        table.add_row(
            point["arm"],
            _percent(point["share"]),
            *(_number(point[key]) for key in ("ratio", "mean_ratio")),
            *(f"{_number(point[key]['value'])} of {point[key]['total']}" for key in shown),
            *(_number(point[key]) for key in ("edges", "quotes")),
            *(_number(point[key], ".1f") for key in ("ms", "as_run_ms")),
            str(point["over"]),
            ", ".join(f"{form} {count}" for form, count in point["forms"].items()),
        )
    return table


def _curves_table(name: str, measure: Measure, found: Mapping[str, Any]) -> Table:
    points, needed = found["points"], found["needed"][measure]
    shares = sorted({point["share"] for point in points if point["share"] is not None})
    levels = [f"{level:.2f}" for level in LEVELS]
    heads = [*(f"at {_percent(share)}" for share in shares), "auto (at ratio)", *(f"for {level}" for level in levels)]
    table = Table("arm", *heads, title=f"{name}: {measure}; tokens needed as a share of the host's")
    for arm in dict.fromkeys(point["arm"] for point in points):
        at = {point["share"]: point for point in points if point["arm"] == arm}
        auto = f"{_number(at[None][measure]['value'])} (at {_number(at[None]['ratio'])})" if None in at else ""
        cells = [_number(at[share][measure]["value"]) if share in at else "" for share in shares]
        table.add_row(arm, *cells, auto, *(_number(needed[arm][level]) if arm in needed else "" for level in levels))
    best = [_least(needed[arm][level] for arm in needed if is_peer(arm)) if needed else None for level in levels]
    ours = [needed.get(OURS, {}).get(level) for level in levels]
    quotients = [_number(a / b) if a is not None and b else "" for a, b in zip(ours, best, strict=True)]
    table.add_row("apl / best peer", *[""] * (len(shares) + 1), *quotients)
    return table


def _least(values: Iterable[float | None]) -> float | None:
    return min((value for value in values if value is not None), default=None)


def _differences_table(name: str, measure: Measure, rows: Sequence[Mapping[str, Any]]) -> Table:
    """One line an arm; the best peer of each budget is marked."""
    shares = list(dict.fromkeys(row["share"] for row in rows))
    heads = [f"at {_percent(share)}" for share in shares]
    table = Table("apl minus", *heads, title=f"{name}: {measure}, paired 95 % interval; * the best peer there")
    for arm in dict.fromkeys(row["arm"] for row in rows):
        at = {row["share"]: row for row in rows if row["arm"] == arm}
        table.add_row(arm, *(_interval(at[share]) if share in at else "" for share in shares))
    return table


def _interval(row: Mapping[str, Any]) -> str:
    mark = "*" if row["best_peer"] else ""
    return f"{row['difference']:+.3f} [{row['low']:+.3f}, {row['high']:+.3f}]{mark}"


def _number(value: float | None, form: str = ".3f") -> str:
    return "-" if value is None else format(value, form)


def _percent(share: float | None) -> str:
    return "auto" if share is None else f"{share:.0%}"


# --- the picture ------------------------------------------------------------------------------------------------------


def draw(figures: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Kept against the real ratio: a panel a data set, a line an arm, dashed for peers, auto as a star; needs matplotlib."""
    try:
        matplotlib: Any = import_module("matplotlib")
        matplotlib.use("Agg")
        plot: Any = import_module("matplotlib.pyplot")
    except ImportError:
        print("no picture: pip install matplotlib", file=sys.stderr)
        return
    figure, panels = plot.subplots(
        1, len(figures), figsize=(6 * len(figures), 6), squeeze=False, sharey=True, layout="constrained"
    )
    arms = dict.fromkeys(point["arm"] for found in figures.values() for point in found["points"])
    colours = {arm: matplotlib.colormaps["tab20"](number % 20) for number, arm in enumerate(arms)}
    shares = sorted({p["share"] for found in figures.values() for p in found["points"] if p["share"] is not None})
    for panel, (name, found) in zip(panels[0], figures.items(), strict=True):
        measure: Measure = "evidence" if "evidence" in found["needed"] else "kept"
        for arm in arms:
            _line(panel, [point for point in found["points"] if point["arm"] == arm], measure, colours[arm])
        panel.set(title=name, xlabel="tokens sent / host tokens", ylabel=_AXES[measure], xscale="log")
        panel.set_xticks(shares, labels=[f"{share:g}" for share in shares])
        panel.minorticks_off()
        panel.grid(alpha=0.3)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(4, 2 * len(figures)), fontsize="small")
    figure.savefig(path, dpi=150)
    plot.close(figure)


_AXES: Mapping[Measure, str] = {"kept": "answers kept", "evidence": "evidence words kept"}


def _line(panel: Any, points: Sequence[Mapping[str, Any]], measure: Measure, colour: Any) -> None:
    known = [point for point in points if point["ratio"] and point[measure]["value"] is not None]
    curve = sorted((point["ratio"], point[measure]["value"]) for point in known if point["share"] is not None)
    if curve:
        arm = points[0]["arm"]
        style = "--" if is_peer(arm) else "-"
        panel.plot(*zip(*curve, strict=True), color=colour, label=arm, marker="o", linestyle=style)
    for point in known:
        if point["share"] is None:
            at = ([point["ratio"]], [point[measure]["value"]])
            panel.plot(*at, color=colour, label=point["arm"], marker="*", markersize=16, linestyle="none")
