"""Fields extracted from a file of texts: rows unchanged, answers in new columns, none lost."""

import csv
import os
import random
import re
import shutil
from pathlib import Path

import pytest

from benchmarks.stub_engine import stub_predictor
from bertcnn import score_csv
from bertcnn.bundle.bundle import write_bundle
from bertcnn.errors import BundleError, ColumnError, OutputError, SettingsError, TableError
from bertcnn.scoring.run import ScoringInterrupted
from bertcnn.storage.manifest import MANIFEST
from bertcnn.tables.tables import read_table
from bertcnn.tasks import text_columns
from bertcnn.tasks.question_answering.answerer import QuestionAnswerer, extract_csv
from tests.failpoints import tiny_bundle
from tests.scoring.test_resume import Told, interrupt, names
from tests.tasks.small_answers import DEVICE, MONTH, save_answerer, small_texts

CHUNK = 256  # rows; a quarter of the default
ROWS = 2 * CHUNK + 100
FIELDS = {"month": MONTH, "device": DEVICE}
OURS = [f"{name}{part}" for name in FIELDS for part in ("", "_confidence", "_place")]


@pytest.fixture(scope="module", autouse=True)
def small_chunks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_columns, "_CHUNK_ROWS", CHUNK)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A saved question answerer; do not write to its folder."""
    return save_answerer(tmp_path_factory.mktemp("answerer") / "model")


@pytest.fixture(scope="module")
def answerer(folder):
    return QuestionAnswerer.load(folder)


def write(path, content):
    path.write_text(content, encoding="utf-8", newline="")
    return path


def write_texts(path, texts, *, broken=0):
    """Write a file with the text column between two others."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text", "note"])
        writer.writerows((row, text, f"n{row % 3}") for row, text in enumerate(texts))
        writer.writerows([["broken"]] * broken)
    return path


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def inbox(tmp_path_factory):
    """Rows of more than two chunks, some of them unreadable; do not change the file."""
    texts = small_texts(ROWS)
    texts[7::100] = [""] * len(texts[7::100])
    return write_texts(tmp_path_factory.mktemp("inbox") / "in.csv", texts, broken=5)


@pytest.fixture(scope="module")
def whole(answerer, inbox, tmp_path_factory):
    """The output of an uninterrupted run."""
    target = tmp_path_factory.mktemp("whole") / "out.csv"
    extract_csv(answerer, inbox, target, FIELDS)
    return target


# === What is written ===


def test_columns_rows_and_order_are_kept_and_three_columns_a_field_follow(answerer, tmp_path):
    texts = ["the red light", *small_texts(60), "", "the red light", "Größe 😀\n\nof the router"]
    source = write_texts(tmp_path / "in.csv", texts)
    report = extract_csv(answerer, source, tmp_path / "out.csv", FIELDS)
    rows = rows_of(tmp_path / "out.csv")
    assert list(rows[0]) == ["id", "text", "note", *OURS]
    before = [(row["id"], row["text"], row["note"]) for row in rows]
    assert before == [(str(row), text, f"n{row % 3}") for row, text in enumerate(texts)]
    assert (report.rows, report.rejected, report.rejects) == (64, 0, None)
    assert report.text_columns.text == ("text",)
    assert rows[0] == {**rows[62], "id": "0", "note": "n0"}
    for name, question in FIELDS.items():
        answers = answerer.answer(question, texts)
        assert [row[name] for row in rows] == [one.text for one in answers]
        places = [f"{one.start}:{one.end}" if one.text else "" for one in answers]
        assert [row[f"{name}_place"] for row in rows] == places
        assert report.answered[name] == sum(one.start >= 0 for one in answers)
        assert 10 < report.answered[name] < 54


def test_the_confidence_does_not_depend_on_other_texts(answerer, tmp_path):
    texts = small_texts(30)
    extract_csv(answerer, write_texts(tmp_path / "in.csv", texts), tmp_path / "out.csv", FIELDS)
    for name, question in FIELDS.items():
        given = [float(row[f"{name}_confidence"]) for row in rows_of(tmp_path / "out.csv")]
        alone = [answerer.answer(question, [text])[0].confidence for text in texts]
        assert given == pytest.approx(alone, abs=2e-6)


def test_a_place_cuts_the_answer_out_of_the_text(whole):
    found = [row for row in rows_of(whole) if row["month"]]
    assert len(found) > ROWS // 5
    for row in found:
        start, end = map(int, row["month_place"].split(":"))
        assert row["text"][start:end] == row["month"]


def test_cells_without_an_answer_or_a_text_are_empty(whole):
    without = [row for row in rows_of(whole) if not row["month"]]
    assert {row["month_place"] for row in without} == {""}
    for row in without:
        assert bool(row["month_confidence"]) == bool(row["text"])
    blank = [row for row in without if not row["text"]]
    assert len(blank) == len(range(7, ROWS, 100))
    assert {row[name] for row in blank for name in OURS} == {""}
    silent = [float(row["month_confidence"]) for row in without if row["text"]]
    assert 0 < min(silent) <= max(silent) <= 1


def test_equal_texts_get_equal_answers_in_all_chunks(answerer, tmp_path):
    repeated = small_texts(5, seed=1)
    texts = [repeated[row % 5] if row % 2 else text for row, text in enumerate(small_texts(ROWS))]
    extract_csv(answerer, write_texts(tmp_path / "in.csv", texts), tmp_path / "out.csv", FIELDS)
    for text in repeated:
        same = [row for row in rows_of(tmp_path / "out.csv") if row["text"] == text]
        assert len(same) > ROWS // 11
        for name in FIELDS:
            assert len({(row[name], row[f"{name}_place"]) for row in same}) == 1
            sure = [float(row[f"{name}_confidence"]) for row in same]
            assert max(sure) - min(sure) < 3e-6


def test_formulas_are_escaped_unless_told_otherwise(answerer, tmp_path):
    texts = [f"={one}" for one in small_texts(40)]
    source = write_texts(tmp_path / "in.csv", texts)
    for raw, mark in ((False, "'"), (True, "")):
        target = tmp_path / f"{raw}.csv"
        extract_csv(answerer, source, target, {"=month": MONTH}, raw=raw)
        rows = rows_of(target)
        assert list(rows[0])[3] == f"{mark}=month"
        assert [row["text"] for row in rows] == [f"{mark}{text}" for text in texts]
        answers = answerer.answer(MONTH, texts)
        assert any(one.text.startswith("=") for one in answers)
        assert [row[f"{mark}=month"] for row in rows] == [
            f"{mark}{one.text}" if one.text.startswith("=") else one.text for one in answers
        ]


@pytest.mark.parametrize("name", ["out.jsonl", "out.csv.gz", "out.parquet", "out.xlsx"])
def test_every_format_holds_the_cells_of_the_csv_file(answerer, inbox, whole, tmp_path, name):
    extract_csv(answerer, inbox, tmp_path / name, FIELDS)
    first, other = read_table(whole), read_table(tmp_path / name)
    assert other.columns == first.columns == ("id", "text", "note", *OURS)
    assert other.rows == first.rows


@pytest.mark.parametrize("named", ["subject,body", ["subject", "body"]])
def test_several_text_columns_are_joined(answerer, tmp_path, named):
    texts = [text.partition(" ")[::2] for text in small_texts(40)] + [("", "router"), ("", " ")]
    source = tmp_path / "in.csv"
    with source.open("w", newline="") as file:
        csv.writer(file).writerows([("subject", "body"), *texts])
    report = extract_csv(answerer, source, tmp_path / "out.csv", {"month": MONTH}, text=named)
    assert report.text_columns.text == ("subject", "body")
    joined = ["\n".join(filter(str.strip, pair)) for pair in texts]
    rows = rows_of(tmp_path / "out.csv")
    assert [row["month"] for row in rows] == [
        one.text for one in answerer.answer(MONTH, joined, most=1)
    ]
    for row, text in zip(rows, joined, strict=True):
        if row["month"]:
            start, end = map(int, row["month_place"].split(":"))
            assert text[start:end] == row["month"]


def test_a_header_alone_and_an_empty_day_are_no_error(answerer, tmp_path):
    for name, content in (("in.csv", "id,text\n"), ("in.jsonl", ""), ("in.json", "[]")):
        source = write(tmp_path / name, content)
        report = extract_csv(answerer, source, tmp_path / "out.csv", FIELDS, overwrite=True)
        assert (report.rows, report.answered) == (0, {"month": 0, "device": 0})
        assert (tmp_path / "out.csv").read_text().rstrip().endswith(",".join(OURS))


def test_a_folder_and_a_loaded_model_give_the_same_file(folder, inbox, whole, tmp_path):
    extract_csv(str(folder), str(inbox), str(tmp_path / "out.csv"), FIELDS)
    assert (tmp_path / "out.csv").read_bytes() == whole.read_bytes()


def test_sheets_of_a_workbook_that_are_not_read_are_told_of(answerer, tmp_path):
    xlsxwriter = pytest.importorskip("xlsxwriter")
    with xlsxwriter.Workbook(str(tmp_path / "in.xlsx")) as book:
        for name in ("2025", "2024"):
            sheet = book.add_worksheet(name)
            for number, text in enumerate(["text", *small_texts(9)]):
                sheet.write_row(number, 0, [text])
    told = Told()
    extract_csv(answerer, tmp_path / "in.xlsx", tmp_path / "out.csv", FIELDS, progress=told)
    assert any("other sheets: '2024' (10 rows)" in note for note in told.notes)


# === What is refused ===


@pytest.mark.parametrize("taken", ["month", "month_confidence", "month_place"])
def test_a_field_with_a_column_of_the_file_is_refused(answerer, tmp_path, taken):
    source = write(tmp_path / "in.csv", f"text,{taken}\nthe router,x\n")
    with pytest.raises(
        ColumnError, match=rf"a new column '{taken}', which '.*in\.csv' .* has already; expected"
    ) as caught:
        extract_csv(answerer, source, tmp_path / "out.csv", {"month": MONTH})
    assert "\n" not in str(caught.value)
    assert names(tmp_path) == ["in.csv"]


def test_two_fields_with_the_same_column_are_refused(answerer, inbox, tmp_path):
    for other in ("month_place", "month_confidence"):
        with pytest.raises(ColumnError, match=rf"a new column '{other}', which .* another field"):
            extract_csv(answerer, inbox, tmp_path / "out.csv", {"month": MONTH, other: DEVICE})
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, r"no field; expected at least one\. What to do: give for example --field month="),
        ({"month": " "}, r"the field 'month' with the question ' '; expected a name and a ques"),
        ({" ": MONTH}, r"the field ' ' with the question 'which month"),
        ({"month": None}, r"the field 'month' with the question 'None'"),
        ({"month": "bill " * 70}, r"a question of 70 tokens .*; expected at most 64"),
    ],
    ids=["none", "blank question", "blank name", "no text", "long question"],
)
def test_fields_without_a_name_or_a_question_are_refused(
    answerer, inbox, tmp_path, fields, message
):
    with pytest.raises(SettingsError, match=message):
        extract_csv(answerer, inbox, tmp_path / "out.csv", fields)
    assert names(tmp_path) == []


def test_a_folder_of_another_kind_is_refused(inbox, tmp_path):
    write_bundle(tiny_bundle(), tmp_path / "classifier")
    with pytest.raises(
        BundleError, match="holds a 'bertcnn bundle'; expected a bertcnn question answerer"
    ):
        extract_csv(tmp_path / "classifier", inbox, tmp_path / "out.csv", FIELDS)
    with pytest.raises(BundleError, match=MANIFEST):
        extract_csv(tmp_path, inbox, tmp_path / "out.csv", FIELDS)
    assert names(tmp_path) == ["classifier"]


def test_inputs_and_outputs_that_will_not_do_are_refused(answerer, folder, inbox, tmp_path):
    def refused(kind, message, target=tmp_path / "out.csv", source=inbox, **options):
        with pytest.raises(kind, match=message):
            extract_csv(answerer, source, target, FIELDS, **options)

    write(tmp_path / "there.csv", "old")
    refused(OutputError, r"exists; expected a name that is free.*--force", tmp_path / "there.csv")
    assert (tmp_path / "there.csv").read_text() == "old"
    refused(OutputError, "expected two different files", inbox, overwrite=True)
    refused(OutputError, "extension", tmp_path / "out.doc")
    refused(OutputError, "no folder", tmp_path / "nowhere" / "out.csv")
    refused(OutputError, "which bertcnn has saved", folder / "out.csv")
    refused(TableError, "there is no file", source=tmp_path / "missing.csv")
    refused(ColumnError, r"'texts'.*did you mean 'text'", text="texts")
    refused(ColumnError, "no text column", text=[])
    assert names(tmp_path) == ["there.csv"]
    extract_csv(answerer, inbox, tmp_path / "there.csv", FIELDS, overwrite=True)
    assert len(rows_of(tmp_path / "there.csv")) == ROWS


def test_of_a_text_that_is_too_long_the_beginning_is_read(answerer, tmp_path):
    long = "bill " * 400
    with pytest.raises(TableError, match=r"a context of 400 tokens .*; expected at most 2 windows"):
        answerer.answer("which?", [long])
    source = write_texts(tmp_path / "in.csv", ["the router", long])
    report = extract_csv(answerer, source, tmp_path / "out.csv", FIELDS)
    assert report.rows == 2
    assert answerer.answer("which?", [long], cut=True) == answerer.answer(
        "which?", ["bill " * 600], cut=True
    )


def test_what_excel_cannot_hold_is_told_before_any_work_and_blocks_no_later_run(answerer, tmp_path):
    texts = [*small_texts(CHUNK), "\u00a0" * 40_000]
    source = write_texts(tmp_path / "in.csv", texts)
    told = Told()
    with pytest.raises(OutputError, match=r"has a cell of 40,000 characters.*Excel's limit"):
        extract_csv(answerer, source, tmp_path / "out.xlsx", FIELDS, progress=told)
    assert told.speeds == []
    assert names(tmp_path) == ["in.csv"]


def test_rows_that_cannot_be_read_are_kept_apart(answerer, tmp_path):
    source = write_texts(tmp_path / "in.csv", small_texts(8), broken=2)
    report = extract_csv(answerer, source, tmp_path / "out.csv", FIELDS)
    assert (report.rows, report.rejected) == (8, 2)
    assert report.rejects == tmp_path / "out.csv.rejects.csv"
    assert [row["line"] for row in rows_of(report.rejects)] == ["10", "11"]
    source = write_texts(tmp_path / "good.csv", small_texts(8))
    extract_csv(answerer, source, tmp_path / "out.csv", FIELDS, overwrite=True)
    assert names(tmp_path) == ["good.csv", "in.csv", "out.csv"]


MOSTLY_BROKEN = {
    "in.csv": "id,text\n1,the router\n" + "x,y,z\n" * 9,
    "in.jsonl": '{"text": "the router"}\n' + "{bad\n" * 9,
}


@pytest.mark.parametrize("name", MOSTLY_BROKEN)
def test_a_file_of_which_most_rows_cannot_be_read_is_refused(answerer, tmp_path, name):
    source, target = write(tmp_path / name, MOSTLY_BROKEN[name]), tmp_path / "out.csv"
    with pytest.raises(
        TableError,
        match=r"9 of 10 rows of .* could not be read .*out.csv.rejects.csv; .* add --allow-rejects",
    ):
        extract_csv(answerer, source, target, FIELDS)
    assert names(tmp_path) == [name, "out.csv.rejects.csv"]
    report = extract_csv(answerer, source, target, FIELDS, allow_rejects=True)
    assert (report.rows, report.rejected) == (1, 9)


@pytest.mark.parametrize("columns", ["id,text", "a,b"])
def test_a_file_of_which_no_row_can_be_read_is_refused(answerer, tmp_path, columns):
    source = write(tmp_path / "in.csv", f"{columns}\n" + "x,y,z\n" * 3)
    with pytest.raises(TableError, match=r"3 of 3 rows .* could not be read \(line 2: "):
        extract_csv(answerer, source, tmp_path / "out.csv", FIELDS)
    assert names(tmp_path) == ["in.csv", "out.csv.rejects.csv"]


# === Interrupted runs ===


def break_off(answerer, source, target, chunk=1, fields=FIELDS, **options):
    """A run that Ctrl-C ends after `chunks` chunks."""
    with pytest.raises(ScoringInterrupted, match="rows are answered") as stopped:
        extract_csv(answerer, source, target, fields, progress=Told(interrupt, chunk), **options)
    return stopped.value.rows


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl", "out.xlsx"])
def test_a_run_that_goes_on_writes_the_bytes_of_an_unbroken_one(answerer, inbox, tmp_path, name):
    for folder in ("whole", "broken"):
        (tmp_path / folder).mkdir()
    whole, broken = tmp_path / "whole" / name, tmp_path / "broken" / name
    first = extract_csv(answerer, inbox, whole, FIELDS)
    for chunk in (1, 2):  # the second time, after the recorded chunk
        assert break_off(answerer, inbox, broken, chunk) == chunk * CHUNK
        assert names(broken.parent) == [f".{name}.journal"]
    told = Told()
    again = extract_csv(answerer, inbox, broken, FIELDS, progress=told)
    assert told.going_on == [
        "512 rows were already answered by an interrupted run: continuing from there"
    ]
    assert broken.read_bytes() == whole.read_bytes()
    assert names(broken.parent) == names(whole.parent) == [name, f"{name}.rejects.csv"]
    assert (again.rows, again.answered) == (first.rows, first.answered)


def test_ctrl_c_before_the_first_answer_leaves_nothing(answerer, inbox, tmp_path):
    class Stop(Told):
        def stage(self, name, total, unit="rows"):  # noqa: ARG002
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract_csv(answerer, inbox, tmp_path / "out.csv", FIELDS, progress=Stop())
    assert names(tmp_path) == []


def test_a_run_broken_off_leaves_the_old_output(answerer, inbox, tmp_path):
    target = write(tmp_path / "out.csv", "old")
    for error in (KeyboardInterrupt, RuntimeError, OSError):

        def fail(error=error):
            raise error

        with pytest.raises(error):
            extract_csv(
                answerer,
                inbox,
                target,
                FIELDS,
                overwrite=True,
                restart=True,
                progress=Told(fail),
            )
        assert target.read_text() == "old"
        assert names(tmp_path) == [".out.csv.journal", "out.csv"]


def test_restart_forgets_the_answers(answerer, inbox, whole, tmp_path):
    break_off(answerer, inbox, tmp_path / "out.csv")
    told = Told()
    extract_csv(answerer, inbox, tmp_path / "out.csv", FIELDS, restart=True, progress=told)
    assert not told.going_on
    assert (tmp_path / "out.csv").read_bytes() == whole.read_bytes()


def starts_over(answerer, source, target, words, fields=FIELDS, **options):
    """Run again after an interrupted run; asserts the reason for starting over."""
    told = Told()
    extract_csv(answerer, source, target, fields, progress=told, **options)
    (note,) = (note for note in told.notes if "starting over" in note)
    assert re.fullmatch(
        f"an interrupted run has answered 256 rows, but since then .*{words}.*: starting over",
        note,
    )
    assert not told.going_on


def test_with_other_fields_or_another_model_it_starts_over_and_says_why(
    answerer, inbox, whole, tmp_path
):
    target = tmp_path / "out.csv"
    for fields in (
        {**FIELDS, "device": "which box is it?"},
        {"month": MONTH},
        {"device": DEVICE, "month": MONTH},
    ):
        break_off(answerer, inbox, target, fields=fields)
        starts_over(answerer, inbox, target, "the settings changed")
        assert target.read_bytes() == whole.read_bytes()
        target.unlink()
    other = QuestionAnswerer.load(save_answerer(tmp_path / "other", seed=1))
    break_off(other, inbox, target)
    starts_over(answerer, inbox, target, "the model changed")
    assert target.read_bytes() == whole.read_bytes()


def test_with_another_input_it_starts_over_and_says_why(answerer, inbox, whole, tmp_path):
    source = write_texts(tmp_path / "in.csv", small_texts(ROWS, seed=2))
    break_off(answerer, source, tmp_path / "out.csv")
    shutil.copy(inbox, source)
    starts_over(answerer, source, tmp_path / "out.csv", "the input's content changed")
    assert (tmp_path / "out.csv").read_bytes() == whole.read_bytes()


def test_a_model_that_was_never_saved_is_not_taken_for_another(inbox, folder, tmp_path):
    answerers = [
        QuestionAnswerer.load(folder),
        QuestionAnswerer.load(save_answerer(tmp_path / "other", seed=1)),
    ]
    for one in answerers:
        object.__setattr__(one._saved, "identity", "")  # as `fit` leaves it
    extract_csv(answerers[1], inbox, tmp_path / "whole.csv", FIELDS)
    break_off(answerers[0], inbox, tmp_path / "out.csv")
    extract_csv(answerers[1], inbox, tmp_path / "out.csv", FIELDS)
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_an_input_that_only_looks_the_same_is_answered_again(answerer, tmp_path):
    source, target, fields = tmp_path / "in.csv", tmp_path / "out.csv", {"month": MONTH}
    lines = [f"{text} router,{'x' * 5000}\n" for text in small_texts(ROWS)]
    write(source, "text,note\n" + "".join(lines))  # its middle is in neither of the hashed MiB
    status = source.stat()
    break_off(answerer, source, target, 2, fields, text="text")
    content = source.read_bytes()
    place = content.index(b"router,", len(content) // 2)
    source.write_bytes(content[:place] + b"refund" + content[place + 6 :])
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
    told = Told()
    extract_csv(answerer, source, target, fields, text="text", progress=told)
    assert any("input has changed since the interrupted" in note for note in told.notes)
    extract_csv(answerer, source, tmp_path / "whole.csv", fields, text="text")
    assert target.read_bytes() == (tmp_path / "whole.csv").read_bytes()


@pytest.mark.parametrize("damage", ["cut", "garbage", "flipped"])
def test_a_damaged_journal_gives_the_same_bytes(answerer, inbox, whole, tmp_path, damage):
    target, journal = tmp_path / "out.csv", tmp_path / ".out.csv.journal"
    break_off(answerer, inbox, target, 2)
    kept = journal.read_bytes()
    record = (len(kept) - kept.index(b"month")) // 2  # bytes, about
    chance = random.Random(damage)
    for _ in range(3):
        place = chance.randrange(17, len(kept))
        if damage == "cut":
            journal.write_bytes(kept[:place])
        elif damage == "garbage":
            journal.write_bytes(kept[:place] + chance.randbytes(record))
        else:
            journal.write_bytes(kept[:place] + bytes([kept[place] ^ 1]) + kept[place + 1 :])
        extract_csv(answerer, inbox, target, FIELDS, overwrite=True)
        assert target.read_bytes() == whole.read_bytes()
        assert names(tmp_path) == ["out.csv", "out.csv.rejects.csv"]


def test_a_hidden_file_of_somebody_else_is_left_alone(answerer, inbox, tmp_path):
    write(tmp_path / ".out.csv.journal", "dear diary, today nothing happened")
    with pytest.raises(OutputError, match=r"the hidden file .* is not one of bertcnn's"):
        extract_csv(answerer, inbox, tmp_path / "out.csv", FIELDS)
    assert names(tmp_path) == [".out.csv.journal"]


def test_a_journal_holds_no_text_of_the_input(answerer, tmp_path):
    texts = [f"{text} password {row}" for row, text in enumerate(small_texts(CHUNK + 9))]
    source = write_texts(tmp_path / "in.csv", texts)
    break_off(answerer, source, tmp_path / "out.csv", fields={"when": "since which day?"})
    kept = (tmp_path / ".out.csv.journal").read_bytes()
    words = {word for text in texts for word in text.split() if len(word) > 4}
    assert {"router", "password", "internet"} <= words
    assert [word for word in words if word.encode() in kept] == []


def test_answers_of_scoring_and_of_extracting_are_kept_apart(answerer, inbox, whole, tmp_path):
    target = tmp_path / "out.csv"
    with pytest.raises(ScoringInterrupted):
        score_csv(stub_predictor(), inbox, target, progress=Told(interrupt))
    extract_csv(answerer, inbox, target, FIELDS)
    assert target.read_bytes() == whole.read_bytes()
    target.unlink()
    break_off(answerer, inbox, target)
    score_csv(stub_predictor(), inbox, target)
    score_csv(stub_predictor(), inbox, tmp_path / "scored.csv")
    assert target.read_bytes() == (tmp_path / "scored.csv").read_bytes()


@pytest.mark.parametrize("change", ["longer", "touched", "gone"])
def test_an_input_changed_meanwhile_puts_nothing_in_place(answerer, inbox, tmp_path, change):
    source = Path(shutil.copy2(inbox, tmp_path / "in.csv"))

    def act():
        if change == "longer":
            with source.open("a") as stream:
                stream.write("1,router is down,x\n")
        elif change == "touched":
            os.utime(source)
        else:
            source.unlink()

    with pytest.raises(
        TableError, match=r"in\.csv' was changed while it was being read; nothing was put in place"
    ):
        extract_csv(answerer, source, tmp_path / "out.csv", FIELDS, progress=Told(act))
    assert names(tmp_path) == (["in.csv"] if change != "gone" else [])


def test_two_runs_to_one_output_cannot_be_at_once(answerer, inbox, whole, tmp_path):
    def second():
        with pytest.raises(OutputError, match=r"another run is writing '.*out\.csv'"):
            extract_csv(answerer, inbox, tmp_path / "out.csv", FIELDS, restart=True)

    extract_csv(answerer, inbox, tmp_path / "out.csv", FIELDS, progress=Told(second))
    assert (tmp_path / "out.csv").read_bytes() == whole.read_bytes()
