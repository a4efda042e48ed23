"""The loss and one training step."""

import gc

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertcnn.data import BatchPlan, Packing, lay_out
from bertcnn.models import Bert, BertCnn, CnnHead, build_classifier, extract
from bertcnn.settings import FULL, EncoderSettings, HeadSettings
from bertcnn.training.batches import Examples, labelled_batch
from bertcnn.training.optimizer import LayerwiseAdamW, layer_share
from bertcnn.training.step import (
    batch_parts,
    independent_cross_entropy,
    make_step,
    smoothed_cross_entropy,
)

CLASSES = 3
SHAPE = {"width": 16, "layers": 1, "heads": 2, "feed_forward_width": 32, "max_positions": 24}
ENCODER = EncoderSettings(vocabulary_size=120, **SHAPE)
STILL = EncoderSettings(vocabulary_size=120, **SHAPE, dropout=0.0, attention_dropout=0.0)


def classifier_and_step(weight_decay=0.1):
    model = build_classifier(ENCODER, HeadSettings(window_sizes=(1, 2), filters=8), CLASSES)
    optimizer = LayerwiseAdamW(0.01, layer_share(1, FULL), weight_decay=weight_decay, clip_norm=1.0)
    return model, optimizer, make_step(model, optimizer, smoothed_cross_entropy(0.1))


@pytest.fixture
def parts(make_rows, token_examples):
    examples, plan = token_examples(make_rows(6, 0)), BatchPlan(np.arange(6), 24, 8)
    return batch_parts(*labelled_batch(examples, plan, np.ones(CLASSES)))


@settings(max_examples=30)
@given(st.integers(0, 1000), st.integers(2, 6), st.floats(0, 0.9))
def test_the_loss_equals_keras_label_smoothing(seed, classes, smoothing):
    generator = np.random.default_rng(seed)
    logits = generator.normal(0, 5, (4, classes)).astype(np.float32)
    targets = np.eye(classes, dtype=np.float32)[generator.integers(0, classes, 4)]
    weights = generator.uniform(0.1, 2, 4).astype(np.float32)
    theirs = keras.losses.CategoricalCrossentropy(
        from_logits=True, label_smoothing=smoothing, reduction=None
    )(targets, logits)
    found = float(
        smoothed_cross_entropy(smoothing)(
            logits, {"targets": targets, "weights": weights / weights.sum()}
        )["loss"]
    )
    assert found == pytest.approx(np.average(np.asarray(theirs), weights=weights), rel=1e-5)


def test_rows_of_weight_zero_do_not_count():
    def loss(logits, targets, weights):
        given = {"targets": targets, "weights": weights}
        return smoothed_cross_entropy(0.1)(logits, given)["loss"]

    logits = np.array([[2.0, 0.0], [0.0, 9.0]], np.float32)
    targets = np.array([[1.0, 0.0], [1.0, 0.0]], np.float32)
    first = float(loss(logits[:1], targets[:1], np.ones(1, np.float32)))
    assert float(loss(logits, targets, np.array([1.0, 0.0], np.float32))) == pytest.approx(first)
    assert float(loss(logits, targets, np.zeros(2, np.float32))) == 0.0


def living_graphs():
    gc.collect()
    return sum(type(thing).__name__ == "FuncGraph" for thing in gc.get_objects())


def test_a_step_that_is_over_leaves_no_graph_in_memory(parts):
    before = living_graphs()
    model, optimizer, step = classifier_and_step()
    step(parts)
    assert living_graphs() > before
    del model, optimizer, step
    assert living_graphs() <= before


@pytest.mark.on_jax
def test_one_step_changes_every_trainable_weight(parts):
    model, _, step = classifier_and_step(weight_decay=0.0)
    before = {weight.path: weight.numpy() for weight in model.trainable_variables}
    first = step(parts)["loss"]
    same = [
        weight.path
        for weight in model.trainable_variables
        if np.array_equal(weight.numpy(), before[weight.path])
    ]
    # a key's bias adds the same value to all scores of a query, which softmax ignores
    assert not [name for name in same if not name.endswith("key/bias")]
    for _ in range(10):
        last = step(parts)["loss"]
    assert last < first


@pytest.mark.on_jax
def test_a_batch_in_parts_gives_the_step_of_the_whole_batch(make_rows, token_examples):
    """Parts of 2 rows, one with a filler, one with fillers only, and unequal row weights."""
    head = HeadSettings(window_sizes=(1, 2), filters=8, dropout=0.0)
    inputs, given_ = labelled_batch(
        token_examples(make_rows(5, 0)), BatchPlan(np.arange(5), 24, 8), np.array([0.5, 1.0, 2.0])
    )
    targets, weights = given_["targets"], given_["weights"]
    trained = []
    for tokens in (10_000, 48):
        model = build_classifier(STILL, head, CLASSES)
        parts = batch_parts(inputs, given_, most_tokens=tokens)
        assert len(parts) == (1 if tokens == 10_000 else 3)  # the fourth has no row
        theirs = keras.losses.CategoricalCrossentropy(
            from_logits=True, label_smoothing=0.1, reduction=None
        )(targets, model(inputs))
        step = make_step(model, keras.optimizers.SGD(0.5), smoothed_cross_entropy(0.1))
        loss = step(parts)["loss"]
        trained.append((float(loss), extract(model.trainable_variables)))
    (loss_whole, whole), (loss_parts, in_parts) = trained
    mean = np.average(keras.ops.convert_to_numpy(theirs), weights=weights)
    assert loss_whole == pytest.approx(mean, rel=1e-4)
    assert loss_parts == pytest.approx(loss_whole, rel=1e-5)
    for name, values in whole.items():
        np.testing.assert_allclose(in_parts[name], values, rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.on_jax
def test_a_packed_batch_gives_the_logits_and_the_step_of_the_padded_one(make_rows, token_examples):
    rows = make_rows(12, 0)
    packing = Packing(rows.lengths, 12)
    (plan,) = packing.epoch(np.random.default_rng(0))
    head = HeadSettings(window_sizes=(1, 3), filters=8, dropout=0.0)
    plain = build_classifier(STILL, head, CLASSES, seed=1)
    packed = BertCnn(
        Bert(STILL, packed=True, seed=1),
        CnnHead(16, CLASSES, head, documents=packing.documents, seed=1, name="head"),
    )
    batches = (
        (plain, token_examples(rows), BatchPlan(np.arange(12), 24, 12)),
        (
            packed,
            Examples(lambda plan: lay_out(rows.token_ids, plan), rows.lengths, rows.labels),
            plan,
        ),
    )
    logits, losses, weights = [], [], []
    for model, examples, its_plan in batches:
        inputs, targets = labelled_batch(examples, its_plan, np.array([1.0, 0.5, 2.0], np.float32))
        slots = its_plan.slots
        found = np.empty((12, CLASSES), np.float32)
        found[slots[slots >= 0]] = np.asarray(keras.ops.convert_to_numpy(model(inputs)))[slots >= 0]
        step = make_step(
            model,
            LayerwiseAdamW(0.01, layer_share(1, FULL), weight_decay=0.01, clip_norm=1.0),
            smoothed_cross_entropy(0.1),
        )
        losses.append([float(step(batch_parts(inputs, targets))["loss"]) for _ in range(2)])
        logits.append(found)
        weights.append(extract(model.weights))
    np.testing.assert_allclose(logits[1], logits[0], rtol=0, atol=1e-5)
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    for name, value in weights[0].items():
        np.testing.assert_allclose(weights[1][name], value, rtol=0, atol=1e-4, err_msg=name)


@settings(max_examples=30)
@given(st.integers(0, 1000), st.integers(2, 6))
def test_the_loss_of_several_labels_is_keras_binary_cross_entropy_of_each(seed, classes):
    generator = np.random.default_rng(seed)
    logits = generator.normal(0, 5, (4, classes)).astype(np.float32)
    targets = generator.integers(0, 2, (4, classes)).astype(np.float32)
    weights, positive = (
        generator.uniform(0.1, 2, size).astype(np.float32) for size in (4, classes)
    )
    each = keras.losses.BinaryCrossentropy(from_logits=True, reduction=None)(
        targets[..., None], logits[..., None]
    )  # [4, classes]
    expected = (np.asarray(each) * np.where(targets > 0, positive, 1.0)).sum(axis=1) @ weights
    found = independent_cross_entropy(positive)(logits, {"targets": targets, "weights": weights})
    assert float(found["loss"]) == pytest.approx(expected, rel=1e-4)


def test_the_loss_of_several_labels_stays_finite_where_a_model_is_sure():
    logits, targets = np.array([[500.0, -500.0]], np.float32), np.array([[0.0, 1.0]], np.float32)
    objective = independent_cross_entropy(np.ones(2, np.float32))
    found = objective(logits, {"targets": targets, "weights": np.ones(1, np.float32)})
    assert float(found["loss"]) == pytest.approx(1000.0)


@pytest.mark.on_jax
@pytest.mark.skipif(keras.backend.backend() != "jax", reason="TensorFlow has two programs a step")
def test_a_step_on_jax_is_one_program_to_which_all_state_is_given(parts):
    import jax

    model, optimizer, step = classifier_and_step()
    step(parts)
    kept = [
        variable.value
        for variables in (
            model.trainable_variables,
            model.non_trainable_variables,
            optimizer.variables,
        )
        for variable in variables
    ]
    loss = step(parts)["loss"]
    assert isinstance(loss, jax.Array)  # not copied to the host
    assert all(value.is_deleted() for value in kept)  # donated
