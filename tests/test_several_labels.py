"""Rows with several labels, from the file to the scored file and back."""

import csv
import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import DataConversionWarning

from bertcnn import BertCNNClassifier, evaluate_csv, load, score_csv, train_csv
from bertcnn.bundle.bundle import read_bundle, write_bundle
from bertcnn.bundle.engine import engine_in_memory
from bertcnn.classifier import Columns
from bertcnn.cli.main import main
from bertcnn.data.label_sets import join_labels
from bertcnn.errors import BundleError, LabelError
from bertcnn.evaluation.probabilities import sigmoid
from bertcnn.export.export import export_model
from bertcnn.inference.predictor import Predictor
from tests.scoring.test_resume import break_off
from tests.test_classifier import QUICK, Notes, quick
from tests.tickets import tickets

LABELS = ("billing", "hardware", "software")


def pairs(each=18):
    """`tickets`, with every third text joined from two."""
    texts, labels = tickets(each)
    rows = [(text, (label,)) for text, label in zip(texts, labels, strict=True)]
    rows += [
        (
            f"{texts[row]} and {texts[(row + each) % len(texts)]}",
            tuple(sorted({labels[row], labels[(row + each) % len(texts)]})),
        )
        for row in range(0, len(texts), 3)
    ]
    return [text for text, _ in rows], [label for _, label in rows]


def write(path, texts, labels, separator=";"):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(
            [
                ["text", "label"],
                *(
                    [text, join_labels(own, separator)]
                    for text, own in zip(texts, labels, strict=True)
                ),
            ]
        )
    return path


@pytest.fixture(scope="module")
def trained(encoder_folder, tmp_path_factory):
    """A folder with a model for several labels, its rows, notes, and the classifier."""
    folder, notes = tmp_path_factory.mktemp("several"), Notes()
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


def test_it_is_found_told_and_learned(trained):
    _, notes, classifier = trained
    assert any(
        note.startswith("18 of 72 rows have several labels (';' between labels)") for note in notes
    )
    assert classifier.classes_.tolist() == list(LABELS)
    texts, labels = pairs()
    right = [
        set(found) == set(own) for found, own in zip(classifier.predict(texts), labels, strict=True)
    ]
    assert classifier.score(texts, labels) == np.mean(right)
    assert classifier.score(texts, labels) > 0.9
    assert classifier.metrics_["several_labels"] is True


def test_the_saved_model_gives_each_label_its_own_probability_and_threshold(trained):
    predictor = load(trained[0] / "model", engine="keras")
    texts, labels = pairs()
    probabilities = predictor.predict_proba(texts)
    calibration = predictor.bundle.calibration
    logits = predictor.engine.run(predictor._tokenizer.encode(texts).token_ids).logits
    np.testing.assert_allclose(probabilities, sigmoid(logits / calibration.temperature), atol=1e-6)
    found = predictor.predict(texts)
    for row, own in enumerate(found):
        assert set(own) == {
            label
            for label, share, limit in zip(
                LABELS, probabilities[row], calibration.label_thresholds, strict=True
            )
            if share >= limit
        }
        assert list(own) == sorted(own, key=lambda label: -probabilities[row][LABELS.index(label)])
    assert max(map(len, found)) == 2
    assert np.mean([set(a) == set(b) for a, b in zip(found, labels, strict=True)]) > 0.9


def test_an_answer_names_all_labels_and_how_sure_they_are_together(trained):
    predictor = load(trained[0] / "model")
    text = next(
        text
        for text, found in zip(pairs()[0], predictor.predict(pairs()[0]), strict=True)
        if len(found) == 2
    )
    answer = predictor.classify([text, " "])
    assert (len(answer[0].labels), answer[0].label) == (2, "; ".join(answer[0].labels))
    probabilities = [
        share if label in answer[0].labels else 1 - share
        for label, share in answer[0].probabilities.items()
    ]
    assert answer[0].confidence == pytest.approx(np.prod(probabilities), rel=1e-5)
    assert answer[0].confidence < min(probabilities) < 0.95
    assert answer[0].because
    assert (answer[1].label, answer[1].labels, answer[1].decision) == (None, (), "review:empty")


def test_a_text_without_a_label_goes_to_review(trained):
    predictor = load(trained[0] / "model", engine="keras")
    predictor._label_thresholds = np.full(3, 1.01, np.float32)
    for answer in predictor.classify(pairs()[0]):  # texts that it was trained on
        assert (answer.label, answer.labels, answer.decision) == ("", (), "review:out_of_scope")


@pytest.mark.parametrize("probabilities", [False, True])
def test_a_scored_file_is_what_the_predictor_says(trained, tmp_path, probabilities):
    folder = trained[0]
    texts, _ = pairs()
    source = write(tmp_path / "in.csv", [*texts, " ", texts[-1]], [()] * (len(texts) + 2))
    report = score_csv(folder / "model", source, tmp_path / "out.csv", probabilities=probabilities)
    rows = list(csv.DictReader((tmp_path / "out.csv").open()))
    assert list(rows[0])[2:6] == ["predicted_label", "confidence", "decision", "because"]
    assert [name for name in rows[0] if name.startswith("p_")] == (
        [f"p_{label}" for label in LABELS] if probabilities else []
    )
    answers = load(folder / "model").classify([row["text"] for row in rows])
    assert [row["predicted_label"] for row in rows] == [answer.label or "" for answer in answers]
    assert any("; " in row["predicted_label"] for row in rows)
    assert report.labels == {
        label: count
        for label in LABELS
        if (count := sum(label in answer.labels for answer in answers))
    }
    assert (report.blank, report.rows) == (1, len(rows))


def test_an_interrupted_run_is_finished_to_the_same_bytes(trained, tmp_path, monkeypatch):
    folder, source = trained[0], write(tmp_path / "in.csv", *pairs(60))
    monkeypatch.setattr("bertcnn.scoring.score._CHUNK_ROWS", 50)
    score_csv(folder / "model", source, tmp_path / "whole.csv")
    break_off(folder / "model", source, tmp_path / "out.csv")
    score_csv(folder / "model", source, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_evaluating_parts_the_cells_of_the_file(trained, tmp_path):
    folder = trained[0]
    figures = evaluate_csv(folder / "model", folder / "data.csv", report=tmp_path / "report.html")
    assert figures.several_labels
    assert figures.accuracy > 0.9
    assert [label.support for label in figures.labels] == [30, 30, 30]
    page = (tmp_path / "report.html").read_text()
    assert "a row is right if all its labels are found and no other is given" in page
    with pytest.raises(LabelError, match="a label the model does not know, first of all 'sales'"):
        evaluate_csv(
            folder / "model", write(tmp_path / "other.csv", ["invoice"] * 3, [("sales",)] * 3)
        )


def test_rows_with_a_label_that_the_model_does_not_know_count_as_wrong(trained, tmp_path):
    folder, _, classifier = trained
    texts, labels = pairs()
    notes, labels = Notes(), [("sales", *own) if row % 2 else own for row, own in enumerate(labels)]
    data = write(tmp_path / "data.csv", texts, labels)
    figures = evaluate_csv(folder / "model", data, report=tmp_path / "report.html", progress=notes)
    assert figures.unknown_labels == ("sales",)
    assert figures.accuracy == np.mean(
        [
            set(a) == set(b)
            for a, b in zip(load(folder / "model").predict(texts), labels, strict=True)
        ]
    )
    assert (
        "36 of 72 rows have a label that the model does not know and count as wrong: 'sales' (36)"
        in notes.notes
    )
    assert (
        "36 of 72 rows have a label that the model does not know"
        in (tmp_path / "report.html").read_text()
    )
    assert evaluate_csv(folder / "model", data).to_json() == figures.to_json()
    assert classifier.score(texts, labels) == figures.accuracy


@pytest.mark.parametrize(
    "form",
    [
        str,
        lambda own: str(tuple(own)),
        lambda own: str(np.array(own)),
        lambda own: "{" + ",".join(own) + "}",
    ],
)
def test_lists_in_the_forms_of_other_programs_are_evaluated_as_json_lists_are(
    trained, tmp_path, form
):
    texts, labels = pairs()
    data = tmp_path / "data.csv"
    with data.open("w", newline="") as file:
        csv.writer(file).writerows(
            [
                ["text", "label"],
                *([text, form(list(own))] for text, own in zip(texts, labels, strict=True)),
            ]
        )
    predictor = load(trained[0] / "model")
    config = predictor.bundle.config.model_copy(update={"label_separator": "[]"})
    as_lists = Predictor(
        replace(predictor.bundle, config=config), predictor.engine, predictor.output_layer
    )
    assert (
        evaluate_csv(as_lists, data).to_json()
        == evaluate_csv(predictor, trained[0] / "data.csv").to_json()
    )


def test_lists_of_one_are_single_labels_and_scikit_learns_warning_is_given(encoder_folder):
    texts, labels = tickets(4)
    training = {**QUICK, "epochs": 1}
    with pytest.warns(DataConversionWarning, match="are single labels"):
        classifier = quick(encoder_folder, training=training).fit(
            texts, [[label] for label in labels]
        )
    assert classifier.predict(texts[:1])[0] in LABELS
    several = quick(encoder_folder, training=training).fit(
        texts, [[label] for label in labels], columns=Columns(separator=";")
    )
    assert isinstance(several.predict(texts[:1])[0], tuple)


def test_it_is_saved_again_and_loaded_as_it_was(trained, tmp_path):
    classifier = BertCNNClassifier.load(trained[0] / "model")
    classifier.save(tmp_path / "again")
    texts, _ = pairs()
    assert list(load(tmp_path / "again").predict(texts)) == list(
        load(trained[0] / "model").predict(texts)
    )
    assert classifier.explain(texts[:1], label="billing")[0].label == "billing"


def test_thresholds_that_are_not_the_models_are_refused(trained, tmp_path):
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


def test_the_single_label_function_refuses_several_labels(trained, capsys):
    with pytest.raises(SystemExit):
        main_with(
            "encoder", "compare", str(trained[0]), str(trained[0]), str(trained[0] / "data.csv")
        )
    assert "rows with several labels in column 'label'" in capsys.readouterr().err


def main_with(*arguments):
    import sys

    sys.argv = ["bertcnn", *arguments]
    main()


def test_cells_are_single_labels_if_that_is_asked_for(encoder_folder, tmp_path):
    data = write(tmp_path / "data.csv", *pairs(6))
    classifier = quick(encoder_folder, training={**QUICK, "epochs": 1})
    train_csv(data, tmp_path / "model", classifier, multi_label="no", valid=data)
    assert "billing; hardware" in classifier.classes_


def test_rare_labels_are_merged_label_by_label(encoder_folder, tmp_path):
    texts, labels = pairs(8)
    labels[0], labels[1], labels[2] = (
        ("billing", "rare one"),
        ("rare two",),
        ("billing", "rare two"),
    )
    notes = Notes()
    classifier = quick(encoder_folder, training={**QUICK, "epochs": 1}, progress=notes)
    train_csv(
        write(tmp_path / "data.csv", texts, labels), tmp_path / "model", classifier, min_rows=3
    )
    assert classifier.classes_.tolist() == ["billing", "hardware", "other", "software"]
    assert any("2 rare labels, 3 rows, merged" in note for note in notes.notes)


@pytest.mark.parametrize(("recipe", "rule"), [("full", "none"), ("few-shot", "balanced")])
def test_other_recipes_and_class_weights(shallow_encoder_folder, recipe, rule):
    texts, labels = pairs(6)
    settings = {**QUICK, "epochs": 2, "class_weight": rule}
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        classifier = quick(shallow_encoder_folder, recipe=recipe, training=settings).fit(
            texts, labels
        )
    assert classifier.predict_proba(texts).shape == (len(texts), 3)


def test_lists_and_strings_do_not_mix(encoder_folder):
    texts, labels = pairs(4)
    with pytest.raises(LabelError, match="of type str as label number 1"):
        quick(encoder_folder).fit(texts, ["billing", *labels[1:]])
    with pytest.raises(LabelError, match="one label each and training rows with several"):
        quick(encoder_folder).fit(texts, labels, valid=(["invoice"], ["billing"]))
    with pytest.raises(LabelError, match="with a single row: 'alone'"):
        quick(encoder_folder).fit(texts, [("alone", "billing"), *labels[1:]])


def test_rows_without_a_label_are_left_out_and_every_label_is_learned(encoder_folder):
    texts, labels = pairs(6)
    notes = Notes()
    labels[3], labels[5], labels[20] = (), ("billing", "seldom"), ("seldom", "software")
    classifier = quick(encoder_folder, training={**QUICK, "epochs": 1}, progress=notes).fit(
        texts, labels
    )
    assert any("left out: 1 row without a label" in note for note in notes.notes)
    assert "seldom" in classifier.classes_


def test_texts_with_equally_many_labels_get_tuples_too(trained):
    predictor = load(trained[0] / "model", engine="keras")
    texts, found = pairs()[0], predictor.predict(pairs()[0])
    for count in (1, 2):
        alike = [text for text, own in zip(texts, found, strict=True) if len(own) == count][:3]
        for some in (alike, alike[:1]):
            again = predictor.predict(some)
            assert again.shape == (len(some),)
            assert [type(own) for own in again] == [tuple] * len(some)
            assert {len(own) for own in again} == {count}


def test_a_separator_without_several_labels_is_forgotten(encoder_folder):
    classifier = quick(encoder_folder, training={**QUICK, "epochs": 1}).fit(
        *tickets(4), columns=Columns(separator=";")
    )
    assert classifier.predict(["invoice"])[0] in LABELS
