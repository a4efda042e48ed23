"""A trained model is evaluated with the engine that it is saved with."""

import copy

import numpy as np
import pytest

import bertcnn
from bertcnn.bundle.bundle import read_bundle
from bertcnn.evaluation import calibrated_probabilities, with_limits
from bertcnn.evaluation.decisions import automation, decide, held_out_answers
from bertcnn.inference.decide import held_back
from tests.listener import Listener
from tests.test_classifier import quick
from tests.tickets import tickets

VALID = tickets(18)


@pytest.fixture(scope="module", autouse=True)
def _int8(cpu_with_vnni):
    """The saved engine is the one that runs."""


@pytest.fixture(scope="module")
def fitted(encoder_folder):
    return quick(encoder_folder, progress=Listener(), auto_precision=0.7).fit(
        *tickets(), valid=VALID
    )


@pytest.mark.parametrize("engine", ["openvino", "keras"])
def test_decisions_and_limits_are_those_of_the_saved_engines_answers(fitted, engine, tmp_path):
    copy.copy(fitted).save(tmp_path / "model", engine=engine)
    bundle = read_bundle(tmp_path / "model")
    predictor = bertcnn.load(tmp_path / "model", engine=engine)
    texts, labels = VALID
    encoded = predictor.encode(texts)
    output = predictor.run(encoded)
    readings = predictor.detector_inputs(
        encoded.token_ids, output.logits, output.requested_evidence.means
    )
    places = np.array([predictor.labels.index(label) for label in labels])
    back = held_back(bundle.scope, readings, texts, bundle.config.languages)
    probabilities = calibrated_probabilities(output.logits, bundle.calibration)
    expected = held_out_answers(probabilities, places, back, bundle.hierarchy)
    held_out = bundle.decisions.held_out
    assert (held_out.right, held_out.predicted) == (expected.right, expected.predicted)
    assert held_out.out_of_scope == expected.out_of_scope
    assert held_out.doubtful == expected.doubtful
    np.testing.assert_allclose(held_out.confidence, expected.confidence, atol=1e-4)
    limits = with_limits(bundle.scope, readings)
    assert bundle.scope.limit == pytest.approx(limits.limit, abs=1e-3)
    assert bundle.scope.auto_limit == pytest.approx(limits.auto_limit, abs=1e-3)
    targets = bundle.decisions.auto_precision
    assert decide(held_out, bundle.labels, targets).thresholds == bundle.decisions.thresholds


def test_figures_card_and_report_tell_of_the_same_decisions(fitted, tmp_path):
    classifier = copy.copy(fitted)
    classifier.save(tmp_path / "model")
    bundle = read_bundle(tmp_path / "model")
    found = automation(bundle.decisions)
    assert bundle.metrics["decisions"] == found.to_json() == classifier.metrics_["decisions"]
    assert f"Of the {found.automatic} automatic rows {found.right} are right" in bundle.model_card
    share = f"{round(100 * found.share)}% of tickets are handled automatically"
    assert share in bundle.model_card
    assert share in bundle.report
    assert any(share in note for note in fitted.progress.notes)
    promise = "The precision is about tickets that belong to one of the labels"
    assert promise in bundle.model_card
    assert promise in bundle.report
