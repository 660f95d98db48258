"""The paper's Northstar/DeltaPay story as press releases with their triples: what both adapters are tested with.

Every release ends with the same boilerplate, as real ones do, so that the outline is smaller than the host's text.
"""

from __future__ import annotations

from typing import Any

Fact = tuple[str, tuple[str, str, str] | None]

NORTHSTAR = "Northstar Holdings Group"
QUESTION = "Which subsidiaries did Northstar acquire after 2021?"

BOILERPLATE: tuple[Fact, ...] = (
    (
        f"{NORTHSTAR} runs payment networks across northern Europe.",
        (NORTHSTAR, "runs", "payment networks across northern Europe"),
    ),
    (f"{NORTHSTAR} was founded in Bergen in 1998.", (NORTHSTAR, "was founded in", "Bergen in 1998")),
    (
        f"{NORTHSTAR} employs 4,200 people in nine countries.",
        (NORTHSTAR, "employs", "4,200 people in nine countries"),
    ),
    (
        f"{NORTHSTAR} is listed on the Oslo stock exchange.",
        (NORTHSTAR, "is listed on", "the Oslo stock exchange"),
    ),
)
RELEASES: dict[str, tuple[Fact, ...]] = {
    "purchase": (
        (f"{NORTHSTAR} acquired DeltaPay in March 2022.", (NORTHSTAR, "acquired", "DeltaPay in March 2022")),
        (
            f"{NORTHSTAR} paid 310 million euros for DeltaPay.",
            (NORTHSTAR, "paid", "310 million euros for DeltaPay"),
        ),
        (f"DeltaPay is a subsidiary of {NORTHSTAR}.", ("DeltaPay", "is a subsidiary of", NORTHSTAR)),
    ),
    "deltapay": (
        ("DeltaPay settles card payments for small shops.", ("DeltaPay", "settles", "card payments for small shops")),
        ("DeltaPay keeps its head office in Tallinn.", ("DeltaPay", "keeps its head office in", "Tallinn")),
        ("Analysts had doubted that the two cultures would ever fit together.", None),
    ),
    "bluegate": (
        (f"{NORTHSTAR} acquired BlueGate in June 2019.", (NORTHSTAR, "acquired", "BlueGate in June 2019")),
        ("BlueGate insures parcels.", ("BlueGate", "insures", "parcels")),
        ("BlueGate belongs to the logistics branch.", ("BlueGate", "belongs to", "the logistics branch")),
    ),
    "approval": (
        (
            "The Norwegian regulator approved the DeltaPay purchase without conditions.",
            ("The Norwegian regulator", "approved", "the DeltaPay purchase without conditions"),
        ),
        (
            "The Norwegian regulator closed the case in May 2022.",
            ("The Norwegian regulator", "closed the case in", "May 2022"),
        ),
    ),
    "interface": (
        ('The DeltaPay interface answers every order with {"status": "settled"}.', None),
        ("The gateway fills the {merchant} placeholder.", ("The gateway", "fills", "the {merchant} placeholder")),
    ),
    "people": (
        ("Ingrid Solberg leads DeltaPay.", ("Ingrid Solberg", "leads", "DeltaPay")),
        ("Ingrid Solberg joined DeltaPay in 2020.", ("Ingrid Solberg", "joined", "DeltaPay in 2020")),
    ),
}


OUTLINE: dict[str, Any] = {"forms": ("outline",)}
WAYS: dict[str, dict[str, Any]] = {
    "edge_reference": {"forms": ("edge_reference",)},
    "inline_triple": {"forms": ("inline_triple",)},
    "outline": OUTLINE,
    "quotes": {"mode": "text", "ratio": 0.5, **OUTLINE},
    "host_text": {"mode": "text", "quotes": "verbatim", **OUTLINE},
}
"""Knobs that make the payload of the story go out in each form."""


def text_of(name: str) -> str:
    """A release as one text: its own sentences, then the boilerplate."""
    return " ".join(sentence for sentence, _ in (*RELEASES[name], *BOILERPLATE))


def script() -> dict[str, list[tuple[str, str, str]]]:
    """The triples of every release, by its text: documents with other ids or none have the same edges."""
    return {
        text_of(name): [triple for _, triple in (*facts, *BOILERPLATE) if triple is not None]
        for name, facts in RELEASES.items()
    }
