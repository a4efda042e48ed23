"""Reads published checkpoints: settings, and tensors by our names. Needs no model."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import ml_dtypes  # noqa: F401 - registers bfloat16 with NumPy
import numpy as np
from safetensors import SafetensorError, safe_open

from bertcnn.bundle import read_header
from bertcnn.encoders.config import read_settings
from bertcnn.encoders.layout import WEIGHTS
from bertcnn.errors import EncoderError, one_line
from bertcnn.settings import EncoderSettings
from bertcnn.shapes import pretraining_shapes

# Our weight name -> Hugging Face's (transformers/models/bert/modeling_bert.py); for layers, after
# the layer's number
_OUTSIDE_LAYERS = {
    "embeddings/tokens": "embeddings.word_embeddings.weight",
    "embeddings/positions": "embeddings.position_embeddings.weight",
    "embeddings/segments": "embeddings.token_type_embeddings.weight",
    "embeddings/normalize/gamma": "embeddings.LayerNorm.weight",
    "embeddings/normalize/beta": "embeddings.LayerNorm.bias",
    "pooler/kernel": "pooler.dense.weight",
    "pooler/bias": "pooler.dense.bias",
    "mlm/transform/kernel": "cls.predictions.transform.dense.weight",
    "mlm/transform/bias": "cls.predictions.transform.dense.bias",
    "mlm/normalize/gamma": "cls.predictions.transform.LayerNorm.weight",
    "mlm/normalize/beta": "cls.predictions.transform.LayerNorm.bias",
    "mlm/bias": "cls.predictions.bias",
    "nsp/kernel": "cls.seq_relationship.weight",
    "nsp/bias": "cls.seq_relationship.bias",
}
_INSIDE_LAYER = {
    "attention/query": "attention.self.query",
    "attention/key": "attention.self.key",
    "attention/value": "attention.self.value",
    "attention/output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "expand": "intermediate.dense",
    "contract": "output.dense",
    "output_norm": "output.LayerNorm",
}
_PARAMETERS = {"kernel": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}
_OLD_PARAMETERS = {
    "LayerNorm.gamma": "LayerNorm.weight",
    "LayerNorm.beta": "LayerNorm.bias",
}  # checkpoints made before 2019
# in BERT they are the token embeddings and `mlm/bias`
_DECODER = "cls.predictions.decoder.weight"
_DECODER_BIAS = "cls.predictions.decoder.bias"

Head = Literal["pooler", "mlm", "nsp"]
HEADS: tuple[Head, ...] = get_args(Head)


@dataclass(frozen=True)
class EncoderCheckpoint:
    """The weights of an encoder and of its pretraining heads, if any.

    Attributes:
        tensors: float32 by our names, like `layer_0/attention/query/kernel` or `mlm/bias`.
    """

    settings: EncoderSettings
    tensors: Mapping[str, np.ndarray]

    @property
    def heads(self) -> tuple[Head, ...]:
        """The heads in the checkpoint."""
        return tuple(head for head in HEADS if any(head_of(name) == head for name in self.tensors))


def head_of(name: str) -> Head | None:
    """The head that our weight belongs to; None for the encoder's weights.

    Example:
        >>> head_of("mlm/transform/kernel")
        'mlm'
    """
    return next((head for head in HEADS if name.startswith(f"{head}/")), None)


def published_name(name: str) -> str:
    """Hugging Face's name of our weight, without the prefix "bert.".

    Example:
        >>> published_name("layer_3/attention/query/kernel")
        'encoder.layer.3.attention.self.query.weight'
    """
    if name in _OUTSIDE_LAYERS:
        return _OUTSIDE_LAYERS[name]
    layer, inner = name.split("/", 1)
    part, parameter = inner.rsplit("/", 1)
    inside = f"{_INSIDE_LAYER[part]}.{_PARAMETERS[parameter]}"
    return f"encoder.layer.{layer.removeprefix('layer_')}.{inside}"


# === Reading ===


def read_checkpoint(folder: Path) -> EncoderCheckpoint:
    """Read an encoder and its pretraining heads, in Hugging Face's layout.

    Raises:
        EncoderError: a file is missing or damaged, files do not fit, or a head is incomplete.
    """
    return checkpoint_of(*read_published(folder))


def read_published(folder: Path) -> tuple[EncoderSettings, dict[str, np.ndarray]]:
    """Settings and tensors, by Hugging Face's names.

    Raises:
        EncoderError: a file is missing or damaged.
    """
    return read_settings(folder), read_tensors(folder / WEIGHTS)


def read_tensors(path: Path) -> dict[str, np.ndarray]:
    """The float32 tensors in `model.safetensors`, by Hugging Face's names without "bert.".

    Raises:
        EncoderError: the file is missing or is not a safetensors file.
    """
    try:
        read_header(path)
        with safe_open(path, "np") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (OSError, ValueError, SafetensorError) as error:
        raise EncoderError(
            f"{path} could not be read ({error})",
            expected="a safetensors file",
            fix="fetch the encoder again",
        ) from None
    return {
        _plain_name(name): tensor.astype(np.float32, copy=False) for name, tensor in tensors.items()
    }


def _plain_name(name: str) -> str:
    name = name.removeprefix("bert.")
    for old, new in _OLD_PARAMETERS.items():
        name = name.replace(old, new)
    return name


def checkpoint_of(
    settings: EncoderSettings, published: Mapping[str, np.ndarray], heads: Collection[Head] = HEADS
) -> EncoderCheckpoint:
    """Convert tensors from Hugging Face's names to ours, and check them.

    Dense kernels are transposed. `heads` are read if present. An MLM head with its own decoder, not
    tied to the token embeddings, is ignored.

    Raises:
        EncoderError: a tensor is missing or misshapen, or a head is incomplete.
    """
    published = dict(published)
    if _DECODER_BIAS in published:
        published.setdefault(_OUTSIDE_LAYERS["mlm/bias"], published[_DECODER_BIAS])
    shapes, tensors, missing = pretraining_shapes(settings), {}, []
    for name, shape in shapes.items():
        tensor_name = published_name(name)
        if head_of(name) not in (None, *heads):
            continue
        if tensor_name not in published:
            missing.append(name)
            continue
        values = published[tensor_name].T if name.endswith("/kernel") else published[tensor_name]
        if values.shape != shape:
            raise EncoderError(
                f"weight {name!r} has the shape {values.shape}",
                expected=f"{shape}",
                fix="use weights and settings that belong together",
            )
        tensors[name] = values
    present = {None, *map(head_of, tensors)}
    for name in missing:
        if head_of(name) in present:  # the encoder, or a head with at least one weight
            first_names = one_line(", ".join(sorted(published)[:3]))
            raise EncoderError(
                f"a checkpoint without {published_name(name)!r} (it starts with {first_names})",
                expected="every weight of BERT, and heads that are whole",
                fix=(
                    "use a checkpoint of Hugging Face's BertModel, BertForPreTraining or"
                    " BertForMaskedLM that fits its config.json"
                ),
            )
    if "mlm" in present and not np.array_equal(
        published.get(_DECODER, tensors["embeddings/tokens"]), tensors["embeddings/tokens"]
    ):
        tensors = {name: values for name, values in tensors.items() if head_of(name) != "mlm"}
    return EncoderCheckpoint(settings, tensors)
