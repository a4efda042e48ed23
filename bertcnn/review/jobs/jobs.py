"""Start, watch, cancel and restart jobs, from any process that opens the store.

Jobs outlive the process that started them. Call `restart_dead_jobs` when a server starts, because a
reboot or a service manager may have ended them.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import URL, delete, insert, select, update

from bertcnn.errors import OutputError, StoreError, one_line
from bertcnn.review.jobs.job import COMMANDS, Job, JobState, checked_arguments, command_of
from bertcnn.review.jobs.processes import process_start, this_host
from bertcnn.review.jobs.progress import JobProgress
from bertcnn.review.people import Person
from bertcnn.review.schema import job as job_table
from bertcnn.review.store import ReviewStore, now
from bertcnn.storage import cache_folder, output_error

# -P: ignore modules in the working directory
_RUNNER: tuple[str | Path, ...] = (sys.executable, "-P", "-m", "bertcnn.review.jobs")
_SILENCE = 60.0  # seconds without a heartbeat; used if a process cannot be checked
_OPEN = ("waiting", "running")
UPLOADS = "uploads"  # subfolder of a job's folder


def new_folder(store: ReviewStore) -> Path:
    """Create a folder for a job's files, removed by `remove_job`; OutputError if that fails.

    Its subfolder `uploads` is removed as soon as the job is done, so that no copy keeps the text of
    a ticket that is erased later.
    """
    folder = jobs_folder(store) / secrets.token_hex(6)
    try:
        folder.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise output_error(folder, error) from None
    return folder


def start_job(
    store: ReviewStore,
    arguments: Sequence[str],
    person: Person,
    *,
    folder: str | os.PathLike[str] | None = None,
) -> Job:
    """Run a bertcnn command as a background process.

    Args:
        store: keeps the job.
        arguments: of the command `bertcnn`, such as `["score", "model", "in.csv", "out.csv"]`; see
            `bertcnn.review.jobs.job.COMMANDS`. Leave out the store and passwords: the command finds
            the store, its default, and a password in its environment.
        person: an admin for training; at least a reviewer for other commands.
        folder: working directory; by default the current one.

    Raises:
        RoleError: the person may not start it.
        SettingsError: they are not texts, or of a command that may not be a job.
        OutputError: its log cannot be written.
    """
    checked = checked_arguments(arguments)
    command = command_of(checked) or ""
    person.needs(COMMANDS[command], f"start {command}")
    id, at = secrets.token_hex(6), now()
    directory = str(Path.cwd() if folder is None else Path(folder).resolve())
    row = {
        "id": id,
        "arguments": checked,
        "folder": directory,
        "actor": person.name,
        "state": "waiting",
        "created_at": at,
        "heartbeat": at,
        "starts": 0,
        "progress": {},
        "message": "",
        "cancelled": False,
    }
    os.close(_opened_log(store, id))
    with store.writing() as connection:
        connection.execute(insert(job_table).values(**row))
    _run(store, id, directory)
    return job_status(store, id)


def list_jobs(
    store: ReviewStore, *, states: Sequence[JobState] | None = None, most: int = 100
) -> list[Job]:
    """The latest jobs, newest first; optionally only those in some states."""
    query = select(job_table).order_by(job_table.c.created_at.desc(), job_table.c.id).limit(most)
    if states is not None:
        query = query.where(job_table.c.state.in_(states))
    with store.reading() as connection:
        rows = connection.execute(query).all()
    return [_job(store, row) for row in rows]


def job_status(store: ReviewStore, id: str) -> Job:
    """A job's current state; StoreError for an unknown id."""
    return _job(store, _row(store, id))


def cancel_job(store: ReviewStore, id: str, person: Person) -> Job:
    """Stop a job as Ctrl-C does; an ended job stays unchanged.

    The command stops at its next step, or by a signal after a minute. Its results are kept, and
    `restart_job` resumes it.

    Raises:
        RoleError: it is somebody else's, and the person is not an admin.
        StoreError: the id is unknown.
    """
    _needs(person, _row(store, id), "cancel")
    with store.writing() as connection:
        connection.execute(
            update(job_table)
            .where(job_table.c.id == id, job_table.c.state.in_(_OPEN))
            .values(cancelled=True)
        )
    row = _row(store, id)
    if _is_dead(row):  # its next process sees the cancellation
        _restart(store, row)
    return job_status(store, id)


def restart_job(store: ReviewStore, id: str, person: Person) -> Job:
    """Restart a job that failed, was cancelled or lost its process.

    Raises:
        RoleError: it is somebody else's, and the person is not an admin.
        StoreError: the id is unknown, or the job runs or is done.
    """
    row = _row(store, id)
    _needs(person, row, "restart")
    if row.state not in ("failed", "cancelled") and not _is_dead(row):
        raise StoreError(
            f"the job {id} is {row.state}",
            expected="one that has failed, was cancelled, or whose process is gone",
            fix="cancel it first" if row.state in _OPEN else "start another one",
        )
    if row.state not in _OPEN:
        exit_record(store, id).unlink(missing_ok=True)
    _restart(store, row, cancelled=False, ended_at=None, exit_code=None, message="", progress={})
    return job_status(store, id)


def remove_job(store: ReviewStore, id: str, person: Person) -> None:
    """Remove an ended job with its log and its folder from `new_folder`.

    Raises:
        RoleError: it is somebody else's, and the person is not an admin.
        StoreError: the id is unknown, or the job has not ended.
    """
    row = _row(store, id)
    _needs(person, row, "remove")
    with store.writing() as connection:
        ended = (job_table.c.id == id) & job_table.c.state.not_in(_OPEN)
        removed = connection.execute(delete(job_table).where(ended)).rowcount
    if not removed:
        raise StoreError(
            f"the job {id} is {row.state}", expected="one that has ended", fix="cancel it first"
        )
    for file in (log_file(store, id), exit_record(store, id)):
        file.unlink(missing_ok=True)
    if _is_own(store, row.folder):
        shutil.rmtree(row.folder, ignore_errors=True)


def remove_uploads(store: ReviewStore, folder: str) -> None:
    """Remove the uploads in a job's folder; see `new_folder`."""
    if _is_own(store, folder):
        shutil.rmtree(Path(folder, UPLOADS), ignore_errors=True)


def _is_own(store: ReviewStore, folder: str) -> bool:
    return Path(folder).parent == jobs_folder(store).resolve()


def restart_dead_jobs(store: ReviewStore) -> list[Job]:
    """Restart jobs whose processes are gone; returns the jobs started by this call.

    Their commands resume. Each job is started once, even if several servers call this at the same
    time. A job of another host is skipped, unless its working directory exists on this one.
    """
    query = select(job_table).where(job_table.c.state.in_(_OPEN)).order_by(job_table.c.created_at)
    with store.reading() as connection:
        rows = connection.execute(query).all()
    return [
        job_status(store, row.id)
        for row in rows
        if _is_dead(row) and Path(row.folder).is_dir() and _restart(store, row)
    ]


def jobs_folder(store: ReviewStore) -> Path:
    """The folder of the jobs' logs and files: next to a store file, else in the cache."""
    return cache_folder() / "jobs" if "://" in store.name else Path(f"{store.name}.jobs")


def log_file(store: ReviewStore, id: str) -> Path:
    """The log of a job."""
    return jobs_folder(store) / f"{id}.log"


def exit_record(store: ReviewStore, id: str) -> Path:
    """The file with the exit code of a job's command."""
    return log_file(store, id).with_suffix(".exit")


# === Rows ===


def _needs(person: Person, row: Any, action: str) -> None:  # noqa: ANN401 - a row of SQLAlchemy's
    person.needs("reviewer" if row.actor == person.name else "admin", f"{action} this job")


def _row(store: ReviewStore, id: str) -> Any:  # noqa: ANN401 - a row of SQLAlchemy's
    with store.reading() as connection:
        row = connection.execute(select(job_table).where(job_table.c.id == id)).one_or_none()
    if row is None:
        raise StoreError(
            f"the job {one_line(id)}",
            expected=f"the name of a job in {store.name}",
            fix="list them with: bertcnn jobs list",
        )
    return row


def _job(store: ReviewStore, row: Any) -> Job:  # noqa: ANN401
    return Job(
        id=row.id,
        arguments=tuple(row.arguments),
        folder=row.folder,
        actor=row.actor,
        state=row.state,
        dead=_is_dead(row),
        cancelled=row.cancelled,
        created_at=row.created_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        starts=row.starts,
        exit_code=row.exit_code,
        message=row.message,
        host=row.host,
        pid=row.pid,
        log=log_file(store, row.id),
        progress=JobProgress(**row.progress),
    )


def _is_dead(row: Any) -> bool:  # noqa: ANN401
    if row.state not in _OPEN:
        return False
    if row.state == "running" and row.host == this_host():
        return process_start(row.pid) != row.pid_started
    return now() - row.heartbeat > _SILENCE


def _restart(store: ReviewStore, row: Any, **values: object) -> bool:  # noqa: ANN401
    """Give a job a new process, unless its row has changed since it was read."""
    unchanged = (
        job_table.c.id == row.id,
        job_table.c.state == row.state,
        job_table.c.heartbeat == row.heartbeat,
    )
    with store.writing() as connection:
        # the row keeps the old process, whose command may still run
        taken = connection.execute(
            update(job_table).where(*unchanged).values(state="waiting", heartbeat=now(), **values)
        )
    if taken.rowcount:
        _run(store, row.id, row.folder)
    return bool(taken.rowcount)


# === Processes ===


def _run(store: ReviewStore, id: str, folder: str) -> None:
    """Start the process of a job, which outlives this one."""
    address, environment = _address(store)
    log = _opened_log(store, id)
    try:
        process = subprocess.Popen(
            [*_RUNNER, address, id],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            cwd=folder,
            env={**os.environ, **environment, "BERTCNN_STORE": address},
            start_new_session=True,
        )
    except (FileNotFoundError, NotADirectoryError):
        missing = OutputError(
            f"the job {id} runs in {folder}, which is not there",
            expected="an existing folder",
            fix="make it, or start the job again from another folder",
        )
        _fail(store, id, str(missing))
        raise missing from None
    finally:
        os.close(log)
    # reaps the ended process; its exit code is not used
    threading.Thread(target=process.wait, daemon=True, name=f"bertcnn-job-{id}").start()


def _fail(store: ReviewStore, id: str, message: str) -> None:
    """Record that a job got no process, so that it can be restarted or removed."""
    with store.writing() as connection:
        connection.execute(
            update(job_table)
            .where(job_table.c.id == id, job_table.c.state == "waiting")
            .values(state="failed", ended_at=now(), message=message)
        )


def _opened_log(store: ReviewStore, id: str) -> int:
    log = log_file(store, id)
    try:
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError as error:
        raise output_error(log, error) from None


def _address(store: ReviewStore) -> tuple[str, dict[str, str]]:
    """The store's address and the environment with its password, which other users cannot see."""
    if "://" not in store.name:
        return store.name, {}
    with store.reading() as connection:
        url = connection.engine.url
    public = URL.create(
        "postgresql", url.username, None, url.host, url.port, url.database, url.query
    )
    password = {} if url.password is None else {"PGPASSWORD": url.password}
    return public.render_as_string(), password
