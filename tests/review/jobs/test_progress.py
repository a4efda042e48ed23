"""Progress is parsed from our commands' output in a pipe."""

import pytest

from bertcnn.cli import progress as shown
from bertcnn.review.jobs.progress import JobProgress, last_message, read_progress


@pytest.fixture
def read(monkeypatch, capsys):
    """The progress parsed from a command's output so far."""
    monkeypatch.setattr(shown, "_SECONDS_BETWEEN_LINES", 0.0)
    progress, lines = JobProgress(), []

    def so_far():
        nonlocal progress
        lines.extend(capsys.readouterr().err.splitlines())
        while lines:
            progress = read_progress(lines.pop(0), progress)
        return progress

    return so_far


@pytest.mark.parametrize(
    "figures",
    [
        {},
        {"mlm_loss": 12.5, "nsp_accuracy": 0.5, "best_macro_f1": float("nan")},
        {"loss": float("inf"), "gain": -0.25, "tokens_per_second": 3.0},
    ],
)
def test_every_line_of_a_stage_is_understood(read, figures):
    with shown.PlainProgress() as command:
        command.stage("fetching all-MiniLM-L6-v2 from the hub", 90_900_000, "bytes")
        assert read() == JobProgress("fetching all-MiniLM-L6-v2 from the hub")
        command.advance(900_000, **figures)
        assert (read().share, read().left) == (0.01, "")  # too early for a forecast
        command.advance(81_000_000, **figures)
        assert (read().share, read().left) == (0.9, "0 s")
        command.advance(9_000_000, **figures)
        command.stage("comparing texts", 0)
        assert read() == JobProgress("comparing texts")
        command.stage("tuning", 60, "seconds at most")
        assert read() == JobProgress("tuning")
        command.advance(60, **figures)
    assert read() == JobProgress("tuning", 1.0)


@pytest.mark.parametrize("left", ["4 s", "1 min 15 s", "2 h 1 min"])
def test_the_time_left_is_kept_as_it_is_said(left):
    line = f"  41%, loss 0.412, 397 rows/s, about {left} left of this stage"
    assert read_progress(line, JobProgress("training")) == JobProgress("training", 0.41, left)


def test_other_lines_change_nothing(read):
    before = JobProgress("training", 0.5, "4 s")
    for line in (
        "",
        "Wrote out.csv: 8 rows in 1 s (billing 4, hardware 4).",
        "Decisions: auto 8 (100%).",
        "bertcnn: in.csv has 1 row; expected more. What to do: add rows.",
        "Next: bertcnn train LABELLED.csv --encoder tiny --out MODEL",
        "== 2026-11-27 03:44:02+00:00 bertcnn score",
        "stopping at the next step; Ctrl-C again stops at once",
        "ValueError: my router is dead",
    ):
        assert read_progress(line, before) == before, line
    with shown.PlainProgress() as command:
        command.stage("training", 2)
        command.advance(1)
        before = read()
        command.note("3% of the rows have no text")
        command.note("done in earlier runs: 12 rows")
        command.note("text: 'text' (longest free text: 20 characters on average)")
        assert read() == before


def test_the_message_of_a_command_is_its_last_one():
    said = "bertcnn: first\nreading: 4 rows\n\nbertcnn: in.csv is empty\nmore\n"
    assert last_message(said) == "in.csv is empty"
    assert last_message("Usage: bertcnn\n\nError: No such option: --x\n") == "No such option: --x"
    assert last_message("Traceback\nValueError: my router is dead\n") == ""
    assert last_message("") == ""
