"""Jobs with real processes: they finish, fail, are cancelled or killed, and continue."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import quote

import pytest

from bertcnn.errors import OutputError, RoleError, SettingsError, StoreError
from bertcnn.review.jobs import jobs
from bertcnn.review.jobs.jobs import (
    UPLOADS,
    cancel_job,
    job_status,
    list_jobs,
    new_folder,
    remove_job,
    restart_dead_jobs,
    restart_job,
    start_job,
)
from bertcnn.review.jobs.processes import process_start, this_host
from bertcnn.review.people import Person
from bertcnn.review.store import now, open_review
from tests.review.conftest import PASSWORD
from tests.review.jobs.conftest import ADA, Desk
from tests.review.jobs.runners import IDLE, TINY, run_jobs_with


def rows_of(desk):
    """The rows in the order in which commands did them."""
    return [int(row) for _, row in desk.done()]


def gone(pid):
    """Wait until a process has ended."""
    end = time.monotonic() + 30
    while process_start(pid) is not None:
        assert time.monotonic() < end
        time.sleep(0.02)


def exists(pid):
    """Whether a process with this number exists, even as a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def kill_runner(desk, id):
    """Kill a job's process; the command continues."""
    pid = desk.job(id).pid
    os.kill(pid, signal.SIGKILL)
    gone(pid)


def asked_by_two_servers(desk, monkeypatch):
    """The jobs that each of two servers restarts; both read the rows before either changes them."""
    both, found, is_dead = threading.Barrier(2), [], jobs._is_dead

    def seen_by_both(row):
        both.wait(30)
        return is_dead(row)

    def ask():
        found.append(restart_dead_jobs(open_review(desk.place)))

    with monkeypatch.context() as patch:
        patch.setattr(jobs, "_is_dead", seen_by_both)
        patch.setattr(jobs, "job_status", lambda _, id: id)  # which would read the row again
        servers = [threading.Thread(target=ask) for _ in range(2)]
        for server in servers:
            server.start()
        for server in servers:
            server.join()
    return sorted(found)


# === Ends ===


def test_progress_is_seen_while_a_job_runs_and_it_ends_done(desk):
    id = desk.start(rows=200)
    job = desk.until(id, lambda job: job.progress.left)
    assert (job.state, job.progress.stage, job.dead) == ("running", "scoring", False)
    assert 0 < job.progress.share < 1
    assert job.progress.left.endswith(" s")
    desk.hurry()
    job = desk.ended(id)
    assert (job.state, job.exit_code, job.starts, job.message) == ("done", 0, 1, "")
    assert (job.progress.stage, job.progress.share) == ("scoring", 1.0)
    assert (job.actor, job.command, job.arguments) == ("ada", "score", ("score", "200", "well"))
    assert job.created_at <= job.started_at <= job.ended_at <= now()
    assert rows_of(desk) == list(range(200))
    desk.until(id, lambda job: not exists(job.pid))
    with pytest.raises(StoreError, match=f"{id} is done; expected .*start another one"):
        restart_job(desk.store, id, ADA)


def test_an_upload_goes_when_its_job_is_done_and_stays_if_it_fails(desk):
    for how, stays in (("well", False), ("badly", True)):
        folder = new_folder(desk.store)
        (folder / UPLOADS).mkdir()
        (folder / UPLOADS / "in.csv").write_text("text\nmy router\n")
        (folder / "out.csv").write_text("its result")
        (folder / "hurry").touch()
        job = desk.ended(start_job(desk.store, ["score", "3", how], ADA, folder=folder).id)
        assert job.state == ("failed" if stays else "done")
        assert (folder / UPLOADS).exists() == stays
        assert (folder / "out.csv").exists()


def test_a_command_runs_in_the_folder_of_its_start(tmp_path, monkeypatch):
    """One succeeds and one has a typing error; the log does not quote the tickets."""
    monkeypatch.chdir(tmp_path)
    store = open_review("review.db")
    Path("in.csv").write_text("text\n" + "my router is dead\n" * 3, encoding="utf-8")
    good = start_job(store, ["check", "in.csv", "--json", "out.json"], ADA)
    typo = start_job(store, ["score", "--nonsense"], ADA)
    end = time.monotonic() + 120
    while list_jobs(store, states=["waiting", "running"]):
        assert time.monotonic() < end
        time.sleep(0.1)
    assert job_status(store, good.id).state == "done"
    assert "router" in Path("out.json").read_text(encoding="utf-8")
    assert "comparing texts" in good.log.read_text(encoding="utf-8")
    assert "router" not in good.log.read_text(encoding="utf-8")
    job = job_status(store, typo.id)
    assert (job.state, job.exit_code, job.message) == ("failed", 2, "No such option: --nonsense")


@pytest.mark.parametrize(
    ("how", "code", "starts", "message", "logged"),
    [
        ("badly", 2, 1, "no tickets in {store}; expected some", "no tickets"),
        ("unexpectedly", 1, 1, "the command ended with code 1: see its log", "Traceback"),
        ("fatally", -9, 4, "the command was ended by signal 9 (Killed)", "bertcnn score"),
        ("again", 75, 4, "the command ended with code 75: see its log", "bertcnn score"),
    ],
)
def test_a_job_that_fails_keeps_the_message_of_its_command(
    desk, how, code, starts, message, logged
):
    """A killed command, and one that asks for it, is started three times more."""
    desk.hurry()
    job = desk.ended(desk.start(how))
    assert (job.state, job.exit_code, job.starts) == ("failed", code, starts)
    assert job.message == message.format(store=desk.place)
    assert logged in job.log.read_text(encoding="utf-8")
    assert rows_of(desk) == list(range({"fatally": 4, "again": 40}.get(how, 0)))


def test_a_job_is_kept_in_a_database_whose_password_nobody_sees(postgres, tmp_path, monkeypatch):
    run_jobs_with(monkeypatch, TINY)
    monkeypatch.setenv("BERTCNN_CACHE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    url = postgres.new_database()
    desk = Desk(tmp_path, url)
    id = desk.start()
    command = desk.at_work(id)
    for pid in (desk.job(id).pid, command):
        shown = subprocess.run(["ps", "-ww", "-o", "args=", "-p", str(pid)], capture_output=True)
        assert b"tiny.py" in shown.stdout
        assert quote(PASSWORD, safe="").encode() not in shown.stdout
        assert PASSWORD.encode() not in shown.stdout
    desk.hurry()
    job = desk.ended(id)
    assert (job.state, job.starts, job.log.parent) == ("done", 1, tmp_path / "jobs")
    run_jobs_with(monkeypatch, IDLE)
    id = desk.start()
    desk.change(id, heartbeat=now() - 61)
    assert asked_by_two_servers(desk, monkeypatch) == [[], [id]]
    desk.store.close()
    postgres.drop(url)


# === Cancelled ===


def test_a_cancelled_job_ends_as_by_ctrl_c_and_resumes_when_restarted(desk):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell does in the background
    try:
        id = desk.start()
    finally:
        signal.signal(signal.SIGINT, before)
    command = desk.at_work(id)
    assert cancel_job(desk.store, id, ADA).cancelled
    job = desk.ended(id)
    assert (job.state, job.exit_code, job.starts) == ("cancelled", 130, 1)
    assert job.message == "interrupted; the same command continues from there."
    gone(command)
    assert len(desk.done()) < 3000
    assert cancel_job(desk.store, id, ADA) == job  # too late, but harmless
    desk.hurry()
    restarted = restart_job(desk.store, id, ADA)
    assert (restarted.cancelled, restarted.message, restarted.exit_code) == (False, "", None)
    job = desk.ended(id)
    assert (job.state, job.starts) == ("done", 2)
    assert rows_of(desk) == list(range(3000))


def test_a_command_that_does_not_listen_is_ended_by_a_signal(desk):
    id = desk.start("deaf")
    desk.at_work(id)
    cancel_job(desk.store, id, ADA)
    job = desk.ended(id)
    assert (job.state, job.exit_code, job.starts) == ("cancelled", -signal.SIGTERM, 1)
    assert job.message == "the command was ended by signal 15 (Terminated)"


def test_a_job_that_is_cancelled_while_it_waits_is_never_started(desk, monkeypatch):
    run_jobs_with(monkeypatch, IDLE)  # it dies at once
    id = desk.start()
    assert (desk.job(id).state, desk.job(id).dead) == ("waiting", False)
    assert restart_dead_jobs(desk.store) == []  # its process may still be starting
    run_jobs_with(monkeypatch, TINY)
    desk.change(id, heartbeat=now() - 61)
    assert desk.job(id).dead
    cancel_job(desk.store, id, ADA)
    job = desk.ended(id)
    assert (job.state, job.exit_code, job.starts) == ("cancelled", None, 0)
    assert job.message == "it was cancelled while no command ran"
    assert desk.done() == []


# === Killed ===


def test_a_killed_command_is_restarted_and_resumes(desk):
    id = desk.start()
    os.kill(desk.at_work(id), signal.SIGKILL)
    desk.hurry()
    job = desk.ended(id)
    assert (job.state, job.exit_code, job.starts) == ("done", 0, 2)
    assert rows_of(desk) == list(range(3000))
    assert job.log.read_text(encoding="utf-8").count("bertcnn score\n") == 2


def test_only_one_of_two_servers_restarts_a_job_whose_process_was_killed(desk, monkeypatch):
    id = desk.start()
    command = desk.at_work(id)
    first = desk.job(id).pid
    kill_runner(desk, id)
    assert process_start(command) is not None  # nobody waits for it any more
    assert (desk.job(id).state, desk.job(id).dead) == ("running", True)

    assert asked_by_two_servers(desk, monkeypatch) == [[], [id]]
    gone(command)
    desk.hurry()
    job = desk.ended(id)
    assert (job.state, job.starts) == ("done", 2)
    assert job.pid != first
    # the first command had ended before the second one began
    assert rows_of(desk) == list(range(3000))
    assert restart_dead_jobs(desk.store) == []


def test_a_command_that_ends_without_its_process_is_not_run_again(desk):
    id = desk.start()
    command = desk.at_work(id)
    kill_runner(desk, id)
    desk.hurry()
    gone(command)
    assert (desk.job(id).state, desk.job(id).dead) == ("running", True)
    assert [job.id for job in restart_dead_jobs(desk.store)] == [id]
    job = desk.ended(id)
    assert (job.state, job.exit_code, job.starts) == ("done", 0, 1)
    assert rows_of(desk) == list(range(3000))


def test_a_dead_job_that_is_cancelled_ends_with_its_command(desk):
    id = desk.start()
    command = desk.at_work(id)
    kill_runner(desk, id)
    cancel_job(desk.store, id, ADA)
    job = desk.ended(id)
    assert (job.state, job.starts) == ("cancelled", 1)
    gone(command)


def test_a_job_outlives_the_server_that_started_it(desk):
    """Its whole process group is killed, as when a terminal closes."""
    program = (
        "import sys, time\nfrom bertcnn.review.jobs import jobs\n"
        "from bertcnn.review.people import Person\n"
        "from bertcnn.review.store import open_review\n"
        f"jobs._RUNNER = {jobs._RUNNER!r}\n"
        "job = jobs.start_job(open_review('review.db'), ['score', '3000', 'well'], Person('ada'))\n"
        "print(job.id, flush=True)\ntime.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as server:
        id = server.stdout.readline().strip()
        os.killpg(server.pid, signal.SIGKILL)
    desk.at_work(id)
    desk.hurry()
    job = desk.ended(id)
    assert (job.state, job.starts) == ("done", 1)
    assert rows_of(desk) == list(range(3000))


def test_a_process_whose_job_was_taken_over_ends_its_command(desk):
    id = desk.start()
    command = desk.at_work(id)
    runner = desk.job(id).pid
    desk.change(id, pid=1, pid_started=0.0)
    gone(command)
    gone(runner)
    job = desk.job(id)
    assert (job.state, job.exit_code, job.pid) == ("running", None, 1)


# === Which jobs are dead ===


def test_another_process_with_the_same_number_is_not_the_job(desk, monkeypatch):
    run_jobs_with(monkeypatch, IDLE)
    id = desk.start()
    mine = {"state": "running", "host": this_host(), "pid": os.getpid(), "heartbeat": now() - 999}
    desk.change(id, pid_started=process_start(os.getpid()), **mine)
    assert not desk.job(id).dead  # it may have been paused for a while
    desk.change(id, pid_started=process_start(os.getpid()) - 1.0, **mine)
    assert desk.job(id).dead


def test_a_process_on_another_host_is_judged_by_its_heartbeat(desk, monkeypatch):
    run_jobs_with(monkeypatch, IDLE)
    id = desk.start()
    other = {"state": "running", "host": "another host", "pid": 4_000_000, "pid_started": 1.0}
    desk.change(id, heartbeat=now() - 50, **other)
    assert not desk.job(id).dead
    assert restart_dead_jobs(desk.store) == []
    desk.change(id, heartbeat=now() - 70, folder=str(desk.folder / "on the other host"))
    assert desk.job(id).dead
    assert restart_dead_jobs(desk.store) == []
    with pytest.raises(OutputError, match="on the other host, which is not there; expected"):
        restart_job(desk.store, id, ADA)
    desk.change(id, heartbeat=now() - 70, state="running", folder=str(desk.folder))
    assert [job.id for job in restart_dead_jobs(desk.store)] == [id]


# === Wrong input ===


@pytest.mark.parametrize(
    "arguments",
    [
        "score",
        ["score", 3],
        ["score", Path("in.csv")],
        ["score", "a\0b"],
        [],
        ["classify", "model", "my router is dead"],
        ["qa", "ask", "model"],
        ["qa"],
        ["--version"],
        ["/bin/sh", "-c", "true"],
        ["score; true"],
    ],
)
def test_only_commands_without_tickets_as_arguments_may_be_jobs(desk, arguments):
    with pytest.raises(SettingsError, match=r"as a job; expected one of|not a list of texts"):
        start_job(desk.store, arguments, ADA)
    assert list_jobs(desk.store) == []


def test_unknown_jobs_are_refused(desk):
    for function in (job_status, cancel_job, restart_job, remove_job):
        given = () if function is job_status else (ADA,)
        with pytest.raises(StoreError, match=r"'nothing'; expected the name of a job in .*review"):
            function(desk.store, "nothing", *given)


def test_roles_limit_who_starts_and_changes_a_job(desk, monkeypatch):
    run_jobs_with(monkeypatch, IDLE)
    with pytest.raises(RoleError, match=r"has the role reviewer and wants to start retrain"):
        start_job(desk.store, ["retrain", "--out", "next"], ADA)
    with pytest.raises(RoleError, match="expected the role reviewer"):
        start_job(desk.store, ["score", "a", "b", "c"], Person("eve", "viewer"))
    id = desk.start()
    desk.change(id, state="failed", ended_at=now())
    for function in (cancel_job, restart_job, remove_job):
        with pytest.raises(
            RoleError, match=r"'bob' has the role reviewer .*; expected the role admin"
        ):
            function(desk.store, id, Person("bob", "reviewer"))
    remove_job(desk.store, id, Person("root"))
    assert list_jobs(desk.store) == []


def test_a_job_is_removed_with_its_files_once_it_has_ended(desk):
    folder, beside = jobs.new_folder(desk.store), desk.folder / "kept.csv"
    beside.touch()
    (folder / "hurry").touch()
    id = start_job(desk.store, ["score", "3", "well"], ADA, folder=folder).id
    job = desk.ended(id)
    assert job.folder == str(folder)
    assert (folder / "done").exists()
    remove_job(desk.store, id, ADA)
    assert not folder.exists()
    assert not job.log.exists()
    mine = desk.start()
    desk.at_work(mine)
    with pytest.raises(StoreError, match="is running; expected one that has ended"):
        remove_job(desk.store, mine, ADA)
    desk.hurry()
    desk.ended(mine)
    remove_job(desk.store, mine, ADA)  # it ran in a folder that is not the job's own
    assert beside.exists()


def test_without_room_for_a_log_no_job_is_kept(desk):
    Path(f"{desk.place}.jobs").write_text("in the way")
    with pytest.raises(OutputError, match="cannot be written"):
        desk.start()
    assert list_jobs(desk.store) == []


# === Lists and files ===


def test_a_job_whose_folder_is_not_there_has_failed_and_is_removed(desk):
    with pytest.raises(OutputError, match="which is not there; expected an existing folder"):
        start_job(desk.store, ["score", "3", "well"], ADA, folder=desk.folder / "no")
    (job,) = list_jobs(desk.store)
    assert (job.state, job.dead, job.exit_code) == ("failed", False, None)
    assert "which is not there" in job.message
    (desk.folder / "no").mkdir()
    assert restart_job(desk.store, job.id, ADA).state in ("waiting", "running")
    desk.hurry()
    (desk.folder / "no" / "hurry").touch()
    assert desk.ended(job.id).state == "done"
    remove_job(desk.store, job.id, ADA)
    assert list_jobs(desk.store) == []


def test_jobs_are_listed_newest_first_and_nobody_else_may_read_their_logs(desk, monkeypatch):
    run_jobs_with(monkeypatch, IDLE)
    names = [desk.start() for _ in range(3)]
    desk.change(names[1], state="done", ended_at=now())
    assert [job.id for job in list_jobs(desk.store)] == names[::-1]
    assert [job.id for job in list_jobs(desk.store, most=1)] == names[2:]
    assert [job.id for job in list_jobs(desk.store, states=["done"])] == [names[1]]
    log = desk.job(names[0]).log
    assert log.parent == Path(f"{desk.place}.jobs")
    assert (log.stat().st_mode & 0o777, log.parent.stat().st_mode & 0o777) == (0o600, 0o700)
