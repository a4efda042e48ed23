"""Checks whether a process still runs, even if its number was reused."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import suppress

import psutil


def this_host() -> str:
    """A name of this machine, different for each container because of its own process numbers."""
    try:
        namespace = f" {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115 - no file
    except OSError:
        namespace = ""
    return socket.gethostname() + namespace


def process_start(pid: int) -> float | None:
    """A process's start, in seconds since boot (independent of the clock); None if it has ended."""
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
    """Kill the rest of a group whose leader has ended; its number cannot be reused before that."""
    if hasattr(os, "killpg") and process_start(leader) is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)
