"""Published checkpoints in: a folder in Hugging Face layout becomes our `Bert` and its tokenizer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from bertcnn.encoders.config import read_settings
from bertcnn.encoders.keras_hub import is_preset, read_preset_settings
from bertcnn.encoders.keras_hub_weights import read_preset_tensors
from bertcnn.errors import EncoderError, one_line
from bertcnn.models.bert import Bert
from bertcnn.models.pretraining import BertPretraining
from bertcnn.models.weights import assign

# Our weight's name -> Hugging Face's (transformers/models/bert/modeling_bert.py); a layer's names stand behind its number
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
_OPTIONAL = ("pooler/", "mlm/", "nsp/")  # heads, which many checkpoints come without
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
_OLD_PARAMETERS = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}  # checkpoints made before 2019


def published_name(name: str) -> str:
    """Hugging Face's name of our weight `name`.

    Example:
        >>> published_name("layer_3/attention/query/kernel")
        'encoder.layer.3.attention.self.query.weight'
    """
    if name in _OUTSIDE_LAYERS:
        return _OUTSIDE_LAYERS[name]
    layer, inner = name.split("/", 1)
    part, parameter = inner.rsplit("/", 1)
    return f"encoder.layer.{layer.removeprefix('layer_')}.{_INSIDE_LAYER[part]}.{_PARAMETERS[parameter]}"


def read_tensors(path: Path) -> dict[str, np.ndarray]:
    """The encoder's tensors in a published `model.safetensors`, float32, by Hugging Face's names without the "bert." in front.

    Raises:
        EncoderError: the file is missing or is not a safetensors file.
    """
    try:
        with safe_open(path, "np") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (OSError, SafetensorError) as error:
        raise EncoderError(f"{path} could not be read ({error})", expected="a safetensors file", fix="fetch the encoder again") from None
    return {_plain_name(name): tensor.astype(np.float32, copy=False) for name, tensor in tensors.items()}


def _plain_name(name: str) -> str:
    name = name.removeprefix("bert.")
    for old, new in _OLD_PARAMETERS.items():
        name = name.replace(old, new)
    return name


def load_published(encoder: Bert | BertPretraining, tensors: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    """Give `encoder` the published weights, each by its name; all or nothing.

    Dense kernels are stored transposed there. A checkpoint without a pooler or a head of pretraining, which are optional there, leaves
    ours as they are.

    Returns:
        The names of our weights that the checkpoint does not have: none, or the pooler's and the heads'.

    Raises:
        EncoderError: a tensor is missing or has another shape.
    """
    values, absent = {}, []
    for weight in encoder.weights:
        theirs = published_name(weight.path)
        if theirs in tensors:
            values[weight.path] = tensors[theirs].T if weight.path.endswith("/kernel") else tensors[theirs]
        elif weight.path.startswith(_OPTIONAL):
            absent.append(weight.path)
        else:
            found = one_line(", ".join(sorted(tensors)[:3]))
            raise EncoderError(
                f"a checkpoint without {theirs!r} (it starts with {found})",
                expected="every weight of BERT",
                fix="use a checkpoint of Hugging Face's BertModel that fits its config.json",
            )
    assign([weight for weight in encoder.weights if weight.path in values], values, error=EncoderError)
    return tuple(absent)


def load_encoder(folder: Path, *, seed: int = 0) -> Bert:
    """The encoder in a folder with `config.json` and `model.safetensors`, or in KerasHub's layout.

    Raises:
        EncoderError: a file is missing or broken, or the two do not fit.
    """
    if is_preset(folder):
        settings = read_preset_settings(folder)
        tensors = read_preset_tensors(folder, settings)
    else:
        settings, tensors = read_settings(folder), read_tensors(folder / "model.safetensors")
    encoder = Bert(settings, seed=seed, name="bert")
    load_published(encoder, tensors)
    return encoder


def layer_of(name: str) -> int | None:
    """The number of the block a weight belongs to; None outside the blocks."""
    match = re.match(r"layer_(\d+)/", name)
    return int(match[1]) if match else None
