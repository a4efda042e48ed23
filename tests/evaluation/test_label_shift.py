"""Label shift: label shares in new texts, compared with QuaPy's and abstention's."""

import json
from pathlib import Path

import numpy as np
import pytest

from bertcnn.errors import SettingsError
from bertcnn.evaluation.label_shift import (
    estimate_label_shares,
    estimate_label_shift,
    fit_shift_calibration,
)

GOLDEN = Path(__file__).parent.parent / "golden" / "label_shift_golden.npz"
LABELS = ["billing", "hardware", "network", "software"]


@pytest.fixture(scope="module")
def golden():
    with np.load(GOLDEN) as arrays:
        return dict(arrays)


def texts(rows, shares, seed, overlap=1.0):
    generator = np.random.default_rng(seed)
    truth = generator.choice(len(shares), rows, p=shares)
    logits = generator.normal(size=(rows, len(shares))) * overlap
    logits[np.arange(rows), truth] += 2.0
    return 2 * logits, truth


@pytest.fixture(scope="module")
def calibration():
    return fit_shift_calibration(*texts(2000, [0.25] * 4, seed=0))


def test_the_calibration_equals_its_authors_implementation(golden):
    found = fit_shift_calibration(
        golden["valid_logits"], golden["valid_labels"], bias_deviation=np.inf
    )
    assert found.probabilities(golden["valid_logits"]) == pytest.approx(
        golden["valid_probabilities"], abs=2e-4
    )
    assert found.probabilities(golden["logits"]) == pytest.approx(golden["probabilities"], abs=2e-4)
    assert found.temperature == pytest.approx(1.25, rel=0.1)  # the logits were drawn this way


def test_the_shares_equal_quapys(golden):
    before = golden["valid_probabilities"].mean(axis=0)
    found = estimate_label_shares(golden["probabilities"], before)
    assert found == pytest.approx(golden["shares"], abs=1e-5)
    assert np.abs(found - before).max() > 0.3


def test_a_label_without_validation_rows_keeps_a_finite_bias():
    logits, truth = texts(200, [0.5, 0.5, 0.0], seed=1)
    found = fit_shift_calibration(logits, truth)
    assert np.isfinite(found.bias).all()
    assert found.bias[2] < found.bias[:2].min()
    assert 0 < found.shares[2] < 0.05


def test_the_bias_balances_rows_and_prior():
    logits, truth = texts(300, [0.7, 0.2, 0.1], seed=12)
    found = fit_shift_calibration(logits, truth, bias_deviation=0.5)
    surplus = found.probabilities(logits).sum(axis=0) - np.bincount(truth, minlength=3)
    assert surplus == pytest.approx(-found.bias / 0.5**2, abs=0.05)
    assert np.abs(found.bias).max() > 0.1


def test_the_intervals_hold_the_true_shares(calibration):
    shares, held = [0.6, 0.3, 0.08, 0.02], []
    for seed in range(12):
        found = estimate_label_shift(texts(400, shares, seed=100 + seed)[0], calibration, LABELS)
        held += [
            one.interval[0] <= share <= one.interval[1]
            for one, share in zip(found.labels, shares, strict=True)
        ]
    assert np.mean(held) > 0.85  # 48 intervals at 95 %: 41 or more hold in all but 1 case in 100


def test_a_label_that_is_never_predicted_may_have_a_share(calibration):
    found = estimate_label_shift(
        texts(100, [0.5, 0.5, 0, 0], seed=2, overlap=0.1)[0], calibration, LABELS
    )
    rarest = min(found.labels, key=lambda one: one.share)
    assert rarest.share < 1e-3
    assert rarest.interval[0] < 1e-9
    assert rarest.interval[1] > 0.03  # the exact bound is 0.036


def test_changed_labels_are_named_and_equal_shares_are_not(calibration):
    moved = estimate_label_shift(
        texts(1500, [0.4, 0.1, 0.25, 0.25], seed=5)[0], calibration, LABELS
    )
    assert [one.label for one in moved.labels if one.changed] == ["billing", "hardware"]
    words = moved.describe()
    assert words.startswith("Shares that have changed: 'hardware' from 25.0% to 1")
    assert "; 'billing' from 25.4% to 3" in words
    assert "network" not in words
    same = estimate_label_shift(texts(1500, [0.25] * 4, seed=6)[0], calibration, LABELS)
    assert same.describe() == "No label's share has changed in 1,500 texts."


def test_no_estimate_is_made_if_more_texts_are_out_of_scope(calibration):
    logits, _ = texts(50, [1.0, 0, 0, 0], seed=10)
    found = estimate_label_shift(logits, calibration, LABELS, out_of_scope_rose=True)
    assert found.labels == ()
    assert "cannot be estimated: more texts than usual belong to none" in found.describe()
    assert estimate_label_shift(logits[:0], calibration, LABELS).reason == "there are no texts"


def test_a_sample_of_many_texts_gives_the_same_shares(calibration):
    logits, _ = texts(12_000, [0.7, 0.1, 0.1, 0.1], seed=8)
    found = estimate_label_shift(logits, calibration, LABELS)
    assert found.texts == json.loads(json.dumps(found.to_json()))["texts"] == 12_000
    assert found.labels[0].share == pytest.approx(0.7, abs=0.03)


def test_missing_validation_rows_are_refused():
    with pytest.raises(SettingsError, match="0 validation rows to calibrate on"):
        fit_shift_calibration(np.empty((0, 3)), np.empty(0, int))
