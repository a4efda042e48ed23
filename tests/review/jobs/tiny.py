"""Replaces the program in the tests of jobs: a command that needs no model.

    python tiny.py run STORE ID                          `python -m bertcnn.review.jobs`, quicker
    python tiny.py command COMMAND ROWS HOW <> RECORD    `bertcnn COMMAND`

For each row, the command adds a line to the file "done" of its folder; it resumes where it stopped.
It runs slowly until a file "hurry" exists.
"""

import os
import signal
import sys
import time
from pathlib import Path

AT_ONCE = 10  # rows that are done before the command asks to be restarted
SIGNALS = ((0.0, "SIGINT"), (0.5, "SIGTERM"), (5.0, "SIGKILL"))


def run(place, id):
    """Run a job with this command."""
    from bertcnn.review.jobs import runner
    from bertcnn.review.store import open_review

    runner._PROGRAM = (sys.executable, __file__, "command")
    runner._POLL, runner._HEARTBEAT, runner._SIGNALS = 0.1, 0.2, SIGNALS
    runner.run_job(open_review(place, create=False), id)


def command(rows, how):
    """Process the rows."""
    from bertcnn.cli import progress
    from bertcnn.cli.console import print_message

    if how == "badly":
        print_message(f"bertcnn: no tickets in {os.environ['BERTCNN_STORE']}; expected some")
        sys.exit(2)
    if how == "unexpectedly":
        raise ValueError("my router is dead")
    progress._SECONDS_BETWEEN_LINES = 0.05
    done, hurry = Path("done"), Path("hurry")
    before = len(done.read_text().splitlines()) if done.exists() else 0
    try:
        with progress.PlainProgress() as told, done.open("a") as file:
            if how == "deaf":
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
            told.stage("scoring", rows - before, "rows")
            for row in range(before, rows):
                print(f"{os.getpid()} {row}", file=file, flush=True)
                told.advance(1, rows_per_second=50.0)
                if how == "fatally":
                    os.kill(os.getpid(), signal.SIGKILL)
                if how == "again" and row + 1 - before == AT_ONCE:
                    sys.exit(75)
                if not hurry.exists():
                    time.sleep(0.02)
    except KeyboardInterrupt:
        print_message("\nbertcnn: interrupted; the same command continues from there.")
        sys.exit(130)


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run(*sys.argv[2:])
    else:
        from bertcnn.review.jobs.command import run_recorded

        run_recorded(lambda: command(int(sys.argv[3]), sys.argv[4]))
