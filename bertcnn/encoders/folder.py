"""Writes an encoder's folder, for other libraries and for us."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from bertcnn.encoders.checkpoint import EncoderCheckpoint, published_name
from bertcnn.encoders.config import published_config
from bertcnn.encoders.layout import CONFIG, TOKENIZER_CONFIG, VOCABULARY, WEIGHTS
from bertcnn.settings import EncoderSettings
from bertcnn.storage import sync_folder, write_new
from bertcnn.text import CLASSIFY, MASK, PAD, SEPARATE, UNKNOWN

_MODULES, _POOLING = "modules.json", "1_Pooling"
PRETRAINING_RECORD: Final = "pretraining.json"  # record of our own pretraining
FILES: Final = frozenset(
    {
        CONFIG,
        VOCABULARY,
        TOKENIZER_CONFIG,
        WEIGHTS,
        PRETRAINING_RECORD,
        _MODULES,
        f"{_POOLING}/{CONFIG}",
    }
)  # all files that we write


@dataclass(frozen=True)
class Pieces:
    """An encoder's vocabulary in the order of ids, and whether it is uncased."""

    vocabulary: Sequence[str]
    lowercase: bool


def write_encoder(folder: Path, checkpoint: EncoderCheckpoint, pieces: Pieces) -> None:
    """Write an encoder into an empty folder and sync it to disk.

    Weights are named as in Hugging Face's BertForPreTraining, BertForMaskedLM or BertModel.

    Raises:
        OSError: the folder is not writable.
    """
    from safetensors.numpy import save

    architecture, prefix = _architecture(checkpoint)
    tensors = {}
    for name, values in checkpoint.tensors.items():
        key = published_name(name)
        stored = values.T if name.endswith("/kernel") else values
        tensors[key if key.startswith("cls.") else prefix + key] = np.ascontiguousarray(
            stored, np.float32
        )
    settings = checkpoint.settings
    _write_json(
        folder / CONFIG,
        {
            **published_config(settings),
            "architectures": [architecture],
            "pad_token_id": _pad_id(pieces),
        },
    )
    write_new(folder / VOCABULARY, "".join(f"{piece}\n" for piece in pieces.vocabulary).encode())
    _write_json(folder / TOKENIZER_CONFIG, _tokenizer_config(pieces, settings.max_positions))
    write_new(folder / WEIGHTS, save(tensors, metadata={"format": "pt"}))
    sync_folder(folder)


def write_sentence_modules(folder: Path, settings: EncoderSettings) -> None:
    """Add the files for sentence-transformers, with mean pooling.

    Raises:
        OSError: the folder is not writable.
    """
    _write_json(folder / _MODULES, _SENTENCE_MODULES)
    (folder / _POOLING).mkdir()
    _write_json(
        folder / _POOLING / CONFIG,
        {"word_embedding_dimension": settings.width, "pooling_mode_mean_tokens": True},
    )
    sync_folder(folder / _POOLING)
    sync_folder(folder)


def _architecture(checkpoint: EncoderCheckpoint) -> tuple[str, str]:
    """Hugging Face's class for these weights, and its prefix for the encoder's names."""
    if "nsp" in checkpoint.heads:
        return (
            "BertForPreTraining" if "mlm" in checkpoint.heads else "BertForNextSentencePrediction"
        ), "bert."
    return ("BertForMaskedLM", "bert.") if "mlm" in checkpoint.heads else ("BertModel", "")


def _pad_id(pieces: Pieces) -> int:
    return list(pieces.vocabulary).index(PAD) if PAD in pieces.vocabulary else 0


def _tokenizer_config(pieces: Pieces, max_positions: int) -> dict[str, Any]:
    special = {
        "pad_token": PAD,
        "unk_token": UNKNOWN,
        "cls_token": CLASSIFY,
        "sep_token": SEPARATE,
        "mask_token": MASK,
    }
    return {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": pieces.lowercase,
        "strip_accents": None,
        "tokenize_chinese_chars": True,
        "model_max_length": max_positions,
        **{name: piece for name, piece in special.items() if piece in pieces.vocabulary},
    }


_SENTENCE_MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": _POOLING, "type": "sentence_transformers.models.Pooling"},
]


def _write_json(path: Path, content: Any) -> None:  # noqa: ANN401
    write_new(path, (json.dumps(content, indent=2) + "\n").encode())
