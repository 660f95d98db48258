"""The rules for other languages, on sentences that were parsed by hand as their treebanks do it."""

from __future__ import annotations

import importlib.util
import re
from functools import lru_cache
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apl.providers.extraction.rules.universal import labels_of, universal_triples
from apl.text import is_carried

pytestmark = pytest.mark.skipif(importlib.util.find_spec("spacy") is None, reason="spaCy is not installed")

Edge = tuple[str, str, str]

NONE: list[Edge] = []


@lru_cache
def vocab(language: str) -> Any:
    """The vocabulary of a language, without its tokenizer, which takes seconds to make."""
    from spacy.attrs import LANG
    from spacy.lang.lex_attrs import LEX_ATTRS
    from spacy.vocab import Vocab

    return Vocab(lex_attr_getters={**LEX_ATTRS, LANG: lambda _: language})


def parsed(text: str, rows: str, language: str = "xx") -> Any:
    """A doc of one sentence; a row is `word POS label head`, heads counted from 1, 0 for the root, and `+Name=Value`."""
    from spacy.tokens import Doc

    cells = [row.split() for row in rows.strip().splitlines()]
    spaces, at = [], 0
    for word, *_ in cells:
        assert text.startswith(word, at), (word, text[at:])
        at += len(word)
        spaces.append(text.startswith(" ", at))
        at += spaces[-1]
    assert at == len(text)
    return Doc(
        vocab(language),
        words=[cell[0] for cell in cells],
        spaces=spaces,
        pos=[cell[1] for cell in cells],
        deps=[cell[2] for cell in cells],
        heads=[int(cell[3]) - 1 if cell[3] != "0" else number for number, cell in enumerate(cells)],
        morphs=["".join(cell[4:]).removeprefix("+") for cell in cells],
    )


def read(doc: Any, title: str | None = None) -> list[Edge]:
    return [(triple.head, triple.relation, triple.tail) for triple in universal_triples(doc, title)]


SPANISH_PASSIVE = """
DeltaPay PROPN nsubj:pass 3
fue AUX aux:pass 3
comprada VERB ROOT 0
por ADP case 5
Northstar PROPN obl:agent 3
en ADP case 7
marzo NOUN obl 3
. PUNCT punct 3
"""

SENTENCES = [
    pytest.param(
        "es",
        "DeltaPay fue comprada por Northstar en marzo.",
        SPANISH_PASSIVE,
        [("DeltaPay", "fue comprada por", "Northstar en marzo")],
        id="Spanish passive",
    ),
    pytest.param(
        "es",
        "En 2022, Northstar no compró DeltaPay.",
        """
        En ADP case 2
        2022 NUM obl 6
        , PUNCT punct 2
        Northstar PROPN nsubj 6
        no ADV advmod 6
        compró VERB ROOT 0
        DeltaPay PROPN obj 6
        . PUNCT punct 6
        """,
        [("Northstar", "no compró", "DeltaPay en 2022")],
        id="Spanish, a phrase in front and a negation",
    ),
    pytest.param(
        "es",
        "La capital de Italia es Roma.",
        """
        La DET det 2
        capital NOUN nsubj 6
        de ADP case 4
        Italia PROPN nmod 2
        es AUX cop 6
        Roma PROPN ROOT 0
        . PUNCT punct 6
        """,
        [("La capital de Italia", "es", "Roma")],
        id="Spanish copula",
    ),
    pytest.param(
        "es",
        "Murió Juan en 1990.",
        """
        Murió VERB ROOT 0
        Juan PROPN nsubj 1
        en ADP case 4
        1990 NUM obl 1
        . PUNCT punct 1
        """,
        [("Juan", "murió en", "1990")],
        id="Spanish, the verb first",
    ),
    pytest.param(
        "fr",
        "Northstar, une société irlandaise, a racheté DeltaPay et CloudCo a signé un contrat.",
        """
        Northstar PROPN nsubj 8
        , PUNCT punct 4
        une DET det 4
        société NOUN appos 1
        irlandaise ADJ amod 4
        , PUNCT punct 4
        a AUX aux:tense 8
        racheté VERB ROOT 0
        DeltaPay PROPN obj 8
        et CCONJ cc 13
        CloudCo PROPN nsubj 13
        a AUX aux:tense 13
        signé VERB conj 8
        un DET det 15
        contrat NOUN obj 13
        . PUNCT punct 8
        """,
        [
            ("Northstar", "une société irlandaise, a racheté", "DeltaPay"),
            ("CloudCo", "et a signé", "un contrat"),
        ],
        id="French apposition and a second clause",
    ),
    pytest.param(
        "de",
        "Im März 2022 hat Northstar DeltaPay nicht übernommen.",
        """
        Im ADP mo 8
        März NOUN nk 1
        2022 NUM nk 2
        hat AUX ROOT 0
        Northstar PROPN sb 4
        DeltaPay PROPN oa 8
        nicht PART ng 8
        übernommen VERB oc 4
        . PUNCT punct 4
        """,
        [("Northstar", "hat", "DeltaPay nicht übernommen im März 2022")],
        id="German, the verb second, TIGER",
    ),
    pytest.param(
        "de",
        "Northstar lehnte das Angebot ab und CloudCo unterschrieb den Vertrag.",
        """
        Northstar PROPN sb 2
        lehnte VERB ROOT 0
        das DET nk 4
        Angebot NOUN oa 2
        ab ADP svp 2
        und CCONJ cd 2
        CloudCo PROPN sb 8
        unterschrieb VERB cj 6
        den DET nk 10
        Vertrag NOUN oa 8
        . PUNCT punct 2
        """,
        [("Northstar", "lehnte", "das Angebot ab"), ("CloudCo", "und unterschrieb", "den Vertrag")],
        id="German separable verb and a second clause, TIGER",
    ),
    pytest.param(
        "de",
        "Dublin ist die Hauptstadt von Irland.",
        """
        Dublin PROPN sb 2
        ist AUX ROOT 0
        die DET nk 4
        Hauptstadt NOUN pd 2
        von ADP pg 4
        Irland PROPN nk 5
        . PUNCT punct 2
        """,
        [("Dublin", "ist", "die Hauptstadt von Irland")],
        id="German copula, TIGER",
    ),
    pytest.param(
        "de",
        "Im März wurde DeltaPay von Northstar übernommen.",
        """
        Im ADP case 2
        März NOUN obl 7
        wurde AUX aux:pass 7
        DeltaPay PROPN nsubj:pass 7
        von ADP case 6
        Northstar PROPN obl:agent 7
        übernommen VERB ROOT 0
        . PUNCT punct 7
        """,
        [("DeltaPay", "wurde von", "Northstar übernommen im März")],
        id="German, the subject inside the verb group, UD",
    ),
    pytest.param(
        "pt",
        "A capital da Itália é Roma.",
        """
        A DET det 2
        capital NOUN nsubj 6
        da ADP case 4
        Itália PROPN nmod 2
        é AUX cop 6
        Roma PROPN ROOT 0
        . PUNCT punct 6
        """,
        [("capital da Itália", "é", "Roma")],
        id="Portuguese copula",
    ),
    pytest.param(
        "it",
        "Se piove, Northstar vuole comprare DeltaPay.",
        """
        Se SCONJ mark 2
        piove VERB advcl 5
        , PUNCT punct 2
        Northstar PROPN nsubj 5
        vuole VERB ROOT 0
        comprare VERB xcomp 5
        DeltaPay PROPN obj 6
        . PUNCT punct 5
        """,
        [("Northstar", "vuole comprare", "DeltaPay, se piove")],
        id="Italian condition",
    ),
    pytest.param(
        "xx",
        "東京は日本の首都です。",
        """
        東京 PROPN nsubj 5
        は ADP case 1
        日本 PROPN nmod 5
        の ADP case 3
        首都 NOUN ROOT 0
        です AUX cop 5
        。 PUNCT punct 5
        """,
        [("東京", "は", "日本の首都です")],
        id="Japanese copula",
    ),
    pytest.param(
        "xx",
        "2022年、東京電力は会社を買収した。",
        """
        2022 NUM nummod 2
        年 NOUN obl 8
        、 PUNCT punct 2
        東京電力 PROPN nsubj 8
        は ADP case 4
        会社 NOUN obj 8
        を ADP case 6
        買収 VERB ROOT 0
        し AUX aux 8
        た AUX aux 8
        。 PUNCT punct 8
        """,
        [("東京電力", "は会社を", "買収した、2022年")],
        id="Japanese, the verb last and a time in front",
    ),
    pytest.param(
        "xx",
        "北京是中国的首都。",
        """
        北京 PROPN nsubj 5
        是 AUX cop 5
        中国 PROPN nmod 5
        的 PART case 3
        首都 NOUN ROOT 0
        。 PUNCT punct 5
        """,
        [("北京", "是", "中国的首都")],
        id="Chinese copula",
    ),
    pytest.param(
        "tr",
        "Northstar Mart ayında DeltaPay'i satın aldı.",
        """
        Northstar PROPN nsubj 6
        Mart PROPN nmod 3
        ayında NOUN obl 6
        DeltaPay'i PROPN obj 6
        satın NOUN compound:lvc 6
        aldı VERB ROOT 0
        . PUNCT punct 6
        """,
        [("Northstar", "Mart ayında DeltaPay'i satın", "aldı")],
        id="Turkish, the verb last",
    ),
    pytest.param(
        "fi",
        "Helsinki on Suomen pääkaupunki.",
        """
        Helsinki PROPN nsubj:cop 4
        on AUX cop 4
        Suomen PROPN nmod:poss 4
        pääkaupunki NOUN ROOT 0
        . PUNCT punct 4
        """,
        [("Helsinki", "on", "Suomen pääkaupunki")],
        id="Finnish copula",
    ),
    pytest.param(
        "ar",
        "اشترت نورثستار دلتاباي في 2022.",
        """
        اشترت VERB ROOT 0
        نورثستار PROPN nsubj 1
        دلتاباي PROPN obj 1
        في ADP case 5
        2022 NUM obl 1
        . PUNCT punct 1
        """,
        [("نورثستار", "اشترت", "دلتاباي في 2022")],
        id="Arabic, the verb first",
    ),
    pytest.param(
        "hi",
        "दिल्ली भारत की राजधानी है।",
        """
        दिल्ली PROPN nsubj 4
        भारत PROPN nmod 4
        की ADP case 2
        राजधानी NOUN ROOT 0
        है AUX cop 4
        । PUNCT punct 4
        """,
        [("दिल्ली", "भारत की राजधानी", "है")],
        id="Hindi, the copula last",
    ),
    pytest.param(
        "en",
        "The price of DeltaPay has never been published.",
        """
        The DET det 2
        price NOUN nsubj:pass 8
        of ADP case 4
        DeltaPay PROPN nmod 2
        has AUX aux 8
        never ADV advmod 8
        been AUX aux:pass 8
        published VERB ROOT 0
        . PUNCT punct 8
        """,
        [("price of DeltaPay", "has never been", "published")],
        id="English passive, UD",
    ),
    pytest.param(
        "en",
        "DeltaPay is subject to the act and grew in 2022.",
        """
        DeltaPay PROPN nsubj 3
        is AUX cop 3
        subject ADJ ROOT 0
        to ADP case 6
        the DET det 6
        act NOUN obl 3
        and CCONJ cc 8
        grew VERB conj 3
        in ADP case 10
        2022 NUM obl 8
        . PUNCT punct 3
        """,
        [("DeltaPay", "is", "subject to the act and grew in 2022")],
        id="English, verbs that share a subject, UD",
    ),
]


@pytest.mark.parametrize(("language", "text", "rows", "expected"), SENTENCES)
def test_an_edge_reads_as_its_clause(language: str, text: str, rows: str, expected: list[Edge]) -> None:
    """And together the edges carry the sentence."""
    doc = parsed(text, rows, language)
    assert read(doc) == expected
    assert is_carried(text, universal_triples(doc))


@pytest.mark.parametrize(
    ("language", "text", "rows"),
    [
        pytest.param(
            "es",
            "Ella compró DeltaPay.",
            "Ella PRON nsubj 2\ncompró VERB ROOT 0\nDeltaPay PROPN obj 2\n. PUNCT punct 2",
            id="a pronoun",
        ),
        pytest.param(
            "es",
            "Compró DeltaPay en 2022.",
            "Compró VERB ROOT 0\nDeltaPay PROPN obj 1\nen ADP case 4\n2022 NUM obl 1\n. PUNCT punct 1",
            id="no subject",
        ),
        pytest.param(
            "es",
            "Su capital es Roma.",
            "Su DET det 2 +Poss=Yes\ncapital NOUN nsubj 4\nes AUX cop 4\nRoma PROPN ROOT 0\n. PUNCT punct 4",
            id="whose capital",
        ),
        pytest.param(
            "fr",
            "Northstar a racheté DeltaPay ?",
            "Northstar PROPN nsubj 3\na AUX aux 3\nracheté VERB ROOT 0\nDeltaPay PROPN obj 3\n? PUNCT punct 3",
            id="a question",
        ),
        pytest.param(
            "de",
            "DeltaPay übernahm Northstar.",
            "DeltaPay PROPN oa 2\nübernahm VERB ROOT 0\nNorthstar PROPN sb 2\n. PUNCT punct 2",
            id="an object in front of the verb, which a parser may have taken for one",
        ),
        pytest.param(
            "de",
            "Zahlt Northstar, wächst DeltaPay.",
            "Zahlt VERB mo 4\nNorthstar PROPN sb 1\n, PUNCT punct 4\nwächst VERB ROOT 0\nDeltaPay PROPN sb 4\n. PUNCT punct 4",
            id="a condition without a conjunction",
        ),
        pytest.param(
            "de",
            "Übernimmt Northstar DeltaPay!",
            "Übernimmt VERB ROOT 0\nNorthstar PROPN sb 1\nDeltaPay PROPN oa 1\n! PUNCT punct 1",
            id="the verb first in a language with the verb second",
        ),
        pytest.param(
            "es",
            "«DeltaPay crece», dijo Ana.",
            "« PUNCT punct 3\nDeltaPay PROPN nsubj 3\ncrece VERB ccomp 6\n» PUNCT punct 3\n, PUNCT punct 3\ndijo VERB ROOT 0\nAna PROPN nsubj 6\n. PUNCT punct 6",
            id="reported speech ahead of its speaker",
        ),
        pytest.param(
            "sv",
            "Aldrig köpte Northstar DeltaPay.",
            "Aldrig ADV advmod 2 +Polarity=Neg\nköpte VERB ROOT 0\nNorthstar PROPN nsubj 2\nDeltaPay PROPN obj 2\n. PUNCT punct 2",
            id="a negation in front",
        ),
        pytest.param(
            "es",
            "Que Northstar compre DeltaPay.",
            "Que SCONJ mark 3\nNorthstar PROPN nsubj 3\ncompre VERB ROOT 0\nDeltaPay PROPN obj 3\n. PUNCT punct 3",
            id="a clause that hangs on nothing",
        ),
        pytest.param("ru", "Москва.", "Москва PROPN ROOT 0\n. PUNCT punct 1", id="no clause"),
    ],
)
def test_where_unsure_there_is_no_edge(language: str, text: str, rows: str) -> None:
    """The sentence goes out as a quote."""
    assert read(parsed(text, rows, language)) == NONE


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (
            "Juan compra o Ana vende.",
            "Juan PROPN nsubj 2\ncompra VERB ROOT 0\no CCONJ cc 5\nAna PROPN nsubj 5\nvende VERB conj 2\n. PUNCT punct 2",
        ),
        (
            "Si llueve, Juan compra y Ana vende.",
            "Si SCONJ mark 2\nllueve VERB advcl 5\n, PUNCT punct 2\nJuan PROPN nsubj 5\ncompra VERB ROOT 0\ny CCONJ cc 8\nAna PROPN nsubj 8\nvende VERB conj 5\n. PUNCT punct 5",
        ),
        (
            "Juan dice que Ana compra y Eva vende.",
            "Juan PROPN nsubj 2\ndice VERB ROOT 0\nque SCONJ mark 5\nAna PROPN nsubj 5\ncompra VERB ccomp 2\ny CCONJ cc 8\nEva PROPN nsubj 8\nvende VERB conj 2\n. PUNCT punct 2",
        ),
    ],
)
def test_what_holds_together_is_not_split(text: str, rows: str) -> None:
    """`or`, a condition ahead of both halves, and a report that may reach over both, stay in one edge."""
    assert [head for head, _, _ in read(parsed(text, rows, "es"))] == ["Juan"]


def test_a_subject_called_like_the_title_is_said_of_it() -> None:
    """So that it meets the document's other edges."""
    doc = parsed("DeltaPay fue comprada por Northstar en marzo.", SPANISH_PASSIVE, "es")
    assert read(doc, "DeltaPay (empresa)") == [("DeltaPay (empresa)", "fue comprada por", "Northstar en marzo")]


def test_asides_are_kept() -> None:
    """What `unparsed` took out of the sentence stands behind its word again, and behind a head in the relation."""
    doc = parsed("DeltaPay fue comprada por Northstar en marzo.", SPANISH_PASSIVE, "es")
    doc.user_data["aside", 0] = ["antes DP"]
    doc.user_data["aside", 4] = ["NST"]
    assert read(doc) == [("DeltaPay", "(antes DP) fue comprada por", "Northstar (NST) en marzo")]


# --- label sets -------------------------------------------------------------------------------------------------------


class Pipeline:
    """What `labels_of` asks of a spaCy `Language`."""

    def __init__(self, labels: str | None, *, name: str = "parser") -> None:
        self._labels = labels
        self.pipe_names = ["tagger", name]

    def get_pipe_meta(self, name: str) -> Any:
        return type("Meta", (), {"assigns": ["token.tag"] if name == "tagger" else ["token.dep", "token.head"]})

    def get_pipe(self, name: str) -> Any:
        if name == "tagger":
            return type("Tagger", (), {"labels": ("NOUN", "prep", "pobj", "attr")})
        return type("Parser", (), {} if self._labels is None else {"labels": tuple(self._labels.split())})


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("ROOT acl acomp advcl agent attr aux auxpass case cc conj dobj nmod nsubj nsubjpass pobj poss prep", "clear"),
        ("ROOT acl acl:relcl aux aux:pass case cc conj cop det nmod nsubj nsubj:pass obj obl punct", "universal"),
        ("ROOT acl advmod aux:asp auxpass case cop dobj nmod:assmod nmod:prep nsubj nsubjpass", "universal"),
        ("ROOT ac app cc cd cj da mo ng nk oa oc op pd pg sb svp", "tiger"),
        ("ROOT dep", "unknown"),
        ("", "unknown"),
        (None, "unknown"),
    ],
)
def test_the_label_set_is_told_by_the_parser(labels: str | None, expected: str) -> None:
    """English, Spanish, Chinese, German, and parsers that tell nothing, whatever the pipe is called."""
    assert labels_of(Pipeline(labels)) == expected
    assert labels_of(Pipeline(labels, name="biaffine")) == expected


def test_the_label_set_is_told_by_a_doc() -> None:
    """Where a parser does not list its labels, what it wrote does."""
    assert labels_of(parsed("DeltaPay fue comprada por Northstar en marzo.", SPANISH_PASSIVE, "es")) == "universal"
    assert labels_of(parsed("x y", "x NOUN sb 2\ny VERB ROOT 0", "de")) == "tiger"
    assert labels_of(parsed("x y", "x NOUN nsubj 2\ny VERB ROOT 0")) == "unknown"


def test_a_real_pipeline_tells_its_labels() -> None:
    """A spaCy parser with labels of its own."""
    import spacy

    language = spacy.blank("xx")
    assert labels_of(language) == "unknown"
    parser = language.add_pipe("parser")
    for label in ("nsubj", "obj", "obl", "case"):
        parser.add_label(label)
    assert labels_of(language) == "universal"


# --- properties -------------------------------------------------------------------------------------------------------

LABELS = (
    "nsubj nsubj:pass sb obj obl case cop aux aux:pass conj cc cd cj advmod mo nmod det punct xcomp oc ccomp advcl mark "
    "parataxis appos acl:relcl amod ng expl svp"
).split()
TAGS = "NOUN PROPN VERB AUX ADP ADV PRON DET ADJ NUM PUNCT CCONJ PART".split()
CONJUNCTIONS = ("y", "und", "or")
MARKS = (",", "(", ")", "-", "。", ";", '"', "«", "北")


@st.composite
def trees(draw: st.DrawFn) -> dict[str, Any]:
    """A random tree over words that occur once, with marks and conjunctions among them; most roots have a subject."""
    size = draw(st.integers(1, 12))
    order = draw(st.permutations(range(size)))
    heads = [0] * size
    for rank, token in enumerate(order):
        heads[token] = order[draw(st.integers(0, min(rank - 1, 4)))] if rank else token
    deps = ["ROOT" if heads[k] == k else draw(st.sampled_from(LABELS)) for k in range(size)]
    tags = [draw(st.sampled_from(TAGS)) for _ in range(size)]
    if size > 1 and draw(st.integers(0, 9)):
        tags[order[0]] = draw(st.sampled_from(["VERB", "NOUN"]))
        deps[order[1]], tags[order[1]] = draw(st.sampled_from(["nsubj", "sb"])), "PROPN"
    words = [
        draw(st.sampled_from(CONJUNCTIONS if dep in ("cc", "cd") else MARKS)) if dep in ("cc", "cd", "punct") else word
        for dep, word in zip(deps, (f"{draw(st.sampled_from('Ww'))}{number}x" for number in range(size)), strict=True)
    ]
    spaces = [word not in MARKS or draw(st.booleans()) for word in words]
    return {"words": words, "spaces": spaces, "pos": tags, "deps": deps, "heads": heads}


def _doc(tree: dict[str, Any], language: str) -> Any:
    from spacy.tokens import Doc

    return Doc(vocab(language), **tree)


@settings(max_examples=150, deadline=None)
@given(trees(), st.sampled_from(["xx", "de"]))
def test_no_tree_makes_a_false_word_or_order(tree: dict[str, Any], language: str) -> None:
    """Heads are stretches, what is said of them keeps its order but for what stood in front, no word is made up."""
    doc = _doc(tree, language)
    seen: list[int] = []
    for triple in universal_triples(doc):
        assert all((triple.head, triple.relation, triple.tail))
        head, said = (_places(text) for text in (triple.head, f"{triple.relation} {triple.tail}"))
        assert head == sorted(head)
        assert not [place for place in said if head[0] < place < head[-1]]
        assert sum(high < low for low, high in pairwise(said)) <= 1
        seen += head + said
    assert len(seen) == len(set(seen))
    assert set(seen) <= set(_places(doc.text))


@settings(max_examples=150, deadline=None)
@given(trees())
def test_no_word_of_a_clause_is_lost(tree: dict[str, Any]) -> None:
    """Where each clause has an edge, the edges say every word; with one subject, the one edge does."""
    doc = _doc(tree, "xx")
    found = universal_triples(doc)
    if len(found) == sum(dep in ("nsubj", "nsubj:pass", "sb") for dep in tree["deps"]):
        said = " ".join(f"{triple.head} {triple.relation} {triple.tail}" for triple in found)
        assert not found or set(_places(said)) == set(_places(doc.text))


def _places(text: str) -> list[int]:
    """The numbers of a text's words in their order."""
    return [int(number) for number in re.findall(r"[wW](\d+)x", text)]
