"""Reads and assigns weights by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bertcnn.errors import BertCNNError


def extract(weights: Sequence[Any]) -> dict[str, np.ndarray]:
    """The values of the weights by name, such as `layer_0/attention/query/kernel`."""
    return {weight.path: np.asarray(weight.numpy(), np.float32) for weight in weights}


def assign(
    weights: Sequence[Any], values: Mapping[str, np.ndarray], *, error: type[BertCNNError]
) -> None:
    """Assign arrays to weights by name; raises `error` and changes nothing unless all match."""
    expected = {weight.path: tuple(weight.shape) for weight in weights}
    shapes = {name: tuple(value.shape) for name, value in values.items()}
    if expected != shapes:
        name = next(
            name
            for name in sorted(expected.keys() | shapes.keys())
            if expected.get(name) != shapes.get(name)
        )
        raise error(
            f"weight {name!r} has the shape {shapes.get(name, 'none, it is missing')}",
            expected=f"{expected.get(name, 'no weight of that name')}",
            fix="use weights and settings that belong together",
        )
    for weight in weights:
        weight.assign(np.asarray(values[weight.path]))
