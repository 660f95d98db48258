"""apl for LlamaIndex: say what the retriever you have found.

engine = index.as_query_engine(node_postprocessors=[APLPostprocessor(layer=layer)])
"""

from apl.reports import SyncReport
from llama_index_apl.nodes import chunk_of, index_nodes, turn_of
from llama_index_apl.postprocessor import APLPostprocessor
from llama_index_apl.transform import APLTransform

__all__ = ["APLPostprocessor", "APLTransform", "SyncReport", "chunk_of", "index_nodes", "turn_of"]
