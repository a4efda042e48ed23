"""Fixtures for the tests of jobs."""

import time

import pytest

from bertcnn.review.jobs import jobs
from bertcnn.review.people import Person
from bertcnn.review.schema import job as job_table
from bertcnn.review.store import open_review
from tests.cli.conftest import run  # noqa: F401 - a fixture
from tests.review.conftest import postgres  # noqa: F401
from tests.review.jobs.runners import TINY, run_jobs_with

ADA = Person("ada", "reviewer")
_PATIENCE = 60.0  # seconds; other tests may keep the machine busy


class Desk:
    """A store in a folder of its own, with helpers to inspect its jobs."""

    def __init__(self, folder, place):
        self.folder, self.place, self.store = folder, place, open_review(place)

    def start(self, how="well", rows=3000):
        """Start the tiny command."""
        return jobs.start_job(self.store, ["score", str(rows), how], ADA).id

    def hurry(self):
        """Let commands run without delays."""
        (self.folder / "hurry").touch()

    def job(self, id):
        return jobs.job_status(self.store, id)

    def until(self, id, holds):
        """Wait until a condition holds for the job; returns the job."""
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            job = self.job(id)
            if holds(job):
                return job
            time.sleep(0.05)
        raise AssertionError(f"it never came to that: {job}\n{job.log.read_text()}")

    def ended(self, id):
        return self.until(id, lambda job: job.ended_at is not None)

    def done(self):
        """The lines written by commands: their process and the row."""
        file = self.folder / "done"
        return [line.split() for line in file.read_text().splitlines()] if file.exists() else []

    def at_work(self, id, rows=3):
        """The command's process, once it has done some rows."""
        self.until(id, lambda job: job.state == "running" and len(self.done()) >= rows)
        return int(self.done()[-1][0])

    def change(self, id, **values):
        """Change a job's row in the store."""
        with self.store.writing() as connection:
            connection.execute(job_table.update().where(job_table.c.id == id).values(**values))


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """A store whose jobs run tiny commands in its folder."""
    run_jobs_with(monkeypatch, TINY)
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path, tmp_path / "review.db")
