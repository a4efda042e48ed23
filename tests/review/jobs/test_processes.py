"""Processes that run, have ended, or were orphaned by their leader."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from bertcnn.review.jobs.processes import kill_group, own_start, process_start, this_host


@pytest.fixture
def sleeper():
    """A process with a child, in a session of their own."""
    program = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(60)'])\n"
        "print(child.pid, flush=True)\ntime.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-S", "-c", program],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        child = int(process.stdout.readline())
        yield process, child
        process.kill()
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def ended(pid):
    end = time.monotonic() + 20
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def test_a_process_starts_when_psutil_says(sleeper):
    process, child = sleeper
    for pid in (os.getpid(), process.pid, child):
        expected = psutil.Process(pid).create_time() - psutil.boot_time()
        assert process_start(pid) == pytest.approx(expected, abs=1.0)
    assert process_start(os.getpid()) <= process_start(process.pid) <= process_start(child)
    assert own_start() == process_start(os.getpid())


def test_a_process_that_has_ended_has_no_start(sleeper):
    process, _ = sleeper
    process.kill()
    end = time.monotonic() + 20
    while psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < end
    assert process_start(process.pid) is None
    process.wait()
    assert process_start(process.pid) is None


def test_orphans_of_a_dead_leader_are_ended(sleeper):
    process, child = sleeper
    kill_group(process.pid)
    assert process.poll() is None  # it runs, so its number belongs to no dead process
    process.kill()
    process.wait()
    assert process_start(child) is not None
    kill_group(process.pid)
    assert ended(child)
    kill_group(process.pid)  # nothing is left


@pytest.mark.skipif(not Path("/proc/self/ns/pid").exists(), reason="Linux only")
def test_a_container_is_another_host():
    name, namespace = this_host().rsplit(" ", 1)
    assert name == socket.gethostname()
    assert namespace == str(Path("/proc/self/ns/pid").readlink())
