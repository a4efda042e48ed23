"""A file of texts and its translations: rows unchanged, one column more, none lost."""

import csv
import signal
import subprocess
import sys

import pytest

from bertcnn.bundle.bundle import write_bundle
from bertcnn.errors import BundleError, ColumnError, OutputError, SettingsError, TableError
from bertcnn.scoring.run import ScoringInterrupted
from bertcnn.tasks import writing
from bertcnn.tasks.translation.translator import Translator, translate_csv
from tests.failpoints import tiny_bundle
from tests.scoring.test_resume import Told, interrupt, names
from tests.tasks.small_pairs import QUICK, SHORT, UNITS, small_pairs

CHUNK = 8  # rows
ROWS = 3 * CHUNK + 3


@pytest.fixture(scope="module", autouse=True)
def small_chunks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "_CHUNK_ROWS", CHUNK)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A saved translator; do not write to its folder."""
    folder = tmp_path_factory.mktemp("translator") / "model"
    Translator(model=SHORT, training=QUICK).fit(*small_pairs()).save(folder)
    return folder


@pytest.fixture(scope="module")
def translator(folder):
    return Translator.load(folder)


def write_texts(path, texts, *, column="text", broken=0):
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["id", column, "note"])
        writer.writerows((row, text, f"n{row % 3}") for row, text in enumerate(texts))
        writer.writerows([["broken"]] * broken)
    return path


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture(scope="module")
def inbox(tmp_path_factory):
    """More rows than three chunks, some of them blank or unreadable; do not change the file."""
    texts = [f"{UNITS[row % 6]} and {UNITS[row // 6 % 6]}" for row in range(ROWS)]
    texts[5] = " "
    return write_texts(tmp_path_factory.mktemp("inbox") / "in.csv", texts, broken=2)


@pytest.fixture(scope="module")
def whole(translator, inbox, tmp_path_factory):
    """The output of an uninterrupted run."""
    target = tmp_path_factory.mktemp("whole") / "out.csv"
    translate_csv(translator, inbox, target)
    return target


def test_rows_and_columns_are_kept_and_the_translation_follows(translator, inbox, tmp_path):
    report = translate_csv(translator, inbox, tmp_path / "out.csv")
    rows, given = rows_of(tmp_path / "out.csv"), rows_of(inbox)[:ROWS]
    assert list(rows[0]) == ["id", "text", "note", "translation"]
    assert [{**row, "translation": ""} for row in rows] == [
        {**row, "translation": ""} for row in given
    ]
    texts = [row["text"] for row in given]
    assert [row["translation"] for row in rows] == [one.text for one in translator.translate(texts)]
    assert rows[5]["translation"] == ""
    assert len({row["translation"] for row in rows}) > 2
    assert (report.rows, report.rejected, report.answered) == (ROWS, 2, {"translation": ROWS - 1})
    assert names(tmp_path) == ["out.csv", "out.csv.rejects.csv"]


def test_a_taken_name_gets_a_prefix(translator, tmp_path):
    source = write_texts(tmp_path / "in.csv", ["one and two"] * 3, column="translation")
    told = Told()
    report = translate_csv(
        translator, source, tmp_path / "out.csv", text="translation", progress=told
    )
    assert report.columns == ("bertcnn_translation",)
    assert list(rows_of(tmp_path / "out.csv")[0])[-1] == "bertcnn_translation"
    assert any("ours is called 'bertcnn_translation'" in note for note in told.notes)


def test_with_another_beam_it_starts_over_and_says_why(translator, inbox, whole, tmp_path):
    with pytest.raises(ScoringInterrupted):
        translate_csv(translator, inbox, tmp_path / "out.csv", beam=1, progress=Told(interrupt))
    told = Told()
    translate_csv(translator, inbox, tmp_path / "out.csv", progress=told)
    assert any(
        "the settings changed ('beam 1', now 'beam 4'): starting over" in note
        for note in told.notes
    )
    assert (tmp_path / "out.csv").read_bytes() == whole.read_bytes()


_KILLED = """
import os, signal, sys
from bertcnn.tasks import writing
from bertcnn.tasks.translation import translate_csv
writing._CHUNK_ROWS = {chunk}
class Dies:
    left = 2
    def stage(self, name, total, unit="rows"): pass
    def note(self, message): pass
    def advance(self, done, **figures):
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)
translate_csv(*sys.argv[1:], progress=Dies())
"""


def test_a_killed_run_is_continued_with_the_same_bytes(folder, inbox, whole, tmp_path):
    target = tmp_path / "out.csv"
    code = _KILLED.format(chunk=CHUNK)
    died = subprocess.run([sys.executable, "-c", code, folder, inbox, target], check=False)
    assert died.returncode == -signal.SIGKILL
    assert not target.exists()
    told = Told()
    translate_csv(folder, inbox, target, progress=told)
    assert len(told.going_on) == 1
    assert target.read_bytes() == whole.read_bytes()


def test_what_will_not_do_is_refused_before_any_work(translator, inbox, tmp_path):
    def refused(kind, message, target="out.csv", source=inbox, **options):
        with pytest.raises(kind, match=message):
            translate_csv(translator, source, tmp_path / target, **options)

    (tmp_path / "there.csv").write_text("old")
    refused(OutputError, r"exists; expected a name that is free.*--force", "there.csv")
    refused(OutputError, "extension", "out.doc")
    refused(TableError, "there is no file", source=tmp_path / "missing.csv")
    refused(ColumnError, r"'texts'.*did you mean 'text'", text="texts")
    refused(SettingsError, "beam 0", beam=0)
    write_bundle(tiny_bundle(), tmp_path / "classifier")
    with pytest.raises(BundleError, match="expected a bertcnn translator"):
        translate_csv(tmp_path / "classifier", inbox, tmp_path / "out.csv")
    assert names(tmp_path) == ["classifier", "there.csv"]
    translate_csv(translator, inbox, tmp_path / "there.csv", overwrite=True)
    assert len(rows_of(tmp_path / "there.csv")) == ROWS
