"""The Keras backend, its device, and safety checks for forked processes.

Before Keras is imported, JAX is chosen if it has an NVIDIA GPU, else TensorFlow.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

from bertcnn.errors import SettingsError

_DEVICES = (Path("/dev/nvidiactl"), Path("/dev/dxg"))  # on Linux, and on Linux within Windows
_PLUGINS = ("jax_cuda13_plugin", "jax_cuda12_plugin")  # JAX's CUDA plugins
_computed_in: set[int] = set()  # process ids: this one and its forking ancestors


def has_nvidia_gpu() -> bool:
    """Whether the machine has an NVIDIA GPU that CUDA_VISIBLE_DEVICES does not hide."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1")
    return not hidden and any(device.exists() for device in _DEVICES)


def jax_has_gpu() -> bool:
    """Whether Keras will compute on an NVIDIA GPU with JAX; KERAS_BACKEND can prevent it."""
    return (
        os.environ.get("KERAS_BACKEND", "jax") == "jax"
        and has_nvidia_gpu()
        and find_spec("keras") is not None
        and any(find_spec(plugin) is not None for plugin in _PLUGINS)
    )


def keras_has_gpu() -> bool:
    """Whether Keras computes on a GPU; imports Keras only if JAX should see one."""
    if not has_nvidia_gpu() or not ("keras" in sys.modules or jax_has_gpu()):
        return False
    choose_backend()
    return on_gpu()


def on_gpu() -> bool:
    """Whether Keras, imported here, computes on a GPU.

    Keras names TensorFlow's GPUs "gpu", and JAX's by platform, "gpu" or "cuda".
    """
    import keras

    return any(device.startswith(("gpu", "cuda")) for device in keras.distribution.list_devices())


def choose_backend() -> None:
    """Choose JAX for Keras if it can compute on an NVIDIA GPU, and cache its compiled programs.

    A KERAS_BACKEND that is set, or a Keras that is already imported, takes precedence.
    """
    if "KERAS_BACKEND" in os.environ or "keras" in sys.modules:
        return
    if jax_has_gpu():
        from bertcnn.storage import cache_folder  # takes a while; most machines have no GPU

        os.environ["KERAS_BACKEND"] = "jax"
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache_folder() / "compiled"))


def check_process() -> None:
    """Raise a SettingsError if this process was forked after Keras had computed.

    The backend's threads do not survive a fork, and computing would wait for them forever.
    """
    if _computed_in - {os.getpid()}:
        raise SettingsError(
            "training, or looking into a network, in a process that was forked after Keras had"
            " computed",
            expected="a process in which Keras is started",
            fix=(
                "start processes with multiprocessing's method 'spawn'; a loaded or fitted model"
                " predicts and scores in any process"
            ),
        )
    _computed_in.add(os.getpid())
