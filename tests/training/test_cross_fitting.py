"""Cross-fitting: training rows are scored by models that were not trained on them."""

import re
from dataclasses import replace

import numpy as np
import pytest

from bertcnn.bundle.scope import OutOfScopeDetector
from bertcnn.evaluation.out_of_scope import DetectorFit
from bertcnn.inference.keras_engine import KerasEngine
from bertcnn.models.weights import extract
from bertcnn.progress import Silent
from bertcnn.settings import FULL, HeadSettings
from bertcnn.training.cross_fitting import cross_fit
from bertcnn.training.deadline import Deadline
from bertcnn.training.features import TokenizedRows
from bertcnn.training.recipes import train
from bertcnn.training.savepoints import Savepoints
from bertcnn.training.training_data import RunOptions, TrainingData
from tests.learnable import new_encoder
from tests.listener import Listener
from tests.test_classifier import QUICK, quick
from tests.tickets import tickets

HEAD = HeadSettings(window_sizes=(2,), filters=8)
SETTINGS = FULL.model_copy(
    update={"epochs": 1, "batch_size": 8, "learning_rate": 1e-3, "compiled_shapes": 1}
)
FOLD_OF = np.arange(32) % 2


@pytest.fixture(scope="module")
def data(make_rows):
    return TrainingData(
        make_rows(32, 0), make_rows(12, 1), detector_rows=np.array([0, 1, 2, 7, 30])
    )


def once(recipe, calls=None):
    def one(encoder, data, run):
        if calls is not None:
            calls.append(len(data.train.labels))
        return train(encoder, data, HEAD, recipe, SETTINGS, run)

    return one


def folds_of(recipe, data, fold_of=FOLD_OF, savepoints=None, calls=None, **given):
    encoder = new_encoder()
    untrained, run = extract(encoder.weights), RunOptions(0, Silent(), savepoints)
    _, result = train(encoder, data, HEAD, recipe, SETTINGS, run)
    run = replace(run, like=result, fold_of=fold_of, **given)
    learned = extract(encoder.weights)
    found = cross_fit(
        once(recipe, calls), encoder, untrained, data, run,
        seconds=60.0,
    )  # fmt: skip
    for name, value in extract(encoder.weights).items():
        np.testing.assert_array_equal(value, learned[name])
    return found, result


@pytest.mark.parametrize("recipe", ["frozen", "full"])
def test_each_fold_is_answered_by_a_model_of_the_others(recipe, data):
    found, result = folds_of(recipe, data)
    assert [fold.held_out.tolist() for fold in found] == [[*range(0, 32, 2)], [*range(1, 32, 2)]]
    assert [fold.detector_rows.tolist() for fold in found] == [[1, 7], [0, 2, 30]]
    others = found[1].held_out
    part = TrainingData(data.train.of(others), data.train.of(found[0].held_out), np.array([0, 3]))
    encoder = new_encoder()
    run = RunOptions(0, Silent(), like=result)
    model, expected = train(encoder, part, HEAD, recipe, SETTINGS, run)
    np.testing.assert_allclose(found[0].logits, expected.valid_logits, atol=2e-3)
    rows = [data.train.token_ids[row] for row in (1, 7)]
    answers = KerasEngine(model, 0).run(rows, evidence=True)
    for given, right in (
        (found[0].detector_logits, answers.logits),
        (found[0].detector_means, answers.requested_evidence.means),
    ):
        np.testing.assert_allclose(given, right, atol=2e-2)  # features are in half precision


def test_a_row_whose_label_no_other_has_stays_with_them(data):
    labels = data.train.labels.copy()
    labels[4] = labels.max() + 1
    lonely = replace(data, train=TokenizedRows(data.train.token_ids, labels), detector_rows=None)
    found, _ = folds_of("frozen", lonely)
    assert 4 not in np.concatenate([fold.held_out for fold in found])
    assert sum(len(fold.held_out) for fold in found) == 31
    assert all(len(fold.detector_rows) == 0 for fold in found)


def test_finished_folds_are_not_trained_again(data, tmp_path):
    calls = []
    first, _ = folds_of("frozen", data, savepoints=Savepoints(tmp_path, {}, Silent()), calls=calls)
    assert calls == [16, 16]
    again, _ = folds_of("frozen", data, savepoints=Savepoints(tmp_path, {}, Silent()), calls=calls)
    assert calls == [16, 16]
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one.logits, other.logits)
        np.testing.assert_array_equal(one.detector_means, other.detector_means)


def test_no_folds_are_trained_without_time(data):
    progress = Listener()
    found, _ = folds_of("frozen", data, deadline=Deadline(0.5), progress=progress)
    assert not found
    assert "12 held-out rows alone, since 2 folds would end after the 0.5 min" in progress.notes[-1]


def test_thresholds_come_from_all_rows(encoder_folder, tmp_path):
    texts, labels = tickets(24)
    few, many = (
        quick(encoder_folder, training={**QUICK, "folds": folds}).fit(texts, labels)
        for folds in (0, 2)
    )
    for classifier, rows in ((few, 6), (many, 72)):
        classifier.save(tmp_path / str(rows))
        assert classifier.metrics_["decisions"]["rows"] == rows
        assert classifier.metrics_["rows"] == 6
        assert classifier._bundle.calibration.fitted_on_rows == rows
    for name, value in few._bundle.tensors.items():
        np.testing.assert_array_equal(value, many._bundle.tensors[name])
    assert "On 72 rows, each answered by a model that did not learn it," in many._bundle.report
    assert "On these rows" in few._bundle.report
    points = [
        max(path.count("L") for path in re.findall(r' d="(M[^"]*)"', page.split('id="labels"')[0]))
        for page in (few._bundle.report, many._bundle.report)
    ]
    assert points[0] <= 6 < points[1]  # of the risk-coverage curve
    given = quick(encoder_folder, training={**QUICK, "folds": 2})
    given.fit(texts, labels, valid=tickets(3))
    assert given.metrics_["decisions"]["rows"] == 9


def test_rows_of_a_fold_are_held_back_by_its_own_detector(encoder_folder, tmp_path):
    texts, labels = tickets(24)
    classifier = quick(encoder_folder, training={**QUICK, "folds": 2}).fit(texts, labels)
    classifier.save(tmp_path / "model")
    trained, bundle = classifier._trained, classifier._bundle
    folds = [trained._fold(fold) for fold in trained.folds]
    valid = folds[0].held_out.of(np.arange(6))  # as good as any other thresholds
    nothing, everything = OutOfScopeDetector(), replace(bundle.scope, limit=-1e9)
    fit = DetectorFit(nothing, (everything, nothing))
    outside = trained._held_back(bundle, fit, valid, folds, None).outside
    first, second = (len(fold.held_out) for fold in trained.folds)
    assert outside.tolist() == [False] * 6 + [True] * first + [False] * second
