"""Reads KerasHub presets: files, settings and vocabulary. Runs none of its code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import numpy as np

from bertcnn.errors import EncoderError, one_line
from bertcnn.settings import EncoderSettings
from bertcnn.storage import read_text
from bertcnn.text import read_vocabulary

CONFIG: Final = "config.json"
TOKENIZER: Final = "tokenizer.json"
VOCABULARY: Final = "assets/tokenizer/vocabulary.txt"
WEIGHTS: Final = "model.weights.h5"
SHARDS: Final = "model.weights.json"  # replaces the single file if the weights are split

# KerasHub's `config.json` key -> ours (keras_hub/src/models/bert/bert_backbone.py)
SETTINGS: Final = {
    "vocabulary_size": "vocabulary_size",
    "hidden_dim": "width",
    "num_layers": "layers",
    "num_heads": "heads",
    "intermediate_dim": "feed_forward_width",
    "max_sequence_length": "max_positions",
    "num_segments": "segment_types",
    "dropout": "dropout",
}
_WITHOUT_MEANING = {"name", "trainable", "dtype"}
# keras_nlp is the library's former name
_BACKBONES = ("keras_hub>BertBackbone", "keras_nlp>BertBackbone")
_TOKENIZERS = ("keras_hub>BertTokenizer", "keras_nlp>BertTokenizer")
_TOKENIZER_OPTIONS = {
    "split": True,
    "split_on_cjk": True,
    "suffix_indicator": "##",
    "oov_token": "[UNK]",
}  # as in BERT's WordPiece
_LARGEST_JSON = 1 << 22  # bytes
_SHARD = re.compile(r"\w+\.weights\.h5")

FETCH_AGAIN = "fetch the preset again, or save the backbone again with save_to_preset"
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


# === Folders ===


def is_preset(folder: Path) -> bool:
    """Whether a folder is in KerasHub's layout, for any model, and not in Hugging Face's."""
    try:
        config: object = _read_json(folder / CONFIG)
    except EncoderError:
        config = None
    if isinstance(config, dict):
        return "registered_name" in config
    return not (folder / "model.safetensors").exists() and any(
        (folder / name).exists() for name in (WEIGHTS, SHARDS)
    )


def preset_files(folder: Path) -> tuple[Path, ...]:
    """The preset's files that are read, weights last.

    Raises:
        EncoderError: a file is missing.
    """
    missing = [name for name in (CONFIG, TOKENIZER, VOCABULARY) if not (folder / name).is_file()]
    if not (folder / WEIGHTS).is_file() and not (folder / SHARDS).is_file():
        missing.append(WEIGHTS)
    if missing:
        raise EncoderError(
            f"the KerasHub preset {folder} has no {' and no '.join(missing)}",
            expected=f"{CONFIG}, {TOKENIZER}, {VOCABULARY} and {WEIGHTS}",
            fix=(
                "save both the backbone and the tokenizer with save_to_preset, or give another"
                " folder"
            ),
        )
    return (folder / CONFIG, folder / TOKENIZER, folder / VOCABULARY, *weight_files(folder))


def weight_files(folder: Path) -> tuple[Path, ...]:
    """The single weights file, or the index and all files it names.

    Raises:
        EncoderError: the index is unreadable, or names other files than weights in the folder.
    """
    if (folder / WEIGHTS).is_file():
        return (folder / WEIGHTS,)
    path = folder / SHARDS
    weight_map = _read_json(path).get("weight_map")
    listed = (
        [
            name
            for value in weight_map.values()
            for name in (value if isinstance(value, list) else [value])
        ]
        if isinstance(weight_map, dict)
        else []
    )
    names = sorted({str(name) for name in listed})
    for name in names or ["nothing"]:
        if not _SHARD.fullmatch(name) or not (folder / name).is_file():
            raise EncoderError(
                f"{path} names {one_line(name)}", expected="weight files beside it", fix=FETCH_AGAIN
            )
    return (path, *(folder / name for name in names))


# === Settings and tokenizer ===


def read_preset_settings(folder: Path) -> EncoderSettings:
    """The encoder settings in the preset's `config.json`.

    KerasHub's BERT always uses the tanh form of GELU.

    Raises:
        EncoderError: the file is unreadable, not of BERT, or has an unknown setting.
        SettingsError: a setting is missing or invalid.
    """
    path = folder / CONFIG
    config = _config_of(
        path,
        _BACKBONES,
        fix="give a preset of KerasHub's BertBackbone, or choose from `bertcnn encoder list`",
    )
    unknown = sorted(config.keys() - SETTINGS.keys() - _WITHOUT_MEANING)
    if unknown:
        raise EncoderError(
            f"{path} has the setting {one_line(unknown[0])}",
            expected=f"those of BertBackbone: {', '.join(SETTINGS)}",
            fix=FETCH_AGAIN,
        )
    values = {ours: config[theirs] for theirs, ours in SETTINGS.items() if theirs in config}
    if "dropout" in values:
        values["attention_dropout"] = values["dropout"]
    return EncoderSettings(**values, activation="gelu_tanh")


def read_preset_lowercase(folder: Path) -> bool:
    """Whether the preset's tokenizer lower-cases, from its `tokenizer.json`.

    Raises:
        EncoderError: the file is unreadable, or describes another tokenizer than BERT's.
    """
    path = folder / TOKENIZER
    config = _config_of(path, _TOKENIZERS, fix="give a preset with a BertTokenizer")
    lowercase = config.get("lowercase", False)
    strange = [
        name for name, usual in _TOKENIZER_OPTIONS.items() if config.get(name, usual) != usual
    ]
    if strange or not isinstance(lowercase, bool):
        name = strange[0] if strange else "lowercase"
        raise EncoderError(
            f"{path} has {name} {one_line(config[name])}",
            expected=repr(_TOKENIZER_OPTIONS.get(name, "true or false")),
            fix="give a preset whose tokenizer splits texts as BERT's does",
        )
    return lowercase


def read_preset_vocabulary(folder: Path, size: int) -> tuple[str, ...]:
    """The preset's vocabulary in the order of ids.

    Raises:
        EncoderError: the file is unreadable, or does not have `size` pieces.
    """
    path = folder / VOCABULARY
    vocabulary = read_vocabulary(path)
    if len(vocabulary) != size:
        raise EncoderError(
            f"{path} holds {len(vocabulary):,} pieces",
            expected=f"the {size:,} of {CONFIG}",
            fix=FETCH_AGAIN,
        )
    return vocabulary


def _config_of(path: Path, names: tuple[str, ...], *, fix: str) -> dict[str, Any]:
    """The `config` of a serialised Keras object of one of these classes, without deserialising."""
    record = _read_json(path)
    name, config = record.get("registered_name"), record.get("config")
    if name not in names or not isinstance(config, dict):
        raise EncoderError(f"{path} describes {one_line(name)}", expected=repr(names[0]), fix=fix)
    return config


def _read_json(path: Path) -> dict[str, Any]:
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST_JSON:
            raise ValueError(f"no file of at most {_LARGEST_JSON:,} bytes")
        record = json.loads(read_text(path))
        if not isinstance(record, dict):
            raise ValueError("not a JSON object")
    except (OSError, ValueError, RecursionError) as error:
        raise EncoderError(
            f"{path} could not be read ({error})",
            expected="a JSON file of a KerasHub preset",
            fix=FETCH_AGAIN,
        ) from None
    return record


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
