"""Training speed of the device, looked up by name.

The same rows therefore always get the same recipe. A CPU is measured only on request.
"""

from __future__ import annotations

import re
import statistics
import time
from dataclasses import dataclass

import numpy as np

from bertcnn.backend import on_gpu
from bertcnn.inference import cpu_flags, usable_cores
from bertcnn.training.devices import gpu_name, training_mesh
from bertcnn.wording import count

# FLOP/s of training on one core, measured on two; never measured on more than eight
_CORE_FLOPS, _CORE_FLOPS_AVX512, _MOST_CORES = 3e10, 5e10, 8
# training speed on real tokens as a share of a matrix product's, and FLOPs spent on compilation
_TRAINED, _COMPILED = 0.5, 6e12
_PRODUCT, _TIMES = (1024, 384, 1536), 20  # about a tenth of a second

# bfloat16 TFLOP/s from data sheets, by a word of the card's name
_CARDS = {
    "B200": 2250,
    "GH200": 989,
    "H200": 989,
    "H100": 989,
    "A100": 312,
    "A40": 150,
    "A30": 165,
    "A10": 125,
    "A10G": 70,
    "L40S": 362,
    "L40": 181,
    "L4": 121,
    "4090": 165,
    "3090": 71,
}
_OTHER_CARD = 80
# share of that peak, and fixed seconds per step: on an H100 a step of BERT-base with 32 rows of 128
# tokens took 35 ms, one of MiniLM with 32 rows of 64 tokens, in two parts, 38 ms
_GPU_SHARE, _GPU_STEP = 0.125, 0.02


@dataclass(frozen=True)
class DeviceSpeed:
    """FLOP/s of a device in training, fixed seconds of a step, and seconds of compilation."""

    name: str
    flops: float
    step: float = 0.0
    compiling: float = 0.0

    def seconds(self, work: float, steps: float) -> float:
        """Seconds for `work` FLOPs in this number of steps, without compilation."""
        return work / self.flops + self.step * steps


def device_speed() -> DeviceSpeed:
    """The speed of this device, from its name."""
    if on_gpu():
        mesh = training_mesh()
        return gpu_speed(gpu_name(), 1 if mesh is None else mesh.size)
    return cpu_speed(usable_cores(), cpu_flags())


def gpu_speed(name: str, cards: int = 1) -> DeviceSpeed:
    """The speed of one or several cards with this name.

    Example:
        >>> gpu_speed("NVIDIA H100 80GB HBM3").flops > 2 * gpu_speed("NVIDIA A100-SXM4-40GB").flops
        True
    """
    words = re.split(r"\W+", name)
    peak = next((_CARDS[word] for word in words if word in _CARDS), _OTHER_CARD)
    several = f"{cards} x " if cards > 1 else ""
    return DeviceSpeed(several + name, cards * peak * 1e12 * _GPU_SHARE, _GPU_STEP)


def cpu_speed(cores: int, flags: str) -> DeviceSpeed:
    """The speed of a CPU with this number of cores and these Linux CPU flags."""
    wide = "avx512f" in flags.split()
    flops = min(cores, _MOST_CORES) * (_CORE_FLOPS_AVX512 if wide else _CORE_FLOPS)
    kind = " with AVX-512" if wide else ""
    return DeviceSpeed(f"this CPU ({count(cores, 'core')}{kind})", flops)


def measured_cpu_speed() -> DeviceSpeed:
    """The speed of this CPU at the moment, from a matrix product of BERT's shape."""
    rows, inner, columns = _PRODUCT
    left, right = np.ones((rows, inner), np.float32), np.ones((inner, columns), np.float32)
    seconds = []
    for _ in range(_TIMES):
        started = time.perf_counter()
        left @ right
        seconds.append(time.perf_counter() - started)
    product = 2.0 * rows * inner * columns / statistics.median(seconds)
    name = f"this CPU ({product / 1e9:.0f} GFLOP/s just now)"
    return DeviceSpeed(name, _TRAINED * product, compiling=_COMPILED / product)
