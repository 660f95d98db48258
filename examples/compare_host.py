"""Compare a host with host + APL on identical chunk ids: tokens, and whether the answer is still there.

    python examples/compare_host.py

A small loop with the metrics of `apl.evaluation.metrics`, to copy and fill with your retriever, questions and model.
Runs without a network: word overlap stands in for your retriever.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from apl import AutoPrunedLayer, Chunk, Turn
from apl.evaluation.metrics import QuestionRecord, summarise
from apl.providers import PrecomputedExtractor
from apl.read.payload import neutralise
from apl.testing import HashEmbedder, WordCounter
from apl.text import content_words

CHUNKS = [
    Chunk(text, id=f"c{number}")
    for number, text in enumerate(
        (
            "Northstar acquired DeltaPay in March 2022. The price was never published by either of the two companies.",
            "DeltaPay is subject to the EU Digital Services Act. It was audited in 2023, and nothing was found.",
            "DeltaPay recorded 12 GDPR incidents before the acquisition and 5 incidents afterward.",
            "CloudCo signed a vendor contract with DeltaPay in 2024. The contract runs for three years.",
            "Globex moved its seat from Oslo to Bergen. The move took a year, and it cost more than it was to cost.",
        )
    )
]
TRIPLES = {
    "c0": [("Northstar", "acquired", "DeltaPay"), ("Northstar", "acquired in", "March 2022")],
    "c1": [("DeltaPay", "is subject to", "EU Digital Services Act")],
}
QUESTIONS = [
    ("Which act is DeltaPay subject to?", "EU Digital Services Act"),
    ("When was DeltaPay acquired?", "March 2022"),
    ("Who signed a vendor contract with DeltaPay?", "CloudCo"),
    ("Where did Globex move its seat?", "Bergen"),
]


def host(question: str, k: int = 3) -> list[Chunk]:
    """Stands in for your retriever: the chunks that share most words with the question."""
    wanted = content_words(question)
    return sorted(CHUNKS, key=lambda chunk: (-len(wanted & content_words(chunk.text)), chunk.id))[:k]


def said(turn: Turn) -> str:
    """What a turn says, as text: an index of an encoding must not pass for an answer."""
    if turn.form == "host_text":
        return turn.text
    evidence = neutralise(turn.evidence)
    facts = [" ".join((edge.head, edge.relation, edge.tail)) for run in evidence.facts for edge in run]
    return "\n".join([*facts, *(quote.text for quote in evidence.quotes)])


def record(question: str, answer: str, chunks: Sequence[Chunk], sent: str, tokens: int, form: str) -> QuestionRecord:
    """One question of one arm."""
    text = "\n\n".join(chunk.text for chunk in chunks)
    return QuestionRecord(question, (answer,), (), text, sent, WordCounter().count(text), tokens, form)


def main() -> None:
    """Both arms over the same chunks, question by question."""
    arms: dict[str, list[QuestionRecord]] = {"host": [], "host+APL": [], "host+APL, half": []}
    with tempfile.TemporaryDirectory() as folder:
        layer = AutoPrunedLayer.open(
            Path(folder) / "kb.db",
            embedder=HashEmbedder(),
            extractor=PrecomputedExtractor(TRIPLES),
            tokenizer=WordCounter(),
        )
        layer.index(CHUNKS)
        for question, answer in QUESTIONS:
            chunks = host(question)
            text = "\n\n".join(chunk.text for chunk in chunks)
            arms["host"].append(record(question, answer, chunks, text, WordCounter().count(text), "host_text"))
            for name, ratio in (("host+APL", None), ("host+APL, half", 0.5)):
                turn = layer.compress(question, chunks, ratio=ratio)
                arms[name].append(record(question, answer, chunks, said(turn), turn.tokens, turn.form))
        layer.close()
    for name, records in arms.items():
        summary = summarise(records)
        kept = summary.answers_kept
        print(f"{name:15} tokens {summary.tokens.ratio:.2f} of the host's, answers kept {kept.kept} of {kept.total}")


if __name__ == "__main__":
    main()
