"""Options for training on several devices or with other processes."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from bertcnn.cli.console import mute
from bertcnn.cli.startup import load_keras

Devices = Annotated[
    int | None,
    typer.Option("--devices", help="GPUs to train on, of each process.", show_default="all"),
]
Distributed = Annotated[
    bool,
    typer.Option(
        "--distributed",
        help="Train together with the processes that SLURM, Kubernetes or JAX's variables name.",
    ),
]


def start_training(out: Path, devices: int | None, distributed: bool) -> Path:
    """Load Keras for training on these devices; returns this process's output folder.

    The first process writes to `out`. The others write to a temporary folder and print only errors.
    """
    load_keras("jax" if distributed else None, distributed=distributed)
    from bertcnn.training import is_first, limit_devices

    limit_devices(devices)
    if is_first():
        return out
    mute()
    folder = tempfile.mkdtemp(prefix="bertcnn-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder) / out.name
