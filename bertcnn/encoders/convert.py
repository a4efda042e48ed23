"""Published checkpoints in: a folder in Hugging Face layout becomes our `Bert` and its tokenizer."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from safetensors import SafetensorError, safe_open

from bertcnn.errors import EncoderError, one_line
from bertcnn.models.bert import Bert
from bertcnn.models.weights import assign
from bertcnn.settings import EncoderSettings, TokenizerSettings

# Hugging Face `config.json` key -> ours (transformers/models/bert/configuration_bert.py)
_SETTINGS = {
    "vocab_size": "vocabulary_size",
    "hidden_size": "width",
    "num_hidden_layers": "layers",
    "num_attention_heads": "heads",
    "intermediate_size": "feed_forward_width",
    "max_position_embeddings": "max_positions",
    "type_vocab_size": "segment_types",
    "layer_norm_eps": "layer_norm_epsilon",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
}
_ACTIVATIONS: dict[str, Literal["gelu", "gelu_tanh", "relu"]] = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
}

# Our weight's name -> Hugging Face's (transformers/models/bert/modeling_bert.py); a layer's names stand behind its number
_OUTSIDE_LAYERS = {
    "embeddings/tokens": "embeddings.word_embeddings.weight",
    "embeddings/positions": "embeddings.position_embeddings.weight",
    "embeddings/segments": "embeddings.token_type_embeddings.weight",
    "embeddings/normalize/gamma": "embeddings.LayerNorm.weight",
    "embeddings/normalize/beta": "embeddings.LayerNorm.bias",
    "pooler/kernel": "pooler.dense.weight",
    "pooler/bias": "pooler.dense.bias",
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


def read_settings(folder: Path) -> EncoderSettings:
    """The encoder's shape from the `config.json` in `folder`.

    Raises:
        EncoderError: the file is missing, is not JSON, or describes something other than BERT with learned absolute positions.
    """
    path = folder / "config.json"
    config = _read_json(path, expected="a BERT checkpoint's config.json")
    kind, positions = config.get("model_type", "bert"), config.get("position_embedding_type", "absolute")
    activation = str(config.get("hidden_act", "gelu"))
    if kind != "bert" or positions != "absolute" or activation not in _ACTIVATIONS:
        raise EncoderError(
            f"{path} describes model_type {kind!r}, position_embedding_type {positions!r}, hidden_act {activation!r}",
            expected=f"model_type 'bert' with absolute positions and one of {', '.join(_ACTIVATIONS)}",
            fix="choose an encoder of BERT's architecture (`bertcnn encoder list`)",
        )
    values = {ours: config[theirs] for theirs, ours in _SETTINGS.items() if theirs in config}
    return EncoderSettings(**values, activation=_ACTIVATIONS[activation])


def read_tokenizer_settings(folder: Path, max_positions: int) -> TokenizerSettings:
    """Casing from `tokenizer_config.json` (uncased where the file is missing); the limit is the encoder's number of positions."""
    path = folder / "tokenizer_config.json"
    config = _read_json(path, expected="JSON with do_lower_case") if path.exists() else {}
    lowercase = bool(config.get("do_lower_case", True))
    head = min(TokenizerSettings().head_tokens, (max_positions - 2) // 4 + 1)
    return TokenizerSettings(lowercase=lowercase, max_tokens=max_positions, head_tokens=head)


def _read_json(path: Path, *, expected: str) -> dict[str, Any]:
    """The JSON object in a small file of a checkpoint."""
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(config, dict):
            raise ValueError("not a JSON object")
    except (OSError, ValueError) as error:
        raise EncoderError(f"{path} could not be read ({error})", expected=expected, fix="fetch the encoder again") from None
    return config


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


def load_published(encoder: Bert, tensors: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    """Give `encoder` the published weights, each by its name; all or nothing.

    Dense kernels are stored transposed there. A checkpoint without a pooler, which is optional there, leaves ours as it is.

    Returns:
        The names of our weights that the checkpoint does not have: none, or the pooler's.

    Raises:
        EncoderError: a tensor is missing or has another shape.
    """
    values, absent = {}, []
    for weight in encoder.weights:
        theirs = published_name(weight.path)
        if theirs in tensors:
            values[weight.path] = tensors[theirs].T if weight.path.endswith("/kernel") else tensors[theirs]
        elif weight.path.startswith("pooler/"):
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
    """The encoder in a folder with `config.json` and `model.safetensors`.

    Raises:
        EncoderError: a file is missing or broken, or the two do not fit.
    """
    encoder = Bert(read_settings(folder), seed=seed, name="bert")
    load_published(encoder, read_tensors(folder / "model.safetensors"))
    return encoder


def layer_of(name: str) -> int | None:
    """The number of the block a weight belongs to; None outside the blocks."""
    match = re.match(r"layer_(\d+)/", name)
    return int(match[1]) if match else None
