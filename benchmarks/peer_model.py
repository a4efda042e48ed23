"""Converts our saved models for the peers: a Hugging Face BertModel with our head or theirs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from bertcnn.bundle import Bundle
from bertcnn.encoders.checkpoint import published_name
from bertcnn.encoders.config import published_config
from bertcnn.tasks.question_answering.saving import SavedAnswerer

_HEAD = ("convolution_", "logits/")


def write_peer_model(bundle: Bundle, folder: Path) -> Path:
    """Write a model in the formats that other libraries read.

    The files are `config.json`, `model.safetensors`, the tokenizer's files, `labels.json`, and
    `head.safetensors` (the head, under our names).

    Our network has no pooler, the dense layer on [CLS]. The heads of transformers and KerasHub need
    one, so they get an identity pooler that only costs time.
    """
    folder.mkdir()
    head = {name: value for name, value in bundle.tensors.items() if name.startswith(_HEAD)}
    width = bundle.config.encoder.width
    encoder = {name: value for name, value in bundle.tensors.items() if name not in head}
    encoder |= {
        "pooler/kernel": np.eye(width, dtype=np.float32),
        "pooler/bias": np.zeros(width, np.float32),
    }
    save_file(
        {published_name(name): _published(name, value) for name, value in encoder.items()},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )
    save_file(
        {name: np.ascontiguousarray(value) for name, value in head.items()},
        folder / "head.safetensors",
    )
    (folder / "labels.json").write_text(json.dumps(list(bundle.labels)), encoding="utf-8")
    tokenizer = bundle.config.tokenizer
    _write_texts(
        folder,
        published_config(bundle.config.encoder),
        bundle.vocabulary,
        tokenizer.lowercase,
        tokenizer.max_tokens,
    )
    return folder


def write_peer_answerer(saved: SavedAnswerer, folder: Path) -> Path:
    """Write a question answerer as a Hugging Face BertForQuestionAnswering."""
    folder.mkdir()
    names = {"spans/kernel": "qa_outputs.weight", "spans/bias": "qa_outputs.bias"}
    published = {
        names.get(name) or f"bert.{published_name(name)}": _published(name, value)
        for name, value in saved.tensors.items()
    }
    save_file(published, folder / "model.safetensors", metadata={"format": "pt"})
    config = saved.config
    _write_texts(
        folder,
        published_config(config.encoder),
        saved.vocabulary,
        config.lowercase,
        config.questions.max_tokens,
    )
    return folder


def _published(name: str, value: np.ndarray) -> np.ndarray:
    """A weight in PyTorch's layout."""
    return np.ascontiguousarray(value.T if name.endswith("/kernel") else value)


def _write_texts(
    folder: Path, config: object, vocabulary: Sequence[str], lowercase: bool, max_tokens: int
) -> None:
    """Write `config.json` and the tokenizer's files."""
    tokenizer = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": lowercase,
        "model_max_length": max_tokens,
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
