"""Names, content words and the coverage guard: pure functions on strings, used everywhere.

Sources: normal form `spec 1`; coverage guard `spec 5`; content words are any word outside one frozen stop list, every
number, date, negation, symbol and piece of code.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from apl.symbols import Sentence, SentenceKind, Triple

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


def is_specific(name: str) -> bool:
    """True when a name means the same in every text: one in small letters, such as `film`, may not."""
    return name != name.lower() or name == name.upper()


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
    dashes are no tokens; `n't` is `not`; a minus sign before a number belongs to it. A function word in capitals keeps
    them: US and WHO are names.
    """
    text = unicodedata.normalize("NFKC", text).replace("’", "'")
    minus = {match.start() for match in _NEGATIVE_NUMBER.finditer(text)}
    found: list[str] = []
    for match in _WORD.finditer(text):
        token = match.group().casefold()
        if match.lastgroup == "symbol":
            if match.start() in minus:
                found.append("-")
            elif token in _SYMBOLS or (token not in _DASHES and unicodedata.category(token)[0] == "S"):
                found.append(token)
        elif match.lastgroup == "word" and token == "t" and text[: match.start()][-2:].casefold() == "n'":
            _undo_contraction(found)
        elif token in STOP_WORDS and _is_acronym(match.group()):
            found.append(match.group())
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
