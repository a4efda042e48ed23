"""Running out of memory, told in one line.

Below a limit such as `ulimit -v`, libraries fail in many ways: they raise errors of any type, print
pages and exit, or abort. So a command runs in a child process there, and this one tells how it has
ended.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from types import TracebackType

from bertcnn.cli.console import tell
from bertcnn.errors import BertCNNError, one_line
from bertcnn.wording import memory_size

# bytes; below such a limit any error that nobody has foreseen is for want of memory
_SMALL = 4_000_000_000
# bytes; below such a limit OpenBLAS gets no threads, and sends its process the signal of Ctrl-C
_TINY = 1_000_000_000
_NO_SYMBOL = 127  # how the dynamic loader ends a process in which it finds no room for a symbol
_WORDS = (
    "bad_alloc",
    "allocat",
    "failed to map segment",
    "can't start new thread",
    "out of memory",
    "OOM when",
    "Resource temporarily",
)
_FORWARDED = (signal.SIGINT, signal.SIGTERM)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error, or one that it came from, is of memory or of threads that cannot be had."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, MemoryError) or (
            isinstance(found, OSError) and found.errno == errno.ENOMEM
        ):
            return True
        if any(word in str(found) for word in _WORDS):
            return True
        found = found.__cause__ or found.__context__
    return False


def out_of_memory(detail: str = "") -> BertCNNError:
    """The error for a command that does not get the memory it needs.

    `detail` is what a library said.
    """
    limit = _limit()
    given = (
        f"out of memory: this process may use {memory_size(limit)}, a limit set by ulimit or"
        " prlimit"
        if limit
        else "out of memory"
    )
    return BertCNNError(
        given + (f" ({one_line(detail, 160)})" if detail else ""),
        expected="room for the libraries, the rows and what is computed of them",
        fix=(
            "raise the limit, or give fewer rows"
            if limit
            else "end other programs, or give fewer rows"
        ),
    )


def supervise() -> None:
    """Where memory is limited, go on in a child process, whose end this one tells.

    Elsewhere do nothing.
    """
    if _limit() is None or sys.platform == "win32" or not hasattr(signal, "sigwaitinfo"):
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (*_FORWARDED, signal.SIGCHLD))
    try:
        child = os.fork()
    except OSError:  # not even that
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return
    if child:
        sys.exit(_wait_for(child))
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    _hide_complaints()


def _limit() -> int | None:
    """Bytes of memory that the system allows this process, if it sets a limit."""
    if sys.platform == "win32":
        return None
    import resource

    limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    return min((limit for limit in limits if limit != resource.RLIM_INFINITY), default=None)


def _wait_for(child: int) -> int:
    """Pass signals on to the child until it ends; the exit code for it."""
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        found = signal.sigwaitinfo((*_FORWARDED, signal.SIGCHLD))
        # those of the terminal reach the child anyway
        if found.si_signo in _FORWARDED and found.si_pid:
            os.kill(child, found.si_signo)
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


def _hide_complaints() -> None:
    """Keep what libraries print of their failures from standard error, and tell unforeseen errors in one line."""
    if sys.stderr is not None:
        kept = os.dup(2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        sys.stderr = open(  # noqa: PTH123, SIM115 - of a descriptor, for the process's life
            kept, "w", buffering=1, encoding=sys.stderr.encoding, errors="backslashreplace"
        )
    if (_limit() or _SMALL) < _TINY:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.excepthook = _tell_error
    sys.unraisablehook = lambda _: None
    threading.excepthook = lambda _: None


def _tell_error(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    limit = _limit()
    try:
        if (limit is None or limit >= _SMALL) and not is_out_of_memory(error):
            sys.__excepthook__(kind, error, trace)
        else:
            tell(f"bertcnn: {out_of_memory(f'{kind.__name__}: {error}')}")
    except MemoryError:  # not even for a line; the parent has room for it
        os._exit(1)
    os._exit(2)
