"""Which processes still run, also when another one has got the number of one that has ended."""

from __future__ import annotations

import calendar
import os
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")  # on Linux
_ENDED = "ZX"  # states of processes that have ended and whose parent has not asked yet


def this_host() -> str:
    """A name of this machine; containers have their own process numbers, and another name."""
    try:
        namespace = f" {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115 - no file
    except OSError:
        namespace = ""
    return socket.gethostname() + namespace


def process_start(pid: int) -> float | None:
    """When the process of this number has started; None if there is none.

    Only equality means something: on Linux these are seconds since the system has started, which
    stay the same when the clock is set.

    Raises:
        NotImplementedError: the system does not say.
    """
    if not (_PROC / "self" / "stat").exists():
        return _start_by_ps(pid)
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # proc_pid_stat(5): the name may have spaces and brackets; state is field 3, starttime field 22
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in _ENDED else int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _start_by_ps(pid: int) -> float | None:
    """The same on macOS and BSD, in whole seconds since 1970."""
    try:
        shown = subprocess.run(
            ["ps", "-o", "state=", "-o", "lstart=", "-p", str(pid)],
            env={**os.environ, "LC_ALL": "C", "TZ": "UTC"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        ).stdout.split()
    except OSError:
        raise NotImplementedError("neither /proc nor ps") from None
    if not shown or shown[0][0] in _ENDED:
        return None
    return calendar.timegm(time.strptime(" ".join(shown[1:]), "%a %b %d %H:%M:%S %Y"))


def own_start() -> float:
    """The start of this process; where the system does not say, the present time."""
    try:
        return process_start(os.getpid()) or time.time()
    except NotImplementedError:
        return time.time()


def kill_group(leader: int) -> None:
    """Kill what is left of the process group of a process that is gone.

    As long as something is left of it, no new process gets its number.
    """
    with suppress(NotImplementedError):
        if hasattr(os, "killpg") and process_start(leader) is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(leader, signal.SIGKILL)
