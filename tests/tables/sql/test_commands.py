"""`bertcnn score` with a database: output, exit codes, and kills."""

import json
import random
import signal
import subprocess
import sys
import time

import pytest

from tests.cli.conftest import run  # noqa: F401 - a fixture
from tests.tables.sql.conftest import LITE, POSTGRES, ROWS
from tests.tables.sql.test_score_table import QUERY, answers

WHERE = ("--query", QUERY, "--into", "answers")


def test_a_table_is_written_and_figures_printed(run, tickets, model):  # noqa: F811
    options = (*WHERE, "--text", "text", "--reasons", "--json")
    code, out, err = run("score", model, tickets.address, *options)
    assert (code, json.loads(out)["rows"]) == (0, ROWS)
    last = err.splitlines()
    assert f"the query gives {ROWS} rows" in err
    assert any(line.startswith(f"Wrote the table answers: {ROWS} rows in ") for line in last)
    assert "without a text got no label." in last[-1]
    assert len(answers(tickets)) == ROWS
    code, _, err = run(
        "score", model, tickets.address, *WHERE[:1], f"{QUERY} limit 0", *options[2:]
    )
    assert code == 0
    assert "The query gives no rows" in err


@pytest.mark.parametrize("desk", [LITE], indirect=True)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("out.csv", *WHERE), "the output 'out.csv' for a database"),
        ((*WHERE, "--raw"), "--raw for a database"),
        ((*WHERE, "--force"), "--force for a database"),
        ((*WHERE, "--allow-rejects"), "--allow-rejects for a database"),
        ((*WHERE, "--shard", "1/2"), "--shard for a database"),
        ((*WHERE, "--ray", "auto"), "--ray for a database"),
        (WHERE[:2], "a database without --into"),
        (WHERE[2:], "a database without --query"),
        (("--query", "select", "--into", "answers"), "the query cannot be run"),
        ((*WHERE, "--id", "number"), "there is no column 'number'"),
    ],
)
def test_unsuitable_options_are_refused_in_one_line(run, tickets, model, arguments, words):  # noqa: F811
    code, out, err = run("score", model, tickets.address, *arguments)
    assert (code, out) == (2, "")
    assert words in err.splitlines()[-1]
    assert "What to do: " in err.splitlines()[-1]
    assert tickets.tables() == {"tickets"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("in.csv",), "no output for 'in.csv'"),
        (("in.csv", "out.csv", "--query", "select 1"), "--query for a file"),
        (("in.csv", "out.csv", "--id", "x"), "--id for a file"),
        (("s3://bucket/in.csv", *WHERE), "an address that begins with 's3://'"),
    ],
)
def test_database_options_are_refused_for_a_file(run, model, arguments, words):  # noqa: F811
    code, _, err = run("score", model, *arguments)
    assert code == 2
    assert words in err


def test_a_database_that_is_not_there_may_be_there_later(run, model):  # noqa: F811
    code, _, err = run("score", model, "postgresql://me:hunter2@127.0.0.1:1/desk", *WHERE)
    assert code == 75
    assert "the database postgresql://me@127.0.0.1:1/desk cannot be reached" in err


def test_scoring_a_database_imports_no_heavy_library(tickets, model):
    code = f"""
import sys
from bertcnn import score_table
report = score_table(
    {str(model)!r}, {tickets.address!r}, query={QUERY!r}, into="answers", text="text"
)
heavy = {{"keras", "tensorflow", "pandas", "streamlit", "sqlalchemy", "pyarrow.dataset"}}
assert report.rows == {ROWS}
print(sorted(heavy.intersection(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


@pytest.mark.parametrize("desk", [POSTGRES], indirect=True)  # SQLite has no slow query
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 75), (signal.SIGINT, 130)])
def test_a_run_that_is_stopped_leaves_nothing_half_written(tickets, model, number, code):
    slow = "select id, text || coalesce(pg_sleep(0.05)::text, '') as text from tickets"
    words = ("--query", f"{slow} where id < 20", "--into", "answers", "--text", "text")
    command = [sys.executable, "-m", "bertcnn", "score", model, tickets.address, *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        next(line for line in running.stderr if line.startswith("reading the query"))
        running.send_signal(number)
        _, err = running.communicate()
    assert running.returncode == code, err
    assert "interrupted; nothing was half-written" in err
    assert tickets.tables() == {"tickets"}


def test_killed_runs_leave_no_row_twice_and_none_out(tickets):
    tickets.execute("ALTER TABLE tickets RENAME TO bench_tickets")
    command = [sys.executable, "-m", "benchmarks.database_scoring", tickets.address]
    slow = ("--seconds-a-row", "0.001", "--target")

    def start(target):
        return subprocess.Popen([*command, *slow, target], stdout=subprocess.PIPE, text=True)

    begun = time.monotonic()
    with start("whole") as unbroken:
        assert unbroken.communicate()[0]
    seconds, chance = time.monotonic() - begun, random.Random(0)
    moments = [chance.uniform(0.5, 1) * seconds, None]
    for moment in moments:
        with start("answers") as running:
            if moment is None:  # during the write
                next(line for line in running.stdout if line.startswith("writing"))
                time.sleep(chance.uniform(0, 0.02))
            else:
                time.sleep(moment)
            running.kill()
        found = answers(tickets) if "answers" in tickets.tables() else []
        assert len(found) in (0, ROWS)
    with start("answers") as last:
        assert last.communicate()[0]
    assert last.returncode == 0
    assert answers(tickets) == answers(tickets, "whole")
    assert tickets.tables() == {"answers", "bench_tickets", "whole"}
