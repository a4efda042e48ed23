"""Scoring a file, evaluating on a file, and training from a file."""

import csv
import gzip
import json
import shutil
from functools import partial

import pytest
import xlsxwriter
from sklearn.metrics import accuracy_score, f1_score

import bertcnn
from bertcnn import evaluate_csv, score_csv, train_csv
from bertcnn.doctor.check import check_csv
from bertcnn.errors import (
    BundleError,
    ColumnError,
    LabelError,
    OutputError,
    SettingsError,
)
from bertcnn.storage.files import check_file_target
from tests.listener import Listener
from tests.test_classifier import quick
from tests.tickets import as_csv, tickets
from tests.tiny import saved


@pytest.fixture(scope="module")
def model(encoder_folder):
    return saved(encoder_folder)


@pytest.fixture(scope="module")
def predictor(model):
    return bertcnn.load(model)


def write(path, content):
    path.write_text(content, encoding="utf-8")
    return path


INBOX = 'id,text,note\n3,"the router, again",=1+1\n1,refund please,007\n2,,NA\n'
INBOX += '3,"the router, again",null\n'


def written(path):
    """The rows of a CSV file, by column."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_columns_rows_and_order_are_kept_and_ours_follow(predictor, tmp_path):
    source = write(tmp_path / "in.csv", INBOX)
    report = score_csv(predictor, source, tmp_path / "out.csv", probabilities=True)
    rows = written(tmp_path / "out.csv")
    assert list(rows[0]) == [
        *("id", "text", "note", "predicted_label", "confidence", "decision", "because"),
        *("p_billing", "p_hardware", "p_software"),
    ]
    assert [row["id"] for row in rows] == ["3", "1", "2", "3"]
    assert [row["note"] for row in rows] == ["'=1+1", "007", "NA", "null"]
    label = predictor.predict(["the router, again"])[0]
    assert rows[0]["predicted_label"] == rows[3]["predicted_label"] == label
    confidence = float(rows[0]["confidence"])
    assert confidence == max(float(rows[0][f"p_{name}"]) for name in predictor.labels)
    assert confidence == float(rows[0][f"p_{label}"])
    doubtful, empty = "review:ambiguous", "review:empty"
    assert [row["decision"] for row in rows] == [doubtful, doubtful, empty, doubtful]
    assert report.decisions == {doubtful: 3, empty: 1}
    assert rows[2]["predicted_label"] == rows[2]["confidence"] == rows[2]["p_billing"] == ""
    assert (report.rows, report.blank, report.rejected) == (4, 1, 0)


def test_unread_sheets_are_reported(predictor, encoder_folder, tmp_path):
    path = tmp_path / "in.xlsx"
    with xlsxwriter.Workbook(str(path)) as book:
        for name in ("2025", "2024"):
            sheet = book.add_worksheet(name)
            for number, row in enumerate([("text", "label"), *zip(*tickets(8), strict=True)]):
                sheet.write_row(number, 0, row)
    for work in (
        partial(evaluate_csv, predictor, path),
        partial(check_csv, path, encoder=encoder_folder),
    ):
        notes = Listener()
        work(progress=notes)
        assert any(note.endswith("other sheets: '2024' (25 rows)") for note in notes.notes)


def test_a_precision_asked_for_holds_for_a_loaded_model_too(predictor, model, tmp_path):
    source = write(tmp_path / "in.csv", as_csv(*tickets(8)))
    decisions = [
        score_csv(asked, source, tmp_path / f"{number}.csv", auto_precision=precision).decisions
        for number, (asked, precision) in enumerate(
            [(model, 0.2), (predictor, 0.2), (predictor, None)]
        )
    ]
    assert decisions[0] == decisions[1] == {"auto": 24}
    assert decisions[2] == {"review:ambiguous": 24}
    with pytest.raises(SettingsError, match="engine 'keras' for a loaded model"):
        score_csv(predictor, source, tmp_path / "out.csv", engine="keras")


def test_nothing_is_written_into_a_saved_model(predictor, model, tmp_path):
    source = write(tmp_path / "in.csv", INBOX)
    folder = shutil.copytree(model, tmp_path / "model")
    message = "which bertcnn has saved and nothing may be added to"
    for place in (folder / "out.csv", folder / "engine" / "out.csv"):
        with pytest.raises(OutputError, match=message):
            score_csv(predictor, source, place)
    with pytest.raises(OutputError, match=message):
        bertcnn.export_model(folder, "keras", folder / "keras")
    with pytest.raises(OutputError, match=message):
        check_file_target(folder / "metrics.json", overwrite=True)
    assert bertcnn.load(folder).labels == predictor.labels
    write(tmp_path / "manifest.json", '{"format": "of somebody else"}')
    score_csv(predictor, source, tmp_path / "out.csv")


def test_a_name_of_the_greatest_length_has_companions_of_shorter_ones(predictor, tmp_path):
    source = write(tmp_path / "in.csv", INBOX + "broken\n")
    report = score_csv(predictor, source, tmp_path / f"{'x' * 251}.csv")
    assert report.rejects is not None
    assert report.rejects.name.startswith("x" * 40 + "-")
    assert sorted(tmp_path.iterdir()) == sorted(
        [source, tmp_path / f"{'x' * 251}.csv", report.rejects]
    )


@pytest.mark.parametrize("name", ["out.csv", "out.tsv", "out.csv.gz"])
def test_a_scored_file_scored_again_keeps_every_byte_and_can_be_evaluated(
    predictor, tmp_path, name
):
    lines = [
        "@id,text,,note,text ",
        "+49 30 123456,=router,-5,'=1,＝a",
        '\'-7,@bill please,-,\ufeff@x,"\n=b"',
    ]
    source = write(tmp_path / "in.csv", "\n".join(lines) + "\n")
    first, again = tmp_path / name, tmp_path / f"again{name[3:]}"
    score_csv(predictor, source, first, text="text")
    score_csv(predictor, first, again, text="text")

    def cells(path):
        opened = gzip.open if name.endswith("gz") else open
        with opened(path, "rt", newline="", encoding="utf-8") as file:
            return list(csv.reader(file, delimiter="\t" if "tsv" in name else ","))

    once = cells(first)
    assert [row[:9] for row in cells(again)] == once
    assert once[0][:5] == ["'@id", "text", "", "note", "text "]
    assert once[1][:5] == ["+49 30 123456", "'=router", "-5", "'=1", "'＝a"]
    assert once[2][:5] == ["'-7", "'@bill please", "-", "'\ufeff@x", "'\n=b"]
    assert evaluate_csv(predictor, first, text="text", label="predicted_label").accuracy == 1.0


def test_a_name_in_use_gets_a_prefix_and_is_reported(predictor, tmp_path):
    notes = Listener()
    source = write(tmp_path / "in.csv", "text,confidence\nthe router,low\n")
    report = score_csv(predictor, source, tmp_path / "out.csv", progress=notes)
    assert report.renamed == {"confidence": "bertcnn_confidence"}
    assert next(csv.DictReader((tmp_path / "out.csv").open()))["confidence"] == "low"
    assert any("bertcnn_confidence" in note for note in notes.notes)


def test_a_text_gets_the_same_answer_in_every_row_and_chunk(predictor, tmp_path):
    lines = [f"{row},{('the router', 'a bill')[row % 2]}" for row in range(9_000)]
    source = write(tmp_path / "in.csv", "\n".join(["id,text", *lines]))
    report = score_csv(predictor, source, tmp_path / "out.csv", probabilities=True)
    rows = written(tmp_path / "out.csv")
    assert [row["id"] for row in rows] == [str(row) for row in range(9_000)]
    assert len({tuple(row.values())[1:] for row in rows}) == 2
    assert report.rows == sum(report.labels.values()) == 9_000


def test_a_folder_without_a_model_is_refused(tmp_path):
    source = write(tmp_path / "in.csv", INBOX)
    with pytest.raises(BundleError, match=r"manifest|saved"):
        score_csv(tmp_path, source, tmp_path / "out.csv")


def test_evaluation_has_the_contracts_keys_and_scikit_learns_figures(predictor, tmp_path):
    texts, labels = tickets(9)
    labels[0], labels[10] = "software", "billing"  # two wrong labels, so that something is confused
    predicted = predictor.predict(texts)

    def evaluated(labels):
        figures = evaluate_csv(predictor, write(tmp_path / "labelled.csv", as_csv(texts, labels)))
        macro = f1_score(labels, predicted, average="macro", zero_division=0)
        assert figures.accuracy == pytest.approx(accuracy_score(labels, predicted))
        assert figures.macro_f1 == pytest.approx(macro)
        return figures

    keys = {"rows", "accuracy", "macro_f1", "weighted_f1", "labels", "confusion", "most_confused"}
    assert keys <= json.loads(json.dumps(evaluated(labels).to_json())).keys()
    labels[5] = "sales"
    assert evaluated(labels).unknown_labels == ("sales",)
    with pytest.raises(LabelError, match="label the model does not know, first of all 'sales'"):
        evaluated(["sales"] * len(texts))


def test_rows_out_of_scope_are_counted_apart(predictor, tmp_path):
    texts, labels = tickets(9)
    plain = evaluate_csv(predictor, write(tmp_path / "labelled.csv", as_csv(texts, labels)))
    assert plain.out_of_scope is None
    assert "out_of_scope" not in plain.to_json()
    more = ["who won the card game", "router cable red light"]
    data = write(tmp_path / "more.csv", as_csv([*texts, *more], [*labels, "spam", "Spam"]))
    report = tmp_path / "report.html"
    figures = evaluate_csv(predictor, data, report=report)
    decisions = [answer.decision for answer in predictor.classify(more)]
    found = figures.out_of_scope
    assert (figures.rows, figures.accuracy) == (plain.rows, plain.accuracy)
    assert found.rows == 2
    assert found.automatic == decisions.count("auto")
    assert found.called == sum(name.endswith(("out_of_scope", "language")) for name in decisions)
    assert figures.to_json()["out_of_scope"]["rows"] == 2
    assert f"{found.describe()}." in report.read_text()


def test_na_and_null_are_labels_and_texts_like_any_other(encoder_folder, tmp_path):
    texts, labels = tickets(8)
    labels = [{"billing": "NA", "hardware": "null", "software": "007"}[label] for label in labels]
    data = write(tmp_path / "tickets.csv", as_csv([*texts[:-2], "NA", "null"], labels))
    notes = Listener()
    report = train_csv(data, tmp_path / "model", quick(encoder_folder, progress=notes))
    assert report.rows == 24
    assert any(note.startswith("label: 'label'") for note in notes.notes)
    assert bertcnn.load(tmp_path / "model").labels == ("007", "NA", "null")


def test_a_file_without_the_columns_of_training_is_refused(encoder_folder, tmp_path):
    content, model, out = as_csv(*tickets(8)), tmp_path / "model", tmp_path / "out.csv"
    learned = train_csv(write(tmp_path / "data.csv", content), model, quick(encoder_folder))
    assert learned.columns.text == ("text",)
    other = write(tmp_path / "in.csv", content.replace("id,text,label", "id,comment,label"))
    for work in (partial(score_csv, model, other, out), partial(evaluate_csv, model, other)):
        with pytest.raises(ColumnError, match=r"no column 'text', which .* trained on; .*--text"):
            work()
        work(text="Comment")
    other = write(tmp_path / "in.csv", content.replace("label", "team"))
    with pytest.raises(ColumnError, match=r"no column 'label', which .* trained on; .*--label"):
        evaluate_csv(model, other)
    upper = content.replace("id,text,label", "Report\n\nID, TEXT ,Label")
    upper = write(tmp_path / "in.csv", upper)
    assert score_csv(model, upper, out, overwrite=True).rows == 24
    assert evaluate_csv(model, upper).rows == 24


def test_a_repeated_header_is_no_ticket_and_no_label(predictor, encoder_folder, tmp_path):
    content = as_csv(*tickets(8))
    source = write(tmp_path / "in.csv", content * 3)
    report = score_csv(predictor, source, tmp_path / "out.csv")
    assert (report.rows, report.rejected, report.repeated_headers) == (72, 2, 2)
    found = check_csv(source, encoder=encoder_folder)
    assert sorted(found.facts["labels"]) == ["billing", "hardware", "software"]
    assert found.finding("rejected_rows").examples[0].says == "the header once more"
    notes = Listener()
    evaluate_csv(predictor, source, progress=notes)
    assert "2 rows repeating the header left out" in notes.notes
