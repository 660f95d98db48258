"""Statement to text: every allowed form is built, laid out and counted on the exact bytes; the cheapest wins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from apl.protocols import TokenCounter
from apl.read.payload import encode_neutral, encode_quotes, neutralise, outline_blocks, outline_rules
from apl.read.placement import SEPARATOR, joined, lay_out
from apl.read.statement import Statement
from apl.symbols import Form, Layout, Part, TurnForm


@dataclass(frozen=True, slots=True)
class Rendered:
    """The cheapest form of a statement and what each of the built forms costs."""

    form: TurnForm
    parts: tuple[Part, ...]
    text: str
    tokens: int
    tokens_by_form: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Renderer:
    """Renders statements for one reader and one list of host documents.

    Attributes:
        forms: What the reader can read, in the order that decides ties.
        layout: How the payload will lie in the documents; `per_document` reads `outline` and quotes only.
        documents: How many documents the host returned.
        keep_empty: See `lay_out`.
        counter: The generator's tokenizer.
        marked: Begin every line with the host documents that say it.
    """

    forms: tuple[Form, ...]
    layout: Layout
    documents: int
    keep_empty: bool
    counter: TokenCounter
    marked: bool = False

    def render(self, statement: Statement) -> Rendered:
        """The cheapest allowed form; `quotes` where there is no edge, `empty` where there is nothing."""
        best: Rendered | None = None
        tokens_by_form: dict[str, int] = {}
        for form, pieces in self._candidates(statement):
            parts = lay_out(pieces, self.layout, self.documents, keep_empty=self.keep_empty)
            text = joined(parts)
            tokens_by_form[form] = self.counter.count(text)
            if best is None or tokens_by_form[form] < best.tokens:
                best = Rendered(form, parts, text, tokens_by_form[form], tokens_by_form)
        return best or self._nothing()

    def drafting(self) -> Renderer:
        """A renderer that builds one form only, the cheapest as a rule: for what may be said otherwise yet."""
        return replace(self, forms=("outline",)) if "outline" in self.forms else self

    def host_text(self, texts: Sequence[str]) -> Rendered:
        """The host's own text as a form: `host_text`, or `empty` when there is nothing to see in it."""
        parts = tuple(Part(rank, text) for rank, text in enumerate(texts))
        text = joined(parts)
        if self.layout == "single" and parts:
            parts = (Part(0, text),)
        return Rendered("host_text" if text.strip() else "empty", parts, text, self.counter.count(text), {})

    def _nothing(self) -> Rendered:
        parts = lay_out([], self.layout, self.documents, keep_empty=self.keep_empty)
        text = joined(parts)
        return Rendered("empty", parts, text, self.counter.count(text), {})

    def nothing_within(self, budget: int) -> Rendered:
        """Emptied documents, or a single one where even their separators cost more than the budget."""
        emptied = self._nothing()
        return emptied if emptied.tokens <= budget else Rendered("empty", (Part(0, ""),), "", 0, {})

    def _candidates(self, statement: Statement) -> Iterator[tuple[TurnForm, Sequence[Part]]]:
        evidence = neutralise(statement.evidence)
        if not evidence.has_edges:
            if evidence.quotes:
                yield "quotes", self._quote_pieces(statement)
        elif self.layout == "per_document":
            yield "outline", _outline_pieces(statement, marked=self.marked)
        else:
            for form in self.forms:
                yield form, [Part(0, encode_neutral(evidence, form, marked=self.marked))]

    def _quote_pieces(self, statement: Statement) -> list[Part]:
        if self.layout == "per_document":
            return [Part(rank, encode_quotes(said, marked=self.marked)) for rank, said in statement.by_rank]
        return [Part(0, encode_quotes(statement.evidence, marked=self.marked))]


def _outline_pieces(statement: Statement, *, marked: bool) -> list[Part]:
    """Each document's own lines; the rules stand above the first."""
    evidences = [(rank, neutralise(evidence)) for rank, evidence in statement.by_rank]
    blocks = [outline_blocks(evidence, marked=marked) for _, evidence in evidences]
    rules = outline_rules([evidence for _, evidence in evidences], blocks, alternating=False)
    texts = [SEPARATOR.join(block for block in own if block) for own in blocks]
    return [
        Part(rank, f"{rules}\n{text}" if number == 0 else text)
        for number, ((rank, _), text) in enumerate(zip(evidences, texts, strict=True))
    ]
