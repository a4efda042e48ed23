"""Programs that run the jobs of tests instead of `python -m bertcnn.review.jobs`."""

import sys
from pathlib import Path

from bertcnn.review.jobs import jobs

TINY = (sys.executable, str(Path(__file__).with_name("tiny.py")), "run")
IDLE = (sys.executable, "-S", "-c", "")  # ends before it takes the job


def run_jobs_with(monkeypatch, runner):
    """Let this program run the jobs that this process starts."""
    monkeypatch.setattr(jobs, "_RUNNER", runner)
