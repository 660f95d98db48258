"""`RebelExtractor`: the linearised strings, and the way through transformers with a tiny random model."""

from __future__ import annotations

import importlib.util
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apl.errors import ConfigError, ExtractionError, MissingDependency
from apl.protocols import TripleExtractor
from apl.providers import RebelExtractor
from apl.providers.extraction.linearised import Decoded, decode_linearised
from apl.sentences import split_sentences
from apl.symbols import Chunk, ExtractedTriple, Extraction, Passage, Triple

NATIONALITY = Triple("Punta Cana", "country", "Dominican Republic")
DISTRICT = Triple("Punta Cana", "located in", "Higuey")

needs_transformers = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None or importlib.util.find_spec("tokenizers") is None,
    reason="transformers is not installed",
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "<s><triplet> Punta Cana <subj> Dominican Republic <obj> country</s><pad><pad>", [NATIONALITY], id="one"
        ),
        pytest.param(
            "<s><triplet> Punta Cana <subj> Dominican Republic <obj> country <subj> Higuey <obj> located in</s>",
            [NATIONALITY, DISTRICT],
            id="two of one head",
        ),
        pytest.param(
            "<triplet> Punta Cana <subj> Higuey <obj> located in <triplet> Higuey <subj> Punta Cana <obj> contains",
            [DISTRICT, Triple("Higuey", "contains", "Punta Cana")],
            id="two heads",
        ),
        pytest.param(
            "<triplet>Punta Cana<subj>Dominican  Republic<obj>country<triplet>Punta Cana<subj>Dominican Republic<obj>country",
            [NATIONALITY],
            id="no blanks, said twice",
        ),
        pytest.param("<s></s>", [], id="nothing"),
    ],
)
def test_a_linearised_string_is_read_head_tail_relation(text: str, expected: list[Triple]) -> None:
    """The marker stands behind what it names: after `<subj>` comes the object, after `<obj>` the relation."""
    assert decode_linearised(text) == Decoded(tuple(expected))


@pytest.mark.parametrize(
    ("text", "malformed"),
    [
        pytest.param("<triplet> Punta Cana", 1, id="no statement"),
        pytest.param("<triplet> Punta Cana <subj> Higuey", 1, id="no relation"),
        pytest.param("<triplet> Punta Cana <subj> Higuey <obj>", 1, id="empty relation"),
        pytest.param("<triplet> <subj> Higuey <obj> located in", 1, id="no head"),
        pytest.param("<triplet> Punta Cana <obj> located in <subj> Higuey <obj> x", 1, id="markers out of order"),
        pytest.param("<triplet> Punta Cana <subj> Higuey <obj> in <obj> near", 1, id="two relations"),
        pytest.param("Punta Cana is a town", 1, id="prose"),
        pytest.param("<triplet> <triplet>", 0, id="empty blocks"),
    ],
)
def test_a_broken_piece_is_counted_and_the_others_kept(text: str, malformed: int) -> None:
    """Generation may be cut off anywhere."""
    assert decode_linearised(text) == Decoded((), malformed)
    good = "<triplet> Punta Cana <subj> Higuey <obj> located in"
    assert decode_linearised(f"{text} {good}") == Decoded((DISTRICT,), malformed)


@given(st.lists(st.sampled_from([*"ab <>", "<triplet>", "<subj>", "<obj>", "<s>"])).map("".join))
def test_any_string_can_be_decoded(text: str) -> None:
    """Whatever a model writes: no exception, no empty name, no marker in a name."""
    for triple in decode_linearised(text).triples:
        for part in (triple.head, triple.relation, triple.tail):
            assert part
            assert part == part.strip()
            assert not any(marker in part for marker in ("<triplet>", "<subj>", "<obj>"))


def test_a_wrong_model_or_number_is_a_config_error() -> None:
    """At once, not at the first sentence."""
    with pytest.raises(ConfigError, match=r"\(model, tokenizer\) pair"):
        RebelExtractor(object())  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="at least 1"):
        RebelExtractor(batch_size=0)


def test_nothing_is_loaded_before_a_sentence_is_read() -> None:
    """A name that nobody can load costs nothing until then; the name of the extractor is the model's."""
    extractor = RebelExtractor()
    assert isinstance(extractor, TripleExtractor)
    assert (extractor.name, RebelExtractor("models/mine").name) == ("rebel:rebel-large", "rebel:mine")
    assert extractor.extract([Passage(Chunk("```\nx = 1\n```"), split_sentences("```\nx = 1\n```"))]) == [Extraction()]
    assert pickle.loads(pickle.dumps(extractor)).name == extractor.name  # noqa: S301 - our own bytes


def test_a_missing_package_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the first sentence, where it is needed."""
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingDependency, match=r"pip install 'apl-rag\[local\]'"):
        RebelExtractor().extract([passage(TEXT)])


def passage(text: str) -> Passage:
    return Passage(Chunk(text), split_sentences(text))


TEXT = "Punta Cana is in Higuey. It rains."
WORDS = "punta cana is in higuey it rains dominican republic country located .".split()


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    """Whole words and REBEL's markers, built here."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    special = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    vocabulary = {word: number for number, word in enumerate([*special.values(), *WORDS])}
    raw = Tokenizer(models.WordLevel(vocabulary, special["unk_token"]))
    raw.normalizer = normalizers.Lowercase()
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    raw.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, **special)
    tokenizer.add_tokens(["<obj>", "<subj>", "<triplet>"], special_tokens=True)
    return tokenizer


@pytest.fixture(scope="module")
def model(tokenizer: Any) -> Any:
    """A BART of two layers that has learnt nothing."""
    import torch
    from transformers import BartConfig, BartForConditionalGeneration

    torch.manual_seed(7)
    config = BartConfig(
        vocab_size=len(tokenizer), d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=64,
        bos_token_id=0, pad_token_id=1, eos_token_id=2, decoder_start_token_id=0, forced_eos_token_id=2,
    )  # fmt: skip
    return BartForConditionalGeneration(config)


@pytest.fixture
def saying(tokenizer: Any, monkeypatch: pytest.MonkeyPatch, model: Any) -> Callable[[dict[str, str]], Any]:
    """Makes the model write, for each sentence that is read, what a test wrote down."""
    import torch

    def say(script: dict[str, str]) -> Any:
        def generate(*, input_ids: Any, **_: Any) -> Any:
            read = tokenizer.batch_decode(input_ids, skip_special_tokens=True)
            return torch.tensor(tokenizer([script[text] for text in read], padding=True)["input_ids"])

        monkeypatch.setattr(model, "generate", generate)
        return model

    return say


@needs_transformers
class TestModel:
    """The way there and back, without a download."""

    def test_a_random_model_writes_what_can_be_counted(self, model: Any, tokenizer: Any) -> None:
        """Real generation from real tokens: whatever comes out is read without an error, twice the same."""
        extractor = RebelExtractor((model, tokenizer), batch_size=2, num_beams=2, max_length=12)
        passages = [passage(TEXT), passage("Dominican Republic is located in Punta Cana."), passage("")]
        found = extractor.extract(passages)
        assert len(found) == 3
        assert found == extractor.extract(passages)
        assert found[2] == Extraction()
        assert sum(e.malformed + e.unsupported + len(e.triples) for e in found) > 0

    def test_triples_stand_at_their_sentences(self, saying: Any, tokenizer: Any) -> None:
        """Sentences are batched by length, results are in reading order; names of elsewhere are dropped and counted."""
        model = saying(
            {
                "punta cana is in higuey .": "<triplet> punta cana <subj> higuey <obj> located in "
                "<subj> dominican republic <obj> country <triplet> cana punta <subj> higuey <obj> is",
                "it rains .": "<triplet> it <subj> rains",
            }
        )
        extractor = RebelExtractor((model, tokenizer), batch_size=1)
        second, first = extractor.extract([passage("It rains."), passage(TEXT)])
        triple = Triple("punta cana", "located in", "higuey")
        assert first == Extraction((ExtractedTriple(triple, 0),), malformed=1, unsupported=2)
        assert second == Extraction(malformed=1)

    def test_a_saved_model_is_loaded_by_its_path(self, model: Any, tokenizer: Any, tmp_path: Path) -> None:
        """And again in a worker process, which gets the path only."""
        folder = tmp_path / "tiny-rebel"
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        extractor = RebelExtractor(folder, num_beams=1, max_length=8)
        again = pickle.loads(pickle.dumps(extractor))  # noqa: S301 - our own bytes
        assert len(pickle.dumps(extractor)) < 1000
        assert extractor.extract([passage(TEXT)]) == again.extract([passage(TEXT)])
        assert extractor.name == "rebel:tiny-rebel"

    def test_what_is_no_such_model_is_an_extraction_error(self, model: Any, tmp_path: Path) -> None:
        """An empty folder, and a tokenizer that does not know the markers."""
        with pytest.raises(ExtractionError, match="could not load"):
            RebelExtractor(tmp_path).extract([passage(TEXT)])

        class Plain:
            def get_vocab(self) -> dict[str, int]:
                return {"<triplet>": 1}

        with pytest.raises(ExtractionError, match="does not know <subj>, <obj>"):
            RebelExtractor((model, Plain())).extract([passage(TEXT)])
