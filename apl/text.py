"""Names, content words and the coverage guard: pure functions on strings, used everywhere.

Sources: normal form and coverage guard are apl's own; content words are any word outside one frozen stop list, every
number, date, negation, symbol and piece of code.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from apl.symbols import Triple

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
    """True when a name is a bare pronoun, which names nothing by itself; WHO and US are names."""
    return name.strip().casefold() in PRONOUNS and not _is_acronym(name.strip())


def is_encodable(text: str) -> bool:
    """False when a text holds half a surrogate pair, which no UTF-8 file or database can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def content_hash(text: str) -> str:
    """SHA-256 of the text's bytes, hexadecimal; lone surrogates are hashed as they are."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# --- content words and the coverage guard -----------------------------------------------------------------------------

NEGATIONS = frozenset(
    "no not never none nor neither nothing nobody nowhere without cannot n't hardly barely scarcely".split()
)
"""Words that turn a statement round."""

STOP_WORDS = frozenset(
    # articles, demonstratives, pronouns
    "a an the this that these those i me my mine myself we us our ours ourselves you your yours yourself yourselves "
    "he him his himself she her hers herself it its itself they them their theirs themselves there here "
    "who whom whose which what "
    # forms of be, have and do
    "be am is are was were been being have has had having do does did doing done "
    # prepositions and conjunctions without a direction of their own
    "of in on at with as upon and so then also such "
    # the possessive
    "s 's ’s".split()
)
"""The one stop list of the guard, frozen. Modals, 'or', 'if', 'but', 'when' and prepositions that give a direction
(by, from, to, for, after) are content."""

PRONOUNS = frozenset(
    (
        "i me myself we us ourselves you yourself yourselves he him himself she her herself it itself they "
        "them themselves this that these those who whom which what whose one someone anyone everyone "
        "something anything everything mine yours his hers ours theirs here there"
    ).split()
)
"""Words that name nothing by themselves: never an entity."""

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff\u0e00-\u0e7f"
_TOKEN = re.compile(
    rf"(?P<cjk>[{_CJK}])"
    # a sign, a currency, digits with their separators, an exponent, a unit mark: one number
    r"|(?P<number>(?:(?<![\w)\]])[-+−–‑](?=[$€£¥]?\.?\d))?[$€£¥]?(?:(?<![^\W\d_])\d|\.(?=\d)\d)"
    r"(?:\d|[.,:/\-–](?=\d))*(?:[eE][-+]?\d+)?(?:\s?[%‰°″′\"'](?!\w))?)"
    rf"|(?P<word>(?:(?![{_CJK}])\w)+)"
    r"|(?P<symbol>[^\w\s])"
)
_CJK_GAP = re.compile(rf"(?<=[{_CJK}])\s+(?=[{_CJK}])")
_CJK_PAIR = re.compile(rf"(?=([{_CJK}]{{2}}))")
_SYMBOLS = frozenset("#@&*%\\_°‰§")
_LONE_MINUS = re.compile(r"(?<=\s)[-−](?=\s\d)")
_CODE_PIECE = re.compile(r"[_/\\\[\]{}<>=!|&*+~^@#]|\(\)|^--?\w|->|\w\.[^\W\d]")
_PROSE_MARKS = ".,;:!?\"'()“”‘’«»`"
_NO_CODE = frozenset("() ( ) [ ]".split())
"""What an editor leaves behind where a pronunciation stood; `[]` and `{}` are code."""

_MAX_UNIT_CHARS = 3


def words(text: str, *, initial: bool = True) -> list[str]:
    """The comparable tokens of a text in order: casefolded words, whole numbers and dates, symbols that mean something.

    Chinese, Japanese and Thai are read character by character. Commas, full stops, quotation marks, brackets and
    dashes are no tokens; `n't` is `not`. A number keeps its sign, currency, decimal point, exponent and unit mark, and
    a short unit after it its case (mW is not MW). A function word in capitals, or with one away from the beginning,
    keeps them: US, Vitamin A and The Who are names.

    Args:
        text: Any text.
        initial: The text begins a sentence, so that the capital of its first word means nothing.
    """
    text = unicodedata.normalize("NFC", text).replace("’", "'")
    lone = {match.start() for match in _LONE_MINUS.finditer(text)}
    found: list[str] = []
    after_number = False
    for match in _TOKEN.finditer(text):
        kind, shown = match.lastgroup, match.group()
        if kind == "number":
            found.append(_plain_number(shown))
        elif kind == "symbol":
            if match.start() in lone:
                found.append("-")
            elif shown in _SYMBOLS or unicodedata.category(shown)[0] in "SM":
                found.append(shown)
        elif kind == "word" and shown in ("t", "T") and text[max(0, match.start() - 2) : match.start()] in ("n'", "N'"):
            _undo_contraction(found)
        elif (after_number and len(shown) <= _MAX_UNIT_CHARS) or _is_capital_stop_word(
            shown, bool(found) or not initial
        ):
            found.append(shown)
        else:
            found.append(shown.casefold())
        after_number = kind == "number"
    return found


def _plain_number(shown: str) -> str:
    """One way of writing for the dashes of signs and ranges, no space before a unit mark."""
    return re.sub(r"[−–‑]", "-", shown).replace(" ", "").replace("″", '"').replace("′", "'").lower()


def _is_capital_stop_word(shown: str, inside: bool) -> bool:
    return shown.casefold() in STOP_WORDS and (_is_acronym(shown) or (inside and shown[0].isupper()))


def _undo_contraction(found: list[str]) -> None:
    """Turn the `don` of "don't" into `do`, `not`."""
    stem = found.pop() if found else "n"
    stem = {"won": "will", "can": "can", "shan": "shall"}.get(stem, stem[:-1])
    found.extend(token for token in (stem, "not") if token)


def content_words(text: str, lemmas: Mapping[str, str] | None = None, *, initial: bool = True) -> Counter[str]:
    """The words a sentence must not lose, counted, by their lemmas where given; for `initial` see `words`."""
    lemmas = lemmas or {}
    said = words(text, initial=initial)
    return Counter(lemmas.get(token, token) for token in said if token not in STOP_WORDS or token in NEGATIONS)


def _code_pieces(text: str) -> set[str]:
    """The pieces between white space that read as code, exactly as they stand: `p->x`, `--all`, `C++`, `os.path`."""
    named = (any(character.isalnum() for character in piece) for piece in text.split())
    pieces = (piece.strip(_PROSE_MARKS) if name else piece for piece, name in zip(text.split(), named, strict=True))
    return {piece for piece in pieces if _CODE_PIECE.search(piece) and piece.strip(",.;:") not in _NO_CODE}


def _cjk_pairs(text: str) -> set[str]:
    """Neighbours in scripts without spaces: their order is their grammar."""
    return set(_CJK_PAIR.findall(_CJK_GAP.sub("", text)))


def _is_number(token: str) -> bool:
    return any(character.isdigit() for character in token)


def is_carried(sentence: str, triples: Iterable[Triple], lemmas: Mapping[str, str] | None = None) -> bool:
    """The coverage guard: True when these edges of the sentence carry all its content words.

    Every content word has to be said as often as the sentence says it, an edge's head being said once however many
    statements it has; a number or negation counts only from an edge that says nothing the sentence does not, and once
    a name. Code has to stand as it stands, and neighbouring characters of scripts without spaces as neighbours.
    Without an edge nothing is carried, unless there is nothing to carry.
    """
    needed = content_words(sentence, lemmas)
    if not needed:
        return True
    triples = list(triples)
    heads = dict.fromkeys(triple.head for triple in triples)
    statements = [f"{triple.relation} {triple.tail}" for triple in triples]
    carried = sum((content_words(said, lemmas, initial=False) for said in (*heads, *statements)), Counter[str]())
    strict = _strictly_said(triples, needed, lemmas)
    if any((strict if token in NEGATIONS or _is_number(token) else carried)[token] < needed[token] for token in needed):
        return False
    said = " ".join((*heads, *statements))
    pairs = set().union(*(_cjk_pairs(f"{triple.head} {triple.relation} {triple.tail}") for triple in triples))
    return _code_pieces(sentence) <= _code_pieces(said) and _cjk_pairs(sentence) <= pairs


def keeps_content(sentence: str, short: str, lemmas: Mapping[str, str] | None = None) -> bool:
    """True when a shorter quote holds the sentence's content words, no others, and its code as it stands."""
    return (
        content_words(sentence, lemmas) == content_words(short, lemmas)
        and _code_pieces(sentence) == _code_pieces(short)
        and _cjk_pairs(sentence) == _cjk_pairs(short)
    )


def _strictly_said(
    triples: Sequence[Triple], needed: Mapping[str, int], lemmas: Mapping[str, str] | None
) -> Counter[str]:
    """What edges say that stay within the sentence's own words, every distinct name once."""
    own = [
        triple
        for triple in triples
        if content_words(f"{triple.relation} {triple.tail}", lemmas).keys() <= needed.keys()
    ]
    names = dict.fromkeys(name for triple in own for name in (triple.head, triple.relation, triple.tail))
    return sum((content_words(name, lemmas) for name in names), Counter[str]())


@lru_cache(maxsize=16_384)
def is_specific(name: str) -> bool:
    """True when a name can be held to mean the same in every text, as far as its letters tell.

    `DeltaPay`, `EU`, `New York` and `March 2022` do; `film`, `The film`, `His father`, and `Summers`, which may only
    begin a sentence, do not, and neither does a name in a script without capitals.
    """
    parts = name.split()
    while parts and parts[0].casefold() in STOP_WORDS:
        parts = parts[1:]
    if not parts:
        return False
    capitals = sum(character.isupper() for character in parts[0])
    return capitals > 1 or any(part[0].isupper() or part[0].isdigit() for part in parts[1:] if capitals)
