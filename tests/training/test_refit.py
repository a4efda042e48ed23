"""Retraining on all rows.

The weights come from all rows, and all reported figures from before.
"""

import numpy as np
import pytest

from bertcnn import BertCNNClassifier
from bertcnn.progress import Silent
from bertcnn.settings import HeadSettings
from bertcnn.training.examples import learning_and_validation
from tests.listener import Listener as Records
from tests.tickets import tickets

TRAINING = {
    "epochs": 2,
    "compiled_shapes": 1,
    "batch_size": 16,
    "learning_rate": 0.01,
    "refit": True,
    "folds": 0,
}
ROWS = 180  # per label, so that enough are held out for out-of-scope detection


class Listener(Records):
    """Records which figures are shown, and interrupts the second training if requested."""

    def __init__(self, break_off=False):
        super().__init__()
        self.break_off, self.shown = break_off, []

    @property
    def begun(self):
        """The number of trainings begun."""
        return [name for name, *_ in self.stages].count("training")

    def advance(self, done, **figures):
        self.shown += [(self.begun, name) for name in figures]
        if self.break_off and done and "loss" in figures and self.begun == 2:
            raise KeyboardInterrupt


def trained(encoder, texts, labels, *, valid=None, savepoints=None, progress=None, **changes):
    classifier = BertCNNClassifier(
        encoder,
        recipe="full",
        training={**TRAINING, **changes},
        head=HeadSettings(filters=16),
        progress=progress,
    )
    return classifier.fit(texts, labels, valid=valid, savepoints=savepoints)


def assert_same_weights(one, other):
    for name, value in other._bundle.tensors.items():
        np.testing.assert_array_equal(one._bundle.tensors[name], value, err_msg=name)


@pytest.fixture(scope="module")
def refitted(shallow_encoder_folder, tmp_path_factory):
    folder, listener = tmp_path_factory.mktemp("refitted"), Listener()
    classifier = trained(
        shallow_encoder_folder, *tickets(ROWS), savepoints=folder / "savepoints", progress=listener
    )
    classifier.save(folder / "model")
    return classifier, listener


@pytest.fixture(scope="module")
def first(shallow_encoder_folder, tmp_path_factory):
    """The first of its two trainings alone."""
    classifier = trained(shallow_encoder_folder, *tickets(ROWS), refit=False)
    classifier.save(tmp_path_factory.mktemp("first") / "model")
    return classifier


def test_the_weights_are_those_of_a_training_on_all_rows(refitted, first, shallow_encoder_folder):
    learning, held_out, _ = learning_and_validation(
        *tickets(ROWS), None, fraction=0.1, most=ROWS, progress=Silent()
    )
    valid = held_out.texts, held_out.labels
    whole = trained(
        shallow_encoder_folder, learning.texts + valid[0], learning.labels + valid[1], valid=valid
    )
    assert_same_weights(refitted[0], whole)
    assert any(
        np.abs(tensor - whole._bundle.tensors[name]).max() > 1e-3
        for name, tensor in first._bundle.tensors.items()
    )
    assert refitted[1].begun == 2
    assert set(refitted[1].shown) >= {(1, "loss"), (1, "macro_f1"), (2, "loss")}
    assert (2, "macro_f1") not in refitted[1].shown  # rows it was trained on would show nothing


def test_all_reported_figures_predate_the_refit(refitted, first):
    before, after = first._bundle, refitted[0]._bundle
    assert after.metrics["epochs"] == before.metrics["epochs"]
    for name in ("accuracy", "macro_f1", "calibration", "decisions", "kept_epoch"):
        assert after.metrics[name] == before.metrics[name], name
    assert (after.decisions, after.calibration) == (before.decisions, before.calibration)
    precision, agreement = (
        (bundle.engine.record.precision, bundle.engine.record.agreement)
        for bundle in (after, before)
    )
    assert precision == agreement
    assert (
        "engine: int8, as decided on rows that the model had not learned from" in refitted[1].notes
    )
    assert "then for training too" in after.model_card
    assert "then for training too" not in before.model_card


def test_the_limit_of_the_scope_is_from_before_around_the_new_models_centres(refitted, first):
    before, after = first._bundle.scope, refitted[0]._bundle.scope
    assert after
    assert after.limit == before.limit
    np.testing.assert_array_equal(after.weights, before.weights)
    assert after.embedding_centroids.shape[1] == before.embedding_centroids.shape[1]
    one, other = after.embedding_centroids, before.embedding_centroids
    assert one.shape != other.shape or np.abs(one - other).max() > 1e-4
    answers = refitted[0]._predictor.classify(tickets(ROWS)[0])
    assert np.mean([answer.decision == "review:out_of_scope" for answer in answers]) < 0.1


def test_given_validation_rows_are_never_learned_from(shallow_encoder_folder):
    listener = Listener()
    trained(shallow_encoder_folder, *tickets(12), valid=tickets(4), progress=listener)
    assert listener.begun == 1


def test_broken_off_in_the_second_training_the_first_is_not_repeated(
    refitted, shallow_encoder_folder, tmp_path
):
    given = {"savepoints": tmp_path / "savepoints"}
    with pytest.raises(KeyboardInterrupt):
        trained(shallow_encoder_folder, *tickets(ROWS), progress=Listener(break_off=True), **given)
    listener = Listener()
    classifier = trained(shallow_encoder_folder, *tickets(ROWS), progress=listener, **given)
    assert listener.begun == 1
    assert any(note.startswith("resuming after the first training") for note in listener.notes)
    classifier.save(tmp_path / "model")
    assert_same_weights(classifier, refitted[0])
    for part in ("decisions", "calibration", "metrics"):
        assert getattr(classifier._bundle, part) == getattr(refitted[0]._bundle, part)
    np.testing.assert_array_equal(
        classifier._bundle.scope.embedding_centroids, refitted[0]._bundle.scope.embedding_centroids
    )
    assert classifier._bundle.engine.record == refitted[0]._bundle.engine.record


def test_rows_with_several_labels_are_all_learned_from_too(shallow_encoder_folder, tmp_path):
    texts, labels = tickets(40)
    sets = [[label, "urgent"] if row % 3 == 0 else [label] for row, label in enumerate(labels)]
    listener = Listener()
    classifier = trained(shallow_encoder_folder, texts, sets, progress=listener)
    classifier.save(tmp_path / "model")
    assert listener.begun == 2
    assert "urgent" in classifier._predictor.labels
    assert "then for training too" in classifier._bundle.model_card
