"""Ctrl-C stops at the next progress report; pressed twice, it stops at once.

Each case runs in a process of its own, which the signal may end.
"""

import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
import os, signal
from bertcnn.cli.progress import PlainProgress, RichProgress

# a shell may have started this with Ctrl-C ignored
signal.signal(signal.SIGINT, signal.default_int_handler)

def press_ctrl_c():
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000):  # Python handles signals between its own steps
        pass

def work(progress):
{work}

try:
    with {kind}() as progress:
        work(progress)
    print("nothing was raised")
except KeyboardInterrupt:
    print("raised")
print("as before" if signal.getsignal(signal.SIGINT) is signal.default_int_handler else "changed")
"""


def said(kind, work):
    """The standard output of the work's process."""
    program = PROGRAM.format(kind=kind, work=textwrap.indent("\n".join(work), "    "))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return [
        line
        for line in done.stdout.splitlines()
        if line in ("reached", "went on", "raised", "nothing was raised", "as before")
    ]


@pytest.mark.parametrize("kind", ["PlainProgress", "RichProgress"])
@pytest.mark.parametrize(
    "sign",
    [
        "progress.advance(1)",
        "progress.stage('more work', 10)",
        "pass  # leaving the block is a sign too",
    ],
)
def test_it_is_raised_at_the_next_sign_of_progress(kind, sign):
    after = [] if sign.startswith("pass") else ["print('went on')"]
    work = ["progress.stage('working', 10)", "press_ctrl_c()", "print('reached')", sign, *after]
    assert said(kind, work) == ["reached", "raised", "as before"]


@pytest.mark.parametrize("kind", ["PlainProgress", "RichProgress"])
def test_nothing_is_raised_without_one(kind):
    assert said(kind, ["progress.stage('working', 2)", "progress.advance(2)"]) == [
        "nothing was raised",
        "as before",
    ]


def test_pressed_twice_it_stops_at_once():
    assert said(
        "PlainProgress",
        ["press_ctrl_c()", "print('reached')", "press_ctrl_c()", "print('went on')"],
    ) == [
        "reached",
        "raised",
        "as before",
    ]
