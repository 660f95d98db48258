"""Does a sentence say what a model read in it? Checked on words, so that inventions and injections fall out. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from apl.symbols import Triple
from apl.text import NEGATIONS, STOP_WORDS, content_words, is_pronoun, words

MODALS = frozenset("may might can could must shall should will would".split())
"""Words that say a statement is not, or not yet, a fact."""

MAX_OWN_WORDS = 2
"""Content words a relation may have that the text has not, as in "was founded by" for "founder". A choice of this
project."""

_NUMBER_PARTS = re.compile(r"(?<=\d)[-–/:](?=\d)")


@dataclass(frozen=True, slots=True)
class Ground:
    """The words a fact may be made of: those of its sentence, and those of the headings it stands under."""

    said: tuple[str, ...]
    present: frozenset[str]
    titles: frozenset[str]


def ground_of(sentence: str, titles: Iterable[str]) -> Ground:
    """The words of a sentence and of its headings."""
    said = tuple(words(sentence))
    return Ground(said, _with_parts(said), _with_parts(word for title in titles for word in words(title)))


def _with_parts(found: Iterable[str]) -> frozenset[str]:
    """Words, the ends of ranges such as 1990-1995, and function words in any case."""
    known = set(found)
    known |= {part for word in known if word[:1].isdigit() for part in _NUMBER_PARTS.split(word)}
    return frozenset(known | {word.casefold() for word in known if word.casefold() in STOP_WORDS})


def is_supported(triple: Triple, ground: Ground) -> bool:
    """True when the sentence, with its headings, can be what states this fact.

    Every content word of head and tail has to be in the sentence or a heading, and at least one in the sentence. Of the
    relation, numbers and negations have to be in the sentence and names in it or a heading, and no more than
    `MAX_OWN_WORDS` may be the model's own: relations are paraphrased, but nothing is to hide in them. A bare pronoun
    names nothing, and see `turns_round`.
    """
    if is_pronoun(triple.head) or is_pronoun(triple.tail):
        return False
    head, tail = (content_words(part).keys() for part in (triple.head, triple.tail))
    if not head or not tail:
        return False
    strict = {word for word in content_words(triple.relation) if _is_strict(word)} | (head | tail) & NEGATIONS
    return (
        all(_is_in(word, ground.present) or _is_in(word, ground.titles) for word in head | tail)
        and any(_is_in(word, ground.present) for word in head | tail)
        and all(_is_in(word, ground.present) for word in strict)
        and _is_modest(triple.relation, ground)
        and not turns_round(triple, ground)
    )


def _is_modest(relation: str, ground: Ground) -> bool:
    """True when a relation brings no name and not many words that the text does not have."""
    own = [word for word in content_words(relation) if not (word in ground.present or word in ground.titles)]
    names = {word for shown in relation.split()[1:] if shown[:1].isupper() for word in content_words(shown)}
    return len(own) <= MAX_OWN_WORDS and not names & set(own)


def turns_round(triple: Triple, ground: Ground) -> bool:
    """True when a fact leaves out the "not" or the "may" of the stretch of the sentence it is made of.

    "It was *not* subject to the act" read as "subject to | act" says the opposite of the text. The stretch is the
    shortest that holds the fact's content words, with the word before it, and begins with the sentence where the head
    is not in it (a pronoun was resolved). A fact that goes for this leaves its sentence to be quoted, so a harmless
    one that only stands around another's "not" costs tokens, not truth.
    """
    head = content_words(triple.head).keys()
    told = set(words(f"{triple.head} {triple.relation} {triple.tail}"))
    named = (head | content_words(f"{triple.relation} {triple.tail}").keys()) & set(ground.said)
    first, last = _stretch(ground.said, named)
    if not head & set(ground.said):
        first = 0
    stretch = set(ground.said[max(0, first - 1) : last + 1])
    return any(stretch & kind and not told & kind for kind in (NEGATIONS, MODALS))


def _stretch(said: Sequence[str], named: Set[str]) -> tuple[int, int]:
    """First and last place of the shortest stretch that holds all the named words."""
    held: Counter[str] = Counter()
    best, start = (0, len(said) - 1), 0
    for end, word in enumerate(said):
        if word in named:
            held[word] += 1
        while len(held) == len(named) and start <= end:
            if end - start < best[1] - best[0]:
                best = (start, end)
            if said[start] in named:
                held[said[start]] -= 1
                if not held[said[start]]:
                    del held[said[start]]
            start += 1
    return best


def _is_in(word: str, present: frozenset[str]) -> bool:
    """True for a word of the text; a function word in any case, a number also before another quotation mark."""
    if word in present or (word.casefold() in STOP_WORDS and word.casefold() in present):
        return True
    return word[0].isdigit() and word.rstrip("\"'") in present


def _is_strict(word: str) -> bool:
    return word in NEGATIONS or any(character.isdigit() for character in word)
