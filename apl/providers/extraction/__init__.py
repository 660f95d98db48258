"""Extractors: passages to triples, each in one file."""

from apl.providers.extraction.precomputed import PrecomputedExtractor
from apl.providers.extraction.spacy import SpacyExtractor

__all__ = ["PrecomputedExtractor", "SpacyExtractor"]
