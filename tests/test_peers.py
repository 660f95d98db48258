"""The peers are asked fairly: through their own classes, at the largest output that a budget allows."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from apl.errors import MissingDependency
from apl.testing import HashEmbedder

TEXTS = (
    "Northstar\nNorthstar acquired DeltaPay in March 2022. The price was never published. Lawyers were content.",
    "DeltaPay\nDeltaPay recorded 12 GDPR incidents before the acquisition. It recorded 5 incidents afterward.",
    "CloudCo\nCloudCo signed a vendor contract with DeltaPay in 2024. The contract runs for three years.",
)
pytestmark = pytest.mark.filterwarnings("ignore:`langchain-community` is being sunset:DeprecationWarning")

QUESTION = "How many GDPR incidents did DeltaPay record before the acquisition?"


@pytest.fixture
def peers(tiktoken_offline: None, benchmark_path: None) -> ModuleType:
    return import_module("peers")


@pytest.fixture
def vectors(peers: ModuleType) -> Any:
    """A cache over hash vectors that also counts the texts it had to embed."""
    embedder, asked = HashEmbedder(), []

    def embed(texts: Sequence[str]) -> Any:
        asked.extend(texts)
        return embedder.embed(texts)

    cache = peers.VectorCache(embed)
    cache.asked = asked
    return cache


@pytest.fixture(params=["optimizer", "chunks", "sentences"])
def peer(request: pytest.FixtureRequest, peers: ModuleType, vectors: Any) -> Any:
    if request.param == "optimizer":
        return peers.SentenceOptimizerPeer(vectors)
    return peers.EmbeddingsFilterPeer(vectors, request.param)


class TestSearch:
    """The parameter is the one with the largest output that fits."""

    @pytest.mark.parametrize(("budget", "expected"), [(5, 1), (10, 1), (39, 3), (40, 4), (1000, 9)])
    def test_bisecting_finds_the_last_setting_that_fits_and_else_the_first(
        self, peers: ModuleType, budget: int, expected: int
    ) -> None:
        """Ten tokens a setting: four settings fit into forty tokens; nothing fits into five, the smallest stands."""
        assert peers.bisected(lambda setting: int(10 * setting), range(1, 10), budget) == expected

    @pytest.mark.parametrize("share", [0.5, 0.9, 1.0, 1.3])
    def test_a_budget_is_moved_until_the_output_fits_and_is_close(self, peers: ModuleType, share: float) -> None:
        """A peer that sends half or a third more than it is told is led to the tokens that are allowed."""
        setting = peers.aimed(lambda named: int(share * named), 300, whole=1000)
        assert 0.95 * 300 <= int(share * setting) <= 300

    def test_a_peer_that_cannot_send_so_little_is_left_at_its_smallest(self, peers: ModuleType) -> None:
        """The search ends, and what is found is small."""
        assert peers.aimed(lambda named: 500, 300, whole=1000) < 1


class TestCache:
    """Vectors are embedded once, and again where a call is timed without them."""

    def test_a_text_is_embedded_once_and_anew_while_emptied(self, vectors: Any) -> None:
        """What was cached before is back afterwards."""
        vectors.rows(["a", "b", "a"])
        vectors.rows(["b", "c"])
        assert vectors.asked == ["a", "b", "c"]
        with vectors.emptied():
            vectors.rows(["a"])
        vectors.rows(["a", "b", "c"])
        assert vectors.asked == ["a", "b", "c", "a"]


class TestHosts:
    """LlamaIndex and LangChain, through their own classes."""

    def test_outputs_grow_with_the_budget_and_fit(self, peer: Any) -> None:
        """From 40 tokens on every peer here fits, and with all tokens it sends every sentence."""
        sent = [peer.compress(QUESTION, TEXTS, budget) for budget in (40, 60, 500)]
        assert [s.within for s in sent] == [True, True, True]
        assert sent[0].tokens <= sent[1].tokens <= 60 < sent[2].tokens
        sentences = [line for text in TEXTS for part in text.split("\n") for line in part.split(". ")]
        assert all(sentence.rstrip(".") in sent[2].text for sentence in sentences)

    def test_the_smallest_output_is_marked_where_even_that_is_too_large(self, peer: Any) -> None:
        """One token holds nothing: one unit is sent, and it is said that it does not fit."""
        sent = peer.compress(QUESTION, TEXTS, 1)
        assert not sent.within
        assert 1 < sent.tokens <= 30
        assert "\n\n" not in sent.text

    def test_nothing_is_sent_of_nothing(self, peer: Any) -> None:
        """No texts, no output, no error."""
        assert peer.compress(QUESTION, [], 10).text == peer.compress(QUESTION, [" "], 10).text == ""

    def test_only_the_call_as_run_embeds_again(self, peer: Any, vectors: Any) -> None:
        """A second budget finds all vectors; as a user runs it, the question and every unit are embedded."""
        sent = peer.compress(QUESTION, TEXTS, 60)
        known = len(vectors.asked)
        peer.compress(QUESTION, TEXTS, 40)
        assert len(vectors.asked) == known
        assert peer.as_run_ms(QUESTION, TEXTS, sent) > 0
        assert len(vectors.asked) == 2 * known

    def test_the_filter_sends_the_nearest_sentence_first(self, peers: ModuleType, vectors: Any) -> None:
        """Sentences as documents, by falling similarity, a blank line between."""
        sent = peers.EmbeddingsFilterPeer(vectors, "sentences").compress(QUESTION, TEXTS, 60)
        cosines = vectors.cosines(QUESTION, sent.text.split("\n\n")).tolist()
        assert len(cosines) == sent.setting > 1
        assert cosines == sorted(cosines, reverse=True)


class TestMissing:
    """What is not installed is left out, and said how to install."""

    def test_the_message_names_the_command(self, peers: ModuleType, vectors: Any, monkeypatch: Any) -> None:
        """The benchmark goes on without."""
        monkeypatch.setitem(sys.modules, "llmslim", None)
        with pytest.raises(MissingDependency, match="pip install llmslim==") as caught:
            peers.LLMSlimPeer(vectors)
        assert caught.value.command == "pip install llmslim==0.11.2"

    def test_the_others_are_given_and_the_missing_named_once(
        self, peers: ModuleType, monkeypatch: Any, capsys: Any
    ) -> None:
        """Two set-ups of one tool are one message."""
        monkeypatch.setitem(sys.modules, "llmslim", None)
        monkeypatch.setitem(sys.modules, "trimwise", None)
        names = [peer.name for peer in peers.peers_available(HashEmbedder().embed)]
        assert [name.split()[0] for name in names] == ["LlamaIndex", "LangChain", "LangChain"]
        assert capsys.readouterr().err.count("left out:") == 2


class TestBudgeted:
    """Tools with a budget of their own."""

    def test_llmslim_is_asked_in_mode_rag_until_it_fits(
        self, peers: ModuleType, vectors: Any, monkeypatch: Any
    ) -> None:
        """A stand-in that keeps twice what it is told: the ratio is halved, empty documents are left out."""
        asked = []

        def compress_documents(documents: list[str], *, target_ratio: float, **options: Any) -> list[Any]:
            asked.append(options)
            words = documents[0].split()
            return [
                SimpleNamespace(compressed_text=" ".join(words[: int(2 * target_ratio * len(words))])),
                SimpleNamespace(compressed_text=""),
            ]

        monkeypatch.setitem(sys.modules, "llmslim", SimpleNamespace(compress_documents=compress_documents))
        sent = peers.LLMSlimPeer(vectors, "embedding").compress(QUESTION, ["one two three four " * 50, "five"], 100)
        assert sent.within
        assert 80 <= sent.tokens <= 100
        assert not sent.text.endswith("\n")
        assert {"query": QUESTION, "mode": "rag", "relevance": vectors.cosines} == asked[0]

    @pytest.mark.skipif(find_spec("llmslim") is None or find_spec("trimwise") is None, reason="peers are not installed")
    def test_the_installed_tools_keep_to_the_budget(self, peers: ModuleType) -> None:
        """All seven set-ups."""
        for peer in peers.peers_available(HashEmbedder().embed)[3:]:
            sent = peer.compress(QUESTION, TEXTS, 40)
            assert sent.within, peer.name
            assert "incidents" in sent.text, peer.name
