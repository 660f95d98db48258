"""The node and edge tables of GFM-RAG and G-Reasoner: facts between entities, and which documents mention these.

Such a graph does not keep which document said a fact. A fact is taken to be said by the documents that mention both
its ends; where there are several, only by a chunk that has all its words.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from apl.errors import ExtractionError
from apl.providers.extraction.triple_files import opened, table_rows
from apl.symbols import Chunk, ExtractedTriple, Extraction, Triple
from apl.text import STOP_WORDS

logger = logging.getLogger(__name__)

_NO_FACT = "equivalent"
"""What GFM-RAG calls the edge between two names that look alike: a guess of its index, not said by any text."""

_PLACES = ("", "stage1", "processed/stage1")
_WORD = re.compile(r"\w+")


@dataclass(slots=True)
class DocumentGraph:
    """Facts by document, each with whether another document may have said it."""

    facts: dict[str, list[tuple[Triple, bool]]] = field(default_factory=dict)

    def extraction_for(self, chunk: Chunk) -> Extraction | None:
        """The facts of a chunk's document that the chunk can have said; None: the graph has no such document."""
        names = (chunk.id, chunk.document_id, chunk.title)
        facts = next((self.facts[name] for name in names if name in self.facts), None)
        if facts is None:
            return None
        said = set(_WORD.findall(f"{chunk.title or ''} {chunk.text}".casefold()))
        kept = [
            ExtractedTriple(_as_written(triple, chunk.text))
            for triple, shared in facts
            if said.issuperset(_needed(triple, relation=shared))
        ]
        return Extraction(tuple(kept), unsupported=len(facts) - len(kept))


def read_graph(paths: Sequence[Path]) -> DocumentGraph:
    """The graph in a folder, or in two files.

    Raises:
        ExtractionError: A file is missing or cannot be read, or the table of nodes has no documents.
    """
    nodes, edges = _files(paths)
    names: dict[str, str] = {}
    documents: set[str] = set()
    with opened(nodes) as file:
        for row in table_rows(nodes, file, ("name", "type"), extra=("name", "type", "uid")):
            key = row.get("uid") or row["name"]
            names[key] = row["name"]
            if row["type"].casefold() in ("document", "doc", "passage", "chunk"):
                documents.add(key)
    if not documents:
        raise ExtractionError(f"{nodes} has no node of type 'document': which chunks say the edges is not known")
    return _placed(_edges(edges), names, documents, _relations(edges.with_name("relations.csv")))


def _placed(
    edges: Iterator[Triple], names: dict[str, str], documents: set[str], relations: dict[str, str]
) -> DocumentGraph:
    mentions: dict[str, dict[str, None]] = {}
    facts: list[Triple] = []
    left_out = 0
    for edge in edges:
        ends = [edge.head in documents, edge.tail in documents]
        if all(ends) or relations.get(edge.relation, edge.relation) == _NO_FACT:
            left_out += 1
        elif any(ends):
            entity, document = (edge.head, edge.tail) if ends[1] else (edge.tail, edge.head)
            mentions.setdefault(entity, {})[document] = None
        else:
            facts.append(edge)
    graph = DocumentGraph()
    for document in (key for key in names if key in documents):
        graph.facts[document] = graph.facts.setdefault(names[document], [])
    homeless = 0
    for fact in facts:
        both = [document for document in mentions.get(fact.head, {}) if document in mentions.get(fact.tail, {})]
        homeless += not both
        shown = Triple(
            names.get(fact.head, fact.head),
            relations.get(fact.relation, fact.relation),
            names.get(fact.tail, fact.tail),
        )
        for document in both:
            graph.facts[document].append((shown, len(both) > 1))
    logger.info("graph: %d facts, %d edges that state none left out", len(facts) - homeless, left_out)
    if homeless:
        logger.warning("graph: %d edges left out, no document mentions both their ends", homeless)
    return graph


def _edges(path: Path) -> Iterator[Triple]:
    with opened(path) as file:
        for row in table_rows(path, file, ("head", "relation", "tail")):
            if not all(row[part].strip() for part in ("head", "relation", "tail")):
                raise ExtractionError(f"{path}, line {row['line']}: an edge needs a source, a relation and a target")
            yield Triple(row["head"], row["relation"], row["tail"])


def _relations(path: Path) -> dict[str, str]:
    """The names of relations that are called by an id in the edges."""
    if not path.exists():
        return {}
    with opened(path) as file:
        rows = table_rows(path, file, ("name",), extra=("name", "uid"))
        return {row["uid"]: row["name"] for row in rows if row.get("uid")}


def _files(paths: Sequence[Path]) -> tuple[Path, Path]:
    """The tables of nodes and of edges."""
    if len(paths) == 2:
        nodes, edges = sorted(paths, key=lambda path: "edge" in path.name.casefold())
        return nodes, edges
    folders = [paths[0] / place for place in _PLACES] if paths[0].is_dir() else [paths[0].parent]
    for folder in folders:
        edges = folder / "edges.csv" if paths[0].is_dir() else paths[0]
        if edges.exists() and (folder / "nodes.csv").exists():
            return folder / "nodes.csv", edges
    raise ExtractionError(
        f"{paths[0]}: a graph is a folder with nodes.csv and edges.csv, or the paths of the two. A table of triples by "
        "chunk needs a column chunk_id"
    )


def _needed(triple: Triple, *, relation: bool) -> set[str]:
    """The words a chunk has to have to be taken for one that says the fact."""
    said = f"{triple.head} {triple.relation if relation else ''} {triple.tail}"
    return {word for word in _WORD.findall(said.casefold()) if word not in STOP_WORDS}


def _as_written(triple: Triple, text: str) -> Triple:
    """The fact with its names as the chunk writes them: the graph keeps them in small letters, without punctuation."""
    return Triple(_name_as_written(triple.head, text), triple.relation, _name_as_written(triple.tail, text))


def _name_as_written(name: str, text: str) -> str:
    pattern = r"[^\w\n]{1,3}".join(map(re.escape, _WORD.findall(name)))
    match = re.search(rf"(?<!\w){pattern}(?!\w)", text, re.IGNORECASE) if pattern else None
    return match.group() if match else name
