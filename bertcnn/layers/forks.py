"""Keras in forked processes, where it cannot compute."""

from __future__ import annotations

import os

from bertcnn.errors import SettingsError

_computed_in: set[int] = set()  # processes: this one, and those it was forked from


def check_process() -> None:
    """Refuse to compute with Keras after a fork.

    Its backend's threads stay behind in the parent, and would be waited for without end.

    Raises:
        SettingsError: the process was forked from one in which Keras has computed.
    """
    if _computed_in - {os.getpid()}:
        raise SettingsError(
            "a network to be trained or looked into in a process that was forked after Keras had"
            " computed",
            expected="a process in which Keras is started",
            fix=(
                "start processes by multiprocessing's method 'spawn'; predicting and scoring with a"
                " loaded or fitted model work in any"
            ),
        )
    _computed_in.add(os.getpid())
