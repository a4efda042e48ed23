"""Which device Keras computes on."""

from __future__ import annotations

import keras


def on_gpu() -> bool:
    """Whether it is a GPU.

    Keras names those of TensorFlow "gpu", and those of JAX by their platform, "gpu" or "cuda".
    """
    return any(device.startswith(("gpu", "cuda")) for device in keras.distribution.list_devices())
