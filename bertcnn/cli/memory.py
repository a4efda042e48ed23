"""One-line messages for running out of memory.

Under a limit such as `ulimit -v`, libraries fail in many ways: they raise errors of any type, print
pages and exit, abort, or wait forever for a thread that could not start. A command therefore runs
in a child process there; the parent ends it if it is deadlocked, and reports how it ended.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from pathlib import Path
from types import TracebackType

from bertcnn.cli.console import Stream, tell
from bertcnn.cli.interrupts import TERMINATING
from bertcnn.errors import BertCNNError, one_line
from bertcnn.wording import memory_size

# bytes; below such a limit any unexpected error is taken for a lack of memory
_SMALL = 4_000_000_000
# bytes; below such a limit OpenBLAS fails to start threads and raises SIGINT in its process
_TINY = 1_000_000_000
_NO_SYMBOL = 127  # exit code of the dynamic loader when it has no memory for a symbol
_WORDS = (
    "bad_alloc",
    "can't alloc",
    "allocat",
    "failed to map segment",
    "can't start new thread",
    "out of memory",
    "OOM when",
    "Resource temporarily",
)
_FORWARDED = (signal.SIGINT, *TERMINATING)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error, or one of its causes, is a lack of memory or of threads."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError) or (
            isinstance(cause, OSError) and cause.errno == errno.ENOMEM
        ):
            return True
        if any(word in str(cause) for word in _WORDS):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def out_of_memory(detail: str = "") -> BertCNNError:
    """The error for a command that runs out of memory; `detail` is a library's own message."""
    limit = memory_limit()
    given = (
        f"out of memory: this process may use {memory_size(limit)}, a limit set by ulimit or"
        " prlimit"
        if limit
        else "out of memory"
    )
    return BertCNNError(
        given + (f" ({one_line(detail, 160)})" if detail else ""),
        expected="enough memory for the libraries, the rows and the computation",
        fix=(
            "raise the limit, or give fewer rows"
            if limit
            else "close other programs, or give fewer rows"
        ),
    )


def supervise(patience: float = 10.0) -> None:
    """Under a memory limit, continue in a child process and report in this one how it ends.

    Without a limit, do nothing.

    Args:
        patience: Seconds; a child whose threads all wait for locks is killed after one to two
            times as long.
    """
    if memory_limit() is None or sys.platform == "win32" or not hasattr(signal, "sigtimedwait"):
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (*_FORWARDED, signal.SIGCHLD))
    try:
        child = os.fork()
    except OSError:  # no memory for a child process either
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return
    if child:
        sys.exit(_wait_for(child, patience))
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    _hide_complaints()


def memory_limit() -> int | None:
    """The memory limit of this process in bytes, if it has one."""
    if sys.platform == "win32":
        return None
    import resource

    limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    return min((limit for limit in limits if limit != resource.RLIM_INFINITY), default=None)


def _wait_for(child: int, patience: float) -> int:
    """Forward signals to the child until it ends; returns the exit code to use."""
    stuck: list[str] = []
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        received = signal.sigtimedwait((*_FORWARDED, signal.SIGCHLD), patience)
        if received is None:
            before, stuck = stuck, _lock_waits(child)
            if stuck and stuck == before:
                os.kill(child, signal.SIGKILL)
        # signals from the terminal reach the child anyway
        elif received.si_signo in _FORWARDED and received.si_pid:
            os.kill(child, received.si_signo)
    code = os.waitstatus_to_exitcode(status)
    if code in (1, _NO_SYMBOL) or -code in (
        signal.SIGABRT,
        signal.SIGSEGV,
        signal.SIGBUS,
        signal.SIGKILL,
        signal.SIGILL,
        signal.SIGFPE,
    ):
        tell(
            "bertcnn:"
            f" {out_of_memory('' if code > 0 else f'ended by {signal.Signals(-code).name}')}"
        )
        return 2
    return code if code >= 0 else 128 - code


def _lock_waits(child: int) -> list[str]:
    """Each thread with the time it has run, if all threads of the child wait for locks.

    If that is the same later on, no thread is left to release a lock. Empty where a thread runs,
    reads, writes or sleeps, and on systems that do not show it.
    """
    threads = sorted(Path(f"/proc/{child}/task").glob("*"))
    try:
        if any("futex" not in (thread / "wchan").read_text() for thread in threads):
            return []
        return [f"{thread.name} {(thread / 'schedstat').read_text()}" for thread in threads]
    except OSError:  # a thread has ended, or the system has no such files
        return []


def _hide_complaints() -> None:
    """Hide the libraries' own messages on standard error; print unexpected errors in one line."""
    if sys.stderr is not None:
        kept = os.dup(2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        sys.stderr = Stream(kept, sys.stderr, is_output=False)
    if (memory_limit() or _SMALL) < _TINY:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.excepthook = _tell_error
    sys.unraisablehook = lambda _: None
    threading.excepthook = lambda _: None


def _tell_error(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    limit = memory_limit()
    try:
        if (limit is None or limit >= _SMALL) and not is_out_of_memory(error):
            sys.__excepthook__(kind, error, trace)
        else:
            tell(f"bertcnn: {out_of_memory(f'{kind.__name__}: {error}')}")
    except MemoryError:  # no memory for the message; the parent prints it
        os._exit(1)
    os._exit(2)
