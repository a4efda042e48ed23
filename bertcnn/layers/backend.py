"""Which backend Keras gets: JAX where it has an NVIDIA GPU, TensorFlow elsewhere.

The choice comes before the import of Keras, JAX or TensorFlow.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

from bertcnn.storage.cache import cache_folder

_DEVICES = (Path("/dev/nvidiactl"), Path("/dev/dxg"))  # of Linux, and of Linux within Windows
_PLUGINS = ("jax_cuda13_plugin", "jax_cuda12_plugin")  # by which JAX computes on these


def has_nvidia_gpu() -> bool:
    """Whether the machine has an NVIDIA GPU that CUDA_VISIBLE_DEVICES does not hide."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1")
    return not hidden and any(device.exists() for device in _DEVICES)


def jax_has_gpu() -> bool:
    """Whether Keras, once it is imported, computes on an NVIDIA GPU by JAX: after the extra `gpu`.

    Unless KERAS_BACKEND names another backend.
    """
    return (
        os.environ.get("KERAS_BACKEND", "jax") == "jax"
        and has_nvidia_gpu()
        and find_spec("keras") is not None
        and any(find_spec(plugin) is not None for plugin in _PLUGINS)
    )


def keras_has_gpu() -> bool:
    """Whether Keras computes on a GPU; it is imported only if JAX should see one."""
    if not has_nvidia_gpu() or not ("keras" in sys.modules or jax_has_gpu()):
        return False
    choose_backend()
    from bertcnn.layers.device import on_gpu

    return on_gpu()


def choose_backend() -> None:
    """Choose JAX for Keras where it can compute on an NVIDIA GPU.

    KERAS_BACKEND, if it is set, decides; so does a Keras that is imported already. What JAX
    compiles for a GPU is kept in the cache, so that a second training starts at once.
    """
    if "KERAS_BACKEND" in os.environ or "keras" in sys.modules:
        return
    if jax_has_gpu():
        os.environ["KERAS_BACKEND"] = "jax"
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache_folder() / "compiled"))
