"""`bertcnn jobs`, as people type it."""

import pytest

from bertcnn.review.jobs.job import COMMANDS, checked_arguments, command_of
from bertcnn.review.store import now
from tests.review.jobs.runners import IDLE, run_jobs_with


def test_jobs_are_listed_shown_cancelled_and_restarted(desk, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    store = ("--store", desk.place)
    id = desk.start()
    desk.until(id, lambda job: job.progress.share is not None)
    code, out, _ = run("jobs", "list", *store)
    assert code == 0
    line = next(line for line in out.splitlines() if id in line)
    for word in ("running", "score", "scoring", "%"):
        assert word in line
    assert max(map(len, out.splitlines())) <= 80
    _, out, _ = run("jobs", "show", id, *store)
    facts = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert facts["command"] == "bertcnn score 3000 well"
    assert (facts["by"], facts["state"], facts["starts"]) == ("ada", "running", "1")
    assert facts["log"] == str(desk.job(id).log)
    assert run("jobs", "cancel", id, *store) == (
        0,
        "",
        f"{id} ends at the next step of its command.\n",
    )
    desk.ended(id)
    assert run("jobs", "cancel", id, *store)[2] == f"{id} has ended already: cancelled.\n"
    assert "interrupted" in run("jobs", "list", *store)[1]
    _, out, _ = run("jobs", "show", id, *store)
    assert "exit code     130\n" in out
    assert "message       interrupted; the same command continues from there.\n" in out
    assert run("jobs", "restart", id, *store) == (0, "", f"Started {id} again: score\n")
    desk.at_work(id, rows=len(desk.done()) + 3)
    assert run("jobs", "restart", *store) == (0, "", "0 jobs had no process.\n")
    code, _, err = run("jobs", "restart", id, *store)
    assert code == 2
    assert err.endswith("What to do: cancel it first.\n")
    run("jobs", "cancel", id, *store)
    desk.ended(id)


def test_jobs_without_a_process_are_seen_and_restarted(desk, run, monkeypatch):
    run_jobs_with(monkeypatch, IDLE)
    id = desk.start()
    desk.change(id, heartbeat=now() - 61)
    assert "process gone" in run("jobs", "list", "--store", desk.place)[1]
    assert run("jobs", "restart", "--store", desk.place)[2] == (
        f"Started {id} again: score\n1 job had no process.\n"
    )


def test_an_unknown_job_or_store_is_refused_in_one_line(desk, run):
    for command in ("show", "cancel", "restart"):
        code, _, err = run("jobs", command, "nothing", "--store", desk.place)
        assert code == 2
        assert err.startswith("bertcnn: the job 'nothing'; expected the name of a job in ")
    missing = desk.folder / "missing.db"
    for command in (("list",), ("show", "a"), ("cancel", "a"), ("restart",)):
        code, _, err = run("jobs", *command, "--store", missing)
        assert code == 2
        assert err.startswith(f"bertcnn: no review store at {missing}; expected")
        assert not missing.exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_that_may_be_a_job_is_there(run, command):
    arguments = checked_arguments([*command.split(), "--help"])
    assert command_of(arguments) == command
    code, out, _ = run(*arguments)
    assert code == 0
    assert f"Usage: bertcnn {command} " in out
