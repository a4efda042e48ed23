"""The error message for running out of memory."""

from __future__ import annotations

import errno
import sys

from bertcnn.errors import BertCNNError, one_line
from bertcnn.wording import memory_size

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


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error or one of its causes is a lack of memory or threads."""
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
    """The error for running out of memory; `detail` is the library's own message."""
    limit = memory_limit()
    problem = (
        f"out of memory: this process may use {memory_size(limit)}, a limit set by ulimit or"
        " prlimit"
        if limit
        else "out of memory"
    )
    return BertCNNError(
        problem + (f" ({one_line(detail, 160)})" if detail else ""),
        expected="enough memory for the libraries, the rows and the computation",
        fix=(
            "raise the limit, or give fewer rows"
            if limit
            else "close other programs, or give fewer rows"
        ),
    )


def memory_limit() -> int | None:
    """The memory limit of this process in bytes, or None."""
    if sys.platform == "win32":
        return None
    import resource

    limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    return min((limit for limit in limits if limit != resource.RLIM_INFINITY), default=None)
