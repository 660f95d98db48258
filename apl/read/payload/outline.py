"""The outline: one line a head, `head: relation tail | tail; relation tail`, and verbatim lines beside them.

Blocks alternate, parted by a blank line: facts, verbatim, facts, verbatim; so a quote stands where it was said and its
marker costs nothing. The outline costs fewer tokens than the index forms on sparse graphs, and small readers
understand it. There is no separator between a relation and its tail, so it decodes to (head, statement) pairs.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from apl.errors import PayloadError
from apl.read.payload.escapes import escape_head, escape_statement, unescape
from apl.read.payload.statements import OutlineLine, group_of, grouped
from apl.symbols import Evidence, Quote

_SECTIONS = {"#q": "earlier questions", "#a": "earlier answers", "#f": "facts"}
_BLOCK = "\n\n"
_NEXT_TAIL = " | "
_LINE = re.compile(r"(?P<head>(?:\\.|[^\\])*?): (?P<statements>.*)")
_STATEMENT_END = re.compile(r"((?:\\.|[^\\;])*)(?:; |\Z)")
_TAIL_END = re.compile(r"((?:\\.|[^\\|])*?)(?: \| |\Z)")


@dataclass(frozen=True, slots=True)
class Outline:
    """What an outline says, by channel."""

    questions: tuple[OutlineLine, ...] = ()
    answers: tuple[OutlineLine, ...] = ()
    facts: tuple[OutlineLine, ...] = ()
    quotes: tuple[Quote, ...] = ()


def outline_of(evidence: Evidence) -> Outline:
    """The outline of neutral evidence (see `grouped`)."""
    facts = grouped(evidence.facts, evidence.fact_sentences)
    return Outline(grouped(evidence.questions), grouped(evidence.answers), facts, evidence.quotes)


def encode_outline(evidence: Evidence, *, marked: bool = False) -> str:
    """Rules, then alternating blocks; the empty string for no evidence."""
    blocks = outline_blocks(evidence, marked=marked)
    return outline_rules([evidence], [blocks]) + "\n" + _BLOCK.join(blocks) if any(blocks) else ""


def outline_rules(evidences: Sequence[Evidence], blocks: Sequence[Sequence[str]], *, alternating: bool = True) -> str:
    """The line of rules for one or more pieces of evidence and their `outline_blocks`, no rule that is not needed.

    Their blocks alternate unless they are apart.
    """
    repeats = any(_NEXT_TAIL in facts for own in blocks for facts in own[::2])
    sentences = ["Facts by head; | repeats the relation." if repeats else "Facts by head."]
    if any(evidence.quotes for evidence in evidences):
        sentences.append("Blocks alternate: facts, quotes." if alternating else "Other lines are quotes.")
    if any(evidence.questions or evidence.answers for evidence in evidences):
        sentences.append(" ".join(f"{key} {meaning}." for key, meaning in _SECTIONS.items()))
    return " ".join(sentences)


def outline_blocks(evidence: Evidence, *, marked: bool = False) -> list[str]:
    """Facts and verbatim lines by turns, facts first (maybe none), in reading order.

    A head stands where its first edge is said, with all its statements; a quote stands in its own place, the quotes of
    two documents in two blocks.

    Args:
        evidence: Neutral evidence.
        marked: Begin each line of facts and quotes with `[n]`, the host documents that say it, counted from 1. Marked
            lines are for reading; `decode_outline` takes a mark for a part of the line.
    """
    opening: list[str] = []
    for key, runs in (("#q", evidence.questions), ("#a", evidence.answers)):
        if runs:
            opening += [key, *(_line(line) for line in grouped(runs))]
    if opening and (evidence.facts or evidence.quotes):
        opening.append("#f")
    blocks: list[list[str]] = [opening]
    quoted: tuple[int, ...] = ()
    for is_quote, line, ranks in _in_reading_order(evidence):
        if is_quote and len(blocks) % 2 == 0 and ranks != quoted:
            blocks.append([])  # no facts between quotes of two documents, so a heading stays with its own
        if is_quote != (len(blocks) % 2 == 0):
            blocks.append([])
        quoted = ranks if is_quote else ()
        blocks[-1].append(f"{mark(ranks)}{line}" if marked else line)
    return ["\n".join(block) for block in blocks]


def mark(ranks: Iterable[int]) -> str:
    """`[1] ` or `[1,3] ` for host documents 0 or 0 and 2."""
    numbers = ",".join(str(rank + 1) for rank in sorted(set(ranks)))
    return f"[{numbers}] " if numbers else ""


def _in_reading_order(evidence: Evidence) -> Iterator[tuple[bool, str, tuple[int, ...]]]:
    """(is it a quote, line, the host documents that say it), facts and quotes as they were said."""
    first_edge: dict[tuple[str, int], int] = {}
    ranks: dict[tuple[str, int], list[int]] = {}
    number = 0
    for run, triples in enumerate(evidence.facts):
        for place, triple in enumerate(triples):
            group = group_of(triple.head, run)
            first_edge.setdefault(group, number)
            ranks.setdefault(group, []).extend(evidence.fact_ranks[run][place] if evidence.fact_ranks else ())
            number += 1
    pending = deque(evidence.quotes)
    lines = grouped(evidence.facts, evidence.fact_sentences)
    for line, (group, first) in zip(lines, first_edge.items(), strict=True):
        while pending and pending[0].after <= first:
            yield True, pending[0].text, (pending.popleft().rank,)
        yield False, _line(line), tuple(ranks[group])
    for quote in pending:
        yield True, quote.text, (quote.rank,)


def _line(line: OutlineLine) -> str:
    statements = (_NEXT_TAIL.join(escape_statement(part) for part in statement) for statement in line.statements)
    return f"{escape_head(line.head)}: {'; '.join(statements)}"


def decode_outline(text: str) -> Outline:
    """What an outline payload says.

    Raises:
        PayloadError: A line of facts is neither a section nor `head: statement`.
    """
    channels: dict[str, list[OutlineLine]] = {"#q": [], "#a": [], "#f": []}
    quotes: list[Quote] = []
    section = "#f"
    _rules, _, body = text.partition("\n")
    for number, block in enumerate(body.split(_BLOCK) if body else []):
        for line in block.split("\n") if block else []:
            if number % 2:
                quotes.append(Quote(line))
            elif line in channels:
                section = line
            else:
                channels[section].append(_parsed(line))
    return Outline(tuple(channels["#q"]), tuple(channels["#a"]), tuple(channels["#f"]), tuple(quotes))


def _parsed(line: str) -> OutlineLine:
    match = _LINE.fullmatch(line)
    if not match:
        raise PayloadError(f"not a line of an outline: {line!r}; expected `head: relation tail`")
    statements = tuple(
        tuple(unescape(part) for part in _split(_TAIL_END, statement))
        for statement in _split(_STATEMENT_END, match["statements"])
    )
    return OutlineLine(unescape(match["head"]), statements)


def _split(ending: re.Pattern[str], text: str) -> list[str]:
    """The stretches before each ending; an empty text is one empty stretch."""
    parts, start = [], 0
    while True:
        match = ending.match(text, start)
        if match is None:
            raise PayloadError(f"not a line of an outline: stray delimiter in {text[start:]!r}")
        parts.append(match.group(1))
        if match.end(1) == len(text):
            return parts
        start = match.end()
