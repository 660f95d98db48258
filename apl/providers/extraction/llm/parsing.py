"""What a model answered, read tolerantly: lines of fields, JSON, REBEL's tags. Pure; no text makes it raise.

A line that was meant as a fact and cannot be read is counted as malformed; greetings, fences, headings and thoughts are
noise and are passed over.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

MAX_REPLY_CHARS = 400_000
_MAX_FIELD_CHARS = 1200
_MAX_JSON_TRIES = 2_000
_MAX_DEPTH = 8

_THOUGHTS = re.compile(r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_THOUGHTS_END = re.compile(r"\A.*</(?:think|thinking|reasoning)>", re.DOTALL | re.IGNORECASE)
_FENCE = re.compile(r"\s*(?:```|~~~)[\w+-]*\s*\Z")
_BULLET = re.compile(r"\A\s*(?:[-*+•‣◦–>]\s+)+")
_NUMBER_FIELD = re.compile(r"\W*(?:sentence|line|fact|s|no\.?|#)?\W*(\d{1,4})\W*\Z", re.IGNORECASE)
_NUMBER_PREFIX = re.compile(r"\s*(?:[\[(](\d{1,4})[\])]\s*[.:]?|(?:sentence\s+)?(\d{1,4})\s*[.):])\s+", re.IGNORECASE)
_HEADING = re.compile(r"[\s#*_]*(?:sentence\s*)?[\[(]?(\d{1,4})[\])]?\s*[.:)]?[\s*_]*\Z", re.IGNORECASE)
_RULE = re.compile(r"[\s|:+=_-]*\Z")
_ARROWS = re.compile(r"\s(?:--?>|=>|→)\s")
_REBEL = re.compile(
    r"<triplet>\s*(?P<head>[^<]*?)\s*(?P<pairs>(?:<subj>[^<]*<obj>[^<]*)+)(?=<|\Z)|<triplet>", re.IGNORECASE
)
_REBEL_PAIR = re.compile(r"<subj>([^<]*)<obj>([^<]*)", re.IGNORECASE)
_VERBS = (
    r"(?:is|are|was|were|be|has|have|had|does|do|did|will|would|can|could|may|might|must|shall|should)"
    r"(?:\s(?:not|never|also|been|being|be|a|an|the|of|in|on|at|by|to|for|from|with|as))*"
)
_CUTS = (  # of a statement whose relation and tail were not parted
    re.compile(r"([^\W\d_A-Z][^A-Z\d]*?)\s((?:(?:the|a|an)\s)?(?:[$€£¥]?\d|[A-Z]).*)"),
    re.compile(rf"({_VERBS})\s(\S.*)"),
    re.compile(r"([^\W\d_A-Z][^\W\d_]*)\s(\S.*)"),
    re.compile(rf"(\S.*?\s{_VERBS})\s(\S.*)"),  # it has a subject of its own
)
_NOTHING = frozenset(("", "none", "n/a", "na", "null", "nil", "unknown", "no fact", "no facts", "-", "–"))
_HEADER = frozenset(("head", "subject", "entity", "entity1"))
_NAMES = {
    "head": ("head", "subject", "subj", "source", "h", "s", "entity1", "from"),
    "relation": ("relation", "predicate", "rel", "relationship", "r", "p", "type", "label", "edge"),
    "tail": ("tail", "object", "obj", "target", "t", "o", "entity2", "to"),
}
_NUMBERS = ("number", "sentence", "n", "line", "id", "sentence_number", "index")
_WRAPPED = ("triples", "facts", "triplets", "relations", "edges", "data", "result", "output")


@dataclass(frozen=True, slots=True)
class ReadTriple:
    """A fact as the model wrote it; `number` is the sentence it named, None where it named none."""

    head: str
    relation: str
    tail: str
    number: int | None = None


@dataclass(frozen=True, slots=True)
class ReadReply:
    """The facts of an answer in order; `salvaged` of them stood in an odd line, `malformed` lines could not be read."""

    triples: tuple[ReadTriple, ...] = ()
    malformed: int = 0
    salvaged: int = 0


class _Reading:
    """What has been read so far; a heading such as "Sentence 2:" counts for the lines after it."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.triples: list[ReadTriple] = []
        self.malformed = 0
        self.salvaged = 0
        self.current: int | None = None

    def take(self, fields: list[str], number: int | None, *, odd: bool = False) -> None:
        """Three cleaned fields become a fact; a field that says "none" is an answer, not a fault."""
        cleaned = [_cleaned(field) for field in fields]
        if {field.casefold() for field in (cleaned[0], cleaned[2])} & _NOTHING:
            self.malformed += not all(field.casefold() in _NOTHING for field in cleaned) and "" in cleaned
        elif not cleaned[1] or any(len(field) > _MAX_FIELD_CHARS for field in cleaned):
            self.malformed += 1
        else:
            self.salvaged += odd
            self.triples.append(ReadTriple(cleaned[0], cleaned[1], cleaned[2], self.valid(number)))

    def valid(self, number: int | None) -> int | None:
        """The sentence that is named, if there is such a sentence."""
        number = self.current if number is None else number
        return number if number is not None and 1 <= number <= self.count else None


def read_reply(text: str, count: int) -> ReadReply:
    """The facts of an answer about `count` numbered sentences, in the order they were written."""
    reading = _Reading(count)
    text = _THOUGHTS_END.sub("", _THOUGHTS.sub("", text[:MAX_REPLY_CHARS]))
    tries, position = 0, 0
    while position < len(text):
        end = text.find("\n", position)
        end = len(text) if end < 0 else end
        line = text[position:end]
        opening = _json_start(line)
        if opening is not None and tries < _MAX_JSON_TRIES:
            read, position, tries = _read_json(text, position + opening, end, tries, reading)
            if read:
                continue
        _read_line(line, reading)
        position = end + 1
    return ReadReply(tuple(reading.triples), reading.malformed, reading.salvaged)


def _cleaned(field: str) -> str:
    """A field without quotation marks, emphasis and control characters around or in it."""
    flat = "".join(" " if unicodedata.category(c) in ("Cc", "Zl", "Zp", "Cs") else c for c in field)
    flat = " ".join(flat.split()).strip("*`_ ")
    for opening, closing in (('"', '"'), ("'", "'"), ("“", "”"), ("<", ">"), ("[", "]")):
        inner = flat[1:-1]
        if len(flat) > 1 and flat[0] == opening and flat[-1] == closing and not {opening, closing} & set(inner):
            flat = inner.strip()
    return flat


# --- lines ------------------------------------------------------------------------------------------------------------


def _read_line(line: str, reading: _Reading) -> None:
    if "<triplet>" in line.lower():
        _read_rebel(line, reading)
        return
    line = _BULLET.sub("", line, count=1) if not line.lstrip().startswith("|") else line
    line = line.replace("｜", "|").replace("\\|", "¦")
    if not line.strip() or _FENCE.match(line) or _RULE.match(line):
        return
    heading = _HEADING.match(line)
    if heading:
        reading.current = int(heading.group(1))
        return
    fields, prefix = _fields(line)
    if len(fields) < 2:
        return
    if len(fields) > 2 and _NUMBER_FIELD.match(fields[0]) and 1 <= _number(fields[0]) <= reading.count:
        _read_numbered(fields, reading)
    elif any(field.strip().casefold() in _HEADER for field in fields[:2]) and len(fields) < 5:
        return
    elif len(fields) == 2:
        if _NUMBER_FIELD.match(fields[0]) and _cleaned(fields[1]).casefold() in _NOTHING:
            return
        _salvage(fields[0], fields[1], prefix, reading)
    elif len(fields) > 3 and _NUMBER_FIELD.match(fields[0]):  # a sentence that does not exist
        reading.take([fields[1], fields[2], " ".join(fields[3:])], None)
    else:
        reading.take([fields[0], fields[1], " ".join(fields[2:])], prefix, odd=len(fields) > 3)


def _fields(line: str) -> tuple[list[str], int | None]:
    """The fields of a line and the number that stands before them, as in "1. head | relation | tail"."""
    for split in (_piped, _tabbed, _arrowed, _bracketed):
        fields = split(line)
        if len(fields) > 1:
            prefix = _NUMBER_PREFIX.match(fields[0])
            if prefix and fields[0][prefix.end() :].strip():
                fields[0] = fields[0][prefix.end() :]
                return fields, int(prefix.group(1) or prefix.group(2))
            return fields, None
    return [], None


def _piped(line: str) -> list[str]:
    fields = line.strip().split("|")
    if len(fields) > 3 and not fields[0].strip():  # a row of a table
        fields = fields[1:]
    while len(fields) > 3 and not fields[-1].strip():
        fields.pop()
    return fields


def _tabbed(line: str) -> list[str]:
    return line.strip().split("\t") if line.strip().count("\t") > 1 else []


def _arrowed(line: str) -> list[str]:
    fields = _ARROWS.split(line.strip())
    return fields if len(fields) > 2 else []


def _bracketed(line: str) -> list[str]:
    """The fields of `(head, relation, tail)`, where the commas leave no doubt."""
    inner = re.fullmatch(r"\s*(?:\d{1,4}\s*[.:)]\s*)?\(([^()]*)\)[.,;]?\s*", line)
    fields = inner.group(1).split(",") if inner else []
    return fields if len(fields) == 3 or (len(fields) == 4 and _NUMBER_FIELD.match(fields[0])) else []


def _number(field: str) -> int:
    found = _NUMBER_FIELD.match(field)
    return int(found.group(1)) if found else 0


def _read_numbered(fields: list[str], reading: _Reading) -> None:
    number, rest = _number(fields[0]), fields[1:]
    if len(rest) == 2:
        _salvage(rest[0], rest[1], number, reading)
    else:
        reading.take([rest[0], rest[1], " ".join(rest[2:])], number, odd=len(rest) > 3)


def _salvage(head: str, rest: str, number: int | None, reading: _Reading) -> None:
    """Two fields: the second is cut before the first name or number in it, or behind its verb.

    A payload shows a relation and its tail side by side, so where the cut is changes nothing of what is said.
    """
    if {_cleaned(head).casefold(), _cleaned(rest).casefold()} & _NOTHING:
        return
    said = _cleaned(rest)
    cut = next(filter(None, (cut.fullmatch(said) for cut in _CUTS)), None)
    if cut:
        reading.take([head, cut.group(1), cut.group(2)], number, odd=True)
    else:
        reading.malformed += 1


def _read_rebel(line: str, reading: _Reading) -> None:
    for found in _REBEL.finditer(line):
        if found.group("pairs") is None:
            reading.malformed += 1
            continue
        for tail, relation in _REBEL_PAIR.findall(found.group("pairs")):
            reading.take([found.group("head"), relation, tail], None)


# --- JSON -------------------------------------------------------------------------------------------------------------


def _json_start(line: str) -> int | None:
    """Where JSON may begin in a line: at its first sign, if that is a bracket that does not hold a number alone."""
    indent = len(line) - len(line.lstrip())
    is_json = line[indent : indent + 1] in ("[", "{") and not re.match(r"\s*\[\d{1,4}\]\s*\S", line)
    return indent if is_json else None


def _read_json(text: str, start: int, line_end: int, tries: int, reading: _Reading) -> tuple[bool, int, int]:
    """Decode what begins at `start`; where the whole is cut off, each part of the line that is whole.

    Returns:
        Whether anything was read, the position to go on from, and the tries so far.
    """
    decoder = json.JSONDecoder()
    read, position = False, start
    while position < line_end and tries < _MAX_JSON_TRIES:
        tries += 1
        try:
            value, position = decoder.raw_decode(text, position)
            _take_json(value, None, reading, 0)
            read = True
            line_end = max(line_end, position)
        except (ValueError, RecursionError):
            position += 1
        found = [text.find(mark, position, line_end) for mark in "[{"]
        position = min((place for place in found if place >= 0), default=line_end)
    if read:
        return True, max(position, line_end), tries
    bare = text[start:line_end].strip() in ("[", "{", "[[", "[{") or '":' in text[start:line_end]
    return bare, line_end + 1 if bare else start, tries


def _take_json(value: Any, number: int | None, reading: _Reading, depth: int) -> None:
    if depth > _MAX_DEPTH:
        reading.malformed += 1
    elif isinstance(value, Mapping):
        _take_object(value, number, reading, depth)
    elif isinstance(value, list):
        fields = [str(item) for item in value if isinstance(item, str | int | float)]
        if value and len(fields) == len(value):
            _take_array(fields, number, reading)
        else:
            for item in value:
                _take_json(item, number, reading, depth + 1)
    elif isinstance(value, str) and ("|" in value or "<triplet>" in value):
        for line in value.splitlines():
            _read_line(line, reading)


def _take_array(fields: list[str], number: int | None, reading: _Reading) -> None:
    if len(fields) == 4 and _NUMBER_FIELD.match(fields[0]):
        reading.take(fields[1:], _number(fields[0]))
    elif len(fields) == 3:
        reading.take(fields, number)
    elif all("|" in field for field in fields):
        for field in fields:
            _read_line(field, reading)
    else:
        reading.malformed += 1


def _take_object(value: Mapping[str, Any], number: int | None, reading: _Reading, depth: int) -> None:
    named = {str(key).strip().casefold(): item for key, item in value.items()}
    parts = [next((named[key] for key in keys if key in named), None) for keys in _NAMES.values()]
    told = next((named[key] for key in _NUMBERS if key in named), number)
    told = _number(str(told)) or number if told is not None else None
    if all(isinstance(part, str | int | float) for part in parts):
        reading.take([str(part) for part in parts], told)
        return
    inner = list(_inner(named))
    for name, item in inner:
        _take_json(item, _number(name) or told, reading, depth + 1)
    if not inner and sum(part is not None for part in parts) > 1:
        reading.malformed += 1


def _inner(named: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The lists and objects an object wraps: under a known name, under a sentence's number, or alone."""
    for name, item in named.items():
        if isinstance(item, list | Mapping) and (name in _WRAPPED or _NUMBER_FIELD.match(name) or len(named) == 1):
            yield name, item
