"""Plug apl into a LlamaIndex query engine: one postprocessor, citations intact.

    python examples/llamaindex_plugin.py

Runs without a network: word vectors by hashing stand in for your embeddings, LlamaIndex' MockLLM for your model.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.core.schema import TextNode

from apl import AutoPrunedLayer
from apl.providers import PrecomputedExtractor
from apl.testing import HashEmbedder, WordCounter
from llama_index_apl import APLPostprocessor, index_nodes, turn_of

NOTICE = (
    "This notice is published by the press office and it is meant for the press; the press office is where it is from, "
    "and it is there that it has been and that it is to be read."
)
NODES = [
    TextNode(id_="acquisition", text=f"Northstar acquired DeltaPay in March 2022. {NOTICE}"),
    TextNode(id_="regulation", text=f"DeltaPay is subject to the EU Digital Services Act. {NOTICE}"),
    TextNode(id_="contract", text=f"CloudCo signed a vendor contract with DeltaPay in 2024. {NOTICE}"),
]
TRIPLES = {
    "acquisition": [("Northstar", "acquired", "DeltaPay"), ("Northstar", "acquired in", "March 2022")],
    "regulation": [("DeltaPay", "is subject to", "EU Digital Services Act")],
    "contract": [("CloudCo", "signed vendor contract with", "DeltaPay in 2024")],
}


def main() -> None:
    """Ask a query engine with and without the postprocessor; MockLLM answers with its prompt."""
    index = VectorStoreIndex(NODES, embed_model=MockEmbedding(embed_dim=8))
    question = "Which act is DeltaPay subject to?"
    with tempfile.TemporaryDirectory() as folder:
        layer = AutoPrunedLayer.open(
            Path(folder) / "kb.db",
            embedder=HashEmbedder(),  # your LlamaIndex embeddings object works as it is
            extractor=PrecomputedExtractor(TRIPLES),
            tokenizer=WordCounter(),
        )
        index_nodes(layer, NODES)
        postprocessor = APLPostprocessor(layer=layer, ratio=0.4)

        for postprocessors in ([], [postprocessor]):
            engine = index.as_query_engine(llm=MockLLM(), similarity_top_k=3, node_postprocessors=postprocessors)
            response = engine.query(question)
            cited = ", ".join(sorted(source.node.node_id for source in response.source_nodes))
            print(
                f"{'with apl' if postprocessors else 'host':8} prompt of {len(str(response))} characters, cites {cited}"
            )
        turn = turn_of(response.source_nodes, layer)
        assert turn is not None, "the first node names its turn"
        print(f"{turn.form}: {turn.tokens} of {turn.host_tokens} tokens\n{turn.text.strip()}")
        layer.close()


if __name__ == "__main__":
    main()
