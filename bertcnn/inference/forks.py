"""Compiled engines across a fork of the process: left alone in the child, compiled again there.

OpenVINO's threads stay behind in the parent. What the child inherits would wait for them for ever,
also when it is destroyed.
"""

from __future__ import annotations

import ctypes
import os
from typing import Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """An engine, as a forked process sees it."""

    def leave(self) -> None:
        """Take new locks, and never destroy what is inherited."""


_engines: WeakSet[Forkable] = WeakSet()
_is_child = False


def survive_forks(engine: Forkable) -> None:
    """Have an engine leave what is its parent's alone in every forked process."""
    _engines.add(engine)


def compiled(model: object) -> None:
    """Keep the first model that a child compiles.

    Without one, OpenVINO would wait at the end for threads of the parent.
    """
    global _is_child
    if _is_child:
        never_destroy(model)
        _is_child = False


def never_destroy(thing: object) -> None:
    """Keep a reference that nothing gives back, also not when Python ends."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _in_child() -> None:
    global _is_child
    _is_child = True
    for engine in list(_engines):
        engine.leave()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_in_child)
