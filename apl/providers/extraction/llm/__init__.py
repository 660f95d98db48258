"""Triples by a language model: prompt, calls, parsing, support check and cache."""

from apl.providers.extraction.llm.extractor import LLMExtractor

__all__ = ["LLMExtractor"]
