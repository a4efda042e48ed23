"""The pretraining heads and their losses."""

import math
from pathlib import Path

import keras
import numpy as np
import pytest

from bertcnn.encoders.checkpoint import published_name
from bertcnn.errors import EncoderError
from bertcnn.models.bert import Bert
from bertcnn.models.pretraining import BertPretraining, pretraining_figures
from bertcnn.models.weights import assign, extract
from bertcnn.settings import EncoderSettings
from bertcnn.training.step import make_figures, make_gradients
from tests.models.test_bert import alone, packed_row

VOCABULARY, WIDTH, LAYERS, HEADS, INNER, POSITIONS = 120, 16, 2, 2, 32, 12
SETTINGS = EncoderSettings(
    vocabulary_size=VOCABULARY,
    width=WIDTH,
    layers=LAYERS,
    heads=HEADS,
    feed_forward_width=INNER,
    max_positions=POSITIONS,
    dropout=0.0,
    attention_dropout=0.0,
)
TARGETS = ("masked_labels", "masked_weights", "next_labels", "next_weights")


@pytest.fixture(scope="module")
def golden():
    with np.load(Path(__file__).parent.parent / "golden" / "pretraining_golden.npz") as file:
        return dict(file)


def theirs(golden, kind, name):
    published = published_name(name)
    value = golden[f"{kind}/{published if published.startswith('cls.') else f'bert.{published}'}"]
    return value.T if name.endswith("/kernel") else value


@pytest.fixture(scope="module")
def model(golden):
    made = BertPretraining(Bert(SETTINGS, name="bert"), name="pretraining")
    assign(
        made.weights,
        {weight.path: theirs(golden, "weights", weight.path) for weight in made.weights},
        error=EncoderError,
    )
    return made


@pytest.fixture(scope="module")
def batch(golden):
    weights = golden["masked_weights"]
    rows = len(golden["next_labels"])
    means = {
        "masked_weights": weights / weights.sum(),
        "next_weights": np.full(rows, 1 / rows, np.float32),
    }
    return {**{name: value for name, value in golden.items() if "/" not in name}, **means}


def inputs_of(model, batch):
    return {name: batch[name] for name in model.input}


@pytest.mark.on_jax
def test_logits_losses_and_every_gradient_equal_hugging_face(model, batch, golden):
    outputs = model(inputs_of(model, batch))
    for name in ("mlm_logits", "nsp_logits"):
        np.testing.assert_allclose(outputs[name], golden[name], atol=1e-5)
    found, gradients = make_gradients(model, pretraining_figures)(
        inputs_of(model, batch), {name: batch[name] for name in TARGETS}
    )
    assert float(found["mlm_loss"]) == pytest.approx(float(golden["mlm_loss"]), abs=1e-5)
    assert float(found["nsp_loss"]) == pytest.approx(float(golden["nsp_loss"]), abs=1e-5)
    assert float(found["loss"]) == pytest.approx(
        float(golden["mlm_loss"] + golden["nsp_loss"]), abs=1e-5
    )
    watched = make_figures(model, pretraining_figures)(
        inputs_of(model, batch), {name: batch[name] for name in TARGETS}
    )
    assert watched == pytest.approx({name: float(value) for name, value in found.items()}, abs=1e-5)
    for weight, gradient in zip(model.trainable_variables, gradients, strict=True):
        wanted = theirs(golden, "gradients", weight.path)
        difference = np.linalg.norm(np.asarray(gradient) - wanted)
        # a key's bias adds the same value to all scores of a query, which softmax ignores: its
        # gradient is rounding error
        assert difference <= 1e-4 * np.linalg.norm(wanted) or weight.path.endswith("key/bias"), (
            weight.path
        )
        assert difference < 1e-4, weight.path


def test_accuracies_count_only_weighted_positions(model, batch, golden):
    figures = pretraining_figures(model(inputs_of(model, batch)), batch)
    right = (golden["mlm_logits"].argmax(-1) == golden["masked_labels"]) * golden["masked_weights"]
    assert float(figures["mlm_accuracy"]) == pytest.approx(
        right.sum() / golden["masked_weights"].sum()
    )
    assert float(figures["nsp_accuracy"]) == pytest.approx(
        np.mean(golden["nsp_logits"].argmax(-1) == golden["next_labels"])
    )


@pytest.mark.parametrize(
    ("vocabulary", "width"), [(VOCABULARY, WIDTH), (4000, 256)], ids=["tiny", "mini"]
)
def test_an_initialised_model_predicts_uniformly(vocabulary, width):
    rows, places = 64, 8
    settings = SETTINGS.model_copy(update={"vocabulary_size": vocabulary, "width": width})
    model = BertPretraining(Bert(settings), seed=3)
    generator = np.random.default_rng(0)
    token_ids = generator.integers(0, vocabulary, (rows, POSITIONS)).astype(np.int32)
    inputs = {
        "token_ids": token_ids,
        "segment_ids": np.zeros_like(token_ids),
        "padding_mask": np.ones_like(token_ids),
    }
    outputs = model(
        {**inputs, "masked_positions": np.tile(np.arange(places, dtype=np.int32), (rows, 1))}
    )
    figures = pretraining_figures(
        outputs,
        {
            "masked_labels": generator.integers(0, vocabulary, (rows, places)).astype(np.int32),
            "masked_weights": np.full((rows, places), 1 / (rows * places), np.float32),
            "next_labels": generator.integers(0, 2, rows).astype(np.int32),
            "next_weights": np.full(rows, 1 / rows, np.float32),
        },
    )
    assert float(figures["mlm_loss"]) == pytest.approx(math.log(vocabulary), rel=0.02)
    assert float(figures["nsp_loss"]) == pytest.approx(math.log(2), rel=0.02)


def test_config_makes_the_same_network_again(model):
    twin = BertPretraining.from_config(model.get_config())
    assert twin.get_config() == model.get_config()
    assert extract(twin.weights).keys() == extract(model.weights).keys()


def test_packed_rows_give_the_logits_of_unpacked_ones():
    """Documents of 5, 7 and 4 tokens, each in a row of its own, and packed into two rows of 12."""
    generator = np.random.default_rng(2)
    unpacked = BertPretraining(Bert(SETTINGS, name="bert"))
    # larger than initial weights, so that attention to a neighbour would show
    for weight in unpacked.trainable_weights:
        weight.assign(weight + generator.normal(0, 0.2, weight.shape))
    packed = BertPretraining(Bert(SETTINGS, packed=True, name="bert"))
    assign(packed.weights, extract(unpacked.weights), error=EncoderError)
    documents = [generator.integers(5, VOCABULARY, length).astype(np.int32) for length in (5, 7, 4)]
    parts = packed_row(documents[:2], POSITIONS), packed_row(documents[2:], POSITIONS)
    rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    rows["document_starts"] = np.array([[0, 5], [0, 0]], np.int32)
    rows["masked_positions"] = np.array([[1, 3, 7, 11], [0, 2, 0, 0]], np.int32)
    found = packed(rows)
    places = [(0, 0, 0, [1, 3]), (0, 1, 2, [2, 6]), (1, 0, 0, [0, 2])]
    for tokens, (row, document, first, positions) in zip(documents, places, strict=True):
        wanted = unpacked({**alone(tokens), "masked_positions": np.array([positions])})
        masked = found["mlm_logits"][row, first : first + 2]
        np.testing.assert_allclose(masked, wanted["mlm_logits"][0], atol=1e-4)
        following = found["nsp_logits"][row, document]
        np.testing.assert_allclose(following, wanted["nsp_logits"][0], atol=1e-4)


def test_losses_are_float32_in_half_precision():
    half = BertPretraining(Bert(SETTINGS, dtype="mixed_bfloat16"))
    token_ids = np.ones((2, 6), np.int32)
    outputs = half(
        {
            "token_ids": token_ids,
            "segment_ids": token_ids * 0,
            "padding_mask": token_ids,
            "masked_positions": token_ids[:, :2],
        }
    )
    assert {keras.backend.standardize_dtype(output.dtype) for output in outputs.values()} == {
        "float32"
    }
