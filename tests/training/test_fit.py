"""Training of a classifier."""

from dataclasses import replace

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score
from sklearn.utils.class_weight import compute_class_weight

from bertcnn.data.batches import BatchPlan
from bertcnn.models import CnnHead, Forward, extract
from bertcnn.progress import Silent
from bertcnn.settings import HeadSettings, TrainingSettings
from bertcnn.training import FitResult, RunOptions
from bertcnn.training.batches import Examples, class_weights, labelled_batch, positive_weights
from bertcnn.training.callbacks import LateMean
from bertcnn.training.fit import fit, late_steps
from tests.listener import Listener

CLASSES = 3
SETTINGS = TrainingSettings(
    epochs=12, batch_size=8, learning_rate=0.02, head_multiplier=1.0, compiled_shapes=2
)


def head():
    return CnnHead(8, CLASSES, HeadSettings(window_sizes=(1, 2), filters=8))


def run(train, valid, settings=SETTINGS, seed=0, progress=None, **options):
    model, options = head(), RunOptions(seed, progress or Silent(), **options)
    return model, fit(model, train, valid, settings, options, layers=0)


@pytest.fixture(scope="module")
def noisy(make_rows, vector_examples):
    """Validation labels that cannot be learned, so that macro-F1 fluctuates."""
    valid = vector_examples(make_rows(30, 3, noise=True))
    return *run(vector_examples(make_rows(60, 0)), valid), valid


def test_the_model_ends_with_the_weights_of_the_kept_epoch(noisy):
    model, result, valid = noisy
    logits = Forward(model, result.padded_lengths).rows(valid.collate, valid.lengths)
    np.testing.assert_allclose(logits, result.valid_logits, rtol=0, atol=1e-6)
    macro_f1 = f1_score(valid.labels, logits.argmax(axis=1), average="macro")
    assert macro_f1 == pytest.approx(result.epochs[result.kept_epoch - 1].macro_f1)


def test_patience_ends_a_training(make_rows, vector_examples):
    train, valid = vector_examples(make_rows(60, 0)), vector_examples(make_rows(30, 3, noise=True))
    _, result = run(train, valid, SETTINGS.model_copy(update={"patience": 3}))
    scores = [epoch.macro_f1 for epoch in result.epochs]
    assert len(result.epochs) == scores.index(max(scores)) + 1 + 3 < SETTINGS.epochs


def test_a_result_is_repeated_in_its_epochs_whatever_the_validation_rows_say(
    make_rows, vector_examples
):
    parts = vector_examples(make_rows(60, 0)), vector_examples(make_rows(30, 3, noise=True))
    like = FitResult((), 3, np.empty((0, 0)), ())
    progress = Listener()
    _, result = run(*parts, like=like, progress=progress)
    assert (result.kept_epoch, progress.done) == (3, 3 * 8)
    shorter = SETTINGS.model_copy(update={"patience": None})
    _, whole = run(*parts, shorter, like=replace(like, kept_epoch=3))
    np.testing.assert_array_equal(result.valid_logits, whole.valid_logits)


# === The mean of the last steps ===


@pytest.fixture(scope="module")
def late(make_rows, vector_examples):
    """Rows, the settings of a training that averages weights, and its result."""
    parts = vector_examples(make_rows(60, 0)), vector_examples(make_rows(20, 1))
    settings = SETTINGS.model_copy(
        update={"epochs": 4, "learning_rate": 0.005, "averaged_share": 0.3}
    )
    return parts, settings, run(*parts, settings)


def test_the_weights_are_the_mean_of_those_after_the_last_steps(late):
    parts, settings, (model, result) = late
    seen = []

    class Watching(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):  # noqa: ARG002
            seen.append(extract(self.model.trainable_variables))

    run(*parts, settings.model_copy(update={"averaged_share": 0.0}), callbacks=[Watching()])
    assert len(seen) == 8 * 4
    last = seen[23:]  # 30 % of 32 steps are 9.6
    for name, value in extract(model.trainable_variables).items():
        mean = np.mean([weights[name] for weights in last], axis=0, dtype=np.float64)
        np.testing.assert_allclose(value, mean, rtol=0, atol=1e-6)
    assert (result.averaged, result.kept_epoch) == (True, 4)
    logits = Forward(model, result.padded_lengths).rows(parts[1].collate, parts[1].lengths)
    np.testing.assert_allclose(result.valid_logits, logits, rtol=0, atol=1e-6)


def test_a_long_training_averages_every_hundredth_of_its_steps():
    steps = late_steps(400, 0.6)
    assert (list(steps)[:2], len(steps)) == ([400, 396], 60)


def test_a_mean_that_is_clearly_worse_than_the_best_epoch_is_not_kept(late, monkeypatch):
    parts, settings, _ = late
    once, expected = run(*parts, settings.model_copy(update={"averaged_share": 0.0}))
    mean = LateMean.weights
    monkeypatch.setattr(
        LateMean, "weights", lambda late: {name: -value for name, value in mean(late).items()}
    )
    model, result = run(*parts, settings)
    assert not result.averaged
    np.testing.assert_array_equal(result.valid_logits, expected.valid_logits)
    for name, value in extract(once.weights).items():
        np.testing.assert_array_equal(extract(model.weights)[name], value)


@pytest.mark.parametrize("averaged", [False, True])
def test_a_result_is_repeated_with_its_mean_or_without(late, averaged):
    parts, settings, (_, expected) = late
    like = replace(expected, averaged=averaged)
    _, again = run(*parts, settings, like=like)
    assert again.averaged == averaged
    assert (again.valid_logits == expected.valid_logits).all() == averaged


# === Callbacks ===


def test_callbacks_of_keras_hear_of_a_training_as_from_fit(make_rows, vector_examples, tmp_path):
    parts = vector_examples(make_rows(60, 0)), vector_examples(make_rows(20, 1))
    settings = SETTINGS.model_copy(update={"epochs": 3})
    history, heard = keras.callbacks.History(), []
    one = keras.callbacks.LambdaCallback(
        on_train_begin=lambda _: heard.append("begin"),
        on_train_batch_end=lambda batch, logs: heard.append((batch, type(logs["loss"]))),
        on_train_end=lambda _: heard.append("end"),
    )
    csv = keras.callbacks.CSVLogger(tmp_path / "log.csv")
    _, result = run(*parts, settings, callbacks=[history, one, csv])
    assert heard == ["begin", *((batch, float) for _ in range(3) for batch in range(8)), "end"]
    assert history.epoch == [0, 1, 2]
    assert history.history == {
        "loss": [epoch.loss for epoch in result.epochs],
        "val_macro_f1": [epoch.macro_f1 for epoch in result.epochs],
        "val_accuracy": [epoch.accuracy for epoch in result.epochs],
    }
    assert (tmp_path / "log.csv").read_text().startswith("epoch,loss,val_accuracy,val_macro_f1\n")


# === Targets and weights ===


def test_a_batch_has_one_hot_targets_and_weights_of_its_rows(make_rows, vector_examples):
    examples = vector_examples(make_rows(5, 0))
    weights = np.array([0.5, 1.0, 2.0], np.float32)
    inputs, given_ = labelled_batch(examples, BatchPlan(np.array([4, 0]), 24, 3), weights)
    targets, row_weights = given_.values()
    labels = examples.labels[[4, 0]]
    assert inputs["sequence_output"].shape == (3, 24, 8)
    np.testing.assert_array_equal(targets, [*np.eye(CLASSES)[labels], np.zeros(CLASSES)])
    np.testing.assert_array_equal(row_weights, [*weights[labels], 0.0])
    assert targets.dtype == row_weights.dtype == np.float32


LABELS = st.lists(st.integers(0, 3), min_size=1, max_size=50).map(
    lambda labels: np.array([0, 1, 2, 3, *labels])
)


@given(LABELS)
def test_balanced_class_weights_are_scikit_learns(labels):
    expected = compute_class_weight("balanced", classes=np.arange(4), y=labels)
    np.testing.assert_allclose(class_weights(labels, 4, "balanced"), expected, rtol=1e-6)


@given(LABELS, st.sampled_from(["none", "sqrt", "balanced"]))
def test_class_weights_are_1_on_average_over_the_rows(labels, rule):
    assert np.mean(class_weights(labels, 4, rule)[labels]) == pytest.approx(1.0, rel=1e-5)


@given(LABELS)
def test_sqrt_weights_are_half_as_strong(labels):
    half, full = class_weights(labels, 4, "sqrt"), class_weights(labels, 4, "balanced")
    np.testing.assert_allclose((half / half[0]) ** 2, full / full[0], rtol=1e-5)
    assert set(class_weights(labels, 4, "none").tolist()) == {1.0}


def test_by_default_rare_labels_count_more_but_not_where_rows_may_have_several():
    labels, multi_hot = np.array([0, 0, 0, 0, 1]), np.array([[1, 0]] * 4 + [[0, 1]], bool)
    np.testing.assert_array_equal(
        class_weights(labels, 2, TrainingSettings().class_weight), class_weights(labels, 2, "sqrt")
    )
    np.testing.assert_array_equal(
        positive_weights(multi_hot, TrainingSettings().class_weight), [1.0, 1.0]
    )


def test_a_label_of_several_counts_by_the_rows_without_it():
    multi_hot = np.array([[1, 0, 1]] + [[1, 0, 0]] * 8, bool)
    assert positive_weights(multi_hot, "balanced").tolist() == [pytest.approx(1 / 9), 8.0, 8.0]
    np.testing.assert_allclose(
        positive_weights(multi_hot, "sqrt") ** 2, positive_weights(multi_hot, "balanced"), rtol=1e-6
    )
    assert positive_weights(multi_hot, "none").tolist() == [1.0] * 3
    assert positive_weights(np.eye(1, 2000, dtype=bool).T, "balanced").tolist() == [100.0]


def no_inputs(_):
    return {}


def test_rows_of_several_labels_are_judged_whole():
    multi_hot = np.array([[1, 1], [0, 1], [0, 0]], bool)
    examples = Examples(no_inputs, np.ones(3, int), np.array([0, 1, 0]), multi_hot=multi_hot)
    macro_f1, right = examples.evaluate(np.array([[1.0, 1.0], [1.0, 1.0], [-1.0, -1.0]]))
    assert right == pytest.approx(2 / 3)
    assert macro_f1 == pytest.approx((2 / 3 + 1) / 2)


def test_the_targets_of_several_labels_are_the_rows_own():
    multi_hot = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 1]], bool)
    examples = Examples(no_inputs, np.ones(3, int), np.array([0, 1, 2]), multi_hot=multi_hot)
    _, given_ = labelled_batch(examples, BatchPlan(np.array([2, 0]), 1, 4), np.ones(3, np.float32))
    targets, weights = given_.values()
    np.testing.assert_array_equal(targets, [[0, 0, 1], [1, 1, 0], [0, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(weights, [1, 1, 0, 0])
