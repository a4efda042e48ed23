"""The best words for a mask."""

import numpy as np
import pytest
from scipy.special import softmax

from bertcnn.encoders.checkpoint import EncoderCheckpoint, head_of
from bertcnn.encoders.folder import Pieces, write_encoder
from bertcnn.errors import EncoderError, SettingsError
from bertcnn.pretraining.masked_words import fill_mask
from bertcnn.settings import EncoderSettings
from bertcnn.shapes import pretraining_shapes
from tests.pretraining import published_bert

VOCABULARY = (
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "rome",
    "is",
    "the",
    "of",
    "italy",
    ".",
    "capital",
    "king",
    "##s",
)
SETTINGS = EncoderSettings(
    vocabulary_size=len(VOCABULARY),
    width=16,
    layers=1,
    heads=2,
    feed_forward_width=8,
    max_positions=12,
)


def write(folder, *, heads=("pooler", "mlm", "nsp")):
    """An encoder that prefers "capital", then "king", by the bias of its MLM head alone."""
    folder.mkdir()
    tensors = {
        name: np.zeros(shape, np.float32)
        for name, shape in pretraining_shapes(SETTINGS).items()
        if head_of(name) in (None, *heads)
    }
    if "mlm" in heads:
        tensors["mlm/bias"][[VOCABULARY.index("capital"), VOCABULARY.index("king")]] = np.log(
            [60, 28]
        )
    write_encoder(folder, EncoderCheckpoint(SETTINGS, tensors), Pieces(VOCABULARY, lowercase=True))
    return folder


def test_the_head_decides_and_probabilities_are_among_all_pieces(tmp_path):
    (guesses,) = fill_mask(write(tmp_path / "encoder"), "Rome is the [MASK] of Italy.", best=3)
    assert [(guess.piece, round(guess.probability, 4)) for guess in guesses] == [
        ("capital", 0.6),
        ("king", 0.28),
        ("[PAD]", 0.01),
    ]


def test_every_gap_is_guessed_from_its_own_place(tmp_path):
    folder = write(tmp_path / "encoder")
    generator = np.random.default_rng(0)
    tensors = {
        name: generator.normal(size=shape).astype(np.float32)
        for name, shape in pretraining_shapes(SETTINGS).items()
    }
    for path in folder.iterdir():
        path.unlink()
    write_encoder(folder, EncoderCheckpoint(SETTINGS, tensors), Pieces(VOCABULARY, lowercase=True))
    first, second = fill_mask(folder, "[MASK] is [MASK]", best=len(VOCABULARY))
    for guesses in (first, second):
        assert {guess.piece for guess in guesses} == set(VOCABULARY)
        assert sum(guess.probability for guess in guesses) == pytest.approx(1, abs=1e-6)
    assert first != second
    assert fill_mask(folder, "[MASK]is[MASK]") == [gap[:5] for gap in (first, second)]


@pytest.mark.parametrize("change", ["as saved", "before 2019", "decoder saved too"])
def test_a_published_checkpoint_predicts_what_numpy_computes(tmp_path, change):
    weights = published_bert.random_weights()
    pieces = published_bert.VOCABULARY
    ids = [2, pieces.index("rome"), *map(pieces.index, ("is", "[MASK]", "of", "[MASK]", ".")), 3]
    chances = softmax(published_bert.masked_logits(weights, ids), axis=-1)[[3, 5]]  # [P, V]
    saved = dict(weights)
    if change == "before 2019":
        names = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
        for new, old in names.items():
            saved = {name.replace(new, old): value for name, value in saved.items()}
    elif change == "decoder saved too":
        saved["cls.predictions.decoder.weight"] = saved["bert.embeddings.word_embeddings.weight"]
        saved["cls.predictions.decoder.bias"] = saved.pop("cls.predictions.bias")
    folder = published_bert.save_published(tmp_path / "published", saved)
    gaps = fill_mask(folder, "Rome is [MASK] of [MASK].", best=len(pieces))
    for guesses, expected in zip(gaps, chances, strict=True):
        found = {guess.piece: guess.probability for guess in guesses}
        assert found == pytest.approx(dict(zip(pieces, expected, strict=False)), abs=1e-6)
    # rows of the embeddings without a piece of the vocabulary keep their share, and are not named
    assert len(fill_mask(folder, "[MASK]", best=99)[0]) == len(pieces) < published_bert.PADDED


@pytest.mark.parametrize(
    ("text", "best", "message"),
    [
        (
            "Rome is the capital of Italy.",
            5,
            r"'Rome is the capital of Italy\.' has no \[MASK\]; expected one or more gaps",
        ),
        ("[MASK] " * 11, 5, "a text of more than 12 tokens; expected at most 12"),
        ("the " * 40 + "[MASK]", 5, "a text of more than 12 tokens; expected at most 12"),
        ("[MASK]", 0, r"0 predictions for each \[MASK\]; expected at least 1"),
    ],
)
def test_a_text_that_cannot_be_filled_is_refused(tmp_path, text, best, message):
    with pytest.raises(SettingsError, match=message):
        fill_mask(write(tmp_path / "encoder"), text, best=best)


def test_an_encoder_without_the_head_is_refused_with_the_names_of_others(tmp_path):
    message = (
        r"the encoder 'encoder' has no MLM head, so .* What to do: give bert-base-uncased, a folder"
        r" saved by Hugging Face's BertForMaskedLM or BertForPreTraining, or one of .bertcnn"
        r" pretrain TEXTS --out ENCODER"
    )
    with pytest.raises(EncoderError, match=message):
        fill_mask(write(tmp_path / "encoder", heads=("pooler",)), "[MASK]")
    weights = published_bert.random_weights()
    tokens = weights["bert.embeddings.word_embeddings.weight"]
    other = {**weights, "cls.predictions.decoder.weight": tokens + 1}
    folder = published_bert.save_published(tmp_path / "untied", other)
    with pytest.raises(EncoderError, match=r"expected a head .* that shares the token embeddings"):
        fill_mask(folder, "[MASK]")
