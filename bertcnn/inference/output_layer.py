"""The last linear layer of a saved model, at hand without reading the other weights."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bertcnn.bundle.bundle import Bundle, with_weights
from bertcnn.errors import BundleError
from bertcnn.storage.cache import cache_folder, keep, read_kept

_KERNEL, _BIAS = "logits/kernel", "logits/bias"
_LARGEST = 1e12  # far above any weight; with features below that, all shares are finite
_KEPT = 32  # models in the cache


@dataclass(frozen=True, eq=False)
class LastLayer:
    """What makes logits of the pooled features.

    Attributes:
        kernel: float32 [F, C]; the features are the filters, those of the smallest window first,
            then the mean of the token embeddings.
        bias: float32 [C].
    """

    kernel: np.ndarray
    bias: np.ndarray

    @classmethod
    def of_bundle(cls, bundle: Bundle) -> LastLayer:
        """That of a model in memory.

        Raises:
            BundleError: the tensors are missing, or are not of the shape that the configuration
                describes.
        """
        layer = cls(
            *(bundle.tensors.get(name, np.empty(0, np.float32)) for name in (_KERNEL, _BIAS))
        )
        if layer.kernel.shape != _shape(bundle) or layer.bias.shape != (len(bundle.labels),):
            raise BundleError(
                f"{_KERNEL} of shape {layer.kernel.shape}, {_BIAS} of shape {layer.bias.shape}",
                expected=f"{_shape(bundle)} and {(len(bundle.labels),)}",
                fix="save the model again, or copy the whole folder again from where it came",
            )
        if max(np.abs(part).max(initial=0) for part in (layer.kernel, layer.bias)) > _LARGEST:
            raise BundleError(
                f"{_KERNEL} or {_BIAS} with numbers over {_LARGEST:g}",
                expected="weights as they are trained",
                fix="get the model again",
            )
        return layer


def read_last_layer(folder: Path, bundle: Bundle) -> LastLayer:
    """The last layer of the model in `folder`.

    From a copy in the cache, else from the model's weights.

    The weights are read and checked as a whole, which takes 0.1 s and more, once; then a copy of
    this layer is kept under the model's id, as compiled engines are. A copy that is damaged is made
    again.

    Args:
        folder: the model's.
        bundle: the model, as `read_bundle` gave it; its weights are not needed.

    Raises:
        BundleError: the weights are not what was saved, or another model has been saved in the
            folder since.
    """
    if bundle.tensors:
        return LastLayer.of_bundle(bundle)
    path = cache_folder() / "last_layers" / f"{bundle.bundle_id[:32]}.bin"
    layer = _read(path, _shape(bundle))
    if layer is not None:
        return layer
    layer = LastLayer.of_bundle(with_weights(bundle, folder))
    # they were parts of the whole file in memory
    layer = LastLayer(layer.kernel.copy(), layer.bias.copy())
    # a cache that cannot be written costs the time of reading at every start, nothing else
    with suppress(OSError):
        keep(path, np.vstack([layer.kernel, layer.bias]).astype("<f4").tobytes(), _KEPT)
    return layer


def _shape(bundle: Bundle) -> tuple[int, int]:
    head = bundle.config.head
    return len(head.window_sizes) * head.filters + bundle.config.encoder.width, len(bundle.labels)


def _read(path: Path, shape: tuple[int, int]) -> LastLayer | None:
    """A layer from the cache; None if there is none, or if it is damaged."""
    numbers = read_kept(path)
    if numbers is None or len(numbers) != 4 * (shape[0] + 1) * shape[1]:
        return None
    table = np.frombuffer(numbers, "<f4").reshape(shape[0] + 1, shape[1])
    return LastLayer(table[:-1], table[-1])
