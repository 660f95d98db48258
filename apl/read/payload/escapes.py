"""Making stored text harmless in a payload: one line each, no control characters, no stray delimiters."""

from __future__ import annotations

import re
from collections.abc import Iterator

from apl.symbols import Evidence, Quote, Run, Triple

_LINE_BREAK = re.compile("\r\n|[\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def neutralise(evidence: Evidence) -> Evidence:
    """The evidence as a payload can say it; what was neutral stays as it is.

    Names lose line breaks and control characters and have their white space collapsed; quotes keep their white space
    and show line breaks and control characters as escapes. Empty runs, edges without any name and empty quotes are
    left out.
    """
    facts = [[(_triple(triple), place) for triple, place in run] for run in _with_places(evidence)]
    kept = [[(triple, place) for triple, place in run if triple] for run in facts]
    return Evidence(
        questions=_runs(evidence.questions),
        answers=_runs(evidence.answers),
        facts=tuple(tuple(triple for triple, _ in run) for run in kept if run),
        quotes=tuple(
            Quote(text, quote.after, quote.rank)
            for quote in evidence.quotes
            if (text := neutral_quote(quote.text)).strip()
        ),
        fact_ranks=tuple(tuple(ranks for _, (ranks, _) in run) for run in kept if run) if evidence.fact_ranks else (),
        fact_sentences=(
            tuple(tuple(sentence for _, (_, sentence) in run) for run in kept if run) if evidence.fact_sentences else ()
        ),
    )


def _with_places(evidence: Evidence) -> Iterator[list[tuple[Triple, tuple[tuple[int, ...], int]]]]:
    """Every run's edges with the documents and the sentence that say them, as far as they are known."""
    unknown: tuple[int, ...] = ()
    for number, run in enumerate(evidence.facts):
        ranks = evidence.fact_ranks[number] if evidence.fact_ranks else (unknown,) * len(run)
        sentences = evidence.fact_sentences[number] if evidence.fact_sentences else (-1,) * len(run)
        yield list(zip(run, zip(ranks, sentences, strict=True), strict=True))


def _runs(runs: tuple[Run, ...]) -> tuple[Run, ...]:
    neutral = (tuple(triple for triple in map(_triple, run) if triple) for run in runs)
    return tuple(run for run in neutral if run)


def _triple(triple: Triple) -> Triple | None:
    names = [neutral_name(part) for part in (triple.head, triple.relation, triple.tail)]
    return Triple(*names) if any(names) else None


def neutral_name(name: str) -> str:
    """A name on one line: control characters become spaces, white space is collapsed."""
    return " ".join((_CONTROL.sub(" ", name) if _CONTROL.search(name) else name).split())


def neutral_quote(text: str) -> str:
    r"""A quote on one line: line breaks become `\n`, tabs `\t`, other control characters their code."""
    if not _CONTROL.search(text):
        return text
    return _CONTROL.sub(_code_of, _LINE_BREAK.sub(r"\\n", text))


def _code_of(match: re.Match[str]) -> str:
    character = match.group()
    if character == "\t":
        return r"\t"
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def escape_head(head: str) -> str:
    r"""A head that cannot end early: a `: ` inside it gets a backslash."""
    return head.replace("\\", "\\\\").replace(": ", "\\: ")


def escape_statement(part: str) -> str:
    r"""A relation or tail that cannot end early: `;` and `|` get a backslash."""
    return part.replace("\\", "\\\\").replace(";", "\\;").replace("|", "\\|")


def unescape(text: str) -> str:
    """The inverse of both."""
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)
