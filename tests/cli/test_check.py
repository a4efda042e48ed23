"""`bertcnn check`, as people type it.

Its report in a pipe, its output files, and one-line errors.
"""

import csv
import json
import subprocess
import sys

import pytest

from tests.cli.outcomes import refused
from tests.doctor.test_check import healthy, write
from tests.tiny import saved


@pytest.fixture
def check(monkeypatch, run, encoder_folder):
    """Run the command with the tiny encoder, on 80 columns.

    Returns exit code, standard output, standard error.
    """
    monkeypatch.setenv("COLUMNS", "80")
    return lambda *arguments: run("check", *arguments, "--encoder", encoder_folder)


@pytest.fixture
def sick(tmp_path):
    """A file with a text of two labels, a rare label, an empty text, and control characters."""
    rows = healthy()
    rows[4][1] = rows[3][1]
    rows[5][1] = ""
    rows[6][2] = "lonely [bold]label[/bold]"
    rows[7][1] = rows[10][1] = "\x1b[31mthe router is red\x1b[0m"
    return write(tmp_path / "sick.csv", rows)


def test_the_report_begins_with_the_worst_and_ends_with_the_next_step(check, sick):
    code, out, _ = check(sick)
    lines = out.splitlines()
    assert code == 0
    # on 80 columns, a long path is broken
    assert f"{sick}:90rows" in "".join(out.split())
    levels = [
        line.split("  ")[0]
        for line in lines
        if line.split("  ")[0] in ("PROBLEM", "LOOK AT", "NOTE")
    ]
    assert levels == sorted(levels, key=("PROBLEM", "LOOK AT", "NOTE").index)
    assert "1 text with different labels, in 2 rows" in out
    assert "lonely [bold]label[/bold]" in out
    assert "\x1b" not in out
    assert "Next: the same command with --fix sick_checked.csv" in out
    assert all(len(line) <= 80 and line == line.rstrip() for line in lines)


def test_fix_and_json_are_written_and_nothing_is_overwritten(check, sick, tmp_path):
    code, out, err = check(sick, "--fix", tmp_path / "out.csv", "--json", tmp_path / "out.json")
    assert code == 0
    assert f"Wrote {tmp_path / 'out.csv'}" in err
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        fixed = list(csv.DictReader(file))
    assert len(fixed) == 90
    assert fixed[5]["finding"] == "empty text"
    report = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert report["rows"] == 90
    assert {"kind": "empty_texts", "lines": [7]}.items() <= next(
        one for one in report["findings"] if one["kind"] == "empty_texts"
    ).items()
    for option, place in (("--fix", "out.csv"), ("--json", "out.json")):
        code, out, err = check(sick, option, tmp_path / place)
        assert (code, out) == (2, "")
        assert "exists" in err
        assert "--force" in err
    assert (
        check(sick, "--fix", tmp_path / "out.csv", "--json", tmp_path / "out.json", "--force")[0]
        == 0
    )
    same = tmp_path / "new.csv"
    assert "for --json and for another file" in check(sick, "--fix", same, "--json", same)[2]


def test_the_report_is_not_written_into_a_model(check, sick, encoder_folder):
    model = saved(encoder_folder)
    code, _, err = check(sick, "--json", model / "findings.json")
    assert code == 2
    assert "which bertcnn has saved and nothing may be added to" in err
    assert not (model / "findings.json").exists()


def one_label(tmp_path):
    return write(tmp_path / "one.csv", [[*row[:2], "same"] for row in healthy(10)])


def no_text(tmp_path):
    return write(tmp_path / "numbers.csv", [["1", "2", "3"]] * 9, ("a", "b", "c"))


BAD = {
    "missing": (lambda folder: [folder / "none.csv"], "there is no file"),
    "one label": (lambda folder: [one_label(folder)], "1 label ('same') in column 'label'"),
    "no text": (lambda folder: [no_text(folder)], "no column looks like text"),
    "no such column": (
        lambda folder: [one_label(folder), "--label", "lable"],
        "did you mean 'label'?",
    ),
    "same file": (
        lambda folder: [one_label(folder), "--fix", folder / "one.csv"],
        "as input and output",
    ),
    "same json": (
        lambda folder: [one_label(folder), "--json", folder / "one.csv", "--force"],
        "for --json and for another file",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line(case, check, tmp_path):
    arguments, words = BAD[case]
    result = check(*arguments(tmp_path))
    refused(result, words)
    assert result[1] == ""


def test_only_the_texts_of_a_file_without_labels_are_checked(check, tmp_path):
    code, out, _ = check(
        write(tmp_path / "texts.csv", [row[:2] for row in healthy(10)], ("id", "text"))
    )
    assert code == 0
    assert "Not checked: no label column" in out
    assert "Nothing was found." in out


def test_the_next_commands_can_be_pasted_into_a_shell(check, tmp_path):
    rows = healthy()
    rows[5][1] = ""
    code, out, _ = check(write(tmp_path / "my sick.csv", rows))
    assert code == 0
    assert "--fix 'my sick_checked.csv' marks these" in " ".join(out.split())


def test_the_doctor_needs_neither_keras_nor_tensorflow(tmp_path, encoder_folder):
    data = write(tmp_path / "data.csv", healthy())
    code = (
        f"import sys; sys.argv = ['bertcnn', 'check', {str(data)!r}, '--encoder',"
        f" {str(encoder_folder)!r}]\n"
        "from bertcnn.cli.start import main\ntry: main()\nexcept SystemExit: pass\n"
        "heavy = {'keras', 'tensorflow', 'jax', 'streamlit', 'keras_hub', 'torch'}\n"
        "print('heavy:', *sorted(heavy & sys.modules.keys()))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "reading the texts with the encoder" in done.stderr  # labels were checked too
    assert done.stdout.splitlines()[-1] == "heavy:"
