"""Compiled engines in forked processes: the child abandons them and compiles its own.

OpenVINO's threads stay in the parent. An inherited engine would wait for them, even when destroyed.
"""

from __future__ import annotations

import ctypes
import os
from typing import Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """An engine that handles forks."""

    def leave(self) -> None:
        """Create new locks, and keep inherited objects from being destroyed."""


_engines: WeakSet[Forkable] = WeakSet()
_is_child = False


def survive_forks(engine: Forkable) -> None:
    """Have `engine.leave()` called in every forked process."""
    _engines.add(engine)


def keep_compiled(model: object) -> None:
    """Keep the first model that a child compiles alive.

    Otherwise OpenVINO would wait at exit for threads of the parent.
    """
    global _is_child
    if _is_child:
        never_destroy(model)
        _is_child = False


def never_destroy(thing: object) -> None:
    """Keep a reference for ever, even at interpreter exit."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _in_child() -> None:
    global _is_child
    _is_child = True
    for engine in list(_engines):
        engine.leave()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_in_child)
