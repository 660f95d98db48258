"""Wrap a LangChain retriever: the three lines, and a chain that does not change.

    python examples/wrap_langchain.py

Runs without a network: word vectors by hashing stand in for your embeddings, a model that repeats its prompt for yours.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore

from apl import AutoPrunedLayer
from apl.providers import PrecomputedExtractor
from apl.testing import HashEmbedder, WordCounter
from langchain_apl import APLRetriever, index_documents, turn_of

NOTICE = (
    "This notice is published by the press office and it is meant for the press; the press office is where it is from, "
    "and it is there that it has been and that it is to be read."
)
DOCUMENTS = [
    Document(id="acquisition", page_content=f"Northstar acquired DeltaPay in March 2022. {NOTICE}"),
    Document(id="regulation", page_content=f"DeltaPay is subject to the EU Digital Services Act. {NOTICE}"),
    Document(id="contract", page_content=f"CloudCo signed a vendor contract with DeltaPay in 2024. {NOTICE}"),
]
TRIPLES = {
    "acquisition": [("Northstar", "acquired", "DeltaPay"), ("Northstar", "acquired in", "March 2022")],
    "regulation": [("DeltaPay", "is subject to", "EU Digital Services Act")],
    "contract": [("CloudCo", "signed vendor contract with", "DeltaPay in 2024")],
}


class HashEmbeddings(Embeddings):
    """Stands in for your embeddings model."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector a text."""
        vectors: list[list[float]] = HashEmbedder().embed(texts).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """The question's vector."""
        return self.embed_documents([text])[0]


def main() -> None:
    """Ask the same question through the same chain, bare and wrapped."""
    embeddings = HashEmbeddings()
    retriever = InMemoryVectorStore.from_documents(DOCUMENTS, embeddings).as_retriever(search_kwargs={"k": 3})
    question = "Which act is DeltaPay subject to?"
    with tempfile.TemporaryDirectory() as folder:
        layer = AutoPrunedLayer.open(
            Path(folder) / "kb.db",
            embedder=embeddings,
            extractor=PrecomputedExtractor(TRIPLES),
            tokenizer=WordCounter(),  # your model's: "gpt-4o-mini", a Hugging Face tokenizer, any callable
        )
        index_documents(layer, DOCUMENTS)
        wrapped = APLRetriever(host=retriever, layer=layer, ratio=0.4)

        print("host:   ", answer(retriever, question))
        print("wrapped:", answer(wrapped, question))
        turn = turn_of(wrapped.invoke(question), layer)
        assert turn is not None, "the first document names its turn"
        print(f"{turn.form}: {turn.tokens} of {turn.host_tokens} tokens")
        layer.close()


def answer(retriever: object, question: str) -> str:
    """A chain as users write it; the model says how long its prompt was."""
    prompt = ChatPromptTemplate.from_template("Answer from the context.\n\n{context}\n\nQuestion: {question}")

    def format_docs(documents: list[Document]) -> str:
        return "\n\n".join(document.page_content for document in documents)

    context = retriever | format_docs  # type: ignore[operator]
    model = GenericFakeChatModel(messages=iter([AIMessage("The EU Digital Services Act.")]))
    chain = {"context": context, "question": RunnablePassthrough()} | prompt | model | StrOutputParser()
    return str(chain.invoke(question))


if __name__ == "__main__":
    main()
