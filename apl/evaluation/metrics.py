"""Metrics, once for every benchmark: what was saved, what was kept, and how sure a difference is.

Pure functions on strings and numbers. A share of nothing is None, never 0 or 1. A bare yes or no is never looked for in
a text (Norway's accepted answers hold "NO"). Answers come as a list; a single string in its place raises `InputError`.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apl.errors import InputError

_UNSPACED = (  # Chinese, Japanese, Korean (particles stick to words), Thai, Lao, Burmese, Khmer; not their digits
    "\u1100-\u11ff\u3005-\u3007\u3040-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
    "\u0e00-\u0e4f\u0e5a-\u0ecf\u0eda-\u0eff\u1000-\u103f\u104a-\u108f\u109a-\u109f\u1780-\u17df"
)
_TOKEN = re.compile(f"[{_UNSPACED}]|[^\\s{_UNSPACED}]+")
_STRETCH = re.compile(f"[^\\s{_UNSPACED}—…\u3001-\u3003\u3008-\u301f！（），：；？]+")
_CODE = re.compile(r"[\d²³¹¼-¾_+*=<>{}\[\]\\@#$%&^~|`]|::|://|\w\((?!s\))[^()]*\)|\w\w\.[^\W\d]\w|\A\.{0,2}/\w|\A--\w")
_Arm = Sequence[float] | NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class QuestionRecord:
    """What one question cost and what went out for it.

    Any of `answers` is right; `hops` are the accepted strings of each step, if known. `sent_text` is what the payload
    *says*: decoded, without the number tables of the index forms, or else an index 12 passes for the answer "12" and an
    escaped name for a lost one. Counts are tokens; `edges`, `quotes`, `memory` parts of the sent ones, `form` any name.
    """

    question: str
    answers: tuple[str, ...]
    hops: tuple[tuple[str, ...], ...]
    host_text: str
    sent_text: str
    host_tokens: int
    sent_tokens: int
    form: str
    selected_text: str | None = None  # the selected sentences, None where nothing was selected
    edges: int = 0
    quotes: int = 0
    memory: int = 0


@dataclass(frozen=True, slots=True)
class Share:
    """`kept` of `total`."""

    kept: int
    total: int

    @property
    def value(self) -> float | None:
        """Their quotient in [0, 1], None of nothing."""
        return self.kept / self.total if self.total else None


@dataclass(frozen=True, slots=True)
class TokenUse:
    """Sent over host tokens, and what was spent on what; a share of nothing is None.

    `ratio` (sum over sum) and `mean_ratio` (of the questions' own) leave out the `without_host` questions that have no
    host tokens. `edges`, `quotes`, `memory` are shares of all sent tokens; the rest is rules and host text.
    """

    ratio: float | None
    mean_ratio: float | None
    edges: float | None
    quotes: float | None
    memory: float | None
    host_tokens: int
    sent_tokens: int
    without_host: int


@dataclass(frozen=True, slots=True)
class Interval:
    """The mean of b - a over `n` questions, and the interval that holds it."""

    difference: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True)
class Summary:
    """Every metric over one set of questions; `identifiers` over those with a `selected_text`."""

    questions: int
    answers_kept: Share
    all_hops_kept: Share
    identifiers: Share
    tokens: TokenUse
    forms: Mapping[str, int]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; every share gets its `value`, None where it is empty."""
        found = asdict(self)
        for name in ("answers_kept", "all_hops_kept", "identifiers"):
            found[name]["value"] = getattr(self, name).value
        return found


def contains(text: str, answer: str) -> bool:
    """The text holds the answer as whole words, whatever the case, the width and the white space.

    Compared after NFKC and casefold, white space collapsed. No letter, digit, mark or underscore may stand beside one
    at the answer's edge: "35" is neither in "1935" nor "35th" (but in "35.5"), "C++" is in "C++17". Scripts without
    spaces, and Korean for its particles, match as substrings. An empty answer is contained nowhere.
    """
    return contains_any(text, (answer,))


def contains_any(text: str, answers: Sequence[str]) -> bool:
    """The text holds one of the answers (`contains`)."""
    folded = _fold(text)
    return any(_holds(folded, _fold(answer)) for answer in _listed(answers))


def is_yes_no(answers: Sequence[str]) -> bool:
    """Every accepted answer is a bare yes or no; False without answers."""
    return bool(_listed(answers)) and all(_squad_tokens(answer) in (["yes"], ["no"]) for answer in answers)


def eligible_answers(question: str, answers: Sequence[str], host_text: str) -> tuple[str, ...]:
    """The accepted answers that the host's text holds and the question does not, bare yes and no aside.

    Only these can be lost, so only these are looked for in what was sent: an answer in the question would be found in
    any text on its subject. Where one accepted answer is in the question, the others still count.
    """
    asked, held = _fold(question), _fold(host_text)
    named = [(answer, _fold(answer)) for answer in _listed(answers) if not is_yes_no([answer])]
    return tuple(answer for answer, sought in named if _holds(held, sought) and not _holds(asked, sought))


def is_eligible(question: str, answers: Sequence[str], host_text: str) -> bool:
    """The question can show a lost answer: it has `eligible_answers`."""
    return bool(eligible_answers(question, answers, host_text))


def answers_kept(records: Iterable[QuestionRecord]) -> Share:
    """Of the eligible questions, those whose sent text holds one of their `eligible_answers`."""
    looked = ((record, eligible_answers(record.question, record.answers, record.host_text)) for record in records)
    kept = [contains_any(record.sent_text, answers) for record, answers in looked if answers]
    return Share(sum(kept), len(kept))


def all_hops_kept(records: Iterable[QuestionRecord]) -> Share:
    """Of the questions whose host text holds every hop, in any accepted string, those whose sent text still does.

    A hop of bare yes or no stands in no text and is not asked for; a question without any other hop is left out.
    """
    kept: list[bool] = []
    for record in records:
        hops = [[name for name in hop if not is_yes_no([name])] for hop in record.hops if not is_yes_no(hop)]
        if hops and all(contains_any(record.host_text, hop) for hop in hops):
            kept += [all(contains_any(record.sent_text, hop) for hop in hops)]
    return Share(sum(kept), len(kept))


def identifiers(text: str) -> tuple[str, ...]:
    """The words that must survive letter by letter, each once, in order: numbers, dates, versions, code.

    They hold a digit or a character of code: `foo_bar`, `v1.2.3`, `C++`, `x->y`, `os.path.join()`, `--all`, `/usr/bin`;
    `and/or`, `e.g.`, `well-known` are prose. Punctuation, unpaired brackets and 's around them are not theirs.
    """
    bare = (_bare(match.group()) for match in _STRETCH.finditer(text))
    return tuple(dict.fromkeys(token for token in bare if _CODE.search(token) and any(map(str.isalnum, token))))


def identifier_survival(selected_text: str, sent_text: str) -> Share:
    """Of the identifiers of the selected sentences, those that stand in the sent text, exactly and whole.

    Case counts; "12" does not survive in "12.5", "2020-12-01" or "v12".
    """
    sought = identifiers(selected_text)
    return Share(sum(_holds(sent_text, name, whole_numbers=True) for name in sought), len(sought))


def exact_match(prediction: str, answers: Sequence[str]) -> bool:
    """The prediction is an accepted answer, but for case, articles, punctuation and white space (SQuAD)."""
    said = _squad_tokens(prediction)
    return bool(said) and any(said == _squad_tokens(answer) for answer in _listed(answers))


def f1(prediction: str, answers: Sequence[str]) -> float:
    """Token overlap with the best accepted answer, in [0, 1] (SQuAD); 0.0 without answers.

    As there, punctuation goes (`C++` is `c`) unless nothing else is there. Unspaced scripts and Korean go by character.
    """
    said = Counter(_squad_tokens(prediction))
    wanted = [Counter(_squad_tokens(answer)) for answer in _listed(answers)]
    return max((2 * (said & w).total() / max(1, said.total() + w.total()) for w in wanted), default=0.0)


def token_use(records: Iterable[QuestionRecord]) -> TokenUse:
    """How many tokens went out for the host's, and on what."""
    every = list(records)
    hosted = [record for record in every if record.host_tokens > 0]
    host, sent = sum(record.host_tokens for record in hosted), sum(record.sent_tokens for record in every)
    ratio = Share(sum(record.sent_tokens for record in hosted), host).value
    mean = sum(record.sent_tokens / record.host_tokens for record in hosted) / len(hosted) if hosted else None
    edges, quotes, memory = (
        Share(sum(getattr(r, p) for r in every), sent).value for p in ("edges", "quotes", "memory")
    )
    return TokenUse(ratio, mean, edges, quotes, memory, host, sent, len(every) - len(hosted))


def summarise(records: Iterable[QuestionRecord]) -> Summary:
    """Every metric over these questions."""
    every = list(records)
    survived = [identifier_survival(r.selected_text, r.sent_text) for r in every if r.selected_text is not None]
    names = Share(sum(share.kept for share in survived), sum(share.total for share in survived))
    forms = dict(sorted(Counter(record.form for record in every).items()))
    return Summary(len(every), answers_kept(every), all_hops_kept(every), names, token_use(every), forms)


def paired_bootstrap(a: _Arm, b: _Arm, *, samples: int = 10_000, confidence: float = 0.95, seed: int = 0) -> Interval:
    """The percentile interval of mean(b - a) when the questions are drawn again; same seed, same interval.

    It always holds the difference itself; swapping the arms mirrors it. `a` and `b` hold one finite score a question,
    in the same order; `samples` is how often the questions are drawn, `confidence` the share of draws inside.

    Raises:
        InputError: The scores are not two equally long, non-empty lists of finite numbers, or an option does not fit.
    """
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if first.ndim != 1 or first.shape != second.shape or not first.size:
        raise InputError(f"scores of shape {first.shape} and {second.shape}: give both arms one score a question")
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise InputError("scores must be finite: leave questions without a score out of both arms")
    if samples < 1 or not 0.0 < confidence < 1.0 or seed < 0:
        raise InputError("an option does not fit: use samples >= 1, 0 < confidence < 1 and seed >= 0")
    differences, n = second - first, first.size
    generator, step = np.random.default_rng(seed), max(1, 1_000_000 // n)  # draws at once
    sizes = [(min(step, samples - done), n) for done in range(0, samples, step)]
    means = np.concatenate([differences[generator.integers(0, n, size=size)].mean(axis=1) for size in sizes])
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    difference = float(differences.mean())
    return Interval(difference, min(float(low), difference), max(float(high), difference), n)  # whatever the rounding


def _listed(answers: Sequence[str]) -> Sequence[str]:
    if isinstance(answers, str):
        raise InputError(f"answers must be a list of strings, not one string: write [{answers[:40]!r}]")
    return answers


def _fold(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).split())


def _squad_tokens(text: str) -> list[str]:
    folded = _fold(text)
    kept = "".join(c for c in folded if c not in "$+<=>^`|~" and unicodedata.category(c)[0] != "P")
    return [token for token in _TOKEN.findall(kept) if token not in ("a", "an", "the")] or folded.split()


def _holds(text: str, sought: str, *, whole_numbers: bool = False) -> bool:
    start = text.find(sought) if sought else -1
    while start >= 0:
        end = start + len(sought)
        if not (_joined(text, start, whole_numbers) or _joined(text, end, whole_numbers)):
            return True
        start = text.find(sought, start + 1)
    return False


def _joined(text: str, place: int, whole_numbers: bool) -> bool:
    """The characters on both sides of the place belong to one word or, if asked for, one number, date or version."""
    if whole_numbers and re.search(r"\d[.,:/\-–]\d", text[max(0, place - 2) : place + 2]):
        return True
    return 0 < place < len(text) and all(
        (character.isalnum() or character == "_" or unicodedata.category(character)[0] == "M")
        and not re.match(f"[{_UNSPACED}]", character)
        for character in text[place - 1 : place + 1]
    )


def _bare(token: str) -> str:
    """The token without the prose around it; what it opens it may close: `(see foo())` gives `foo()`."""
    for _ in range(4):  # layers of quotation marks and brackets; a limit keeps a line of brackets cheap
        token = re.sub(r"['’]s\Z", "", token.strip(".,;:!?\"'“”‘’«»„`*")).lstrip(")]}").rstrip("([{-–")
        for opening, closing in (("(", ")"), ("[", "]"), ("{", "}")):
            surplus = token.count(opening) - token.count(closing)
            if token.endswith(closing) and surplus < 0:
                token = token[:-1]
            elif token.startswith(opening) and (surplus > 0 or token.find(closing) == len(token) - 1):
                token = token[1:]
    return token
