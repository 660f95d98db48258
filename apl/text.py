"""Names, sentences, content words and the coverage guard: pure functions on strings, used everywhere.

Sources: normal form `spec 1`; coverage guard `spec 5`; content words are any word outside one frozen stop list, every
number, date, negation, symbol and piece of code.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import sentencex

from apl.symbols import Sentence, SentenceKind, Triple

MAX_SENTENCE_CHARS = 1200
"""A stretch without a boundary is cut at white space before this many characters."""

_MAX_TITLE_CHARS = 120

_ARTICLE = re.compile(r"(?:the|an|a)\s+(?=\S)")
_SPACE = re.compile(r"\s+")


# --- names ------------------------------------------------------------------------------------------------------------


def normal_form(surface: str) -> str:
    """The look-up key of a name: NFKC, casefolded, white space collapsed, one leading article dropped.

    A single word whose letters are all capitals is an acronym and keeps its case (WHO is not who). Punctuation stays:
    C++ is not C#. The result may be empty; an empty key never links two names.
    """
    name = _SPACE.sub(" ", unicodedata.normalize("NFKC", surface)).strip()
    folded = _SPACE.sub(" ", unicodedata.normalize("NFKC", name.casefold())).strip()
    article = _ARTICLE.match(folded)
    if article and folded != article.group().strip():
        words = len(article.group().split())
        name = name.split(" ", words)[-1]
        folded = folded[article.end() :]
    return name if _is_acronym(name) else folded


def _is_acronym(name: str) -> bool:
    letters = [character for character in name if character.isalpha()]
    return len(letters) > 1 and " " not in name and all(character.isupper() for character in letters)


def is_pronoun(name: str) -> bool:
    """True when a name is a bare pronoun, which names nothing by itself."""
    return name.strip().casefold() in PRONOUNS


def is_specific(name: str) -> bool:
    """True when a name means the same in every text: one in small letters, such as `film`, may not."""
    return name != name.lower() or name == name.upper()


def content_hash(text: str) -> str:
    """SHA-256 of the text's bytes, hexadecimal; lone surrogates are hashed as they are."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# --- content words and the coverage guard -----------------------------------------------------------------------------

NEGATIONS = frozenset(
    ("no not never none nor neither nothing nobody nowhere without cannot n't hardly barely scarcely").split()
)
"""Words that turn a statement round. Each occurrence has to be carried."""

STOP_WORDS = frozenset(
    # articles, demonstratives, pronouns
    "a an the this that these those i me my mine myself we us our ours ourselves you your yours yourself yourselves "
    "he him his himself she her hers herself it its itself they them their theirs themselves one ones there here "
    "who whom whose which what where when "
    # forms of be, have and do
    "be am is are was were been being have has had having do does did doing done "
    # prepositions and conjunctions without a direction of their own
    "of in on at to for from by with as into onto upon and but so than then also too such about "
    # the possessive
    "s 's ’s".split()
)
"""The one stop list of the guard, frozen. Modals, 'or', 'if' and prepositions that give a direction are content."""

PRONOUNS = frozenset(
    (
        "i me myself we us ourselves you yourself yourselves he him himself she her herself it itself they "
        "them themselves this that these those who whom which what whose one someone anyone everyone "
        "something anything everything mine yours his hers ours theirs here there"
    ).split()
)
"""Words that name nothing by themselves: never an entity."""

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff\u0e00-\u0e7f"
_WORD = re.compile(
    rf"(?P<cjk>[{_CJK}])"
    rf"|(?P<number>(?<![^\W\d_])\d+(?:[.,:/\-–]\d+)*)"
    rf"|(?P<word>(?:(?![{_CJK}])\w)+)"
    rf"|(?P<symbol>[^\w\s])"
)
_SYMBOLS = frozenset("#@&*%\\_°‰§")
_DASHES = frozenset("-‐‑‒–—−")
_NEGATIVE_NUMBER = re.compile(r"(?<![\w)\]])[-−](?=\d)")


def words(text: str) -> list[str]:
    """The comparable tokens of a text in order: casefolded words, whole numbers and dates, symbols that mean something.

    Chinese, Japanese and Thai are read character by character. Commas, full stops, quotation marks, brackets and
    dashes are no tokens; `n't` is `not`; a minus sign before a number belongs to it.
    """
    text = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    minus = {match.start() for match in _NEGATIVE_NUMBER.finditer(text)}
    found: list[str] = []
    for match in _WORD.finditer(text):
        token = match.group()
        if match.lastgroup == "symbol":
            if match.start() in minus:
                found.append("-")
            elif token in _SYMBOLS or (token not in _DASHES and unicodedata.category(token)[0] == "S"):
                found.append(token)
        elif match.lastgroup == "word" and token == "t" and text[max(0, match.start() - 2) : match.start()] == "n'":
            _undo_contraction(found)
        else:
            found.append(token)
    return found


def _undo_contraction(found: list[str]) -> None:
    """Turn the `don` of "don't" into `do`, `not`."""
    stem = found.pop() if found else "n"
    stem = {"won": "will", "can": "can", "shan": "shall"}.get(stem, stem[:-1])
    found.extend(token for token in (stem, "not") if token)


def content_words(text: str, lemmas: Mapping[str, str] | None = None) -> Counter[str]:
    """The words a sentence must not lose, counted; lemmas stand for their words where given."""
    lemmas = lemmas or {}
    return Counter(lemmas.get(token, token) for token in words(text) if token not in STOP_WORDS or token in NEGATIONS)


def is_carried(sentence: str, triples: Iterable[Triple], lemmas: Mapping[str, str] | None = None) -> bool:
    """The coverage guard: True when these edges of the sentence carry all its content words (`spec 5`).

    Words are compared as a set, numbers and negations as often as they occur; an edge's head is counted once however
    many statements it has. Without an edge nothing is carried, unless there is nothing to carry.
    """
    needed = content_words(sentence, lemmas)
    if not needed:
        return True
    heads: dict[str, None] = {}
    statements: dict[str, None] = {}
    for triple in triples:
        heads.setdefault(triple.head)
        statements.setdefault(f"{triple.relation} {triple.tail}")
    carried: Counter[str] = Counter()
    for said in (*heads, *statements):
        carried.update(content_words(said, lemmas))
    return all(
        carried[token] >= (count if token in NEGATIONS or token[0].isdigit() else 1) for token, count in needed.items()
    )


def align(triple: Triple, sentences: Sequence[Sentence]) -> int | None:
    """The position of the sentence that holds most of the head's and tail's words; the earliest on ties.

    A heading is asked only when no other sentence holds any. None: no sentence does, the triple belongs to the chunk.
    """
    return align_words(triple, [(s.position, s.kind, frozenset(words(s.text))) for s in sentences])


def align_words(triple: Triple, sentences: Sequence[tuple[int, SentenceKind, frozenset[str]]]) -> int | None:
    """`align` over sentences whose words are known: (position, kind, words)."""
    sought = set(words(f"{triple.head} {triple.tail}"))
    sought = {token for token in sought if token not in STOP_WORDS} or sought
    best: tuple[int, int] | None = None
    for wanted_title in (False, True):
        for position, kind, present in sentences:
            if (kind == "title") != wanted_title:
                continue
            held = len(sought & present)
            if held and (best is None or held > best[0]):
                best = (held, position)
        if best:
            return best[1]
    return None


# --- sentences --------------------------------------------------------------------------------------------------------

_FENCE = re.compile(r"\s*(```|~~~)")
_RULE = re.compile(r"[\s=\-*~_#^+|:.─━═│┼]+\Z")
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
        _FENCE.match(line)
        or _LIST_ITEM.match(line)
        or _CODE_LINE.match(line)
        or _RULE.match(line)
        or _is_table_row(line)
    )


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
    code = sum(bool(_CODE_LINE.match(line)) for line in shown)
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
    paragraph = text[start:end]
    pending: tuple[int, int] | None = None
    cursor = start
    for segment in sentencex.segment(language, paragraph):
        low, high = cursor, cursor + len(segment)
        cursor = high
        if pending and _ABBREVIATION.search(text[pending[0] : pending[1]]):
            pending = (pending[0], high)
            continue
        if pending:
            yield pending
        pending = (low, high)
    if pending:
        yield pending[0], end


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
