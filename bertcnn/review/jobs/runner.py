"""The process of a job: runs its command, records its progress, and restarts it if needed.

The command writes its own log. If this process is killed, the command continues until the next
process of the job ends and resumes it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from sqlalchemy import and_, select, update

from bertcnn.errors import BertCNNError
from bertcnn.review.jobs.command import clear, recorded
from bertcnn.review.jobs.job import command_of
from bertcnn.review.jobs.jobs import exit_record, log_file, remove_uploads
from bertcnn.review.jobs.processes import kill_group, own_start, this_host
from bertcnn.review.jobs.progress import JobProgress, last_message, read_progress, results
from bertcnn.review.schema import job as job_table
from bertcnn.review.store import ReviewStore, now
from bertcnn.storage import try_lock

_PROGRAM: tuple[str | Path, ...] = (sys.executable, "-P", "-m", "bertcnn.review.jobs.command")
_RUN_AGAIN = 75  # exit code: the same command resumes
_RESTARTS = 3
_PATIENCE = 5.0  # seconds to wait for another process of the job to end
_POLL = 1.0  # seconds
_HEARTBEAT = 5.0  # seconds
# seconds after SIGINT: a step of a command may compile for a minute
_SIGNALS = ((0.0, "SIGINT"), (60.0, "SIGTERM"), (70.0, "SIGKILL"))
_WINDOWS_SIGNALS = ((0.0, "SIGTERM"),)
_LONGEST_MESSAGE = 600
_END_OF_LOG = 1 << 16  # bytes


def run_job(store: ReviewStore, id: str) -> None:
    """Run a job to its end, unless another process has it."""
    with store.reading() as connection:
        row = connection.execute(select(job_table).where(job_table.c.id == id)).one_or_none()
    if row is None or row.state != "waiting":
        return
    record = _locked(exit_record(store, id), row)
    if record is None:
        return
    started = own_start()
    owner: dict[str, object] = {"pid": os.getpid(), "pid_started": started, "host": this_host()}
    with store.writing() as connection:
        taken = connection.execute(
            update(job_table)
            .where(job_table.c.id == id, job_table.c.state == "waiting")
            .values(state="running", heartbeat=now(), started_at=row.started_at or now(), **owner)
        )
    if not taken.rowcount:
        return
    run = _Run(store, row, record, started)
    code = recorded(record)  # the command may have ended after its parent
    for _ in range(1 + _RESTARTS):
        if run.is_stopped() or not (code is None or code == _RUN_AGAIN or code < 0):
            break
        code = run.command()
    run.close(code)


def _locked(path: Path, row: Any) -> int | None:  # noqa: ANN401 - a row of SQLAlchemy's
    """The record of a job, locked while this process or its command lives.

    Remaining processes of the previous run are killed first. None if the lock is still held, for
    example by another host that has not yet noticed the loss of the job.
    """
    record = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    until = time.monotonic() + _PATIENCE
    while not try_lock(record):
        if time.monotonic() > until:
            os.close(record)
            return None
        if row.pid is not None and row.host == this_host():
            kill_group(row.pid)
        time.sleep(0.1)
    return record


class _Run:
    """A job owned by this process: no other process changes its row or runs its command."""

    def __init__(self, store: ReviewStore, row: Any, record: int, started: float) -> None:  # noqa: ANN401
        self._store, self._record, self._arguments = store, record, list(row.arguments)
        self._log, self._folder = log_file(store, row.id), row.folder
        self._mine = and_(
            job_table.c.id == row.id,
            job_table.c.state == "running",
            job_table.c.pid == os.getpid(),
            job_table.c.pid_started == started,
        )
        self._cancelled, self._lost = bool(row.cancelled), False
        self._progress = JobProgress(**row.progress)
        self._said_from = 0  # offset in the log of the command's last start
        self._last_beat = time.monotonic()

    def is_stopped(self) -> bool:
        """Whether the job was cancelled or given to another process."""
        with suppress(BertCNNError):  # the store is busy: retry later
            self._look()
        return self._cancelled or self._lost

    def command(self) -> int:
        """Run the command; returns its exit code, negative after a signal."""
        clear(self._record)
        self._progress = JobProgress()
        self._write(starts=job_table.c.starts + 1, progress={})
        # a handler, because the command would inherit "ignored", as in a shell's background
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with self._log.open("ab") as log, self._log.open("rb") as said:
            self._said_from = said.seek(0, os.SEEK_END)
            at = datetime.now(UTC).isoformat(" ", "seconds")
            log.write(f"== {at} bertcnn {command_of(self._arguments)}\n".encode())
            log.flush()
            child = subprocess.Popen(
                [*_PROGRAM, *self._arguments],
                stdin=self._record,
                stdout=subprocess.DEVNULL,  # reports, which may quote tickets
                stderr=log,
                env={**os.environ, "TYPER_USE_RICH": "0"},  # one-line error messages
            )
            return self._watch(child, said)

    def _watch(self, child: subprocess.Popen[bytes], said: IO[bytes]) -> int:
        """Wait for the command's end; stop it if the job was cancelled or lost."""
        stopped_at, sent, line = None, 0, b""
        signals = _WINDOWS_SIGNALS if os.name == "nt" else _SIGNALS
        while True:
            with suppress(subprocess.TimeoutExpired):
                child.wait(_POLL)
            *lines, line = (line + said.read()).split(b"\n")
            self._tell(lines)
            if child.returncode is not None:
                return child.returncode
            if self.is_stopped():
                if self._lost:  # another process runs the command
                    child.kill()
                stopped_at = stopped_at or time.monotonic()
                if sent < len(signals) and time.monotonic() - stopped_at >= signals[sent][0]:
                    child.send_signal(signal.Signals[signals[sent][1]])
                    sent += 1

    def _tell(self, lines: Sequence[bytes]) -> None:
        before = self._progress
        for line in lines:
            self._progress = read_progress(line.decode("utf-8", "replace"), self._progress)
        if self._progress != before or time.monotonic() - self._last_beat >= _HEARTBEAT:
            with suppress(BertCNNError):
                self._write(progress=asdict(self._progress))
                self._last_beat = time.monotonic()

    def close(self, code: int | None) -> None:
        """Store how the command has ended."""
        if self._lost:
            return
        end: dict[str, object] = {"exit_code": code, "ended_at": now()}
        if code == 0:
            progress = {**asdict(self._progress), "share": 1.0}
            message = results(self._said())[:_LONGEST_MESSAGE]
            remove_uploads(self._store, self._folder)
            self._write(state="done", progress=progress, message=message, **end)
        else:
            state = "cancelled" if self._cancelled else "failed"
            self._write(state=state, message=self._message(code), **end)

    def _message(self, code: int | None) -> str:
        if code is None:
            return "it was cancelled while no command ran"
        said = last_message(self._said())
        if code < 0 and not (self._cancelled and said):
            return f"the command was ended by signal {-code} ({signal.strsignal(-code)})"
        return said[:_LONGEST_MESSAGE] or f"the command ended with code {code}: see its log"

    def _said(self) -> str:
        """The end of what the command has said since its last start."""
        with self._log.open("rb") as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(self._said_from, end - _END_OF_LOG))
            return log.read().decode("utf-8", "replace")

    def _look(self) -> None:
        with self._store.reading() as connection:
            row = connection.execute(select(job_table.c.cancelled).where(self._mine)).one_or_none()
        self._lost = row is None
        self._cancelled = row is not None and bool(row.cancelled)

    def _write(self, **values: object) -> None:
        with self._store.writing() as connection:
            connection.execute(
                update(job_table).where(self._mine).values(heartbeat=now(), **values)
            )
