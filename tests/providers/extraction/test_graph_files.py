"""The graph tables of GFM-RAG and G-Reasoner: facts are given back to the documents that can have said them."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from apl.errors import ExtractionError
from apl.providers import PrecomputedExtractor
from apl.symbols import Chunk, Extraction, Passage, Triple

NODES = """name,type,attributes
news,document,"{}"
law,document,"{}"
northstar,entity,"{}"
deltapay,entity,"{}"
o neil,entity,"{}"
2022,entity,"{}"
"""
EDGES = """source,relation,target,attributes
northstar,acquired,deltapay,"{}"
deltapay,led by,o neil,"{}"
northstar,is_mentioned_in,news,"{}"
deltapay,is_mentioned_in,news,"{}"
o neil,is_mentioned_in,news,"{}"
northstar,is_mentioned_in,law,"{}"
deltapay,is_mentioned_in,law,"{}"
northstar,equivalent,deltapay,"{}"
northstar,founded in,2022,"{}"
"""
NEWS = Chunk("Northstar acquired DeltaPay. DeltaPay is led by O'Neil.", id="news")
LAW = Chunk("Northstar and DeltaPay are subject to the act.", id="law")
ACQUIRED = Triple("Northstar", "acquired", "DeltaPay")


def written(folder: Path, nodes: str = NODES, edges: str = EDGES) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "nodes.csv").write_text(nodes, encoding="utf-8")
    (folder / "edges.csv").write_text(edges, encoding="utf-8")
    return folder


def extract(extractor: PrecomputedExtractor, *chunks: Chunk) -> list[Extraction]:
    return extractor.extract([Passage(chunk, ()) for chunk in chunks])


def triples(extraction: Extraction) -> list[Triple]:
    return [extracted.triple for extracted in extraction.triples]


def test_a_fact_goes_to_the_documents_that_can_have_said_it(tmp_path: Path) -> None:
    """Both documents mention both companies, only one has the words of the acquisition; names are as it writes them."""
    news, law, other = extract(PrecomputedExtractor(written(tmp_path)), NEWS, LAW, Chunk("Nothing.", id="x"))
    assert triples(news) == [ACQUIRED, Triple("DeltaPay", "led by", "O'Neil")]
    assert (triples(law), law.unsupported) == ([], 1)
    assert other == Extraction()


def test_what_is_left_out_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Edges that state nothing are counted, those without a document are warned of."""
    with caplog.at_level(logging.INFO, logger="apl"):
        PrecomputedExtractor(written(tmp_path))
    assert "2 facts, 1 edges that state none left out" in caplog.text
    assert [r.levelname for r in caplog.records if "1 edges left out, no document" in r.message] == ["WARNING"]


def test_chunks_of_a_document_get_what_stands_in_them(tmp_path: Path) -> None:
    """A document may be known by id, document id or title, and be cut into several chunks."""
    first, second, third = extract(
        PrecomputedExtractor(written(tmp_path)),
        Chunk("Northstar acquired DeltaPay.", id="news#1", document_id="news"),
        Chunk("DeltaPay is led by O'Neil.", id="news#2", document_id="news"),
        Chunk("Northstar acquired DeltaPay.", title="news"),
    )
    assert triples(first) == triples(third) == [ACQUIRED]
    assert triples(second) == [Triple("DeltaPay", "led by", "O'Neil")]
    assert (first.unsupported, second.unsupported) == (1, 1)


def test_ids_in_the_edges_stand_for_names(tmp_path: Path) -> None:
    """Where nodes and relations have a `uid`, the edges call them by it."""
    folder = written(
        tmp_path,
        "uid,name,type,attributes\nd1,news,document,{}\ne1,Northstar,entity,{}\ne2,DeltaPay,entity,{}\n",
        "source,relation,target,attributes\ne1,r1,e2,{}\nd1,r2,e1,{}\ne2,r2,d1,{}\n",
    )
    (folder / "relations.csv").write_text("uid,name,attributes\nr1,acquired,{}\nr2,mentions,{}\n", encoding="utf-8")
    assert triples(extract(PrecomputedExtractor(folder), NEWS)[0]) == [ACQUIRED]


@pytest.mark.parametrize("place", ["", "stage1", "processed/stage1"])
def test_a_graph_is_found_in_its_folder(tmp_path: Path, place: str) -> None:
    """The folder itself, or GFM-RAG's data folder above it."""
    written(tmp_path / place)
    assert len(extract(PrecomputedExtractor(tmp_path), NEWS)[0].triples) == 2


def test_a_graph_may_be_named_by_its_files(tmp_path: Path) -> None:
    """The two in any order, or the edges alone with the nodes beside them."""
    written(tmp_path)
    nodes, edges = tmp_path / "nodes.csv", tmp_path / "edges.csv"
    found = [
        extract(PrecomputedExtractor(paths), NEWS)
        for paths in ([nodes, edges], (str(edges), str(nodes)), edges, [edges])
    ]
    assert len(found[0][0].triples) == 2
    assert found[0] == found[1] == found[2] == found[3]


def test_a_graph_without_its_parts_is_refused(tmp_path: Path) -> None:
    """The error says which part is missing, and on which line."""
    folder = written(tmp_path, nodes="name,type,attributes\nnorthstar,entity,{}\n")
    with pytest.raises(ExtractionError, match="no node of type 'document'"):
        PrecomputedExtractor(folder)
    (folder / "edges.csv").write_text("source,relation,target\nnorthstar,,deltapay\n", encoding="utf-8")
    (folder / "nodes.csv").write_text(NODES, encoding="utf-8")
    with pytest.raises(ExtractionError, match=r"edges\.csv, line 2: an edge needs"):
        PrecomputedExtractor(folder)
    (folder / "nodes.csv").unlink()
    for path in (folder, folder / "edges.csv"):
        with pytest.raises(ExtractionError, match=r"a graph is a folder with nodes\.csv and edges\.csv"):
            PrecomputedExtractor(path)
