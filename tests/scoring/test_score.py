"""Scoring a file, evaluating on a file, and training from a file."""

import csv
import gzip
import json
import shutil
import tracemalloc

import pytest
import xlsxwriter
from sklearn.metrics import accuracy_score, f1_score

import bertcnn
from bertcnn import evaluate_csv, score_csv, train_csv
from bertcnn.doctor.check import check_csv
from bertcnn.errors import (
    BertCNNError,
    BundleError,
    ColumnError,
    LabelError,
    OutputError,
    SettingsError,
    TableError,
)
from bertcnn.storage.files import check_file_target
from bertcnn.tables.tables import read_table
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


INBOX = (
    'id,text,note\n3,"the router, again",=1+1\n1,refund please,007\n2,,NA\n3,"the router,'
    ' again",null\n'
)


def test_columns_rows_and_order_are_kept_and_ours_follow(predictor, tmp_path):
    source = write(tmp_path / "in.csv", INBOX)
    report = score_csv(predictor, source, tmp_path / "out.csv", probabilities=True)
    rows = list(csv.DictReader((tmp_path / "out.csv").open()))
    assert list(rows[0]) == [
        *("id", "text", "note", "predicted_label", "confidence", "decision", "because"),
        *("p_billing", "p_hardware", "p_software"),
    ]
    assert [row["id"] for row in rows] == ["3", "1", "2", "3"]
    assert [row["note"] for row in rows] == ["'=1+1", "007", "NA", "null"]
    label = predictor.predict(["the router, again"])[0]
    assert rows[0]["predicted_label"] == rows[3]["predicted_label"] == label
    assert (
        float(rows[0]["confidence"])
        == max(float(rows[0][f"p_{name}"]) for name in predictor.labels)
        == float(rows[0][f"p_{label}"])
    )
    assert [row["decision"] for row in rows] == [
        "review:ambiguous",
        "review:ambiguous",
        "review:empty",
        "review:ambiguous",
    ]
    assert report.decisions == {"review:ambiguous": 3, "review:empty": 1}
    assert rows[2]["predicted_label"] == rows[2]["confidence"] == rows[2]["p_billing"] == ""
    assert (report.rows, report.blank, report.rejected) == (4, 1, 0)


def test_sheets_of_a_workbook_that_are_not_read_are_told_of(predictor, encoder_folder, tmp_path):
    book = xlsxwriter.Workbook(str(tmp_path / "in.xlsx"))
    for name in ("2025", "2024"):
        sheet = book.add_worksheet(name)
        for number, row in enumerate([("text", "label"), *zip(*tickets(8), strict=True)]):
            sheet.write_row(number, 0, row)
    book.close()
    for work in (
        lambda notes: score_csv(
            predictor, tmp_path / "in.xlsx", tmp_path / "out.csv", progress=notes
        ),
        lambda notes: evaluate_csv(predictor, tmp_path / "in.xlsx", progress=notes),
        lambda notes: check_csv(tmp_path / "in.xlsx", encoder=encoder_folder, progress=notes),
    ):
        notes = Notes()
        work(notes)
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
    for place in (folder / "out.csv", folder / "engine" / "out.csv"):
        with pytest.raises(
            OutputError,
            match=(
                r"out.csv' is in '.*model.*', which bertcnn has saved and nothing may be added to"
            ),
        ):
            score_csv(predictor, source, place)
    with pytest.raises(OutputError, match="which bertcnn has saved"):
        bertcnn.export_model(folder, "keras", folder / "keras")
    with pytest.raises(OutputError, match="which bertcnn has saved"):
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
    for content in (INBOX, INBOX + "broken\n"):
        source = write(tmp_path / "in.csv", content)
        write(tmp_path / "out.csv.rejects.csv", "name,phone\nAnn,123\n")
        with pytest.raises(
            OutputError,
            match=r"out.csv.rejects.csv', where rows that cannot be read would go, is another file",
        ):
            score_csv(predictor, source, tmp_path / "out.csv")
        assert (tmp_path / "out.csv.rejects.csv").read_text() == "name,phone\nAnn,123\n"


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
    mark = "\t" if "tsv" in name else ","
    opened = gzip.open if name.endswith("gz") else open
    with (
        opened(first, "rt", newline="", encoding="utf-8") as one,
        opened(again, "rt", newline="", encoding="utf-8") as two,
    ):
        once, twice = list(csv.reader(one, delimiter=mark)), list(csv.reader(two, delimiter=mark))
    assert [row[:9] for row in twice] == once
    assert once[0][:5] == ["'@id", "text", "", "note", "text "]
    assert once[1][:5] == ["+49 30 123456", "'=router", "-5", "'=1", "'＝a"]
    assert once[2][:5] == ["'-7", "'@bill please", "-", "'\ufeff@x", "'\n=b"]
    assert evaluate_csv(predictor, first, text="text", label="predicted_label").accuracy == 1.0


def test_raw_leaves_formulas(predictor, tmp_path):
    score_csv(predictor, write(tmp_path / "in.csv", INBOX), tmp_path / "out.csv", raw=True)
    assert next(csv.DictReader((tmp_path / "out.csv").open()))["note"] == "=1+1"


def test_a_name_in_use_gets_a_prefix_and_is_told(predictor, tmp_path):
    notes = Notes()
    source = write(tmp_path / "in.csv", "text,confidence\nthe router,low\n")
    report = score_csv(predictor, source, tmp_path / "out.csv", progress=notes)
    assert report.renamed == {"confidence": "bertcnn_confidence"}
    assert next(csv.DictReader((tmp_path / "out.csv").open()))["confidence"] == "low"
    assert any("bertcnn_confidence" in note for note in notes.notes)


@pytest.mark.parametrize(
    "name", ["out.csv", "out.tsv", "out.jsonl", "out.csv.gz", "out.parquet", "out.xlsx"]
)
def test_every_format_goes_out_and_in_again_with_the_same_answers(predictor, tmp_path, name):
    source = write(tmp_path / "in.csv", INBOX)
    score_csv(predictor, source, tmp_path / "first.csv")
    score_csv(predictor, source, tmp_path / name, overwrite=True)
    score_csv(predictor, tmp_path / name, tmp_path / "again.csv")
    first = read_table(tmp_path / "first.csv").column("predicted_label")
    again = read_table(tmp_path / "again.csv")
    assert again.column("predicted_label") == again.column("bertcnn_predicted_label") == first


def test_rows_that_cannot_be_read_are_kept_apart_and_an_old_list_of_them_goes(predictor, tmp_path):
    source = write(tmp_path / "in.csv", "id,text\n1,the router\n2\n3,a bill\n")
    report = score_csv(predictor, source, tmp_path / "out.csv")
    assert (report.rows, report.rejected) == (2, 1)
    rejects = list(csv.DictReader((tmp_path / "out.csv.rejects.csv").open()))
    assert [row["line"] for row in rejects] == ["3"]
    score_csv(
        predictor,
        write(tmp_path / "good.csv", "id,text\n1,the router\n"),
        tmp_path / "out.csv",
        overwrite=True,
    )
    assert not (tmp_path / "out.csv.rejects.csv").exists()


def test_the_list_of_rejected_rows_is_never_read_and_replaced_in_one_run(predictor, tmp_path):
    source = write(tmp_path / "out.csv.rejects.csv", "id,text\n1,the router\n")
    with pytest.raises(OutputError, match="as input and file of rejected rows"):
        score_csv(predictor, source, tmp_path / "out.csv")
    assert source.exists()
    score_csv(predictor, source, tmp_path / "other.csv")


def test_a_header_alone_gives_a_header_alone(predictor, tmp_path):
    report = score_csv(predictor, write(tmp_path / "in.csv", "id,text\n"), tmp_path / "out.csv")
    assert (report.rows, report.labels) == (0, {})
    assert (tmp_path / "out.csv").read_text().splitlines() == [
        "id,text,predicted_label,confidence,decision,because"
    ]


def test_a_text_gets_the_same_answer_in_every_row_and_chunk(predictor, tmp_path):
    source = write(
        tmp_path / "in.csv",
        "id,text\n"
        + "".join(f"{row},{('the router', 'a bill')[row % 2]}\n" for row in range(9_000)),
    )
    report = score_csv(predictor, source, tmp_path / "out.csv", probabilities=True)
    rows = list(csv.DictReader((tmp_path / "out.csv").open()))
    assert [row["id"] for row in rows] == [str(row) for row in range(9_000)]
    assert len({tuple(row.values())[1:] for row in rows}) == 2
    assert report.rows == sum(report.labels.values()) == 9_000


def test_memory_does_not_grow_with_the_file(predictor, tmp_path):
    rows = ("router " * 70 + "\n") * 60_000
    source = write(tmp_path / "in.csv", "text\n" + rows)
    tracemalloc.start()
    try:
        report = score_csv(predictor, source, tmp_path / "out.csv")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert report.rows == 60_000
    assert peak < source.stat().st_size  # 20 MB of 30; the whole file would exceed it


def test_several_text_columns_are_joined(predictor, tmp_path):
    source = write(tmp_path / "in.csv", "subject,body\nrefund,money invoice\n")
    score_csv(predictor, source, tmp_path / "joined.csv", text="subject,body")
    score_csv(
        predictor,
        write(tmp_path / "one.csv", 'text\n"refund\nmoney invoice"\n'),
        tmp_path / "single.csv",
    )
    joined, single = (
        next(csv.DictReader((tmp_path / name).open()))["confidence"]
        for name in ("joined.csv", "single.csv")
    )
    assert joined == single


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
    for error in (KeyboardInterrupt, RuntimeError, OSError):
        with pytest.raises(error):
            score_csv(
                predictor,
                source,
                tmp_path / "out.csv",
                overwrite=True,
                restart=True,
                progress=Stop(error),
            )
        assert (tmp_path / "out.csv").read_bytes() == before
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            ".out.csv.journal",
            "good.csv",
            "in.csv",
            "out.csv",
        ]


def test_places_and_models_that_will_not_do_are_told(predictor, model, tmp_path):
    source = write(tmp_path / "in.csv", INBOX)
    write(tmp_path / "there.csv", "x")
    with pytest.raises(OutputError, match=r"exists; expected a name that is free.*--force"):
        score_csv(predictor, source, tmp_path / "there.csv")
    with pytest.raises(OutputError, match="two different files"):
        score_csv(predictor, source, source, overwrite=True)
    with pytest.raises(OutputError, match="extension"):
        score_csv(predictor, source, tmp_path / "out.doc")
    with pytest.raises(OutputError, match="no folder"):
        score_csv(predictor, source, tmp_path / "nowhere" / "out.csv")
    with pytest.raises(BundleError, match=r"manifest|saved"):
        score_csv(tmp_path, source, tmp_path / "out.csv")
    with pytest.raises(ColumnError, match=r"'texts'.*did you mean 'text'"):
        score_csv(predictor, source, tmp_path / "out.csv", text="texts")


def test_evaluation_has_the_contracts_keys_and_scikit_learns_figures(predictor, tmp_path):
    texts, labels = tickets(9)
    labels[0], labels[10] = "software", "billing"  # two wrong labels, so that something is confused
    figures = evaluate_csv(predictor, write(tmp_path / "labelled.csv", as_csv(texts, labels)))
    predicted = predictor.predict(texts)
    assert figures.accuracy == pytest.approx(accuracy_score(labels, predicted))
    assert figures.macro_f1 == pytest.approx(f1_score(labels, predicted, average="macro"))
    keys = {"rows", "accuracy", "macro_f1", "weighted_f1", "labels", "confusion", "most_confused"}
    assert keys <= json.loads(json.dumps(figures.to_json())).keys()
    labels[5] = "sales"
    figures = evaluate_csv(predictor, write(tmp_path / "other.csv", as_csv(texts, labels)))
    assert figures.unknown_labels == ("sales",)
    assert figures.accuracy == pytest.approx(accuracy_score(labels, predicted))
    assert figures.macro_f1 == pytest.approx(
        f1_score(labels, predicted, average="macro", zero_division=0)
    )
    with pytest.raises(LabelError, match="label the model does not know, first of all 'sales'"):
        evaluate_csv(
            predictor, write(tmp_path / "foreign.csv", as_csv(texts, ["sales"] * len(texts)))
        )


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


def test_every_error_of_a_file_is_of_our_family(encoder_folder, tmp_path):
    with pytest.raises(TableError, match=r"missing\.csv") as raised:
        train_csv(tmp_path / "missing.csv", tmp_path / "model", quick(encoder_folder))
    assert isinstance(raised.value, BertCNNError)
    assert not (tmp_path / "model").exists()


def test_a_file_without_the_columns_of_training_is_refused(encoder_folder, tmp_path):
    learned = train_csv(
        write(tmp_path / "data.csv", as_csv(*tickets(8))), tmp_path / "model", quick(encoder_folder)
    )
    assert learned.columns.text == ("text",)
    other = write(
        tmp_path / "in.csv", as_csv(*tickets(8)).replace("id,text,label", "id,comment,label")
    )
    for work in (
        lambda **names: score_csv(tmp_path / "model", other, tmp_path / "out.csv", **names),
        lambda **names: evaluate_csv(tmp_path / "model", other, **names),
    ):
        with pytest.raises(
            ColumnError,
            match=r"no column 'text', which the model was trained on; .*'comment'.*--text NAME",
        ):
            work()
        work(text="Comment")
    with pytest.raises(
        ColumnError, match=r"no column 'label', which the model was trained on; .*--label NAME"
    ):
        evaluate_csv(
            tmp_path / "model",
            write(tmp_path / "in.csv", as_csv(*tickets(8)).replace("label", "team")),
        )
    upper = write(
        tmp_path / "in.csv",
        "Report\n\n" + as_csv(*tickets(8)).replace("id,text,label", "ID, TEXT ,Label"),
    )
    assert score_csv(tmp_path / "model", upper, tmp_path / "out.csv", overwrite=True).rows == 24
    assert evaluate_csv(tmp_path / "model", upper).rows == 24


MOSTLY_BROKEN = {
    "in.csv": "id,text\n1,router\n" + "x,y,z\n" * 9,
    "in.jsonl": '{"text": "router"}\n' + "{bad\n" * 9,
}


@pytest.mark.parametrize("name", MOSTLY_BROKEN)
def test_a_file_of_which_most_rows_cannot_be_read_is_refused(predictor, tmp_path, name):
    source, target = write(tmp_path / name, MOSTLY_BROKEN[name]), tmp_path / "out.csv"
    with pytest.raises(
        TableError,
        match=r"9 of 10 rows of .* could not be read .*out.csv.rejects.csv; .* add --allow-rejects",
    ):
        score_csv(predictor, source, target)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        name,
        "out.csv.rejects.csv",
    ]  # neither output nor journal
    assert (tmp_path / "out.csv.rejects.csv").read_text().count("\n") == 10
    report = score_csv(predictor, source, target, allow_rejects=True)
    assert (report.rows, report.rejected) == (1, 9)


def test_a_file_of_which_no_row_can_be_read_is_refused(predictor, tmp_path):
    source = write(tmp_path / "in.csv", "id,text\n" + "x,y,z\n" * 3)
    with pytest.raises(TableError, match=r"3 of 3 rows .* could not be read \(line 2: "):
        score_csv(predictor, source, tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()
    assert score_csv(predictor, source, tmp_path / "out.csv", allow_rejects=True).rows == 0


@pytest.mark.parametrize("out", ["out.csv", "out.jsonl", "out.parquet", "out.xlsx"])
@pytest.mark.parametrize(
    "name", ["in.csv", "in.tsv", "in.jsonl", "in.json", "in.parquet", "in.xlsx"]
)
def test_an_empty_day_is_no_error(predictor, tmp_path, name, out):
    if name.endswith(("parquet", "xlsx")):
        with TableWriter(tmp_path / name, ("id", "text")) as writer:
            writer.write([])
    else:
        write(
            tmp_path / name,
            {"in.csv": "id,text\n", "in.tsv": "id\ttext\n", "in.jsonl": "", "in.json": "[]"}[name],
        )
    report = score_csv(predictor, tmp_path / name, tmp_path / out)
    assert (report.rows, report.rejected, report.decisions) == (0, 0, {})
    assert (tmp_path / out).exists()
    if out == "out.csv":
        assert (
            (tmp_path / out)
            .read_text()
            .rstrip()
            .endswith("text,predicted_label,confidence,decision,because")
        )


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
