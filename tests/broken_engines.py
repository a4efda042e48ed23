"""Models with failing engines for cluster nodes, which load them by name."""

import os
from functools import partial
from pathlib import Path

from benchmarks.stub_engine import StubEngine, stub_predictor


class Failing(StubEngine):
    """An engine that fails, or ends its process."""

    def __init__(self, ends: bool) -> None:
        super().__init__()
        self._ends = ends

    def run(self, token_ids, *, evidence=False):  # noqa: ARG002
        if self._ends:
            os._exit(1)
        raise RuntimeError("no instruction like this one")


def is_first(mark: Path) -> bool:
    """Whether this is the first call with this file."""
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _with(engine):
    predictor = stub_predictor()
    predictor.engine = engine
    return predictor


def broken():
    """A model that fails on every node."""
    return _with(Failing(ends=False))


def deadly():
    """A model that ends every process."""
    return _with(Failing(ends=True))


def fragile(mark: Path):
    """A model that fails in the first process that loads it."""
    return broken() if is_first(mark) else stub_predictor()


def different(mark: Path):
    """A model with another engine in the first process."""
    engine = StubEngine()
    engine.name = "stub-int8" if is_first(mark) else "stub"
    return _with(engine)


def stranger(mark: Path):
    """A model with another engine once the file exists."""
    engine = StubEngine(0.0003)
    engine.name = "stub-int8" if mark.exists() else "stub"
    return _with(engine)


slow = partial(stub_predictor, 0.0003)
