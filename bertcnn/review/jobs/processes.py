"""Which processes still run, even when the number of one that ended belongs to another."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import suppress

import psutil


def this_host() -> str:
    """A name of this machine; containers have their own process numbers, and another name."""
    try:
        namespace = f" {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115 - no file
    except OSError:
        namespace = ""
    return socket.gethostname() + namespace


def process_start(pid: int) -> float | None:
    """Seconds from the start of the system to that of a process; None if it has ended.

    They stay the same when the clock is set.
    """
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return round(process.create_time() - psutil.boot_time(), 2)
    except psutil.NoSuchProcess:
        return None


def own_start() -> float:
    """The start of this process; see `process_start`."""
    return process_start(os.getpid()) or 0.0


def kill_group(leader: int) -> None:
    """Kill the remaining processes of a group whose leader has ended.

    As long as one remains, no new process gets the leader's number.
    """
    if hasattr(os, "killpg") and process_start(leader) is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)
