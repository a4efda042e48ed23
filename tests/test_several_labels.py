"""Rows with several labels, from the file to the scored file and back."""

import csv
import sys
import warnings
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import DataConversionWarning

from bertcnn import BertCNNClassifier, evaluate_csv, load, score_csv, train_csv
from bertcnn.bundle.bundle import read_bundle, write_bundle
from bertcnn.bundle.engine import engine_in_memory
from bertcnn.classifier import Columns
from bertcnn.cli.main import main
from bertcnn.errors import BundleError, LabelError
from bertcnn.evaluation.probabilities import sigmoid
from bertcnn.export.export import export_model
from bertcnn.inference.predictor import Predictor
from bertcnn.scoring.run import ScoringInterrupted
from tests.listener import Listener, interrupt
from tests.test_classifier import QUICK, quick
from tests.tickets import tickets

LABELS = ("billing", "hardware", "software")


def pairs(each=18):
    """`tickets`, with every third text joined from two."""
    texts, labels = tickets(each)
    rows = [(text, (label,)) for text, label in zip(texts, labels, strict=True)]
    for row in range(0, len(texts), 3):
        other = (row + each) % len(texts)
        both = tuple(sorted({labels[row], labels[other]}))
        rows.append((f"{texts[row]} and {texts[other]}", both))
    return [text for text, _ in rows], [label for _, label in rows]


def write(path, texts, labels, form=";".join):
    """A table whose labels are joined with `form`."""
    with path.open("w", newline="") as file:
        rows = ([text, form(own)] for text, own in zip(texts, labels, strict=True))
        csv.writer(file).writerows([["text", "label"], *rows])
    return path


def share_right(found, labels):
    """The share of rows whose labels are all found, and no others."""
    return np.mean([set(one) == set(own) for one, own in zip(found, labels, strict=True)])


@pytest.fixture(scope="module")
def trained(encoder_folder, tmp_path_factory):
    """A folder with a model for several labels, its rows, notes, and the classifier."""
    folder, notes = tmp_path_factory.mktemp("several"), Listener()
    data = write(folder / "data.csv", *pairs())
    classifier = quick(encoder_folder, progress=notes, training={**QUICK, "epochs": 40})
    train_csv(data, folder / "model", classifier, valid=data)
    bundle = read_bundle(folder / "model")
    # far from 0 and 1, where most probabilities would look alike
    calibration = bundle.calibration.model_copy(update={"temperature": 3.0})
    engine = engine_in_memory(folder / "model", bundle.bundle_id)
    write_bundle(
        replace(bundle, calibration=calibration, engine=engine), folder / "model", overwrite=True
    )
    return folder, notes.notes, classifier


def test_several_labels_are_detected_reported_and_learned(trained):
    _, notes, classifier = trained
    told = "18 of 72 rows have several labels (';' between labels)"
    assert any(note.startswith(told) for note in notes)
    assert classifier.classes_.tolist() == list(LABELS)
    texts, labels = pairs()
    assert classifier.score(texts, labels) == share_right(classifier.predict(texts), labels) > 0.9
    assert classifier.metrics_["several_labels"] is True


def test_the_saved_model_gives_each_label_its_own_probability_and_threshold(trained):
    predictor = load(trained[0] / "model", engine="keras")
    texts, labels = pairs()
    probabilities = predictor.predict_proba(texts)
    calibration = predictor.bundle.calibration
    logits = predictor.engine.run(predictor._tokenizer.encode(texts).token_ids).logits
    np.testing.assert_allclose(probabilities, sigmoid(logits / calibration.temperature), atol=1e-6)
    found = predictor.predict(texts)
    for own, shares in zip(found, probabilities, strict=True):
        is_given = shares >= calibration.label_thresholds
        assert list(own) == [LABELS[label] for label in np.argsort(-shares) if is_given[label]]
    assert max(map(len, found)) == 2
    assert share_right(found, labels) > 0.9


def test_an_answer_has_all_labels_and_a_joint_confidence(trained):
    predictor = load(trained[0] / "model")
    answers = predictor.classify([*pairs()[0], " "])
    answer = next(one for one in answers if len(one.labels) == 2)
    assert answer.label == "; ".join(answer.labels)
    shares = answer.probabilities.items()
    sure = [share if label in answer.labels else 1 - share for label, share in shares]
    assert answer.confidence == pytest.approx(np.prod(sure), rel=1e-5)
    assert answer.confidence < min(sure) < 0.95
    assert answer.because
    blank = answers[-1]
    assert (blank.label, blank.labels, blank.decision) == (None, (), "review:empty")


def test_a_text_without_a_label_goes_to_review(trained):
    predictor = load(trained[0] / "model", engine="keras")
    predictor._label_thresholds = np.full(3, 1.01, np.float32)
    for answer in predictor.classify(pairs()[0]):  # texts that it was trained on
        assert (answer.label, answer.labels, answer.decision) == ("", (), "review:out_of_scope")


@pytest.mark.parametrize("probabilities", [False, True])
def test_a_scored_file_has_the_predictors_answers(trained, tmp_path, probabilities):
    model = trained[0] / "model"
    texts = [*pairs()[0], " ", pairs()[0][-1]]
    source = write(tmp_path / "in.csv", texts, [()] * len(texts))
    report = score_csv(model, source, tmp_path / "out.csv", probabilities=probabilities)
    rows = list(csv.DictReader((tmp_path / "out.csv").open()))
    shares = [f"p_{label}" for label in LABELS] if probabilities else []
    ours = ["predicted_label", "confidence", "decision", "because", *shares]
    assert list(rows[0])[2:] == ours
    answers = load(model).classify(texts)
    assert [row["predicted_label"] for row in rows] == [answer.label or "" for answer in answers]
    assert any("; " in row["predicted_label"] for row in rows)
    counts = Counter(label for answer in answers for label in answer.labels)
    assert report.labels == counts
    assert (report.blank, report.rows) == (1, len(rows))


def test_an_interrupted_run_resumes_to_the_same_bytes(trained, tmp_path, monkeypatch):
    model, source = trained[0] / "model", write(tmp_path / "in.csv", *pairs(60))
    monkeypatch.setattr("bertcnn.scoring.score._CHUNK_ROWS", 50)
    score_csv(model, source, tmp_path / "whole.csv")
    with pytest.raises(ScoringInterrupted):
        score_csv(model, source, tmp_path / "out.csv", progress=Listener(interrupt, 2))
    score_csv(model, source, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_evaluation_splits_the_cells_of_the_file(trained, tmp_path):
    model, data = trained[0] / "model", trained[0] / "data.csv"
    figures = evaluate_csv(model, data, report=tmp_path / "report.html")
    assert figures.several_labels
    assert figures.accuracy > 0.9
    assert [label.support for label in figures.labels] == [30, 30, 30]
    told = "a row is right if all its labels are found and no other is given"
    assert told in (tmp_path / "report.html").read_text()
    other = write(tmp_path / "other.csv", ["invoice"] * 3, [("sales",)] * 3)
    with pytest.raises(LabelError, match="a label the model does not know, first of all 'sales'"):
        evaluate_csv(model, other)


def test_rows_with_an_unknown_label_count_as_wrong(trained, tmp_path):
    model, _, classifier = trained[0] / "model", *trained[1:]
    texts, labels = pairs()
    notes, labels = (
        Listener(),
        [("sales", *own) if row % 2 else own for row, own in enumerate(labels)],
    )
    data = write(tmp_path / "data.csv", texts, labels)
    figures = evaluate_csv(model, data, report=tmp_path / "report.html", progress=notes)
    assert figures.unknown_labels == ("sales",)
    assert figures.accuracy == share_right(load(model).predict(texts), labels)
    told = "36 of 72 rows have a label that the model does not know"
    assert f"{told} and count as wrong: 'sales' (36)" in notes.notes
    assert told in (tmp_path / "report.html").read_text()
    assert classifier.score(texts, labels) == figures.accuracy


def test_lists_of_other_programs_are_read_like_json_lists(trained, tmp_path):
    data = write(tmp_path / "data.csv", *pairs(), form=lambda own: str(np.array(own)))
    predictor = load(trained[0] / "model")
    config = predictor.bundle.config.model_copy(update={"label_separator": "[]"})
    bundle = replace(predictor.bundle, config=config)
    as_lists = Predictor(bundle, predictor.engine, predictor.output_layer)
    expected = evaluate_csv(predictor, trained[0] / "data.csv")
    assert evaluate_csv(as_lists, data).to_json() == expected.to_json()


def test_lists_of_one_are_single_labels_with_scikit_learns_warning(encoder_folder):
    texts, labels = tickets(4)
    lists, by_mark = [[label] for label in labels], {"columns": Columns(separator=";")}

    def answer(given, **options):
        model = quick(encoder_folder, training={**QUICK, "epochs": 1})
        return model.fit(texts, given, **options).predict(texts[:1])[0]

    with pytest.warns(DataConversionWarning, match="are single labels"):
        assert answer(lists) in LABELS
    assert isinstance(answer(lists, **by_mark), tuple)
    assert answer(labels, **by_mark) in LABELS


def test_a_loaded_model_can_be_saved_again_unchanged(trained, tmp_path):
    classifier, texts = BertCNNClassifier.load(trained[0] / "model"), pairs()[0]
    classifier.save(tmp_path / "again")
    found, expected = (
        load(folder).predict(texts) for folder in (tmp_path / "again", trained[0] / "model")
    )
    assert list(found) == list(expected)
    assert classifier.explain(texts[:1], label="billing")[0].label == "billing"


def test_thresholds_of_another_model_are_refused(trained, tmp_path):
    bundle = read_bundle(trained[0] / "model")
    calibration = bundle.calibration.model_copy(update={"label_thresholds": ()})
    with pytest.raises(BundleError, match="0 label_thresholds; expected 3"):
        write_bundle(replace(bundle, calibration=calibration), tmp_path / "model")


@pytest.mark.parametrize("form", ["savedmodel", "onnx"])
def test_an_export_gives_the_same_labels(trained, tmp_path, form):
    record = export_model(trained[0] / "model", form, tmp_path / "export").record
    assert record.label_thresholds == load(trained[0] / "model").bundle.calibration.label_thresholds
    assert record.parity.largest_difference < 1e-4
    if form == "onnx":
        pytest.importorskip("onnxruntime", reason="the example needs it")
    script = (tmp_path / "export" / "README.md").read_text().split("```python\n")[1].split("```")[0]
    assert ("thresholds" in script) == (form == "onnx")


def test_the_single_label_command_refuses_several_labels(trained, capsys, monkeypatch):
    folder = str(trained[0])
    words = ["bertcnn", "encoder", "compare", folder, folder, f"{folder}/data.csv"]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit):
        main()
    assert "rows with several labels in column 'label'" in capsys.readouterr().err


def test_cells_are_single_labels_on_request(encoder_folder, tmp_path):
    data = write(tmp_path / "data.csv", *pairs(6))
    classifier = quick(encoder_folder, training={**QUICK, "epochs": 1})
    train_csv(data, tmp_path / "model", classifier, multi_label="no", valid=data)
    assert "billing;hardware" in classifier.classes_


def test_rare_labels_are_merged_label_by_label(encoder_folder, tmp_path):
    texts, labels = pairs(8)
    labels[:3] = [("billing", "rare one"), ("rare two",), ("billing", "rare two")]
    notes, data = Listener(), write(tmp_path / "data.csv", texts, labels)
    classifier = quick(encoder_folder, training={**QUICK, "epochs": 1}, progress=notes)
    train_csv(data, tmp_path / "model", classifier, min_rows=3)
    assert classifier.classes_.tolist() == ["billing", "hardware", "other", "software"]
    assert any("2 rare labels, 3 rows, merged" in note for note in notes.notes)


@pytest.mark.parametrize(("recipe", "rule"), [("full", "none"), ("few-shot", "balanced")])
def test_other_recipes_and_class_weights(shallow_encoder_folder, recipe, rule):
    texts, labels = pairs(6)
    settings = {**QUICK, "epochs": 2, "class_weight": rule}
    classifier = quick(shallow_encoder_folder, recipe=recipe, training=settings)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        classifier.fit(texts, labels)
    assert classifier.predict_proba(texts).shape == (len(texts), 3)


def test_mixed_lists_and_strings_are_refused(encoder_folder):
    texts, labels = pairs(4)
    with pytest.raises(LabelError, match="of type str as label number 1"):
        quick(encoder_folder).fit(texts, ["billing", *labels[1:]])
    with pytest.raises(LabelError, match="one label each and training rows with several"):
        quick(encoder_folder).fit(texts, labels, valid=(["invoice"], ["billing"]))
    with pytest.raises(LabelError, match="with a single row: 'alone'"):
        quick(encoder_folder).fit(texts, [("alone", "billing"), *labels[1:]])


def test_rows_without_a_label_are_left_out_and_every_label_is_in_training(encoder_folder):
    texts, labels = pairs(6)
    notes = Listener()
    labels[3], labels[5], labels[20] = (), ("billing", "seldom"), ("seldom", "software")
    classifier = quick(encoder_folder, training={**QUICK, "epochs": 1}, progress=notes)
    assert "seldom" in classifier.fit(texts, labels).classes_
    assert any("left out: 1 row without a label" in note for note in notes.notes)


def test_predictions_are_tuples_even_if_all_have_equal_length(trained):
    predictor = load(trained[0] / "model", engine="keras")
    texts, found = pairs()[0], predictor.predict(pairs()[0])
    for count in (1, 2):
        alike = [text for text, own in zip(texts, found, strict=True) if len(own) == count][:3]
        for some in (alike, alike[:1]):
            again = predictor.predict(some)
            assert again.shape == (len(some),)
            assert {(type(own), len(own)) for own in again} == {(tuple, count)}
