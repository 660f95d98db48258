"""What apl brings along for the parts a user may also bring: embedders, extractors, token counters.

Nothing heavy is imported before it is used; a missing package is a `MissingDependency` that names the command.
"""

from apl.providers.chat import OpenAICompatible
from apl.providers.embedding import SentenceTransformerEmbedder, as_embedder
from apl.providers.extraction import (
    CombinedExtractor,
    LLMExtractor,
    PrecomputedExtractor,
    RebelExtractor,
    SpacyExtractor,
)
from apl.providers.tokens import CallableCounter, HuggingFaceCounter, TiktokenCounter, as_token_counter

__all__ = [
    "CallableCounter",
    "CombinedExtractor",
    "HuggingFaceCounter",
    "LLMExtractor",
    "OpenAICompatible",
    "PrecomputedExtractor",
    "RebelExtractor",
    "SentenceTransformerEmbedder",
    "SpacyExtractor",
    "TiktokenCounter",
    "as_embedder",
    "as_token_counter",
]
