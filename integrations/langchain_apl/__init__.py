"""apl for LangChain: wrap the retriever you have.

retriever = APLRetriever(host=retriever, layer=layer)
"""

from langchain_apl.compressor import APLCompressor
from langchain_apl.documents import chunks_of, index_documents, turn_of
from langchain_apl.retriever import APLRetriever
from langchain_apl.syncing import sync_documents

__all__ = ["APLCompressor", "APLRetriever", "chunks_of", "index_documents", "sync_documents", "turn_of"]
