"""Our saved model for the peers: a Hugging Face BertModel, and our head's tensors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from bertcnn.bundle.bundle import Bundle
from bertcnn.encoders.checkpoint import published_name
from bertcnn.encoders.config import published_config

_HEAD = ("convolution_", "logits/")


def write_peer_model(bundle: Bundle, folder: Path) -> Path:
    """Write a model in files that other libraries read.

    `config.json`, `model.safetensors`, the tokenizer's files, `labels.json`, and
    `head.safetensors` (the head, by our names).

    Our network has no pooler, the dense layer on [CLS]. The heads of transformers and KerasHub need
    one, and get one that changes nothing but the time.
    """
    folder.mkdir()
    head = {name: value for name, value in bundle.tensors.items() if name.startswith(_HEAD)}
    width = bundle.config.encoder.width
    encoder = {name: value for name, value in bundle.tensors.items() if name not in head}
    encoder |= {
        "pooler/kernel": np.eye(width, dtype=np.float32),
        "pooler/bias": np.zeros(width, np.float32),
    }
    published = {
        published_name(name): np.ascontiguousarray(value.T if name.endswith("/kernel") else value)
        for name, value in encoder.items()
    }
    save_file(published, folder / "model.safetensors", metadata={"format": "pt"})
    save_file(
        {name: np.ascontiguousarray(value) for name, value in head.items()},
        folder / "head.safetensors",
    )
    tokenizer = bundle.config.tokenizer
    files = {
        "config.json": published_config(bundle.config.encoder),
        "tokenizer_config.json": {
            "tokenizer_class": "BertTokenizer",
            "do_lower_case": tokenizer.lowercase,
            "model_max_length": tokenizer.max_tokens,
        },
        "labels.json": list(bundle.labels),
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    (folder / "vocab.txt").write_text("\n".join(bundle.vocabulary) + "\n", encoding="utf-8")
    return folder
