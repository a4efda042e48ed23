"""Precision and devices of a training."""

from __future__ import annotations

import json
import os
from typing import Any

import keras
import numpy as np

from bertcnn.backend import on_gpu
from bertcnn.errors import SettingsError, one_line
from bertcnn.settings import ComputePrecision

_limit: int | None = None


def compute_policy(precision: ComputePrecision) -> str:
    """The dtype policy for training in this precision.

    "auto" is bfloat16 on a GPU and float32 on a CPU, where XLA emulates bfloat16 with float32
    (docs/benchmarks).
    """
    half = on_gpu() if precision == "auto" else precision == "bfloat16"
    return "mixed_bfloat16" if half else "float32"


def limit_devices(count: int | None) -> None:
    """Train on `count` devices, None for all; raises SettingsError unless there are as many."""
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
    """The mesh that divides the rows of a batch; None for one device, and on TensorFlow."""
    if keras.backend.backend() != "jax":
        return None
    import jax

    processes = range(jax.process_count())
    devices = [one for process in processes for one in jax.local_devices(process)[:_limit]]
    return jax.sharding.Mesh(devices, ("rows",)) if len(devices) > 1 else None


def everywhere() -> Any:  # noqa: ANN401
    """The replicated sharding of the mesh; None without a mesh."""
    if (mesh := training_mesh()) is None:
        return None
    import jax

    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())


def replicated(values: np.ndarray, place: Any) -> Any:  # noqa: ANN401
    """An array replicated to every device; all processes must pass the same values."""
    import jax

    return jax.make_array_from_callback(values.shape, place, lambda part: values[part])


def own_rows(rows: int) -> range | None:
    """This process's rows of a batch; None if it has all, or they cannot be divided evenly."""
    mesh = training_mesh()
    if mesh is None or is_alone() or rows % mesh.size:
        return None
    import jax

    share = rows // jax.process_count()
    return range(jax.process_index() * share, (jax.process_index() + 1) * share)


def join_processes() -> None:
    """Join a multi-process training on JAX, each process with its own devices.

    The processes come from JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID, or from
    SLURM, Open MPI or Kubernetes. Call this before JAX computes anything.

    Raises:
        SettingsError: another backend, undefined processes, or they cannot connect.
    """
    if keras.backend.backend() != "jax":
        raise SettingsError(
            f"a training on several machines with Keras on {keras.backend.backend()}",
            expected="JAX",
            fix="unset KERAS_BACKEND, or set it to jax",
        )
    import jax

    try:
        count, own = (_number(f"JAX_{name}") for name in ("NUM_PROCESSES", "PROCESS_ID"))
        jax.distributed.initialize(num_processes=count, process_id=own)
    except (ValueError, TypeError, RuntimeError) as error:
        raise SettingsError(
            f"a training on several machines that cannot begin ({one_line(error, 200)})",
            expected=(
                "SLURM, Open MPI or Kubernetes, or JAX_COORDINATOR_ADDRESS (host:port of the first"
                " process), JAX_NUM_PROCESSES and JAX_PROCESS_ID (from 0)"
            ),
            fix="start every process with them",
        ) from None


def _number(name: str) -> int | None:
    return int(os.environ[name]) if name in os.environ else None


def is_alone() -> bool:
    """Whether this is the only process of a training."""
    return keras.backend.backend() != "jax" or _processes()[0] == 1


def is_first() -> bool:
    """Whether this process writes the files."""
    return is_alone() or _processes()[1] == 0


def _processes() -> tuple[int, int]:
    import jax

    return jax.process_count(), jax.process_index()


def of_first(content: bytes) -> bytes:
    """The first process's `content`, in every process; all of them must call this."""
    if is_alone():
        return content
    from jax.experimental.multihost_utils import broadcast_one_to_all

    own = np.zeros(int(broadcast_one_to_all(np.int32(len(content)))), np.uint8)
    if is_first():
        own[:] = np.frombuffer(content, np.uint8)
    return np.asarray(broadcast_one_to_all(own), np.uint8).tobytes()


def agreed(value: Any) -> Any:  # noqa: ANN401
    """The first process's `value`, sent as JSON to every process; all of them must call this."""
    return value if is_alone() else json.loads(of_first(json.dumps(value).encode()))


def gpu_name() -> str:
    """The vendor's name of the GPU, for example "NVIDIA H100 80GB HBM3"."""
    if keras.backend.backend() == "jax":
        import jax

        return str(jax.devices()[0].device_kind)
    import tensorflow as tf

    gpu = tf.config.list_physical_devices("GPU")[0]
    return str(tf.config.experimental.get_device_details(gpu).get("device_name", "a GPU"))


def _count() -> int:
    if keras.backend.backend() != "jax":
        return 1
    import jax

    return jax.local_device_count()
