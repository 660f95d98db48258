"""Terms: what a text is about, as numbers that can be compared many at once. Pure.

A term is the hash of a stemmed content word, shifted by one bit that says whether it stands as a name. Two words of 62
equal bits are one term; among the words of a corpus that does not happen, and would cost a little precision if it did.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from threading import Lock

import numpy as np
import snowballstemmer
from numpy.typing import NDArray

from apl.text import content_words

DATE, NUMBER, NAME = 1, 2, 4
"""Bits of `Terms.traits`: a date or year, a number, a name that does not begin the sentence."""

_ALGORITHMS = {
    "ar": "arabic", "hy": "armenian", "eu": "basque", "ca": "catalan", "cs": "czech", "da": "danish", "nl": "dutch",
    "en": "english", "fi": "finnish", "fr": "french", "de": "german", "el": "greek", "hi": "hindi",
    "hu": "hungarian", "id": "indonesian", "ga": "irish", "it": "italian", "lt": "lithuanian", "ne": "nepali",
    "no": "norwegian", "nb": "norwegian", "fa": "persian", "pl": "polish", "pt": "portuguese", "ro": "romanian",
    "ru": "russian", "sr": "serbian", "es": "spanish", "sv": "swedish", "ta": "tamil", "tr": "turkish",
}  # fmt: skip
_MONTHS = "January|February|March|April|June|July|August|September|October|November|December"
_DATE = re.compile(
    rf"\b(?:{_MONTHS})\b|\bMay \d|\b\d{{1,2}} May\b|\b[12]\d{{3}}\b(?![.,]\d)|\b\d{{1,4}}[-/.]\d{{1,2}}[-/.]\d"
)
_NUMBER = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|fifty|hundred|thousand|"
    r"million|billion|dozen)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w+")
_QUALIFIER = re.compile(r"\s*\([^()]*\)\s*\Z")
_lock = Lock()


@dataclass(frozen=True, slots=True)
class Terms:
    """The distinct terms of a text, int64, rising, and what kinds of answers it can hold."""

    values: NDArray[np.int64]
    traits: int = 0


def terms_of(text: str, language: str = "en") -> Terms:
    """The terms of a text; names are words with a capital that do not just begin it."""
    names = _names(text)
    values = sorted((term_of(word, language) << 1) | (word in names) for word in content_words(text))
    return Terms(np.array(values, dtype=np.int64), _traits(text, names))


def traits_of(text: str) -> int:
    """What kinds of answers a text can hold: bits of `DATE`, `NUMBER`, `NAME`."""
    return _traits(text, _names(text))


def _traits(text: str, names: set[str]) -> int:
    return DATE * bool(_DATE.search(text)) | NUMBER * bool(_NUMBER.search(text)) | NAME * bool(names)


def title_terms(title: str, language: str = "en") -> NDArray[np.int64]:
    """The terms by which other texts call what a title names: `Titanic (1997 film)` is called Titanic."""
    bare = _QUALIFIER.sub("", title)
    return np.array(sorted({term_of(word, language) for word in content_words(bare or title)}), dtype=np.int64)


def without_marks(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The terms themselves, whether names or not."""
    return values >> 1


@lru_cache(maxsize=131_072)
def term_of(word: str, language: str = "en") -> int:
    """A number in [0, 2**62) for a casefolded word, the same for its inflections in that language."""
    digest = blake2b(_stemmed(word, language).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 2


def _stemmed(word: str, language: str) -> str:
    if not word.isalpha() or language not in _ALGORITHMS:
        return word
    with _lock:  # a stemmer works on one word at a time
        return str(_stemmer(language).stemWord(word))


@lru_cache(maxsize=8)
def _stemmer(language: str) -> snowballstemmer.stemmer:
    return snowballstemmer.stemmer(_ALGORITHMS[language])


def _names(text: str) -> set[str]:
    """The casefolded words that stand as names."""
    found = [match.group() for match in _WORD.finditer(text)]
    names = {word.casefold() for word in found[1:] if word[0].isupper()}
    if found and found[0][0].isupper() and (_capitals(found[0]) > 1 or (len(found) > 1 and found[1][0].isupper())):
        names.add(found[0].casefold())
    return names


def _capitals(word: str) -> int:
    return sum(character.isupper() for character in word)


def to_bytes(values: NDArray[np.int64]) -> bytes:
    """Little-endian, as they lie in the store."""
    return values.astype("<i8").tobytes()


def from_bytes(blob: bytes) -> NDArray[np.int64]:
    """What `to_bytes` was given."""
    return np.frombuffer(blob, dtype="<i8").astype(np.int64)


def distinct(parts: Iterable[NDArray[np.int64]]) -> NDArray[np.int64]:
    """The distinct terms of several texts, without the marks of names, rising."""
    arrays = list(parts)
    return np.unique(without_marks(np.concatenate(arrays))) if arrays else np.zeros(0, dtype=np.int64)
