"""Who a subject is: names and pronouns that certainly mean the document's title are said of the title.

Certain means: the text opens with a sentence about its title, and every subject since then continues it. A `he` needs
a title that was said to be a person, an `it` one that was not. Everything else keeps its own words, and a pronoun
that is not certain leaves its sentence to be quoted.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from apl.providers.extraction.rules.surface import asides_of
from apl.text import words

Kind = Literal["person", "thing", "group"]

_DISAMBIGUATION = re.compile(r"\s*\([^()]*\)\s*\Z")
_LIVED = re.compile(r"\b(?:born|née|died|b\.|d\.)|\d{4}\s?[-–—]+\s?[\w ,.]*\d{4}", re.IGNORECASE)
_PERSONAL = re.compile(
    r"[^\W\d_a-z][^\W\d_]+(?: (?:[^\W\d_]\.|de|da|van|von|der|bin|al|[^\W\d_a-z][^\W\d_]+(?:[-'][^\W\d_]+)*)){1,3}"
)
_PERSON = re.compile(r"\w(?:er|or|ist|ian|man|woman|ess|ier|eer)\Z")
_PERSONS = frozenset(
    "king queen prince poet saint monk nun priest bishop pope chef athlete coach pilot judge hero artist soprano "
    "tenor bass star model mayor president chief god goddess boy girl mother father son daughter brother sister "
    "wife husband student assistant nurse spy thief host cardinal lord earl duke count baron pastor rabbi imam "
    "knight noble aristocrat diplomat democrat republican fellow native person".split()
)
_THINGS = frozenset(
    "river number chapter center theater newspaper paper letter quarter tower border computer thriller cover "
    "order water power corner parameter summer winter semester cylinder layer filter register cluster helicopter "
    "cruiser carrier destroyer steamer tanker freighter liner container charter barrier harbor motor sector "
    "factor vector reactor tractor error mirror corridor color floor door transmitter router server folder "
    "chamber disorder cancer fever manner matter danger thunder timber fiber rubber copper silver amber flower "
    "shower crater meter diameter business process address access wilderness illness fitness congress press dress "
    "fortress success dinner supper poster banner trailer ladder sewer tier pier frontier glacier chandelier "
    "career".split()
)
_PRONOUNS: dict[str, str] = {"he": "he", "she": "she", "it": "it", "they": "they"}
_CLASSES = {**_PRONOUNS, "his": "he", "her": "she", "its": "it", "their": "they"}
_KINDS: dict[str, Kind] = {"he": "person", "she": "person", "it": "thing", "they": "group"}
_BUILT = frozenset("located situated built released published opened".split())


class Topic:
    """What a passage is about, followed from sentence to sentence in reading order.

    Args:
        title: The document's title; None or empty: nothing is ever resolved.
    """

    def __init__(self, title: str | None) -> None:
        self.title = " ".join((title or "").split())
        bare = _DISAMBIGUATION.sub("", self.title)
        self._names = [_bare_words(name) for name in dict.fromkeys((self.title, bare, bare.split(", ")[0]))]
        self._looks_like_a_person = bool(_PERSONAL.fullmatch(bare))
        self._begun = False
        self._focus = False
        self._kind: Kind | None = None
        self._noun = ""
        self._pronoun = ""

    def is_named(self, text: str) -> bool:
        """True for the title, with or without what tells it from others of its name."""
        said = _bare_words(text)
        return bool(said) and said in self._names

    def may_begin(self, opening: str) -> bool:
        """False when a sentence with these first words surely does not begin with the title."""
        folded = opening.casefold()
        return any(name[0].casefold() in folded for name in self._names if name)

    def is_opened_as(self, name: str, noun: Any) -> bool:
        """True for another way of saying the title, as a text's first sentence introduces it: longer or shortened."""
        if self._begun or not self.title or noun.pos_ != "PROPN":
            return False
        said, own = _bare_words(name), self._names[-1]
        if self._looks_like_a_person and len(own) > 1 and said[-1:] == own[-1:]:
            return True
        rest = iter(said)
        begins = self._looks_like_a_person and said[:1] == own[:1]
        longer = all(word in rest for word in own) and (len(own) * 2 > len(said) or begins)
        return longer or (len(said) * 2 > len(own) and said == own[: len(said)])  # "Boston Red Sox" is not Boston

    def holds(self, name: str) -> bool:
        """True when every word of a name is in the title."""
        return set(_bare_words(name)) <= set(self._names[0])

    def names(self, subject: Any, name: str) -> bool:
        """True when the subject, written `name`, is the title: its name, part of a person's, or a sure pronoun."""
        if not self.title:
            return False
        if subject.tag_ == "PRP":
            return self._continues(subject.lower_)
        part = self._kind == "person" and subject.pos_ == "PROPN" and set(words(name)) <= set(self._names[-1])
        return self.is_named(name) or (part and bool(words(name)))

    def owns(self, subject: Any) -> bool:
        """True when the subject is something of the title's: `its capital`."""
        first = subject.left_edge
        return bool(first.tag_ == "PRP$" and first.head == subject and self._continues(first.lower_))

    def repeats(self, subject: Any) -> bool:
        """True for "the film" of a text that opened with its title being one."""
        named = subject.lemma_.casefold() == self._noun and subject.left_edge.lower_ in ("the", "this")
        return self._begun and bool(self._noun) and named and subject.i - subject.left_edge.i == 1

    def follow(self, verb: Any, subject: Any, *, is_topic: bool, by_name: bool = False) -> None:
        """Note a sentence's main clause before the next one is read; `by_name`: the title itself, "You and I"."""
        pronoun = _PRONOUNS.get(subject.lower_, "") if subject.tag_ == "PRP" and not by_name else ""
        if is_topic and pronoun:
            self._pronoun = pronoun
            self._kind = _KINDS[pronoun]
        elif is_topic and self._kind is None:
            self._kind = self._kind_by(verb, subject)
        aside = self._kind == "person" and subject.pos_ == "NOUN" and not _is_person(subject)
        aside = aside and (subject.left_edge.tag_ != "PRP$" or self._continues(subject.left_edge.lower_))
        self._focus = is_topic or (self._focus and aside)
        self._begun = True

    def lose(self) -> None:
        """Note a sentence whose subject is unknown."""
        self._focus = False
        self._begun = True

    def _continues(self, pronoun: str) -> bool:
        wanted = _CLASSES.get(pronoun, "")
        if not self.title or not wanted or self._pronoun not in ("", wanted):
            return False
        personal = wanted in ("he", "she")
        if not self._begun:  # a text that begins with "it" may go on from what another passage said
            return personal and self._looks_like_a_person
        if self._kind is None:
            return self._focus and wanted != "they" and personal == self._looks_like_a_person
        return self._focus and _KINDS[wanted] == self._kind

    def _kind_by(self, verb: Any, subject: Any) -> Kind | None:
        """What kind of thing the title is, as a sentence about it tells."""
        noun = next((c for c in verb.rights if c.dep_ == "attr"), None)
        if noun is not None and noun.lower_ == "one":  # "one of the regions"
            noun = next((t for t in noun.subtree if t.dep_ == "pobj" and t.head.head == noun), None)
        self._noun = noun.lemma_.casefold() if noun is not None else self._noun
        if subject.left_edge.lower_ == "the" or verb.lower_ in _BUILT:
            many = subject.tag_ in ("NNS", "NNPS") and any(t.tag_ == "VBP" for t in (verb, *verb.lefts))
            return "group" if many else "thing"
        lived = any(_LIVED.search(aside) for token in subject.subtree for aside in asides_of(token))
        if lived or verb.lower_ == "born" or (noun is not None and _is_person(noun)):
            return "person"
        return "thing" if noun is not None and noun.pos_ in ("NOUN", "PROPN") else None


def _bare_words(name: str) -> list[str]:
    """The words of a name without a leading article."""
    said = words(name)
    return said[1:] if len(said) > 1 and said[0] in ("the", "a", "an") else said


def _is_person(noun: Any) -> bool:
    lemma = noun.lemma_.casefold()
    return lemma in _PERSONS or (lemma not in _THINGS and bool(_PERSON.search(lemma)))
