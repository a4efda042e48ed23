"""Loads libraries and models before the work of a command begins."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bertcnn.backend import choose_backend, jax_has_gpu
from bertcnn.cli.console import mute

if TYPE_CHECKING:
    from bertcnn.cli.options import DeviceFlags


def load_keras(backend: str | None = None, *, distributed: bool = False) -> None:
    """Import Keras and its backend without their start-up messages; takes some seconds.

    The messages appear before the libraries' log levels take effect, so standard error is
    redirected during the import. A failed import raises as usual.

    Args:
        backend: ignored if KERAS_BACKEND is set; by default JAX if it can use an NVIDIA GPU, else
            TensorFlow.
        distributed: whether this is one of several processes that train together.

    Raises:
        SettingsError: the processes cannot connect.
    """
    if backend is None:
        choose_backend()
    else:
        os.environ.setdefault("KERAS_BACKEND", backend)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        _load_tensorflow()
        import keras  # noqa: F401
    finally:
        os.dup2(kept, 2)
        os.close(nowhere)
        os.close(kept)
    if distributed:
        from bertcnn.training import join_processes

        join_processes()


def _load_tensorflow() -> None:
    """Import TensorFlow without JAX, which its TFLite converter imports (a tenth of the time)."""
    if os.environ.get("KERAS_BACKEND", "tensorflow") != "tensorflow" or "jax" in sys.modules:
        return
    sys.modules["jax"] = None  # type: ignore[assignment]
    try:
        with suppress(ModuleNotFoundError):  # Keras reports it, if Keras itself is installed
            import tensorflow  # noqa: F401
    finally:
        del sys.modules["jax"]


def skip_converter() -> None:
    """Import OpenVINO without its unused model converter, which takes half of the import time."""
    # None makes its import fail; OpenVINO handles this
    sys.modules.setdefault("openvino.tools.ovc", None)  # type: ignore[arg-type]


def prepare_engine(engine: str, *, compiled: bool = False) -> None:
    """Import Keras if the engine needs it; raise SettingsError for an unknown engine.

    Args:
        engine: the requested engine, or "auto".
        compiled: whether "auto" always selects a compiled engine.
    """
    from bertcnn.inference import check_engine

    check_engine(engine)
    if engine == "keras" or (engine == "auto" and not compiled and jax_has_gpu()):
        load_keras()
    else:
        skip_converter()


def local_model(model: str) -> Path:
    """The model's folder; a model at a URL is downloaded with a progress bar."""
    if "://" not in model:
        return Path(model)
    from bertcnn.bundle import local_folder
    from bertcnn.cli.progress import show_progress

    with show_progress() as progress:
        return local_folder(model, progress=progress)


def start_training(out: Path, flags: DeviceFlags) -> Path:
    """Load Keras for training on these devices; returns this process's output folder.

    The first process writes to `out`. The others write to a temporary folder and print only errors.
    """
    import atexit
    import shutil
    import tempfile

    load_keras("jax" if flags.distributed else None, distributed=flags.distributed)
    from bertcnn.training import is_first, limit_devices

    limit_devices(flags.devices)
    if is_first():
        return out
    mute()
    folder = tempfile.mkdtemp(prefix="bertcnn-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder) / out.name
