"""The English dependency rules on any tree a parser could come up with: no exception, no word that is not there."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apl.providers.extraction.rules.clauses import sentence_triples
from apl.providers.extraction.rules.reference import Topic
from apl.providers.extraction.rules.surface import telegraphic

pytestmark = pytest.mark.skipif(importlib.util.find_spec("spacy") is None, reason="spaCy is not installed")

TITLE = "Title name"
WORDS = "the The a was is has been to that which who It she his its and but ; , . - ( ) \" '' `` not may Title name one".split()
DEPS = (
    "nsubj nsubjpass dobj pobj prep agent attr acomp aux auxpass advcl advmod amod appos cc ccomp conj det expl mark neg "
    "npadvmod parataxis pcomp poss prt punct relcl xcomp csubj oprd dative"
).split()
TAGS = {
    "VERB": ["VBD", "VBZ", "VBP", "VBN", "VBG", "VB"],
    "AUX": ["VBZ", "VBD", "MD", "VBN"],
    "NOUN": ["NN", "NNS"],
    "PROPN": ["NNP", "NNPS"],
    "PRON": ["PRP", "PRP$", "WP", "WDT"],
    "ADP": ["IN"],
    "DET": ["DT"],
    "PUNCT": [",", ":", "``"],
    "ADV": ["RB", "WRB"],
    "NUM": ["CD"],
    "CCONJ": ["CC"],
}


@cache
def vocab() -> Any:
    from spacy.vocab import Vocab

    return Vocab()


def grow(draw: st.DrawFn, low: int, high: int, parent: int, heads: list[int]) -> int:
    """Hang the words of [low, high) on one of them, and that one on the parent; most parsers' trees never cross."""
    top = draw(st.integers(low, high - 1))
    heads[top] = top if parent < 0 else parent
    for start, end in ((low, top), (top + 1, high)):
        while start < end:
            stop = draw(st.integers(start + 1, end))
            grow(draw, start, stop, top, heads)
            start = stop
    return top


@st.composite
def docs(draw: st.DrawFn) -> Any:
    """A doc with random words, tags and one random tree; often with a finite verb and a subject."""
    from spacy.tokens import Doc

    size = draw(st.integers(1, 14))
    heads = [0] * size
    top = grow(draw, 0, size, -1, heads)
    if draw(st.integers(0, 9)) == 0:  # and some do cross
        heads = [head if k == top or draw(st.booleans()) else top for k, head in enumerate(heads)]
    pos = [draw(st.sampled_from(sorted(TAGS))) for _ in range(size)]
    tags = [draw(st.sampled_from(TAGS[one])) for one in pos]
    deps = ["ROOT" if heads[k] == k else draw(st.sampled_from(DEPS)) for k in range(size)]
    words = [draw(st.sampled_from(WORDS) | st.just(f"w{number}")) for number in range(size)]
    subject = next((k for k in range(top) if heads[k] == top), None)
    if subject is not None and draw(st.integers(0, 4)):
        pos[top], tags[top], words[top] = "VERB", draw(st.sampled_from(["VBD", "VBZ", "VBN"])), "sold"
        pos[subject], tags[subject], deps[subject] = draw(
            st.sampled_from([("PROPN", "NNP", "nsubj"), ("NOUN", "NN", "nsubjpass"), ("PRON", "PRP", "nsubj")])
        )
    doc = Doc(
        vocab(),
        words=words,
        spaces=[draw(st.booleans()) or word.isalnum() for word in words],
        pos=pos,
        tags=tags,
        deps=deps,
        heads=heads,
        lemmas=[word.lower() for word in words],
    )
    if draw(st.booleans()):
        doc.user_data[("aside", draw(st.integers(0, size - 1)))] = ["born 1970"]
    return doc


@settings(max_examples=150, deadline=None)
@given(
    st.lists(docs(), min_size=1, max_size=3), st.sampled_from([TITLE, "", "It", "You", "She (name)", "the name of one"])
)
def test_any_tree_gives_edges_of_its_own_words(parsed: list[Any], title: str) -> None:
    """Whatever the parser says: every word of an edge is the sentence's or the title's, and no part is empty."""
    topic = Topic(title)
    for doc in parsed:
        known = f"{doc.text} {title} born 1970 is are".casefold()
        for triple in sentence_triples(doc, topic):
            assert triple.head.strip()
            assert triple.relation.strip()
            assert triple.tail.strip()
            for word in re.findall(r"\w+", f"{triple.head} {triple.relation} {triple.tail}".casefold()):
                assert word in known, (word, triple)
        assert len(telegraphic(doc)) <= len(doc.text) + len(" (born 1970)")
