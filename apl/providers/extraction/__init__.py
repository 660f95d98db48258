"""Extractors: passages to triples, each in one file."""

from apl.providers.extraction.combined import CombinedExtractor
from apl.providers.extraction.llm import LLMExtractor
from apl.providers.extraction.precomputed import PrecomputedExtractor
from apl.providers.extraction.rebel import RebelExtractor
from apl.providers.extraction.spacy import SpacyExtractor

__all__ = ["CombinedExtractor", "LLMExtractor", "PrecomputedExtractor", "RebelExtractor", "SpacyExtractor"]
