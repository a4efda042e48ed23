"""Compiled engines across a fork of the process.

Quiet while it happens, left alone in the child, compiled again there. OpenVINO's threads stay
behind in the parent. What the child inherits would wait for them for ever, also when it is
destroyed.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakSet

# seconds that a fork waits for work that is under way; then it happens all the same
_PATIENCE = 5.0
# seconds between two looks at OpenVINO's threads, which are at rest if they were so several times
_MOMENT = 0.001
_STILL = 3
_REST = 2.0  # seconds that a fork waits for that; another library's threads may never be at rest


class Forkable(Protocol):
    """An engine, as a fork of its process sees it.

    Attributes:
        gate: held whenever OpenVINO is given work.
    """

    gate: threading.Lock

    def finish(self) -> None:
        """Wait for the work that is under way."""

    def leave(self) -> None:
        """In the child: new locks, and nothing inherited is ever destroyed."""


class _Forks:
    """The engines of this process.

    Attributes:
        compiling: held while a model is compiled or dropped.
    """

    def __init__(self) -> None:
        # Python may drop an engine in the middle of compiling another
        self.compiling = threading.RLock()
        self._engines: WeakSet[Forkable] = WeakSet()
        self._held: list[Any] = []
        self._is_child = False

    def add(self, engine: Forkable) -> None:
        """Have an engine survive forks."""
        with self.compiling:  # not while the engines are counted up
            self._engines.add(engine)

    def before(self) -> None:
        """Wait until OpenVINO is at rest.

        A lock that one of its threads holds would stay locked in the child.
        """
        self._acquire(self.compiling)
        for engine in list(self._engines):
            if self._acquire(engine.gate):
                engine.finish()
        _rest(time.monotonic() + _REST)

    def _acquire(self, lock: Any) -> bool:  # noqa: ANN401 - either kind of lock
        acquired = lock.acquire(timeout=_PATIENCE)
        if acquired:
            self._held.append(lock)
        return acquired

    def in_parent(self) -> None:
        """Go on."""
        while self._held:
            self._held.pop().release()

    def in_child(self) -> None:
        """Begin with locks of our own."""
        self.compiling, self._held, self._is_child = threading.RLock(), [], True
        for engine in list(self._engines):
            engine.leave()

    def compiled(self, model: object) -> None:
        """Keep the first model that a child compiles.

        Without one, OpenVINO would wait at the end for threads of the parent.
        """
        if self._is_child:
            never_destroy(model)
            self._is_child = False


def never_destroy(thing: object) -> None:
    """Keep a reference that nothing gives back, also not when Python ends."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _rest(until: float) -> None:
    """Wait until the threads that are not Python's sleep.

    Those of OpenVINO tidy up after their work, and hold locks meanwhile.
    """
    still = 0
    while still < _STILL and time.monotonic() < until:
        still = 0 if _busy() else still + 1
        time.sleep(_MOMENT)


def _busy() -> bool:
    """Whether such a thread is at work; False where the system does not say."""
    ours = {thread.native_id for thread in threading.enumerate()}
    with suppress(OSError):
        for task in os.scandir("/proc/self/task"):
            if int(task.name) not in ours:
                with suppress(OSError):  # it has just ended
                    if Path(task.path, "stat").read_bytes().rpartition(b")")[2].split()[0] != b"S":
                        return True
    return False


FORKS = _Forks()
if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(
        before=FORKS.before, after_in_parent=FORKS.in_parent, after_in_child=FORKS.in_child
    )
