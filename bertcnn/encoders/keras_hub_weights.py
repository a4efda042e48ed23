"""Reads a KerasHub preset's weights as KerasHub's `BertBackbone` does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import numpy as np

from bertcnn.encoders.keras_hub import FETCH_AGAIN, SETTINGS, weight_files
from bertcnn.errors import EncoderError, one_line
from bertcnn.settings import EncoderSettings

# Backbone layer -> Hugging Face's name; for layers of a block, without the block's number
_LAYERS: Final = {
    "token_embedding": "embeddings.word_embeddings",
    "position_embedding": "embeddings.position_embeddings",
    "segment_embedding": "embeddings.token_type_embeddings",
    "embeddings_layer_norm": "embeddings.LayerNorm",
    "pooled_dense": "pooler.dense",
    "self_attention_layer/query": "attention.self.query",
    "self_attention_layer/key": "attention.self.key",
    "self_attention_layer/value": "attention.self.value",
    "self_attention_layer/attention_output": "attention.output.dense",
    "self_attention_layer_norm": "attention.output.LayerNorm",
    "feedforward_intermediate_dense": "intermediate.dense",
    "feedforward_output_dense": "output.dense",
    "feedforward_layer_norm": "output.LayerNorm",
}
_BLOCK: Final = re.compile(r"transformer_layer_(\d+)/")
_BIASES: Final = ("bias", "beta")


def read_preset_tensors(folder: Path, shape: EncoderSettings) -> dict[str, np.ndarray]:
    """The encoder's float32 weights, with Hugging Face's names and shapes.

    Raises:
        EncoderError: a file is damaged, a tensor is missing or misshapen, or a value is not finite.
    """
    from keras_hub.models import BertBackbone

    # config.json is not used, because it names classes
    backbone = BertBackbone(**{theirs: getattr(shape, ours) for theirs, ours in SETTINGS.items()})
    path = weight_files(folder)[0]
    try:
        backbone.load_weights(path)
    except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
        raise EncoderError(
            f"KerasHub cannot load {path} ({one_line(error, 200)})",
            expected="the weights of the BERT in its config.json",
            fix=FETCH_AGAIN,
        ) from None
    tensors = {}
    for variable in backbone.weights:
        values = np.asarray(variable.numpy(), np.float32)
        if not np.isfinite(values).all():
            raise EncoderError(
                f"{path} has {variable.path!r} with NaN or infinity in it",
                expected="finite numbers",
                fix=FETCH_AGAIN,
            )
        name, values = _published(variable.path, values, shape.width)
        tensors[name] = np.ascontiguousarray(values)
    return tensors


def _published(path: str, values: np.ndarray, width: int) -> tuple[str, np.ndarray]:
    """Hugging Face's name of a variable, and its values as stored there: kernels are [out, in]."""
    block = _BLOCK.match(path)
    layer, parameter = path[block.end() if block else 0 :].rsplit("/", 1)
    name = (f"encoder.layer.{block[1]}." if block else "") + _LAYERS[layer]
    if parameter in _BIASES:
        return f"{name}.bias", values.reshape(-1)
    if parameter == "kernel":
        values = values.reshape((-1, width) if layer.endswith("_output") else (len(values), -1)).T
    return f"{name}.weight", values
