"""Training from a labelled file, and evaluating on one."""

import csv
import unicodedata

import numpy as np
import pytest

import bertcnn
from bertcnn import evaluate_csv, train_csv
from bertcnn.bundle.bundle import read_bundle
from bertcnn.errors import ColumnError, LabelError, OutputError, SettingsError
from tests.listener import Listener
from tests.test_classifier import QUICK, quick
from tests.tickets import as_csv, tickets
from tests.tiny import saved

ONE_EPOCH = {**QUICK, "epochs": 1}


def write(path, content):
    path.write_text(content, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def trained(encoder_folder, tmp_path_factory):
    """A folder with a model of two text columns and its unreadable rows; the notes; the report."""
    folder, notes = tmp_path_factory.mktemp("trained"), Listener()

    def lines(each):
        return "".join(
            f"7,{text},good morning to you all,{label}\n"
            for text, label in zip(*tickets(each), strict=True)
        )

    data = write(folder / "data.csv", "id,subject,body,team\n" + lines(6) + "99\n9,new,no label\n")
    valid = write(folder / "valid.csv", "id,subject,body,team\n" + lines(2) + "77,a,b,c,d\n88\n")
    classifier = quick(encoder_folder, training=ONE_EPOCH, progress=notes)
    report = train_csv(
        data, folder / "model", classifier, text="subject,body", label="team", valid=valid
    )
    return folder, notes.notes, report


def test_unreadable_training_and_validation_rows_are_written_beside_the_model(trained):
    folder, notes, report = trained
    assert (report.rows, report.metrics["rows"], report.recipe) == (19, 6, "frozen")
    lines = {
        name: [row["line"] for row in csv.DictReader((folder / name).open())]
        for name in ("model.rejects.csv", "model.valid.rejects.csv")
    }
    assert lines == {"model.rejects.csv": ["20"], "model.valid.rejects.csv": ["8", "9"]}
    told = [note for note in notes if "could not be read" in note]
    assert [note.split(" of ")[0] for note in told] == ["1", "2"]
    assert "model.valid.rejects.csv" in told[1]
    assert any(" lack their last cells, which are blank" in note for note in notes)


def test_the_training_columns_are_used_for_files_with_more_columns(trained):
    folder = trained[0]
    config = bertcnn.load(folder / "model").bundle.config
    assert (config.text_columns, config.label_column) == (("subject", "body"), "team")
    notes = Listener()
    evaluate_csv(folder / "model", folder / "data.csv", progress=notes)
    assert any(note.startswith("text: 'subject', 'body'") for note in notes.notes)


def test_evaluation_reports_rows_left_out_without_a_label(encoder_folder, tmp_path):
    notes = Listener()
    data = write(tmp_path / "data.csv", as_csv(*tickets(4)) + '90,"router",\n91\n')
    assert evaluate_csv(saved(encoder_folder), data, progress=notes).rows == 12
    assert "1 of 13 rows have no label and are left out" in notes.notes
    assert any(note.endswith("could not be read") for note in notes.notes)
    with pytest.raises(SettingsError, match=r"load the model with engine=\"keras\""):
        evaluate_csv(bertcnn.load(saved(encoder_folder)), data, engine="keras")
    empty = write(tmp_path / "empty.csv", "text,label\nrouter,\nbill,\n")
    with pytest.raises(LabelError, match=r"no row of .* has a text and a label in column 'label'"):
        evaluate_csv(saved(encoder_folder), empty, label="label")


def test_evaluation_reports_rows_left_out_without_a_text(encoder_folder, tmp_path):
    notes = Listener()
    whole = write(tmp_path / "whole.csv", as_csv(*tickets(4)))
    gaps = write(tmp_path / "gaps.csv", as_csv(*tickets(4)) + '90,"  ",billing\n91,,software\n')
    expected = evaluate_csv(saved(encoder_folder), whole)
    found = evaluate_csv(saved(encoder_folder), gaps, progress=notes)
    assert found.to_json() == expected.to_json()
    assert "2 of 14 rows have no text and are left out" in notes.notes
    assert "text: 'text' (as in training)" not in notes.notes  # this model was trained on lists


def test_unknown_labels_are_reported_before_any_work(encoder_folder, tmp_path, monkeypatch):
    predictor = bertcnn.load(saved(encoder_folder))
    monkeypatch.setattr(predictor, "predict", None)
    data = write(tmp_path / "data.csv", as_csv(["router"], ["parcels"]))
    with pytest.raises(LabelError, match="1 of 1 rows have a label the model does not know"):
        evaluate_csv(predictor, data, label="label")


def test_equal_texts_with_different_labels_are_reported_before_training(encoder_folder, tmp_path):
    notes, texts = Listener(), "no signal,a\nmy bill,b\nno signal ,b\nmy bill,b\n"
    data = write(tmp_path / "in.csv", "text,label\n" + texts)
    classifier = quick(encoder_folder, progress=notes)
    with pytest.raises(LabelError):  # the next step
        train_csv(data, tmp_path / "new", classifier, text="text", label="label", out_of_scope="c")
    assert notes.notes[-1] == (
        "1 text with different labels, such as line 2 ('a') and line 4 ('b'): a model can be right"
        " on one of them only; `bertcnn check` lists them"
    )


def test_rare_labels_are_merged_on_request_and_similar_names_reported(encoder_folder, tmp_path):
    texts, labels = tickets(6)
    more = ["net > wifi", "net > cable", "post", "shop"]
    rows = as_csv([*texts, "wifi", "cable", "a parcel", "late parcel"], [*labels, *more])
    data = write(tmp_path / "data.csv", rows)
    valid = ["app", "bill", "router", "parcel"], ["software", "billing", "net > wifi", "post"]
    valid, notes = write(tmp_path / "valid.csv", as_csv(*valid)), Listener()
    classifier = quick(encoder_folder, training=ONE_EPOCH, progress=notes)
    with pytest.raises(LabelError, match=r"4 of 7 labels with a single row: .*--min-rows 2"):
        train_csv(data, tmp_path / "model", classifier)
    with pytest.raises(SettingsError, match="min_rows -1; expected a number of rows, 0 or more"):
        train_csv(data, tmp_path / "model", classifier, min_rows=-1)
    train_csv(data, tmp_path / "model", classifier, valid=valid, min_rows=2)
    merged = ("billing", "hardware", "net", "other", "software")
    assert bertcnn.load(tmp_path / "model").labels == merged
    assert any(note.startswith("4 rare labels, 4 rows, merged: ") for note in notes.notes)
    assert not any("nearly the same name" in note for note in notes.notes)
    told = Listener()
    found = evaluate_csv(tmp_path / "model", data, progress=told)
    assert found.rows == 22
    assert [label.support for label in found.labels] == [6, 6, 2, 2, 6]
    assert any("4 of 22 rows have a label that was merged" in note for note in told.notes)
    assert "label: 'label' (as in training)" in told.notes


def test_validation_rows_among_the_training_rows_and_an_impossible_refit_are_reported(
    encoder_folder, tmp_path
):
    texts, labels = tickets(6)
    data, notes = write(tmp_path / "data.csv", as_csv(texts, labels)), Listener()
    known = [texts[0].upper() + "!", texts[1], "an invoice that is new"]
    valid = write(tmp_path / "valid.csv", as_csv(known, [*labels[:2], "billing"]))
    training = {**ONE_EPOCH, "refit": True}
    classifier = quick(encoder_folder, training=training, progress=notes)
    train_csv(data, tmp_path / "model", classifier, valid=valid)
    told = "\n".join(notes.notes)
    assert "2 of 3 validation rows are training rows too: figures will be too good" in told
    assert "given validation rows are never learned from" in told


@pytest.mark.parametrize(("recipe", "trainings"), [("frozen", 1), ("few-shot", 2)])
def test_an_interrupted_training_resumes_to_the_same_model(
    shallow_encoder_folder, tmp_path, monkeypatch, recipe, trainings
):
    class Stopping(Listener):
        begun = 0

        def stage(self, name, total, unit="rows"):
            super().stage(name, total, unit)
            self.begun += name == "training"

        def advance(self, done, **figures):  # noqa: ARG002
            second = trainings == 2 or "macro_f1" in figures  # training, or epoch
            if self.begun == trainings and "loss" in figures and second:
                with pytest.raises(OutputError, match=r"another run .*\.model\.training right now"):
                    train_csv(data, tmp_path / "model", quick(shallow_encoder_folder))
                raise KeyboardInterrupt

    def train(name, progress):
        classifier = quick(shallow_encoder_folder, recipe=recipe, training=training)
        train_csv(data, tmp_path / name, classifier.set_params(progress=progress))

    monkeypatch.setattr("bertcnn.training.savepoints._SECONDS_BETWEEN", 0.0)
    data, notes = write(tmp_path / "data.csv", as_csv(*tickets(6))), Listener()
    training = {**QUICK, "epochs": 2, "fewest_steps": 0, "contrast_steps": 2}
    training["refit"] = trainings == 2
    train("whole", Listener())
    with pytest.raises(KeyboardInterrupt):
        train("model", Stopping())
    assert not (tmp_path / "model").exists()
    train("model", notes)
    assert any(note.startswith("resuming an interrupted training") for note in notes.notes)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.csv", "model", "whole"]
    whole, model = read_bundle(tmp_path / "whole"), read_bundle(tmp_path / "model")
    for name, tensor in whole.tensors.items():
        np.testing.assert_array_equal(model.tensors[name], tensor)


def test_validation_rows_need_the_same_columns_and_labels(encoder_folder, tmp_path):
    data = write(tmp_path / "data.csv", as_csv(*tickets(6)))
    for rows, error, told in (
        ("text,team\nrouter,billing\n", ColumnError, "no column 'label' in .*'text', 'team'"),
        ("text,label\nrouter,spam\n", LabelError, "validation rows with the labels 'spam'"),
    ):
        valid = write(tmp_path / "valid.csv", rows)
        with pytest.raises(error, match=told):
            train_csv(data, tmp_path / "model", quick(encoder_folder), valid=valid)
    assert not (tmp_path / "model").exists()


def test_labels_are_compared_as_displayed(encoder_folder, tmp_path):
    texts, labels = tickets(6)
    cafe = unicodedata.normalize("NFD", "Café")
    ways = {
        "billing": ["29682833", "29682833.0"],
        "hardware": ["Lost card", "Lost\u00a0card "],
        "software": ["Café", cafe],
    }
    spelled = [ways[label][row % 5 == 0] for row, label in enumerate(labels)]
    notes = Listener()
    data = write(tmp_path / "data.csv", as_csv(texts, spelled))
    valid = write(tmp_path / "valid.csv", as_csv(texts, spelled[::-1]))
    classifier = quick(encoder_folder, training=ONE_EPOCH, progress=notes)
    train_csv(data, tmp_path / "model", classifier, valid=valid)
    assert bertcnn.load(tmp_path / "model").labels == ("29682833", "Café", "Lost card")
    told = next(note for note in notes.notes if note.startswith("3 spellings of a label"))
    assert "'29682833.0' 2x is '29682833'" in told
    assert "1x is 'Lost card'" in told
    found = evaluate_csv(tmp_path / "model", data)
    other = write(tmp_path / "other.csv", as_csv(texts, [ways[label][1] for label in labels]))
    assert found.to_json() == evaluate_csv(tmp_path / "model", other).to_json()
    assert (found.unknown_labels, [label.support for label in found.labels]) == ((), [6, 6, 6])
    classifier = bertcnn.BertCNNClassifier.load(tmp_path / "model")
    assert classifier.score(texts, spelled) == found.accuracy


def test_rows_with_an_unknown_label_count_as_wrong_and_are_reported(encoder_folder, tmp_path):
    texts, labels = tickets(4)
    labels[0], labels[5] = "parcels", "letters"
    data, notes = write(tmp_path / "data.csv", as_csv(texts, labels)), Listener()
    page = tmp_path / "report.html"
    found = evaluate_csv(saved(encoder_folder), data, report=page, progress=notes)
    predicted = bertcnn.load(saved(encoder_folder)).predict(texts)
    assert (found.rows, found.accuracy) == (12, np.mean(predicted == np.array(labels)))
    assert [label.name for label in found.labels][3:] == ["letters", "parcels"]
    told = "2 of 12 rows have a label that the model does not know"
    assert any(note.startswith(told) for note in notes.notes)
    assert told in page.read_text()
    notes = Listener()
    classifier = bertcnn.BertCNNClassifier.load(saved(encoder_folder)).set_params(progress=notes)
    assert classifier.score(texts, labels) == found.accuracy
    assert [note.startswith(told) for note in notes.notes] == [True]


def test_validation_rows_with_an_untrained_label_are_not_used(encoder_folder, tmp_path):
    data, notes = write(tmp_path / "data.csv", as_csv(*tickets(6))), Listener()
    rows = as_csv(["router", "bill", "a parcel"], ["hardware", "billing ", "parcels"])
    valid = write(tmp_path / "valid.csv", rows)
    classifier = quick(encoder_folder, training=ONE_EPOCH, progress=notes)
    report = train_csv(data, tmp_path / "model", classifier, valid=valid)
    assert report.metrics["rows"] == 2
    told = "1 of 3 validation rows have a label that no training row has ('parcels')"
    assert any(note.startswith(told) for note in notes.notes)


def test_comparison_signs_are_not_levels_and_levels_can_be_set(encoder_folder, tmp_path):
    texts, labels = tickets(6)

    def trained(names, **given):
        notes = Listener()
        rows = as_csv(texts, [names[label] for label in labels])
        data = write(tmp_path / "data.csv", rows)
        classifier = quick(encoder_folder, training=ONE_EPOCH, progress=notes)
        train_csv(data, tmp_path / "model", classifier, overwrite=True, **given)
        predictor = bertcnn.load(tmp_path / "model")
        thresholds = len(predictor.decisions.parent_thresholds)
        told = "".join(note for note in notes.notes if "parent" in note)
        return predictor.hierarchy.parents, thresholds, told

    delays = {"billing": "Delay > 30 days", "hardware": "Delay > 60 days", "software": "Damage"}
    tree = {"billing": "net > wifi", "hardware": "net > cable", "software": "app"}
    parents, thresholds, told = trained(delays)
    assert (parents, thresholds) == ((), 0)
    assert "without 'Delay' as a parent; --levels ' > ' makes levels of them" in told
    assert trained(delays, levels=" > ")[:2] == (("Delay",), 1)
    parents, thresholds, told = trained(tree)
    assert (parents, thresholds) == (("net",), 1)
    assert told.startswith("1 parent of labels with levels (' > '): 'net' of 2 labels")
    assert trained(tree, levels="no") == ((), 0, "")
    for levels, told in (
        ("::", "a separator that stands in the labels"),
        (" ", "'auto', 'no', or a separator of 1 to 16 characters"),
    ):
        with pytest.raises(SettingsError, match=f"levels '{levels}'; expected {told}"):
            trained(tree, levels=levels)


def test_a_file_without_labels_is_used_like_rows_with_blank_labels(encoder_folder, tmp_path):
    def learned(name, rows, **given):
        notes, training = Listener(), {**ONE_EPOCH, "contrast_steps": 0}
        classifier = quick(encoder_folder, recipe="few-shot", training=training, progress=notes)
        data = write(tmp_path / f"{name}.csv", rows)
        report = train_csv(data, tmp_path / name, classifier, **given)
        assert any(note.startswith("2 rows without a label: of ") for note in notes.notes)
        return bertcnn.load(tmp_path / name).predict_proba(tickets(2)[0]), report.rows

    rows = as_csv(*tickets(6))
    inbox = write(tmp_path / "inbox.csv", "sender,text\na,red cable\nb,blue bill\nc,\nlost\n")
    answers, read = learned("apart", rows, unlabelled=inbox)
    assert read == 18
    expected, _ = learned("blank", rows + "18,red cable,\n19,blue bill,\n")
    np.testing.assert_array_equal(answers, expected)
    other = write(tmp_path / "c.csv", "body\nred cable\n")
    with pytest.raises(ColumnError, match=r"no column 'text' in '.*c.csv'.* found are 'body'"):
        train_csv(tmp_path / "apart.csv", tmp_path / "new", unlabelled=other)
    assert (tmp_path / "apart.unlabelled.rejects.csv").read_text().count("\n") == 2


def test_an_existing_output_is_refused_before_the_data_is_read(encoder_folder, tmp_path):
    with pytest.raises(OutputError, match=r"--force|overwrite"):
        train_csv(tmp_path / "missing.csv", saved(encoder_folder), quick(encoder_folder))
    with pytest.raises(OutputError, match="which is no part of a model"):
        train_csv(tmp_path / "missing.csv", encoder_folder, quick(encoder_folder), overwrite=True)
