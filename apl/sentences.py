"""Sentences: a text cut into units whose spans point into it exactly. Pure.

sentencex knows where prose ends; headings, lists, tables, code and ornament are told apart by their lines.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence

import sentencex

from apl.symbols import Sentence, SentenceKind

logger = logging.getLogger(__name__)

MAX_SENTENCE_CHARS = 1200
"""A stretch without a boundary is cut at white space before this many characters."""

_MAX_TITLE_CHARS = 120
_WINDOW_CHARS = 3 * MAX_SENTENCE_CHARS

_FENCE = re.compile(r"\s*(```|~~~)")
_HASHES = re.compile(r"^#{1,6}\s+|\s+#+$")
_RULE = re.compile(r"\s*+(?:([=\-*~_#^+─━═])\1{2,}|(?=.*\|)(?=.*-)[|:+\-\s]++)\s*+\Z")
_LIST_ITEM = re.compile(r"\s*(?:[-*+•‣◦–]|\(?\d{1,3}[.)]|\(?[A-Za-z][.)])\s+\S")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+\S")
_CODE_LINE = re.compile(
    r"\s*(?:>>>|\.\.\.|\$ |@\w|#include|import |from \w+ import|def |class |return\b|else:|try:"
    r"|(?:for|if|with) .*:$|[}\])]+[;,]?$)"
    r"|.*(?:::=|[{};]\s*$|\)\s*:$|\w\s*[-+*/|&]?=\s*\S|\w\(\S*\)\s*$|->)"
)
_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:sect|sec|fig|figs|eq|eqs|no|nos|vol|vols|pp|p|cf|ch|chap|art|ref|refs|tab|ver|al|ca|approx)\.\s*\Z",
    re.IGNORECASE,
)
_MAX_CODE_LINE_CHARS = 400
_RARE_SPACE = re.compile(r"[^\S \t\r\n]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_FINAL = frozenset(".!?。！？…:;,，；：")
_Block = tuple[int, int, SentenceKind]


def split_sentences(text: str, *, title: str | None = None, language: str = "en") -> tuple[Sentence, ...]:
    """Split a text into units whose spans point into it exactly.

    Prose is split by sentencex; headings, list items, table rows, stretches of code and ornament lines are units of
    their own. Units are in order, do not overlap, and leave nothing but white space between them.

    Args:
        text: The host's text.
        title: A hint: when the text begins with this line, it is a heading.
        language: ISO code for sentencex' abbreviations.
    """
    units: list[Sentence] = []
    for start, end, kind in _blocks(text, title):
        pieces = _prose(text, start, end, language) if kind in ("prose", "list") else iter([(start, end)])
        for piece_start, piece_end in pieces:
            for low, high in _capped(text, piece_start, piece_end):
                low, high = _trim(text, low, high)
                if low < high:
                    units.append(Sentence(len(units), low, high, text[low:high], kind))
    return tuple(units)


def heading_words(text: str) -> str:
    """What a heading says, on one line, without Markdown's marks."""
    return _HASHES.sub("", " ".join(text.split())).strip()


def in_context(sentences: Sequence[Sentence], title: str | None) -> list[str]:
    """Each sentence as it is to be understood: below the nearest heading before it, or the title of its chunk.

    "He was born in Turin." says little by itself; "Primo Levi: He was born in Turin." says of whom.
    """
    heading = heading_words(title or "")
    said = []
    for sentence in sentences:
        if sentence.kind == "title":
            heading = heading_words(sentence.text)
        stands_alone = not heading or sentence.text.startswith(heading) or sentence.kind == "title"
        said.append(sentence.text if stands_alone else f"{heading}: {sentence.text}")
    return said


def _blocks(text: str, title: str | None) -> Iterator[_Block]:
    """Cut a text into (start, end, kind) stretches by its lines."""
    lines = _lines(text)
    index = 0
    if first := _title_line(text, lines, title):
        yield first[0], first[1], "title"
        index = first[2]
    while index < len(lines):
        start, end = lines[index]
        line = text[start:end]
        if not line.strip():
            index += 1
        elif _FENCE.match(line):
            stop = _fence_end(text, lines, index)
            yield from _code_pieces(text, lines[index:stop])
            index = stop
        elif _RULE.match(line) and len(line.strip()) > 2:
            yield start, end, "rule"
            index += 1
        elif _HEADING.match(line) or _is_underlined(text, lines, index):
            yield start, end, "title"
            index += 1
        elif _is_table_row(line):
            yield start, end, "table"
            index += 1
        else:
            stop = _paragraph_end(text, lines, index)
            yield from _paragraph(text, lines[index:stop])
            index = stop


def _lines(text: str) -> list[tuple[int, int]]:
    spans, start = [], 0
    for line in text.splitlines(keepends=True):
        spans.append((start, start + len(line)))
        start += len(line)
    return spans


def _title_line(text: str, lines: Sequence[tuple[int, int]], title: str | None) -> tuple[int, int, int] | None:
    """The leading heading as (start, end, next line's index), if there is one."""
    filled = [number for number, (start, end) in enumerate(lines) if text[start:end].strip()]
    if len(filled) < 2:
        return None
    number = filled[0]
    start, end = lines[number]
    line = text[start:end].strip()
    if title and line == title.strip():
        return start, end, number + 1
    if len(line) > _MAX_TITLE_CHARS or line[-1] in _FINAL or _looks_special(text[start:end]):
        return None
    following = text[slice(*lines[filled[1]])].strip()
    apart = filled[1] > number + 1
    shorter = len(line) < 0.7 * max(len(text[slice(*lines[n])].strip()) for n in filled[1:4])
    stands_alone = apart or (shorter and not following[0].islower())
    return (start, end, number + 1) if stands_alone and any(c.isalnum() for c in line) else None


def _looks_special(line: str) -> bool:
    return bool(
        _FENCE.match(line) or _LIST_ITEM.match(line) or _is_code(line) or _RULE.match(line) or _is_table_row(line)
    )


def _is_code(line: str) -> bool:
    return len(line) <= _MAX_CODE_LINE_CHARS and bool(_CODE_LINE.match(line))


def _is_table_row(line: str) -> bool:
    stripped = line.strip()
    return (stripped.startswith("|") and stripped.count("|") > 1) or stripped.count("\t") > 1 or " | " in stripped


def _is_underlined(text: str, lines: Sequence[tuple[int, int]], index: int) -> bool:
    if index + 1 >= len(lines):
        return False
    under = text[slice(*lines[index + 1])].strip()
    return (
        len(under) > 2
        and len(set(under)) == 1
        and under[0] in '=-*~^#"'
        and not _looks_special(text[slice(*lines[index])])
    )


def _fence_end(text: str, lines: Sequence[tuple[int, int]], index: int) -> int:
    opening = _FENCE.match(text[slice(*lines[index])])
    mark = opening.group(1) if opening else "```"
    for number in range(index + 1, len(lines)):
        if text[slice(*lines[number])].strip().startswith(mark):
            return number + 1
    return len(lines)


def _paragraph_end(text: str, lines: Sequence[tuple[int, int]], index: int) -> int:
    """The line after the paragraph that begins at `index`."""
    for number in range(index + 1, len(lines)):
        line = text[slice(*lines[number])]
        if (
            not line.strip()
            or _FENCE.match(line)
            or _LIST_ITEM.match(line)
            or _HEADING.match(line)
            or _is_table_row(line)
            or (_RULE.match(line) and len(line.strip()) > 2)
            or _is_underlined(text, lines, number)
        ):
            return number
    return len(lines)


def _paragraph(text: str, lines: Sequence[tuple[int, int]]) -> Iterator[_Block]:
    shown = [text[start:end] for start, end in lines]
    indented = all(line[:1].isspace() for line in shown)
    code = sum(_is_code(line) for line in shown)
    if code * 2 > len(shown) and (indented or code > 1 or shown[0].lstrip().startswith(">>>")):
        yield from _code_pieces(text, lines)
    else:
        yield lines[0][0], lines[-1][1], "list" if _LIST_ITEM.match(shown[0]) else "prose"


def _code_pieces(text: str, lines: Sequence[tuple[int, int]]) -> Iterator[_Block]:
    """Code in stretches of whole lines, none longer than `MAX_SENTENCE_CHARS` where lines allow it."""
    start = lines[0][0]
    last = start
    for _, line_end in lines:
        if line_end - start > MAX_SENTENCE_CHARS and last > start:
            yield start, last, "code"
            start = last
        last = line_end
    yield start, last, "code"


def _prose(text: str, start: int, end: int, language: str) -> Iterator[tuple[int, int]]:
    """Sentence spans of a paragraph; a cut after an abbreviation is taken back."""
    pending: tuple[int, int] | None = None
    cursor = start
    for segment in _windowed(text[start:end], language):
        low, high = cursor, cursor + len(segment)
        cursor = high
        if pending and _ABBREVIATION.search(text[max(pending[0], pending[1] - 12) : pending[1]]):
            pending = (pending[0], high)
            continue
        if pending:
            yield pending
        pending = (low, high)
    if pending:
        yield pending[0], end


def _windowed(paragraph: str, language: str) -> Iterator[str]:
    """The sentences of a paragraph, window by window: the splitter's time grows with the square of the length."""
    start = 0
    while len(paragraph) - start > _WINDOW_CHARS:
        window = paragraph[start : start + _WINDOW_CHARS]
        segments = _segments(window, language)
        for segment in segments[:-1] or [window]:  # the last one may go on behind the window
            yield segment
            start += len(segment)
    yield from _segments(paragraph[start:], language)


def _segments(paragraph: str, language: str) -> Sequence[str]:
    """The sentences of a paragraph, character for character; all of it as one where the splitter gives up."""
    plain = _RARE_SPACE.sub(" ", paragraph)  # sentencex 1.0 panics on a letter, a rare space and a full stop
    plain = _SURROGATE.sub("\ufffd", plain)  # half a pair cannot be handed to Rust
    try:
        segments: Sequence[str] = sentencex.segment(language, plain)
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # a panic of the splitter's Rust is no Exception
            raise
        logger.warning("a paragraph of %d characters could not be split (%s): it stays whole", len(paragraph), error)
        return [paragraph]
    return segments


def _capped(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while end - start > MAX_SENTENCE_CHARS:
        window = text[start : start + MAX_SENTENCE_CHARS]
        cut = max(window.rfind(mark) for mark in ("; ", ", ", "\n", " "))
        cut = start + (cut + 1 if cut > 0 else MAX_SENTENCE_CHARS)
        yield start, cut
        start = cut
    yield start, end


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())
