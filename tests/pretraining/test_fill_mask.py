"""The best words for a mask; tests/models/test_pretraining.py compares the head with others'."""

import numpy as np
import pytest
from scipy.special import softmax

from bertcnn.encoders.checkpoint import EncoderCheckpoint, head_of, read_checkpoint
from bertcnn.encoders.folder import Pieces, write_encoder
from bertcnn.errors import EncoderError, SettingsError
from bertcnn.models.bert import Bert
from bertcnn.models.pretraining import BertPretraining
from bertcnn.models.weights import assign
from bertcnn.pretraining.masked_words import fill_mask
from bertcnn.settings import EncoderSettings
from bertcnn.shapes import pretraining_shapes

VOCABULARY = tuple(
    "[PAD] [UNK] [CLS] [SEP] [MASK] rome is the of italy . capital king ##s".split()  # noqa: SIM905
)
SETTINGS = EncoderSettings(
    vocabulary_size=len(VOCABULARY),
    width=16,
    layers=1,
    heads=2,
    feed_forward_width=8,
    max_positions=12,
)


def write(folder, *, heads=("pooler", "mlm", "nsp"), settings=SETTINGS, scale=0.0):
    """An encoder with random weights; "capital" and "king" have a bias of the MLM head."""
    folder.mkdir()
    generator = np.random.default_rng(0)
    tensors = {
        name: generator.normal(0, scale, shape).astype(np.float32)
        for name, shape in pretraining_shapes(settings).items()
        if head_of(name) in (None, *heads)
    }
    if "mlm" in heads:
        tensors["mlm/bias"][[VOCABULARY.index("capital"), VOCABULARY.index("king")]] += np.log(
            [60, 28]
        )
    write_encoder(folder, EncoderCheckpoint(settings, tensors), Pieces(VOCABULARY, lowercase=True))
    return folder


def test_predictions_come_from_the_head_with_probabilities_over_all_pieces(tmp_path):
    (guesses,) = fill_mask(write(tmp_path / "encoder"), "Rome is the [MASK] of Italy.", best=3)
    assert [(guess.piece, round(guess.probability, 4)) for guess in guesses] == [
        ("capital", 0.6),
        ("king", 0.28),
        ("[PAD]", 0.01),
    ]


def test_every_mask_is_predicted_at_its_own_position(tmp_path):
    # rows of the embeddings without a piece of the vocabulary keep their share, and are not named
    settings = SETTINGS.model_copy(update={"vocabulary_size": len(VOCABULARY) + 10})
    folder = write(tmp_path / "encoder", settings=settings, scale=1.0)
    gaps = fill_mask(folder, "[MASK] is[MASK]", best=99)
    checkpoint = read_checkpoint(folder)
    model = BertPretraining(Bert(settings, name="bert"))
    assign(model.weights, checkpoint.tensors, error=EncoderError)
    token_ids = np.array([[2, 4, VOCABULARY.index("is"), 4, 3]], np.int32)
    text = {"segment_ids": 0 * token_ids, "padding_mask": 0 * token_ids + 1}
    places = np.array([[1, 3]], np.int32)
    outputs = model({"token_ids": token_ids, **text, "masked_positions": places})
    for guesses, expected in zip(gaps, softmax(outputs["mlm_logits"][0], axis=-1), strict=True):
        found = {guess.piece: guess.probability for guess in guesses}
        assert found == pytest.approx(dict(zip(VOCABULARY, expected, strict=False)), abs=1e-6)
        assert list(found.values()) == sorted(found.values(), reverse=True)
    assert fill_mask(folder, "[MASK]is [MASK]") == [guesses[:5] for guesses in gaps]


@pytest.mark.parametrize(
    ("text", "best", "message"),
    [
        ("Rome is the capital of Italy.", 5, r"has no \[MASK\]; expected one or more gaps"),
        ("[MASK] " * 11, 5, "a text of more than 12 tokens; expected at most 12"),
        ("the " * 40 + "[MASK]", 5, "a text of more than 12 tokens; expected at most 12"),
        ("[MASK]", 0, r"0 predictions for each \[MASK\]; expected at least 1"),
    ],
)
def test_a_text_without_mask_is_refused(tmp_path, text, best, message):
    with pytest.raises(SettingsError, match=message):
        fill_mask(write(tmp_path / "encoder"), text, best=best)


def test_an_encoder_without_the_head_is_refused_with_the_names_of_others(tmp_path):
    message = (
        "'encoder' has no MLM head, so .* expected a head .* that shares the token embeddings.*"
        " give bert-base-uncased, .*BertForMaskedLM .*bertcnn pretrain TEXTS --out ENCODER"
    )
    with pytest.raises(EncoderError, match=message):
        fill_mask(write(tmp_path / "encoder", heads=("pooler",)), "[MASK]")
