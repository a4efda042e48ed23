"""The thread that loads models: its priority, and the memory that old models leave behind."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

_NICENESS: Final = 5


def loader_thread() -> ThreadPoolExecutor:
    """A thread to load models on.

    OpenVINO's threads are started by it and have its priority, which is lower than that of the
    event loop: a request is read, or refused, although all cores compute. One thread for all
    models, since the C library keeps memory for each.
    """
    return ThreadPoolExecutor(1, "bertcnn-loader", initializer=_yield_to_others)


def _yield_to_others() -> None:
    """Lower this thread's priority; only Linux has one for each thread."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)


def give_back_memory() -> None:
    """Give the system what the C library keeps of freed memory; glibc can."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
