"""The thread that loads models: its priority, and the memory that models take and leave behind."""

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


def spare_collector() -> None:
    """Leave the objects that are there now out of Python's garbage collections.

    They stay for as long as the models do, and looking at all of them would stop every thread for
    0.1 s each time. An object that nobody refers to any more is freed all the same, if it is in no
    cycle.
    """
    gc.freeze()


def give_back_memory() -> None:
    """Free what a model has left behind, also what the C library keeps of it; glibc can."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
