"""Trainings that the same command resumes after Ctrl-C."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bertcnn.cli.console import tell
from bertcnn.cli.interrupts import INTERRUPTED, AlreadyReported


@contextmanager
def savepoints_beside(out: Path) -> Iterator[Path]:
    """The folder of savepoints of the model that will stand in `out`; removed when it does.

    Raises:
        OutputError: another run trains the model that is to stand there.
    """
    from bertcnn.storage.folders import held_folder, real_folder
    from bertcnn.training.savepoints import savepoint_folder

    place = savepoint_folder(real_folder(out))
    with resumes(out), held_folder(place, does="keeps its training in") as savepoints:
        yield savepoints
        shutil.rmtree(savepoints, ignore_errors=True)


@contextmanager
def resumes(out: Path) -> Iterator[None]:
    """Say after Ctrl-C that the same command goes on, if there is a savepoint to go on from."""
    from bertcnn.storage.folders import real_folder
    from bertcnn.training.savepoints import savepoint_folder

    try:
        yield
    except KeyboardInterrupt:
        if not savepoint_folder(real_folder(out)).is_dir():
            raise
        tell(
            "\nbertcnn: interrupted; nothing was half-written. The same command resumes from"
            " the last save, a minute ago at most."
        )
        raise AlreadyReported(INTERRUPTED) from None
