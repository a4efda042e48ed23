"""The thread that loads models: its priority and memory."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

_NICENESS: Final = 5


def loader_thread() -> ThreadPoolExecutor:
    """Create the thread that loads models.

    OpenVINO's threads inherit its priority, which is lower than the event loop's: requests are read
    or refused even while all cores compute. One thread loads all models, because the C library
    keeps memory per thread.
    """
    return ThreadPoolExecutor(1, "bertcnn-loader", initializer=_yield_to_others)


def _yield_to_others() -> None:
    """Lower this thread's priority; only Linux has priorities per thread."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)


def spare_collector() -> None:
    """Exclude all present objects from Python's garbage collections.

    They live as long as the models, and scanning them would stop every thread for 0.1 s. Reference
    counting still frees them, unless they are in a cycle.
    """
    gc.freeze()


def give_back_memory() -> None:
    """Free a model's memory, including what glibc's allocator retains."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
