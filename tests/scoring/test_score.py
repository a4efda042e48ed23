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
    TableError,
)
from bertcnn.storage.files import check_file_target
from bertcnn.tables.tables import open_table, read_table
from bertcnn.tables.writing import TableWriter
from tests.test_classifier import Notes, quick
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


def test_sheets_of_a_workbook_that_are_not_read_are_named(predictor, encoder_folder, tmp_path):
    path = tmp_path / "in.xlsx"
    with xlsxwriter.Workbook(str(path)) as book:
        for name in ("2025", "2024"):
            sheet = book.add_worksheet(name)
            for number, row in enumerate([("text", "label"), *zip(*tickets(8), strict=True)]):
                sheet.write_row(number, 0, row)
    for work in (
        partial(score_csv, predictor, path, tmp_path / "out.csv"),
        partial(evaluate_csv, predictor, path),
        partial(check_csv, path, encoder=encoder_folder),
    ):
        notes = Notes()
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
    with pytest.raises(OutputError, match=r"is too long \(256 bytes\)"):
        score_csv(predictor, source, tmp_path / f"{'x' * 252}.csv")


def test_a_file_of_somebody_else_is_neither_replaced_nor_removed(predictor, tmp_path):
    others = write(tmp_path / "out.csv.rejects.csv", "name,phone\nAnn,123\n")
    for content in (INBOX, INBOX + "broken\n"):
        source = write(tmp_path / "in.csv", content)
        with pytest.raises(OutputError, match=r"out.csv.rejects.csv', .* is another file"):
            score_csv(predictor, source, tmp_path / "out.csv")
        assert others.read_text() == "name,phone\nAnn,123\n"


def test_an_output_that_appears_meanwhile_is_kept(predictor, tmp_path):
    class Meanwhile(Notes):
        def advance(self, done, **figures):  # noqa: ARG002
            write(tmp_path / "out.csv", "precious\n")

    source = write(tmp_path / "in.csv", INBOX)
    with pytest.raises(
        OutputError, match=r"out.csv' has appeared meanwhile; expected a name that is free"
    ):
        score_csv(predictor, source, tmp_path / "out.csv", progress=Meanwhile())
    assert (tmp_path / "out.csv").read_text() == "precious\n"
    score_csv(predictor, source, tmp_path / "out.csv", overwrite=True)
    assert len(read_table(tmp_path / "out.csv")) == 4


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


def test_raw_leaves_formulas(predictor, tmp_path):
    score_csv(predictor, write(tmp_path / "in.csv", INBOX), tmp_path / "out.csv", raw=True)
    assert written(tmp_path / "out.csv")[0]["note"] == "=1+1"


def test_a_name_in_use_gets_a_prefix_and_is_told(predictor, tmp_path):
    notes = Notes()
    source = write(tmp_path / "in.csv", "text,confidence\nthe router,low\n")
    report = score_csv(predictor, source, tmp_path / "out.csv", progress=notes)
    assert report.renamed == {"confidence": "bertcnn_confidence"}
    assert next(csv.DictReader((tmp_path / "out.csv").open()))["confidence"] == "low"
    assert any("bertcnn_confidence" in note for note in notes.notes)


def test_rows_that_cannot_be_read_are_kept_apart_and_an_old_list_of_them_goes(predictor, tmp_path):
    source = write(tmp_path / "in.csv", "id,text\n1,the router\n2\n3,a bill\n")
    report = score_csv(predictor, source, tmp_path / "out.csv")
    assert (report.rows, report.rejected) == (2, 1)
    assert [row["line"] for row in written(tmp_path / "out.csv.rejects.csv")] == ["3"]
    source = write(tmp_path / "good.csv", "id,text\n1,the router\n")
    score_csv(predictor, source, tmp_path / "out.csv", overwrite=True)
    assert not (tmp_path / "out.csv.rejects.csv").exists()


def test_a_text_gets_the_same_answer_in_every_row_and_chunk(predictor, tmp_path):
    lines = [f"{row},{('the router', 'a bill')[row % 2]}" for row in range(9_000)]
    source = write(tmp_path / "in.csv", "\n".join(["id,text", *lines]))
    report = score_csv(predictor, source, tmp_path / "out.csv", probabilities=True)
    rows = written(tmp_path / "out.csv")
    assert [row["id"] for row in rows] == [str(row) for row in range(9_000)]
    assert len({tuple(row.values())[1:] for row in rows}) == 2
    assert report.rows == sum(report.labels.values()) == 9_000


def test_several_text_columns_are_joined(predictor, tmp_path):
    joined = write(tmp_path / "joined.csv", "subject,body\nrefund,money invoice\n")
    single = write(tmp_path / "single.csv", 'text\n"refund\nmoney invoice"\n')
    score_csv(predictor, joined, tmp_path / "one.csv", text="subject,body")
    score_csv(predictor, single, tmp_path / "other.csv")
    one, other = (written(tmp_path / name)[0]["confidence"] for name in ("one.csv", "other.csv"))
    assert one == other


class Stop(Notes):
    """Interrupts in the middle, like Ctrl-C."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def advance(self, done, **figures):  # noqa: ARG002
        raise self.error


def test_a_run_broken_off_leaves_the_old_output_and_the_answers(predictor, tmp_path):
    source = write(tmp_path / "in.csv", INBOX + "9\n")
    score_csv(predictor, write(tmp_path / "good.csv", INBOX), tmp_path / "out.csv")
    before = (tmp_path / "out.csv").read_bytes()
    options = {"overwrite": True, "restart": True}
    for error in (KeyboardInterrupt, RuntimeError, OSError):
        with pytest.raises(error):
            score_csv(predictor, source, tmp_path / "out.csv", progress=Stop(error), **options)
        assert (tmp_path / "out.csv").read_bytes() == before
        assert {path.name for path in tmp_path.iterdir()} == {
            *(".out.csv.journal", "good.csv", "in.csv", "out.csv")
        }


def test_places_and_models_that_will_not_do_are_refused(predictor, tmp_path):
    source = write(tmp_path / "in.csv", INBOX)
    write(tmp_path / "there.csv", "x")
    with pytest.raises(OutputError, match=r"exists; expected a name that is free.*--force"):
        score_csv(predictor, source, tmp_path / "there.csv")
    with pytest.raises(OutputError, match="two different files"):
        score_csv(predictor, source, source, overwrite=True)
    with pytest.raises(BundleError, match=r"manifest|saved"):
        score_csv(tmp_path, source, tmp_path / "out.csv")
    with pytest.raises(ColumnError, match=r"'texts'.*did you mean 'text'"):
        score_csv(predictor, source, tmp_path / "out.csv", text="texts")


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
    notes = Notes()
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


MOSTLY_BROKEN = {
    "in.csv": "id,text\n1,router\n" + "x,y,z\n" * 9,
    "in.jsonl": '{"text": "router"}\n' + "{bad\n" * 9,
}


@pytest.mark.parametrize("name", MOSTLY_BROKEN)
def test_a_file_of_which_most_rows_cannot_be_read_is_refused(predictor, tmp_path, name):
    source, target = write(tmp_path / name, MOSTLY_BROKEN[name]), tmp_path / "out.csv"
    with pytest.raises(
        TableError, match=r"9 of 10 rows of .* could not be read .*out.csv.rejects.csv; .*--allow"
    ):
        score_csv(predictor, source, target)
    # neither output nor journal
    assert sorted(path.name for path in tmp_path.iterdir()) == [name, "out.csv.rejects.csv"]
    assert (tmp_path / "out.csv.rejects.csv").read_text().count("\n") == 10
    report = score_csv(predictor, source, target, allow_rejects=True)
    assert (report.rows, report.rejected) == (1, 9)


def test_a_file_of_which_no_row_can_be_read_is_refused(predictor, tmp_path):
    source = write(tmp_path / "in.csv", "id,text\n" + "x,y,z\n" * 3)
    with pytest.raises(TableError, match=r"3 of 3 rows .* could not be read \(line 2: "):
        score_csv(predictor, source, tmp_path / "out.csv")
    assert score_csv(predictor, source, tmp_path / "out.csv", allow_rejects=True).rows == 0


@pytest.mark.parametrize("out", ["out.csv", "out.jsonl", "out.parquet", "out.xlsx"])
@pytest.mark.parametrize("name", ["in.csv", "in.jsonl", "in.json", "in.parquet", "in.xlsx"])
def test_an_empty_day_is_no_error(predictor, tmp_path, name, out):
    if name == "in.json":
        write(tmp_path / name, "[]")
    else:
        with TableWriter(tmp_path / name, ("id", "text")) as writer:
            writer.write([])
    report = score_csv(predictor, tmp_path / name, tmp_path / out)
    assert (report.rows, report.rejected, report.decisions, report.labels) == (0, 0, {}, {})
    ours = ("predicted_label", "confidence", "decision", "because")
    with open_table(tmp_path / out, expected_columns=ours) as reader:
        assert reader.columns[-4:] == ours


def test_a_repeated_header_is_no_ticket_and_no_label(predictor, encoder_folder, tmp_path):
    content = as_csv(*tickets(8))
    source = write(tmp_path / "in.csv", content * 3)
    report = score_csv(predictor, source, tmp_path / "out.csv")
    assert (report.rows, report.rejected, report.repeated_headers) == (72, 2, 2)
    found = check_csv(source, encoder=encoder_folder)
    assert sorted(found.facts["labels"]) == ["billing", "hardware", "software"]
    assert found.finding("rejected_rows").examples[0].says == "the header once more"
    notes = Notes()
    evaluate_csv(predictor, source, progress=notes)
    assert "2 rows repeating the header left out" in notes.notes
