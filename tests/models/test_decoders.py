"""What the models that write token by token have in common."""

import keras
import numpy as np
import pytest

from bertcnn.models import CausalTransformer
from bertcnn.models.bert import Bert
from bertcnn.models.recurrent import RecurrentTranslator
from bertcnn.models.summariser import BertSummariser
from bertcnn.models.transformer import Transformer
from bertcnn.settings import (
    EncoderSettings,
    LanguageModelSettings,
    SummariserSettings,
    TranslatorSettings,
)
from bertcnn.shapes import (
    encoder_shapes,
    language_model_shapes,
    parameters_of,
    summariser_shapes,
    translator_shapes,
)
from bertcnn.tasks.summaries.fitting import summary_figures
from bertcnn.training.step import make_gradients

VOCABULARY, TOKENS = 11, 5
SHAPE = {"vocabulary_size": VOCABULARY, "width": 16, "heads": 4, "feed_forward_width": 24}
LIMITS = {"source_tokens": 10, "target_tokens": 6}
ENCODER = EncoderSettings(layers=1, **SHAPE)
SETTINGS = {
    Transformer: TranslatorSettings(**SHAPE, **LIMITS, layers=2, dropout=0.1),
    RecurrentTranslator: TranslatorSettings(
        architecture="recurrent", vocabulary_size=VOCABULARY, width=8, dropout=0.1, **LIMITS
    ),
    CausalTransformer: LanguageModelSettings(**SHAPE, layers=2, context_tokens=8, dropout=0.1),
    BertSummariser: SummariserSettings(layers=2, feed_forward_width=24, **LIMITS),
}
SOURCE = np.array([[4, 5, 6, 7, 8, 3], [9, 4, 3, 0, 0, 0], [3, 0, 0, 0, 0, 0]], np.int32)
TARGET = np.array([[2, 5, 6, 7, 8], [2, 9, 9, 4, 6], [2, 10, 7, 6, 1]], np.int32)
WITH_SOURCE = pytest.mark.parametrize(
    "model", [Transformer, RecurrentTranslator, BertSummariser], indirect=True
)


def make(kind, *, seed=1, **changes):
    settings = SETTINGS[kind].model_copy(update=changes)
    if kind is BertSummariser:
        return BertSummariser(
            Bert(ENCODER, seed=2), settings, dropout=0.1, pad_id=0, seed=seed, name="decoder"
        )
    return kind(settings, pad_id=0, seed=seed, name="decoder")


def noisy(kind, **changes):
    """Weights larger than a fresh model's, and no bias at 0, so that every term matters."""
    made = make(kind, **changes)
    generator = np.random.default_rng(0)
    for weight in made.weights:
        weight.assign(weight + generator.normal(0, 0.3, weight.shape))
    return made


@pytest.fixture(scope="module", params=SETTINGS)
def model(request):
    """Do not change it."""
    return noisy(request.param)


def inputs_of(model, source_ids=SOURCE, target_ids=TARGET):
    if isinstance(model, CausalTransformer):
        return {"token_ids": target_ids}
    inputs = {"source_ids": source_ids, "target_ids": target_ids}
    if isinstance(model, BertSummariser):
        mask = (source_ids != 0).astype(np.int32)
        text = {"token_ids": source_ids, "segment_ids": 0 * source_ids, "padding_mask": mask}
        inputs["sequence_output"] = np.asarray(model.encoder(text))
    return inputs


def logits_of(model, *, training=False, **changed):
    """Logits of every next token, float [B, T, V]; log-probabilities if texts are copied too."""
    inputs = inputs_of(model, **changed)
    outputs = model(inputs, training=training)
    if not isinstance(model, BertSummariser):
        return np.asarray(outputs)
    outputs = {name: np.asarray(value) for name, value in outputs.items()}
    copied = outputs["pointer"] @ np.eye(VOCABULARY)[inputs["source_ids"]]
    share = outputs["generated"][..., None]
    return np.log(share * np.exp(outputs["vocabulary"]) + (1 - share) * copied)


def shapes_of(kind, settings):
    if kind is BertSummariser:
        return summariser_shapes(ENCODER, settings)
    return (language_model_shapes if kind is CausalTransformer else translator_shapes)(settings)


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("kind", SETTINGS)
def test_the_weights_have_the_computed_shapes(kind, layers):
    made, shapes = (
        make(kind, layers=layers),
        shapes_of(kind, SETTINGS[kind].model_copy(update={"layers": layers})),
    )
    assert {weight.path: tuple(weight.shape) for weight in made.weights} == shapes
    assert made.count_params() == parameters_of(shapes)


@pytest.mark.on_jax
@pytest.mark.parametrize("changed", range(1, TOKENS))
def test_a_later_token_never_changes_an_earlier_prediction(model, changed):
    other = TARGET.copy()
    other[:, changed] = 3
    before, after = logits_of(model), logits_of(model, target_ids=other)
    assert before.shape == (*TARGET.shape, VOCABULARY)
    assert np.isfinite(before).all()
    assert np.array_equal(before[:, :changed], after[:, :changed])
    assert (before[:, changed:] != after[:, changed:]).any(axis=-1).all()


@WITH_SOURCE
@pytest.mark.on_jax
@pytest.mark.parametrize("more", [1, 4])
def test_more_source_padding_changes_almost_nothing(model, more):
    padded = np.pad(SOURCE, ((0, 0), (0, more)))
    found = logits_of(model, source_ids=padded)
    np.testing.assert_allclose(found, logits_of(model), rtol=1e-5, atol=1e-5)


@WITH_SOURCE
def test_the_order_of_the_source_matters(model):
    other = SOURCE.copy()
    other[0, :2] = SOURCE[0, 1::-1]
    assert not np.allclose(logits_of(model, source_ids=other)[0], logits_of(model)[0], atol=1e-3)


@WITH_SOURCE
@pytest.mark.on_jax
def test_step_by_step_the_predictions_are_the_same(model):
    expected = logits_of(model)
    source = model.read(keras.ops.convert_to_tensor(SOURCE))
    written = model.begin(source)
    for place in range(TOKENS):
        token_ids = keras.ops.convert_to_tensor(TARGET[:, place])
        logits, written, attention = model.step(token_ids, place, source, written)
        np.testing.assert_allclose(logits, expected[:, place], rtol=1e-5, atol=1e-5)
        attention = np.asarray(attention)
        np.testing.assert_allclose(attention.sum(axis=-1), 1.0, rtol=0, atol=1e-6)
        assert ((attention > 0) == (SOURCE != 0)).all()


@pytest.mark.parametrize("kind", SETTINGS)
def test_the_config_makes_the_same_model(kind):
    made = make(kind)
    twin = kind.from_config(made.get_config())
    assert twin.get_config() == made.get_config()
    assert (twin.settings, twin.name) == (SETTINGS[kind], "decoder")
    np.testing.assert_array_equal(logits_of(twin), logits_of(made))  # the seed is part of it
    assert not np.allclose(logits_of(make(kind, seed=4)), logits_of(made))


def test_dropout_acts_in_training_only(model):
    np.testing.assert_array_equal(logits_of(model), logits_of(model))
    assert not np.allclose(logits_of(model, training=True), logits_of(model))


@pytest.mark.on_jax
def test_a_gradient_reaches_every_weight(model):
    def likelihood(logits, targets):
        true = keras.ops.one_hot(targets["target_ids"], VOCABULARY)
        return {"loss": -keras.ops.sum(keras.ops.log_softmax(logits) * true)}

    kind = type(model)
    targets = {"target_ids": np.roll(TARGET, -1, axis=1), "source_ids": SOURCE}
    targets["weights"] = np.ones(TARGET.shape, np.float32)
    loss = summary_figures if kind is BertSummariser else likelihood
    gradients = make_gradients(model, loss)(inputs_of(model), targets)[1]
    largest = {
        weight.path: np.abs(gradient).max()
        for weight, gradient in zip(model.trainable_variables, gradients, strict=True)
    }
    frozen = encoder_shapes(ENCODER).keys() if kind is BertSummariser else set()
    assert largest.keys() == shapes_of(kind, SETTINGS[kind]).keys() - frozen
    # a constant added to all scores does not change a softmax: that bias never has a gradient
    without = {path for path, value in largest.items() if value < 1e-4}
    assert without == {path for path in largest if path.endswith("key/bias")}


def test_both_layouts_of_the_positions_can_be_chosen():
    model, other = noisy(Transformer), noisy(Transformer, positions="concatenated")
    assert not np.allclose(logits_of(other), logits_of(model))


# === The decoder-only model ===


@pytest.mark.on_jax
@pytest.mark.parametrize("known", [1, 3, TOKENS])
def test_steps_with_cached_keys_and_values_equal_recomputation(known):
    model = noisy(CausalTransformer)
    whole = logits_of(model)
    prefix = np.where(np.arange(TOKENS) < known, TARGET, 0)  # the rest is not known yet
    kept = model.read(keras.ops.convert_to_tensor(prefix))
    for position in range(known - 1, TOKENS):
        token_ids = keras.ops.convert_to_tensor(TARGET[:, position])
        logits, kept = model.step(token_ids, position, kept)
        np.testing.assert_allclose(logits, whole[:, position], rtol=0, atol=1e-5)


# === The one that copies ===


def test_probabilities_sum_to_1_and_padding_is_never_copied():
    model = noisy(BertSummariser)
    np.testing.assert_allclose(np.exp(logits_of(model)).sum(axis=-1), 1.0, rtol=0, atol=1e-5)
    pointer = np.asarray(model(inputs_of(model))["pointer"])
    assert (pointer[np.repeat((SOURCE == 0)[:, None], TOKENS, axis=1)] == 0).all()


def test_the_pointer_moves_to_the_token_after_the_last_copied_one():
    """With a large score for it, and no other, the token after "5" and after "9" is copied."""
    model = noisy(BertSummariser)
    model.gate.bias.assign([-20.0])
    model.continuation.bias.assign([20.0])
    following = np.exp(logits_of(model))
    assert min(following[0, 1, 6], following[0, 2, 7], following[1, 1, 4]) > 0.99


def test_without_copying_only_vocabulary_scores_count():
    model, plain = noisy(BertSummariser), make(BertSummariser, copies=False)
    plain.set_weights(model.get_weights())
    logs = np.asarray(plain(inputs_of(plain))["vocabulary"])
    np.testing.assert_allclose(logits_of(plain), logs, rtol=1e-5, atol=1e-6)
    assert not np.allclose(logits_of(plain), logits_of(model), atol=1e-3)
