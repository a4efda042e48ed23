"""The best words for a mask."""

import numpy as np
import pytest

from bertcnn.encoders.checkpoint import EncoderCheckpoint, head_of
from bertcnn.encoders.folder import Pieces, write_encoder
from bertcnn.errors import EncoderError, SettingsError
from bertcnn.pretraining.masked_words import fill_mask
from bertcnn.settings import EncoderSettings
from bertcnn.shapes import pretraining_shapes

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


def test_an_encoder_without_the_head_says_so(tmp_path):
    with pytest.raises(
        EncoderError, match=r"the encoder 'encoder' has no MLM head, so .* pretrain one"
    ):
        fill_mask(write(tmp_path / "encoder", heads=("pooler",)), "[MASK]")
