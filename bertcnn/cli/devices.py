"""Training on several devices or with other processes."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path

from bertcnn.cli.console import mute
from bertcnn.cli.options import DeviceFlags
from bertcnn.cli.startup import load_keras


def start_training(out: Path, flags: DeviceFlags) -> Path:
    """Load Keras for training on these devices; returns this process's output folder.

    The first process writes to `out`. The others write to a temporary folder and print only errors.
    """
    load_keras("jax" if flags.distributed else None, distributed=flags.distributed)
    from bertcnn.training import is_first, limit_devices

    limit_devices(flags.devices)
    if is_first():
        return out
    mute()
    folder = tempfile.mkdtemp(prefix="bertcnn-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder) / out.name
