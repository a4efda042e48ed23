"""The output layer of a saved model, read without the other weights."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bertcnn.bundle import Bundle, with_weights
from bertcnn.errors import BundleError
from bertcnn.storage import cache_folder, keep, read_kept

_KERNEL, _BIAS = "logits/kernel", "logits/bias"
_LARGEST = 1e12  # far above any weight; products with smaller features stay finite
_KEPT = 32  # most models in the cache


@dataclass(frozen=True, eq=False)
class OutputLayer:
    """The linear layer from pooled features to logits.

    Attributes:
        kernel: float32 [F, C]; filters, smallest window first, then mean token embedding.
        bias: float32 [C].
    """

    kernel: np.ndarray
    bias: np.ndarray

    @classmethod
    def of_bundle(cls, bundle: Bundle) -> OutputLayer:
        """The output layer of a model in memory.

        Raises:
            BundleError: tensors are missing, or their shapes do not fit the configuration.
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


def read_output_layer(folder: Path, bundle: Bundle) -> OutputLayer:
    """The output layer of the model in `folder`, from the cache or from the model's weights.

    The first call reads and checks all weights, which takes 0.1 s and more. It then caches this
    layer under the model's id. A damaged copy is replaced. The weights of `bundle` are not needed.

    Raises:
        BundleError: the weights were changed after saving, or the folder has another model now.
    """
    if bundle.tensors:
        return OutputLayer.of_bundle(bundle)
    path = cache_folder() / "last_layers" / f"{bundle.bundle_id[:32]}.bin"
    layer = _read(path, _shape(bundle))
    if layer is not None:
        return layer
    layer = OutputLayer.of_bundle(with_weights(bundle, folder))
    # copies: the originals keep the whole file in memory
    layer = OutputLayer(layer.kernel.copy(), layer.bias.copy())
    # without a writable cache, each start reads all weights
    with suppress(OSError):
        keep(path, np.vstack([layer.kernel, layer.bias]).astype("<f4").tobytes(), _KEPT)
    return layer


def _shape(bundle: Bundle) -> tuple[int, int]:
    head = bundle.config.head
    return len(head.window_sizes) * head.filters + bundle.config.encoder.width, len(bundle.labels)


def _read(path: Path, shape: tuple[int, int]) -> OutputLayer | None:
    numbers = read_kept(path)
    if numbers is None or len(numbers) != 4 * (shape[0] + 1) * shape[1]:
        return None
    table = np.frombuffer(numbers, "<f4").reshape(shape[0] + 1, shape[1])
    return OutputLayer(table[:-1], table[-1])
