"""The encoder with start and end scores, compared with PyTorch's."""

from pathlib import Path

import numpy as np
import pytest

from bertcnn.models.bert import Bert
from bertcnn.models.token_scores import BertQuestionAnswering
from bertcnn.settings import EncoderSettings
from bertcnn.shapes import question_answering_shapes

with np.load(Path(__file__).parent.parent / "golden" / "spans_golden.npz") as file:
    GOLDEN = dict(file)
INPUTS = {name: GOLDEN[name] for name in ("token_ids", "segment_ids", "padding_mask")}
REAL = INPUTS["padding_mask"] == 1
ROWS, TOKENS = REAL.shape
SETTINGS = EncoderSettings(  # as in golden/make_spans_golden.py
    vocabulary_size=40, width=16, layers=2, heads=4, feed_forward_width=32, max_positions=12
)
THEIR_NAMES = {
    "embeddings/tokens": "tokens.weight",
    "embeddings/positions": "positions.weight",
    "embeddings/segments": "segments.weight",
    "attention/output": "self_attn.out_proj",
    "attention_norm": "norm1",
    "expand": "linear1",
    "contract": "linear2",
    "output_norm": "norm2",
    "embeddings/normalize": "normalize",
    "spans": "spans",
}
THEIR_PARTS = {"kernel": "weight", "gamma": "weight", "bias": "bias", "beta": "bias"}
PROJECTIONS = ("query", "key", "value")


def golden_value(path):
    """PyTorch's value of one of our weights; its matrices are transposed, its projections fused."""
    if path in THEIR_NAMES:
        return GOLDEN[f"weights/{THEIR_NAMES[path]}"]
    name, part = path.rsplit("/", 1)
    place = "weights/"
    if name.startswith("layer_"):
        layer, name = name.split("/", 1)
        place += f"layers.{layer.removeprefix('layer_')}."
    projection = name.removeprefix("attention/")
    if projection in PROJECTIONS:
        joined = GOLDEN[f"{place}self_attn.in_proj_{THEIR_PARTS[part]}"]
        return np.split(joined, 3)[PROJECTIONS.index(projection)].T
    return GOLDEN[f"{place}{THEIR_NAMES[name]}.{THEIR_PARTS[part]}"].T


@pytest.fixture(scope="module")
def model():
    """Do not change it."""
    made = BertQuestionAnswering(Bert(SETTINGS), name="answers")
    for weight in made.weights:
        if not weight.path.startswith("pooler/"):
            weight.assign(golden_value(weight.path))
    return made


@pytest.mark.on_jax
def test_it_equals_pytorch_with_the_same_weights(model):
    assert not REAL.all()  # one row is padded
    assert all(set(row) == {0, 1} for row in INPUTS["segment_ids"])  # each has both segments
    scores = np.asarray(model(INPUTS))
    np.testing.assert_allclose(scores[REAL], GOLDEN["scores"][REAL], rtol=0, atol=1e-5)
    assert scores.std() > 0.1


def test_the_scores_are_float32_in_half_precision_too():
    half = BertQuestionAnswering(Bert(SETTINGS, dtype="mixed_bfloat16"))
    scores = half(INPUTS)
    assert scores.dtype == "float32"
    assert np.isfinite(scores).all()


def test_its_weights_have_the_stated_shapes_without_the_pooler(model):
    shapes = {weight.path: tuple(weight.shape) for weight in model.weights}
    without_pooler = {name: shape for name, shape in shapes.items() if "pooler" not in name}
    assert without_pooler == question_answering_shapes(SETTINGS)
    assert without_pooler["spans/kernel"] == (SETTINGS.width, 2)


@pytest.mark.on_jax
def test_padding_changes_nothing(model):
    scores = np.asarray(model(INPUTS))
    padded = {name: np.pad(values, ((0, 0), (0, 3))) for name, values in INPUTS.items()}
    padding = padded["padding_mask"] == 0
    padded["token_ids"][padding], padded["segment_ids"][padding] = 7, 1
    found = np.asarray(model(padded))[:, :TOKENS]
    np.testing.assert_allclose(found[REAL], scores[REAL], rtol=0, atol=1e-5)
    for row, mask in enumerate(REAL):
        alone = model({name: values[row : row + 1, mask] for name, values in INPUTS.items()})
        np.testing.assert_allclose(alone[0], scores[row, mask], rtol=0, atol=1e-5)


def test_config_makes_the_same_network_again():
    made = BertQuestionAnswering(Bert(SETTINGS, seed=4), seed=3, name="answers")
    twin = BertQuestionAnswering.from_config(made.get_config())
    assert twin.get_config() == made.get_config()
    assert (twin.name, twin.seed, twin.encoder.settings) == ("answers", 3, SETTINGS)
    np.testing.assert_array_equal(twin(INPUTS), made(INPUTS))  # the seed is part of it
    other = BertQuestionAnswering(Bert(SETTINGS, seed=4), seed=4)
    assert not np.allclose(other(INPUTS), made(INPUTS))
