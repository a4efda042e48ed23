"""Which devices a training is divided among."""

from __future__ import annotations

from typing import Any

import keras

from bertcnn.errors import SettingsError

_limit: int | None = None


def limit_devices(count: int | None) -> None:
    """Train on so many devices of this process from now on; None for all of them.

    Raises:
        SettingsError: there are fewer, or `count` is less than 1.
    """
    global _limit
    there = _count()
    if count is not None and not 1 <= count <= there:
        raise SettingsError(
            f"{count} devices",
            expected=f"1 to {there}, the devices that Keras computes on here",
            fix="give another number" if there > 1 else "leave it out",
        )
    _limit = count


def training_mesh() -> Any:  # noqa: ANN401
    """The devices that the rows of a training's batches are divided among.

    Those of all processes, if there are several. None for one device, and on TensorFlow.
    """
    if keras.backend.backend() != "jax":
        return None
    import jax

    processes = range(jax.process_count())
    devices = [one for process in processes for one in jax.local_devices(process)[:_limit]]
    return jax.sharding.Mesh(devices, ("rows",)) if len(devices) > 1 else None


def _count() -> int:
    if keras.backend.backend() != "jax":
        return 1
    import jax

    return jax.local_device_count()
