"""What all runs that copy a file of texts and add columns have in common.

They refuse before any work, resume after an interruption with the bytes of an uninterrupted run,
start over if anything has changed, and never leave half an output.
"""

import os
import random
import re
import shutil
import time
from pathlib import Path

import pytest

from bertcnn.bundle.bundle import write_bundle
from bertcnn.errors import ColumnError, OutputError, TableError
from bertcnn.scoring.run import ScoringInterrupted
from bertcnn.tables.tables import open_table, read_table
from bertcnn.tables.writing import TableWriter
from tests.failpoints import tiny_bundle
from tests.listener import Listener, interrupt
from tests.scoring.file_runs import CHUNK, KINDS, Adding, Scoring, names, resumed_rows, write_inbox

ROWS = 4 * CHUNK + 1000
REJECTED = 17
OLD_REJECTS = "line,reason,content_start\n7,of the old output,x\n"


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def kind(request):
    """Makes a model of one kind, and runs it."""
    return request.param


@pytest.fixture(scope="module")
def inbox(tmp_path_factory):
    """Rows of more than four chunks; do not write to the file."""
    return write_inbox(tmp_path_factory.mktemp("inbox") / "in.csv", ROWS)


def write(path, content):
    path.write_text(content, encoding="utf-8")
    return path


def break_off(runs, source, target, chunks=2, **options):
    """A run that Ctrl-C ends after some chunks."""
    with pytest.raises(ScoringInterrupted, match="rows are answered") as stopped:
        runs.run(source, target, progress=Listener(interrupt, chunks), **options)
    assert stopped.value.rows >= min(chunks * CHUNK, ROWS - REJECTED)


def same_as_unbroken(runs, source, target, **options):
    """Whether a file has the bytes of an uninterrupted run."""
    whole = target.with_name(f"whole-{target.name}")
    runs.run(source, whole, overwrite=True, **options)
    return target.read_bytes() == whole.read_bytes()


# === Resuming ===

FORMATS = ["out.csv", "out.tsv", "out.csv.gz", "out.jsonl", "out.parquet", "out.xlsx"]
EACH_FORMAT = [*((Scoring, name) for name in FORMATS), (Adding, "out.csv"), (Adding, "out.xlsx")]


@pytest.mark.parametrize(("kind", "name"), EACH_FORMAT)
def test_a_resumed_run_writes_the_bytes_of_an_unbroken_one(inbox, tmp_path, kind, name):
    (tmp_path / "whole").mkdir()
    (tmp_path / "broken").mkdir()
    whole, broken = tmp_path / "whole" / name, tmp_path / "broken" / name
    expected = kind().run(inbox, whole)
    if name.endswith((".gz", ".xlsx")):
        time.sleep(1.1)  # so that a timestamp in the file would show
    for chunks in (1, 2):  # the second time, after the recorded chunk
        break_off(kind(), inbox, broken, chunks)
        assert names(broken.parent) == [f".{name}.journal"]
    listener = Listener()
    report = kind().run(inbox, broken, progress=listener)
    assert resumed_rows(listener) in (2 * CHUNK, 3 * CHUNK)
    assert names(broken.parent) == names(whole.parent) == [name, f"{name}.rejects.csv"]
    for file in names(whole.parent):
        assert broken.with_name(file).read_bytes() == whole.with_name(file).read_bytes()
    assert (report.rows, report.rejected) == (ROWS - REJECTED, REJECTED)
    counts = {**vars(report), "seconds": 0, "rejects": None}
    assert counts == {**vars(expected), "seconds": 0, "rejects": None}


def test_answered_texts_are_not_asked_again(kind, inbox, tmp_path):
    first, second, whole = kind(), kind(), kind()
    whole.run(inbox, tmp_path / "whole.csv")
    break_off(first, inbox, tmp_path / "out.csv", 3)
    second.run(inbox, tmp_path / "out.csv")
    # at most a chunk was with the model at Ctrl-C
    asked_twice = first.asked + second.asked - whole.asked
    assert 0 <= asked_twice <= second.asked < whole.asked / 2


def test_a_run_whose_texts_are_all_answered_asks_nothing(kind, inbox, tmp_path):
    break_off(kind(), inbox, tmp_path / "out.csv", 5)
    runs = kind()
    report = runs.run(inbox, tmp_path / "out.csv", progress=Listener())
    assert (runs.asked, report.rows) == (0, ROWS - REJECTED)
    assert names(tmp_path) == ["out.csv", "out.csv.rejects.csv"]


def test_restart_discards_the_answers(kind, inbox, tmp_path):
    break_off(kind(), inbox, tmp_path / "out.csv")
    again, whole, listener = kind(), kind(), Listener()
    again.run(inbox, tmp_path / "out.csv", restart=True, progress=listener)
    whole.run(inbox, tmp_path / "whole.csv", restart=True)
    assert again.asked == whole.asked
    assert resumed_rows(listener) == 0


@pytest.mark.parametrize("damage", ["cut", "garbage", "flipped"])
def test_a_damaged_journal_gives_the_same_bytes(kind, inbox, tmp_path, damage):
    target, journal = tmp_path / "out.csv", tmp_path / ".out.csv.journal"
    kind().run(inbox, tmp_path / "whole.csv")
    break_off(kind(), inbox, target)
    kept = journal.read_bytes()
    chance = random.Random(damage)
    for _ in range(3):
        place = chance.randrange(17, len(kept))
        if damage == "cut":
            journal.write_bytes(kept[:place])
        elif damage == "garbage":
            journal.write_bytes(kept[:place] + chance.randbytes(len(kept) // 2))
        else:
            journal.write_bytes(kept[:place] + bytes([kept[place] ^ 1]) + kept[place + 1 :])
        kind().run(inbox, target, overwrite=True)
        assert target.read_bytes() == (tmp_path / "whole.csv").read_bytes()
        assert not journal.exists()


def test_answers_of_scoring_and_of_tasks_are_kept_apart(inbox, tmp_path):
    for first, second in ((Scoring(), Adding()), (Adding(), Scoring())):
        break_off(first, inbox, tmp_path / "out.csv", overwrite=True)
        second.run(inbox, tmp_path / "out.csv", overwrite=True)
        assert same_as_unbroken(second, inbox, tmp_path / "out.csv")


# === Starting over ===


@pytest.mark.parametrize(
    ("kind", "change", "reason"),
    [
        (Scoring, {"bias": 1.0}, "the model changed"),
        (Scoring, {"engine": "slow"}, r"the engine changed \('stub', now 'slow'\)"),
        (Scoring, {"probabilities": True}, "--probabilities changed"),
        (Adding, {"model": "2" * 64}, "the model changed"),
        (Adding, {"engine": "slow"}, r"the engine changed \('stub', now 'slow'\)"),
        (Adding, {"settings": "beam 1"}, r"the settings changed \('beam 4', now 'beam 1'\)"),
    ],
)
def test_a_changed_model_or_setting_starts_over_and_is_named(inbox, tmp_path, kind, change, reason):
    break_off(kind(), inbox, tmp_path / "out.csv")
    listener, changed = Listener(), kind(**change)
    changed.run(inbox, tmp_path / "out.csv", progress=listener)
    (note,) = (note for note in listener.notes if "starting over" in note)
    assert re.fullmatch(
        rf"an interrupted run has answered 8,192 rows, but since then .*{reason}.*: starting over",
        note,
    )
    assert resumed_rows(listener) == 0
    assert same_as_unbroken(changed, inbox, tmp_path / "out.csv")


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_new_input_of_the_same_name_is_read_after_an_interrupted_run(
    kind, inbox, tmp_path, overwrite
):
    source, target = Path(shutil.copy2(inbox, tmp_path / "in.csv")), tmp_path / "out.csv"
    break_off(kind(), source, target)
    write_inbox(source, 9_000, words="today the router is")
    listener = Listener()
    report = kind().run(source, target, overwrite=overwrite, progress=listener)
    assert report.rows == 9_000 - 9
    assert listener.has("the input's size in bytes changed .*starting over")
    assert names(tmp_path) == ["in.csv", "out.csv", "out.csv.rejects.csv"]


def test_a_changed_input_of_equal_size_is_answered_again(kind, tmp_path):
    row = f"router is here,{'x' * 200}\n"  # the middle is in neither of the two MiB that are hashed
    source = write(tmp_path / "in.csv", "text,note\n" + row * 5 * CHUNK)
    break_off(kind(), source, tmp_path / "out.csv", 3, text="text")
    status, content = source.stat(), source.read_bytes()
    place = content.index(b"here", len(content) // 3)
    source.write_bytes(content[:place] + b"lost" + content[place + 4 :])
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
    listener = Listener()
    kind().run(source, tmp_path / "out.csv", text="text", progress=listener)
    assert listener.has("the input has changed since the interrupted run: starting over")
    assert same_as_unbroken(kind(), source, tmp_path / "out.csv", text="text")


def append(path):
    with path.open("a") as stream:
        stream.write("1,router is\n")


@pytest.mark.parametrize("change", [append, os.utime, Path.unlink])
def test_an_input_that_changes_during_a_run_gives_no_output(kind, inbox, tmp_path, change):
    source = Path(shutil.copy2(inbox, tmp_path / "in.csv"))
    target, rejects = tmp_path / "out.csv", tmp_path / "out.csv.rejects.csv"
    rejects.write_text(OLD_REJECTS)
    with pytest.raises(TableError, match=r"in\.csv' was changed while .*nothing was put in place"):
        kind().run(source, target, progress=Listener(lambda: change(source)))
    assert rejects.read_text() == OLD_REJECTS
    gone = change is Path.unlink
    assert names(tmp_path) == ["in.csv", "out.csv.rejects.csv"][gone:]
    if not gone:
        listener = Listener()
        kind().run(source, target, progress=listener)
        assert resumed_rows(listener) == 0


# === Outputs ===


def test_two_runs_cannot_write_one_output_at_once(kind, inbox, tmp_path):
    def second():
        with pytest.raises(OutputError, match=r"another run is writing '.*out\.csv'") as refused:
            kind().run(inbox, tmp_path / "out.csv", restart=True)
        assert refused.value.passes
        kind().run(inbox, tmp_path / "other.csv")

    kind().run(inbox, tmp_path / "out.csv", progress=Listener(second))
    files = ["other.csv", "other.csv.rejects.csv", "out.csv", "out.csv.rejects.csv"]
    assert names(tmp_path) == files
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "other.csv").read_bytes()


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, OSError])
def test_a_run_that_fails_leaves_the_old_output_and_the_answers(kind, inbox, tmp_path, error):
    target = write(tmp_path / "out.csv", "old")
    rejects = write(tmp_path / "out.csv.rejects.csv", OLD_REJECTS)

    def fail():
        raise error

    with pytest.raises(error):
        kind().run(inbox, target, overwrite=True, progress=Listener(fail))
    assert (target.read_text(), rejects.read_text()) == ("old", OLD_REJECTS)
    assert names(tmp_path) == [".out.csv.journal", "out.csv", "out.csv.rejects.csv"]
    with pytest.raises(OutputError, match=r"exists; .*--force"):
        kind().run(inbox, target)  # refused before the journal is read
    listener = Listener()
    kind().run(inbox, target, overwrite=True, progress=listener)
    assert resumed_rows(listener) == CHUNK
    assert target.read_text() != "old"


def test_ctrl_c_before_the_first_answer_leaves_nothing(kind, inbox, tmp_path):
    class Stop(Listener):
        def stage(self, *_):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kind().run(inbox, tmp_path / "out.csv", progress=Stop())
    assert names(tmp_path) == []


def test_an_output_that_appears_during_a_run_is_kept(kind, inbox, tmp_path):
    target = tmp_path / "out.csv"
    with pytest.raises(OutputError, match=r"out.csv' has appeared meanwhile; expected a name that"):
        kind().run(inbox, target, progress=Listener(lambda: write(target, "precious\n")))
    assert target.read_text() == "precious\n"


def test_another_file_named_like_the_rejects_is_neither_replaced_nor_removed(kind, tmp_path):
    others = write(tmp_path / "out.csv.rejects.csv", "name,phone\nAnn,123\n")
    for content in ("id,text\n1,router\n", "id,text\n1,router\nbroken\n"):
        source = write(tmp_path / "in.csv", content)
        with pytest.raises(OutputError, match=r"out.csv.rejects.csv', .* is another file"):
            kind().run(source, tmp_path / "out.csv")
        assert others.read_text() == "name,phone\nAnn,123\n"


def test_unusable_places_and_columns_are_refused_before_any_work(kind, inbox, tmp_path):
    model = tmp_path / "model"
    write_bundle(tiny_bundle(), model)
    write(tmp_path / "there.csv", "old")
    good, runs = tmp_path / "out.csv", kind()
    for error, message, source, target, options in (
        (OutputError, r"exists; expected a name that is free.*--force", inbox, "there.csv", {}),
        (OutputError, "expected two different files", inbox, inbox, {"overwrite": True}),
        (OutputError, "extension", inbox, "out.doc", {}),
        (OutputError, "no folder", inbox, "nowhere/out.csv", {}),
        (OutputError, "which bertcnn has saved and nothing may be added", inbox, "model/o.csv", {}),
        (OutputError, r"is too long \(256 bytes\)", inbox, f"{'x' * 252}.csv", {}),
        (TableError, "there is no file", tmp_path / "missing.csv", good, {}),
        (ColumnError, r"'texts'.*did you mean 'text'", inbox, good, {"text": "texts"}),
        (ColumnError, "no text column", inbox, good, {"text": []}),
    ):
        with pytest.raises(error, match=message) as caught:
            runs.run(source, tmp_path / target, **options)
        assert "\n" not in str(caught.value)
    assert runs.asked == 0
    assert names(tmp_path) == ["model", "there.csv"]
    assert (tmp_path / "there.csv").read_text() == "old"


def test_rows_too_large_for_excel_are_refused_before_any_work_and_block_no_later_run(
    kind, inbox, tmp_path
):
    source, target = tmp_path / "in.csv", tmp_path / "out.xlsx"
    source.write_text(inbox.read_text() + f"1,{'router ' * 5_000}\n")
    runs = kind()
    with pytest.raises(OutputError, match=rf"line {ROWS + 2} .* of 35,000 characters.*Excel's"):
        runs.run(source, target)
    assert runs.asked == 0
    assert names(tmp_path) == ["in.csv"]
    shutil.copy2(inbox, source)
    assert runs.run(source, target).rows == ROWS - REJECTED


# === Rows ===


def test_unreadable_rows_go_to_a_file_that_the_next_run_removes(kind, tmp_path):
    source = write(tmp_path / "in.csv", "id,text\n1,the router\n2\n3,a bill\n")
    report = kind().run(source, tmp_path / "out.csv")
    assert (report.rows, report.rejected) == (2, 1)
    assert report.rejects == tmp_path / "out.csv.rejects.csv"
    assert read_table(report.rejects).rows[0][0] == "3"
    source = write(tmp_path / "good.csv", "id,text\n1,the router\n")
    kind().run(source, tmp_path / "out.csv", overwrite=True)
    assert names(tmp_path) == ["good.csv", "in.csv", "out.csv"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("in.csv", "id,text\n1,the router\n" + "x,y,z\n" * 9),
        ("in.jsonl", '{"text": "the router"}\n' + "{bad\n" * 9),
    ],
)
def test_a_file_of_mostly_unreadable_rows_is_refused(kind, tmp_path, name, content):
    source, target = write(tmp_path / name, content), tmp_path / "out.csv"
    with pytest.raises(
        TableError, match=r"9 of 10 rows of .* could not be read .*out.csv.rejects.csv; .*--allow"
    ):
        kind().run(source, target)
    assert names(tmp_path) == [name, "out.csv.rejects.csv"]  # neither output nor journal
    assert len(read_table(tmp_path / "out.csv.rejects.csv")) == 9
    report = kind().run(source, target, allow_rejects=True)
    assert (report.rows, report.rejected) == (1, 9)


@pytest.mark.parametrize("header", ["id,text", "a,b"])
def test_a_file_of_unreadable_rows_alone_is_refused(kind, tmp_path, header):
    source = write(tmp_path / "in.csv", f"{header}\n" + "x,y,z\n" * 3)
    with pytest.raises(TableError, match=r"3 of 3 rows .* could not be read \(line 2: "):
        kind().run(source, tmp_path / "out.csv")
    assert names(tmp_path) == ["in.csv", "out.csv.rejects.csv"]


def test_repeated_headers_and_missing_last_cells_are_counted(kind, tmp_path):
    source = write(tmp_path / "in.csv", "text,note\nthe router,x\ntext,note\na bill\n")
    report = kind().run(source, tmp_path / "out.csv")
    assert (report.rows, report.rejected, report.repeated_headers, report.padded) == (2, 1, 1, 1)


@pytest.mark.parametrize(
    ("name", "out"),
    [
        *((f"in.{ending}", "out.csv") for ending in ("csv", "jsonl", "json", "parquet", "xlsx")),
        *(("in.csv", f"out.{ending}") for ending in ("jsonl", "parquet", "xlsx")),
    ],
)
def test_an_input_without_rows_gives_an_output_without_rows(kind, tmp_path, name, out):
    if name == "in.json":
        write(tmp_path / name, "[]")
    else:
        with TableWriter(tmp_path / name, ("id", "text")) as writer:
            writer.write([])
    report = kind().run(tmp_path / name, tmp_path / out)
    assert (report.rows, report.rejected) == (0, 0)
    with open_table(tmp_path / out, expected_columns=kind.columns) as reader:
        assert reader.columns[-len(kind.columns) :] == kind.columns


def test_several_text_columns_are_joined(kind, tmp_path):
    joined = write(tmp_path / "joined.csv", "subject,body\nrefund,app is\n,router\n")
    single = write(tmp_path / "single.csv", 'subject,text\nrefund,"refund\napp is"\n,router\n')
    for text in ("subject, body", ["subject", "body"]):
        report = kind().run(joined, tmp_path / "one.csv", text=text, overwrite=True)
        assert report.text_columns.text == ("subject", "body")
        kind().run(single, tmp_path / "other.csv", text="text", overwrite=True)
        one, other = read_table(tmp_path / "one.csv"), read_table(tmp_path / "other.csv")
        assert [row[2:] for row in one.rows] == [row[2:] for row in other.rows]


@pytest.mark.parametrize(("raw", "cell"), [(False, "'=router"), (True, "=router")])
def test_formulas_are_escaped_except_with_raw(kind, tmp_path, raw, cell):
    source = write(tmp_path / "in.csv", "text\n=router\n")
    kind().run(source, tmp_path / "out.csv", raw=raw)
    assert (tmp_path / "out.csv").read_text().splitlines()[1].startswith(f"{cell},")


def test_unread_sheets_are_reported(kind, tmp_path):
    xlsxwriter = pytest.importorskip("xlsxwriter")
    with xlsxwriter.Workbook(str(tmp_path / "in.xlsx")) as book:
        for name in ("2025", "2024"):
            sheet = book.add_worksheet(name)
            for number, text in enumerate(["text", *(f"router is {row}" for row in range(9))]):
                sheet.write_row(number, 0, [text])
    listener = Listener()
    kind().run(tmp_path / "in.xlsx", tmp_path / "out.csv", progress=listener)
    assert listener.has(r"other sheets: '2024' \(10 rows\)")
