"""Ingestion: a pipeline with the transform in it, what its cache hides from the codebook, and how `sync` makes up for it."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.ingestion.pipeline import _run_transformations_worker
from llama_index.core.node_parser import TokenTextSplitter
from llama_index.core.schema import Document, ImageNode, NodeRelationship, NodeWithScore, RelatedNodeInfo, TextNode
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import SimpleVectorStore

from apl import AutoPrunedLayer
from apl.errors import InputError, ReadOnlyStoreError, StoreError
from apl.protocols import Vectors
from apl.testing import HashEmbedder, WordCounter
from llama_index_apl import APLPostprocessor, APLTransform, turn_of

SOLD = "Northstar sold DeltaPay in 2024. Nobody said for how much. The Norwegian regulator was not asked this time."


@pytest.fixture
def empty_layer(open_layer: Callable[..., AutoPrunedLayer]) -> AutoPrunedLayer:
    """A layer that knows nothing yet."""
    return open_layer(indexed=False)


@pytest.fixture
def documents(nodes: list[NodeWithScore]) -> list[Document]:
    """The releases as whole documents, as a reader gives them."""
    return [
        Document(id_=f"doc-{number}", text=node.text, metadata=dict(node.metadata)) for number, node in enumerate(nodes)
    ]


@pytest.fixture
def splitter(tiktoken_offline: None) -> TokenTextSplitter:
    """Two or three nodes a release."""
    return TokenTextSplitter(chunk_size=60, chunk_overlap=0, include_metadata=False)


Pipe = Callable[..., IngestionPipeline]


@pytest.fixture
def pipeline_of(splitter: TokenTextSplitter) -> Pipe:
    """Makes pipelines of splitter and transform with cache, docstore and vector store."""

    def make(transform: APLTransform, **options: Any) -> IngestionPipeline:
        return IngestionPipeline(
            transformations=[splitter, transform],
            docstore=SimpleDocumentStore(),
            vector_store=SimpleVectorStore(),
            docstore_strategy=DocstoreStrategy.UPSERTS_AND_DELETE,
            **options,
        )

    return make


def held(layer: AutoPrunedLayer) -> tuple[int, int]:
    """How many documents and chunks the codebook holds."""
    stats = layer.codebook.stats()
    return stats.documents, stats.chunks


def known(layer: AutoPrunedLayer, nodes: Any) -> tuple[int, int]:
    """How many of these nodes the layer knows, and how many there are."""
    found = [NodeWithScore(node=node) for node in nodes]
    turn = turn_of(APLPostprocessor(layer=layer).postprocess_nodes(found, query_str="What?"), layer)
    assert turn is not None
    return turn.counters["known"] + turn.counters["duplicate"], len(found)


# --- the step ---------------------------------------------------------------------------------------------------------


async def test_the_nodes_that_pass_are_indexed_and_handed_on_untouched(
    empty_layer: AutoPrunedLayer, nodes: list[NodeWithScore]
) -> None:
    """The very list, sync and awaited; a second time nothing is extracted again."""
    transform = APLTransform(layer=empty_layer)
    assert transform.report is None
    bare = [node.node for node in nodes]
    before = copy.deepcopy(bare)
    assert transform(bare) is bare
    assert transform.report is not None
    assert (transform.report.indexed, transform.report.failed) == (6, 0)
    assert await transform.acall(bare) is bare
    assert (transform.report.indexed, transform.report.unchanged) == (0, 6)
    assert bare == before
    assert transform.errors == 0


def test_the_document_of_a_node_is_its_source(empty_layer: AutoPrunedLayer, nodes: list[NodeWithScore]) -> None:
    """`ref_doc_id` is what `layer.codebook.delete` takes; a node without one is its own document."""
    APLTransform(layer=empty_layer)([*(node.node for node in nodes), TextNode(id_="alone", text=SOLD)])
    deleted = empty_layer.codebook.delete(["doc-purchase", "alone"])
    assert (deleted.documents, deleted.chunks, deleted.unknown_documents) == (2, 2, ())


def test_nodes_without_text_are_not_indexed(empty_layer: AutoPrunedLayer) -> None:
    """Images pass."""
    passing = [ImageNode(image="aGVsbG8="), TextNode(text=" \n"), TextNode(text=SOLD)]
    assert APLTransform(layer=empty_layer)(passing) is passing
    assert held(empty_layer) == (1, 1)


def test_chunks_that_fail_are_counted_as_an_error(open_layer: Callable[..., AutoPrunedLayer]) -> None:
    """The rest is indexed, the nodes go on; the report names the bad one."""

    class Picky(HashEmbedder):
        def embed(self, texts: Any) -> Vectors:
            if any("sold" in text for text in texts):
                raise RuntimeError("not this one")
            return super().embed(texts)

    transform = APLTransform(layer=open_layer(embedder=Picky(), indexed=False))
    passing = [TextNode(id_="good", text="Northstar was founded in Bergen."), TextNode(id_="bad", text=SOLD)]
    assert transform(passing) is passing
    assert transform.report is not None
    assert [error.chunk_id for error in transform.report.errors] == ["bad"]
    assert (transform.report.indexed, transform.errors) == (1, 1)


def test_a_store_that_is_only_read_says_so_at_construction(layer: AutoPrunedLayer, tmp_path: Path) -> None:
    """Else a long ingestion would end with nothing indexed."""
    with (
        AutoPrunedLayer.open(
            tmp_path / "kb-0.db", embedder=HashEmbedder(), tokenizer=WordCounter(), read_only=True
        ) as reading,
        pytest.raises(ReadOnlyStoreError),
    ):
        APLTransform(layer=reading)


# --- in a pipeline ----------------------------------------------------------------------------------------------------


async def test_a_pipeline_indexes_what_its_index_will_retrieve(
    empty_layer: AutoPrunedLayer, documents: list[Document], pipeline_of: Pipe
) -> None:
    """Sync and awaited: every node that comes out is known by its text, and belongs to its document."""
    pipeline = pipeline_of(APLTransform(layer=empty_layer))
    made = pipeline.run(documents=documents[:3])
    assert len(made) > 6
    assert held(empty_layer) == (3, len(made))
    made += await pipeline_of(APLTransform(layer=empty_layer)).arun(documents=documents[3:])
    assert held(empty_layer) == (6, len(made))
    assert known(empty_layer, made) == (len(made), len(made))


def test_a_warm_cache_skips_the_transform(
    empty_layer: AutoPrunedLayer, documents: list[Document], splitter: TokenTextSplitter
) -> None:
    """What is deleted from the codebook does not come back by running again; with `sync` it does."""
    transform = APLTransform(layer=empty_layer)
    pipeline = IngestionPipeline(transformations=[splitter, transform])
    made = pipeline.run(documents=documents)
    empty_layer.codebook.delete(["doc-0"])
    again = pipeline.run(documents=documents)
    assert held(empty_layer)[0] == 5
    docstore = SimpleDocumentStore()
    docstore.add_documents(list(again))
    report = transform.sync(docstore)
    assert (report.changed, report.gone) == (("doc-0",), ())
    assert held(empty_layer) == (6, len(made))


def test_two_codebooks_do_not_share_a_cache(
    open_layer: Callable[..., AutoPrunedLayer], documents: list[Document], splitter: TokenTextSplitter
) -> None:
    """The cache knows which file a transform fills: another one is filled as well, the same one is not filled again."""
    first, second = open_layer(indexed=False), open_layer(indexed=False)
    pipeline = IngestionPipeline(transformations=[splitter, APLTransform(layer=first)])
    pipeline.run(documents=documents)
    entries = len(pipeline.cache.cache.get_all(pipeline.cache.collection))
    IngestionPipeline(transformations=[splitter, APLTransform(layer=first)], cache=pipeline.cache).run(
        documents=documents
    )
    assert len(pipeline.cache.cache.get_all(pipeline.cache.collection)) == entries == 2
    IngestionPipeline(transformations=[splitter, APLTransform(layer=second)], cache=pipeline.cache).run(
        documents=documents
    )
    assert held(second) == held(first)


def open_empty(path: Path) -> AutoPrunedLayer:
    """Opens a layer, as the function of an application."""
    return AutoPrunedLayer.open(path, embedder=HashEmbedder(), tokenizer=WordCounter())


def test_a_pipelines_worker_fills_the_same_codebook(
    documents: list[Document], splitter: TokenTextSplitter, tmp_path: Path
) -> None:
    """What LlamaIndex sends to its workers pickles, and does its work where it arrives."""
    transform = APLTransform(layer=partial(open_empty, tmp_path / "shared.db"))
    (arrived,) = pickle.loads(pickle.dumps([transform]))  # noqa: S301
    made, _ = _run_transformations_worker(documents, [splitter, arrived])
    assert held(transform.opened_layer) == (6, len(made))
    for component in (transform, arrived):
        component.opened_layer.close()


def test_an_error_that_the_cache_would_hide_is_mended_by_sync(
    open_layer: Callable[..., AutoPrunedLayer], documents: list[Document], pipeline_of: Pipe
) -> None:
    """The cache remembers the nodes of a run that apl failed in; `sync` finds what is missing."""

    class Failing(HashEmbedder):
        broken = False

        def embed(self, texts: Any) -> Vectors:
            if self.broken:
                raise RuntimeError("broken on purpose")
            return super().embed(texts)

    embedder = Failing()
    layer = open_layer(embedder=embedder, indexed=False)
    transform = APLTransform(layer=layer)
    pipeline = pipeline_of(transform)
    embedder.broken = True
    made = pipeline.run(documents=documents)
    embedder.broken = False
    assert (transform.errors, held(layer)) == (1, (0, 0))
    assert pipeline.docstore is not None
    transform.sync(pipeline.docstore, transformations=pipeline.transformations)
    assert held(layer) == (6, len(made))
    assert known(layer, made) == (len(made), len(made))


# --- in step with a docstore ------------------------------------------------------------------------------------------


def test_upserts_and_deletes_reach_the_codebook_by_sync(
    empty_layer: AutoPrunedLayer, documents: list[Document], pipeline_of: Pipe
) -> None:
    """A changed document loses its old chunks, one that is gone loses all, the others cost nothing."""
    transform = APLTransform(layer=empty_layer)
    pipeline = pipeline_of(transform)
    pipeline.run(documents=documents)
    before = held(empty_layer)
    changed = Document(id_="doc-1", text=SOLD)
    made = pipeline.run(documents=[documents[0], changed, *documents[2:5]])
    assert held(empty_layer) == (before[0], before[1] + len(made))
    assert pipeline.docstore is not None
    report = transform.sync(pipeline.docstore, transformations=pipeline.transformations)
    assert (report.changed, report.gone) == (("doc-1",), ("doc-5",))
    assert (len(report.surplus_chunks), report.missing_chunks) == (before[1] + len(made) - held(empty_layer)[1], ())
    assert report.index.chunks == 0, "the pipeline has indexed the new text already"
    assert held(empty_layer)[0] == 5
    assert known(empty_layer, made) == (len(made), len(made))
    again = transform.sync(pipeline.docstore, transformations=pipeline.transformations)
    assert (again.changed, again.gone, again.index.chunks) == ((), (), 0)


def fact(node_id: str, document_id: str, text: str) -> TextNode:
    """A node of a document."""
    return TextNode(
        id_=node_id, text=text, relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=document_id)}
    )


def test_the_docstore_of_an_index_needs_no_transformations(empty_layer: AutoPrunedLayer) -> None:
    """It holds the nodes themselves: changed, new and removed ones are found by text."""
    docstore, transform = SimpleDocumentStore(), APLTransform(layer=empty_layer)
    docstore.add_documents(
        [
            fact("a1", "a", "Northstar acquired DeltaPay."),
            fact("a2", "a", "It paid."),
            fact("b1", "b", "BlueGate insures."),
        ]
    )
    assert transform.sync(docstore).changed == ("a", "b")
    docstore.delete_document("a2")
    docstore.delete_ref_doc("b")
    docstore.add_documents([fact("a1", "a", "Northstar sold DeltaPay."), fact("c1", "c", "Ingrid leads DeltaPay.")])
    report = transform.sync(docstore)
    assert (set(report.changed), report.gone) == ({"a", "c"}, ("b",))
    assert held(empty_layer) == (2, 2)
    docstore.delete_ref_doc("c")
    docstore.add_documents([fact("c-new", "c", "Ingrid leads DeltaPay.")])
    assert transform.sync(docstore).changed == ()


def test_sync_names_chunks_and_can_only_look(empty_layer: AutoPrunedLayer) -> None:
    """Missing, changed and surplus ones by id; a dry run says the same and changes nothing."""
    docstore, transform = SimpleDocumentStore(), APLTransform(layer=empty_layer)
    docstore.add_documents([fact("a1", "a", "Northstar acquired DeltaPay."), fact("a2", "a", "It paid in cash.")])
    docstore.add_documents([fact("b1", "b", "BlueGate insures."), fact("n1", "n", "Nothing changes here.")])
    transform.sync(docstore)
    docstore.delete_document("a2")
    docstore.delete_ref_doc("b")
    docstore.add_documents([fact("a1", "a", "Northstar sold DeltaPay."), fact("a3", "a", "Nobody said for how much.")])
    looked = transform.sync(docstore, dry_run=True)
    assert (looked.missing_chunks, looked.changed_chunks) == (("a3",), ("a1",))
    assert looked.surplus_chunks == ("a2", "b1")
    assert (looked.changed, looked.gone, looked.dry_run, looked.in_step) == (("a",), ("b",), True, False)
    assert held(empty_layer) == (3, 4)
    mended = transform.sync(docstore)
    assert (mended.missing_chunks, mended.changed_chunks, mended.surplus_chunks) == (("a3",), ("a1",), ("a2", "b1"))
    assert (mended.index.indexed, mended.index.replaced) == (2, 1)
    assert held(empty_layer) == (2, 3)
    assert transform.sync(docstore).in_step


def test_documents_of_one_text_are_all_in_the_docstore(empty_layer: AutoPrunedLayer) -> None:
    """LlamaIndex lists hashes, of which equal texts share one: none of the documents is taken for gone."""
    docstore, transform = SimpleDocumentStore(), APLTransform(layer=empty_layer)
    docstore.add_documents([Document(id_=f"same-{n}", text="Northstar acquired DeltaPay.") for n in range(3)])
    assert len(transform.sync(docstore, transformations=[]).changed) == 3
    assert transform.sync(docstore, transformations=[]).in_step
    assert held(empty_layer) == (3, 3)


def test_a_docstore_is_read_node_by_node(empty_layer: AutoPrunedLayer) -> None:
    """Its texts are not all in memory at once; one that is not over a key-value store is read as a whole."""

    class Counting(SimpleDocumentStore):
        @property
        def docs(self) -> Any:
            raise AssertionError("all nodes were loaded at once")

    class Foreign:
        def __init__(self, nodes: list[TextNode]) -> None:
            self.docs = {node.node_id: node for node in nodes}

        def get_ref_doc_info(self, _: str) -> None: ...

        def get_document_hash(self, _: str) -> None: ...

    nodes = [fact(f"n{n}", f"d{n // 3}", f"Firm {n} pays.") for n in range(150)]
    docstore, transform = Counting(), APLTransform(layer=empty_layer)
    docstore.add_documents(nodes)
    assert len(transform.sync(docstore).missing_chunks) == 150
    foreign: Any = Foreign(nodes[:-1])
    assert transform.sync(foreign).surplus_chunks == ("n149",)


def test_what_other_docstores_filled_can_be_kept(empty_layer: AutoPrunedLayer) -> None:
    """`delete_missing=False` where several docstores fill one codebook."""
    one, other, transform = SimpleDocumentStore(), SimpleDocumentStore(), APLTransform(layer=empty_layer)
    one.add_documents([fact("a1", "a", "Northstar acquired DeltaPay.")])
    other.add_documents([fact("b1", "b", "BlueGate insures.")])
    transform.sync(one)
    assert transform.sync(other, delete_missing=False).gone == ()
    assert held(empty_layer) == (2, 2)
    assert transform.sync(other).gone == ("a",)
    assert transform.sync(SimpleDocumentStore()).gone == ("b",)
    assert held(empty_layer) == (0, 0)


def test_documents_without_their_text_in_the_docstore_are_left_alone(
    empty_layer: AutoPrunedLayer, documents: list[Document], pipeline_of: Pipe
) -> None:
    """A pipeline may keep hashes only: such documents are known there, so nothing of theirs is deleted."""
    transform = APLTransform(layer=empty_layer)
    pipeline = pipeline_of(transform)
    pipeline.run(documents=documents, store_doc_text=False)
    before = held(empty_layer)
    assert pipeline.docstore is not None
    report = transform.sync(pipeline.docstore, transformations=pipeline.transformations)
    assert (report.changed, report.gone, held(empty_layer)) == ((), (), before)


def test_whole_documents_are_never_taken_for_nodes(
    empty_layer: AutoPrunedLayer, documents: list[Document], pipeline_of: Pipe
) -> None:
    """Without `transformations` a pipeline's docstore is refused; `[]` says that documents are retrieved whole."""
    transform = APLTransform(layer=empty_layer)
    pipeline = pipeline_of(transform)
    pipeline.run(documents=documents)
    before = held(empty_layer)
    assert pipeline.docstore is not None
    with pytest.raises(InputError, match="say how they are split"):
        transform.sync(pipeline.docstore)
    assert held(empty_layer) == before
    assert len(transform.sync(pipeline.docstore, transformations=[]).changed) == 6
    assert held(empty_layer) == (6, 6)
    assert known(empty_layer, documents) == (6, 6)


def test_errors_of_sync_are_raised(empty_layer: AutoPrunedLayer, tmp_path: Path) -> None:
    """Nobody waits for an answer: what went wrong is said."""
    transform, docstore = APLTransform(layer=empty_layer), SimpleDocumentStore()
    docstore.add_documents([fact("a1", "a", "Northstar acquired DeltaPay.")])
    empty_layer.close()
    for file in tmp_path.glob("kb-0.db*"):
        file.write_bytes(b"no database any more" * 1000)
    with pytest.raises(StoreError):
        transform.sync(docstore)
    assert transform.errors == 0
