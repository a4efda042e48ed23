"""Recalibrating a model on new rows."""

import json
import shutil

import numpy as np
import pytest

import bertcnn
from bertcnn.bundle.bundle import read_bundle
from bertcnn.errors import LabelError, OutputError
from bertcnn.evaluation.calibration import fit_temperature
from bertcnn.evaluation.out_of_scope import with_limits
from bertcnn.workflows.recalibrate import recalibrate_csv
from tests.tickets import as_csv, tickets
from tests.tiny import saved_with_scope

STRANGE = [f"who won the card game number {row}" for row in range(12)]


@pytest.fixture(scope="module")
def model(encoder_folder):
    return saved_with_scope(encoder_folder)


@pytest.fixture
def rows(tmp_path):
    """Labelled rows; a third have another label than their words suggest."""
    texts, labels = tickets(30)
    labels = [labels[row - 30] if row % 3 == 0 else label for row, label in enumerate(labels)]
    (tmp_path / "new.csv").write_text(as_csv(texts, labels))
    return texts, labels


def test_confidence_and_decisions_are_fitted_on_the_new_rows(model, rows, tmp_path):
    texts, labels = rows
    found = recalibrate_csv(model, tmp_path / "new.csv", tmp_path / "again")
    old, new = read_bundle(model), read_bundle(tmp_path / "again")
    predictor = bertcnn.load(model)
    encoded = predictor.encode(texts)
    output = predictor.run(encoded)
    places = np.array([predictor.labels.index(label) for label in labels])
    assert new.calibration.temperature == pytest.approx(fit_temperature(output.logits, places))
    assert new.calibration.temperature > old.calibration.temperature  # a third is wrong now
    assert found.temperature == (old.calibration.temperature, new.calibration.temperature)
    readings = predictor.detector_inputs(
        encoded.token_ids, output.logits, output.requested_evidence.means
    )
    assert new.scope.limit == pytest.approx(with_limits(old.scope, readings).limit, rel=1e-5)
    assert (found.rows, found.strange, found.bundle_id) == (90, 0, new.bundle_id)
    assert new.decisions.held_out.rows == 90
    assert new.decisions.auto_precision == old.decisions.auto_precision
    again = bertcnn.load(tmp_path / "again")
    assert again.predict(texts).tolist() == predictor.predict(texts).tolist()
    assert again.engine.name == predictor.engine.name
    for name, tensor in old.tensors.items():
        np.testing.assert_array_equal(new.tensors[name], tensor)


def test_the_card_and_the_figures_report_it_once(model, rows, tmp_path):
    recalibrate_csv(model, tmp_path / "new.csv", tmp_path / "again")
    recalibrate_csv(tmp_path / "again", tmp_path / "new.csv", tmp_path / "third")
    card = (tmp_path / "third" / "MODEL_CARD.md").read_text()
    assert card.count("## Recalibrated") == 1
    assert "90 rows of new.csv" in card
    metrics = json.loads((tmp_path / "third" / "metrics.json").read_text())
    assert metrics["recalibrated"]["rows"] == 90
    assert metrics["decisions"]["rows"] == 90


def test_rows_out_of_scope_are_counted_from_a_label_or_a_file(model, tmp_path):
    texts, labels = tickets(12)
    (tmp_path / "strange.txt.csv").write_text("text\n" + "\n".join(STRANGE) + "\n")
    (tmp_path / "plain.csv").write_text(as_csv(texts, labels))
    (tmp_path / "both.csv").write_text(as_csv([*texts, *STRANGE], [*labels, *["oos"] * 12]))
    by_file = recalibrate_csv(
        model, tmp_path / "plain.csv", tmp_path / "a", out_of_scope=tmp_path / "strange.txt.csv"
    )
    by_label = recalibrate_csv(model, tmp_path / "both.csv", tmp_path / "b")
    assert by_file.strange == by_label.strange == 12
    for name in ("a", "b"):
        held_out = read_bundle(tmp_path / name).decisions.held_out
        assert (held_out.rows, held_out.all_strange) == (48, 12)
    assert by_file.decisions == by_label.decisions


def test_too_few_rows_and_unknown_labels_are_refused(model, tmp_path):
    texts, labels = tickets(4)
    (tmp_path / "few.csv").write_text(as_csv(texts, labels))
    with pytest.raises(LabelError, match=r"12 rows of .*few.csv' with a label that the model"):
        recalibrate_csv(model, tmp_path / "few.csv", tmp_path / "again")
    texts, labels = tickets(12)
    (tmp_path / "odd.csv").write_text(as_csv(texts, ["x", "y", "z"] * 12))
    with pytest.raises(LabelError, match="0 rows of"):
        recalibrate_csv(model, tmp_path / "odd.csv", tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_an_existing_model_is_not_overwritten(model, rows, tmp_path):
    shutil.copytree(model, tmp_path / "again")
    with pytest.raises(OutputError, match="holds a saved model already"):
        recalibrate_csv(model, tmp_path / "new.csv", tmp_path / "again")
    recalibrate_csv(model, tmp_path / "new.csv", tmp_path / "again", overwrite=True)
    assert "recalibrated" in read_bundle(tmp_path / "again").metrics
