"""Converts between a checkpoint's JSON files and our settings. Needs no model."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from bertcnn.errors import EncoderError, one_line
from bertcnn.settings import EncoderSettings
from bertcnn.text import read_encoder_json

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
FORMAT = 1  # of the settings that we add to Hugging Face's config.json
_OURS = "bertcnn"  # their key there
_ACTIVATIONS: dict[str, Literal["gelu", "gelu_tanh", "relu"]] = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
}


def read_settings(folder: Path) -> EncoderSettings:
    """The encoder settings in a folder's `config.json`.

    Raises:
        EncoderError: the file is missing, not JSON, or not of BERT with absolute positions.
    """
    return settings_of(folder / "config.json")


def settings_of(path: Path) -> EncoderSettings:
    """The encoder settings in a file with Hugging Face's keys; see `read_settings`."""
    config = read_encoder_json(path, expected="a BERT checkpoint's config.json")
    if "encoder_name" in config and "head" in config:
        raise EncoderError(
            f"{str(path.parent)!r} is a trained classifier",
            expected="an encoder",
            fix="name the encoder that the classifier was trained from",
        )
    kind = config.get("model_type", "bert")
    positions = config.get("position_embedding_type", "absolute")
    activation = str(config.get("hidden_act", "gelu"))
    if kind != "bert" or positions != "absolute" or activation not in _ACTIVATIONS:
        raise EncoderError(
            f"{path} describes model_type {kind!r}, position_embedding_type {positions!r},"
            f" hidden_act {activation!r}",
            expected=(
                f"model_type 'bert' with absolute positions and one of {', '.join(_ACTIVATIONS)}"
            ),
            fix="choose an encoder of BERT's architecture (`bertcnn encoder list`)",
        )
    values = {ours: config[theirs] for theirs, ours in _SETTINGS.items() if theirs in config}
    ours_only = config.get(_OURS, {"format": FORMAT})
    if not isinstance(ours_only, dict) or ours_only.get("format") != FORMAT:
        raise EncoderError(
            f"{path} has {_OURS} {one_line(ours_only)}",
            expected=f"format {FORMAT}",
            fix="read it with the version of bertcnn that wrote it",
        )
    positions = ours_only.get("positions", "learned")
    return EncoderSettings.of_json(
        {**values, "activation": _ACTIVATIONS[activation], "positions": positions}
    )


def published_config(settings: EncoderSettings) -> dict[str, Any]:
    """The `config.json` for `read_settings`."""
    activation = {"gelu": "gelu", "gelu_tanh": "gelu_new", "relu": "relu"}[settings.activation]
    values = {theirs: getattr(settings, ours) for theirs, ours in _SETTINGS.items()}
    ours_only = {
        "format": FORMAT,
        "positions": settings.positions,
    }  # sinusoids are stored like learned positions, so that others can read them
    return {
        "model_type": "bert",
        "architectures": ["BertModel"],
        **values,
        "hidden_act": activation,
        _OURS: ours_only,
    }
