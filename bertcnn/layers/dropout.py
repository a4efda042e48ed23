"""Dropout by a hash, which costs less than a general random generator."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops


@keras.saving.register_keras_serializable(package="bertcnn")
class HashDropout(keras.layers.Layer):
    """Dropout of a share `rate` (Srivastava et al. 2014, section 4).

    Value i of call n is dropped if hash(i, n, seed) is small. The hash is MurmurHash3's 32-bit
    finaliser (Appleby 2011): every input bit changes every output bit with a probability close to
    one half. It gives the same masks on every backend, and XLA fuses it into the multiplication.

    The name has no number by default, so that equal models compile to equal programs.
    """

    def __init__(self, rate: float, *, seed: int = 0, name: str = "dropout", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.supports_masking = True
        self.rate, self.seed = rate, seed
        self.supports_masking = True
        if rate > 0:
            self.seeds = keras.random.SeedGenerator(seed)
        self.built = True

    def call(self, values: Any, training: bool = False) -> Any:
        """Drop; see the class."""
        if not training or self.rate == 0:
            return values
        keep = ops.cast(
            _hash(values, self.seeds.next()) >= np.int32(self.rate * 2**31), values.dtype
        )
        return values * keep * (1.0 / (1.0 - self.rate))

    def compute_output_shape(self, values_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """The input's shape."""
        return values_shape

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {**super().get_config(), "rate": self.rate, "seed": self.seed}


def _hash(values: Any, seed: Any) -> Any:
    """int32 in the shape of `values`, uniform over 0 to 2**31 - 1."""
    seed = ops.cast(seed, "uint32")
    # seeds of neighbouring layers differ by 1; their masks must not be reorderings of each other
    start = _mix(_mix(seed[0]) + seed[1])
    indices = ops.reshape(
        ops.cast(ops.arange(ops.size(values), dtype="int32"), "uint32"), ops.shape(values)
    )
    return ops.cast(ops.right_shift(_mix(indices + start), np.uint32(1)), "int32")


def _mix(bits: Any) -> Any:
    """MurmurHash3's finaliser."""
    bits = (bits ^ ops.right_shift(bits, np.uint32(16))) * np.uint32(0x85EBCA6B)
    bits = (bits ^ ops.right_shift(bits, np.uint32(13))) * np.uint32(0xC2B2AE35)
    return bits ^ ops.right_shift(bits, np.uint32(16))
