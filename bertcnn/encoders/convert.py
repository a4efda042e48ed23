"""Loads published checkpoints into our models."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from bertcnn.encoders.checkpoint import HEADS, checkpoint_of, read_published
from bertcnn.encoders.download import fetch_encoder
from bertcnn.errors import EncoderError
from bertcnn.models import Bert, BertPretraining, assign
from bertcnn.text import WordPieceTokenizer


def load_published(
    encoder: Bert | BertPretraining, tensors: Mapping[str, np.ndarray]
) -> tuple[str, ...]:
    """Assign published weights by name, all or none.

    A pooler and pretraining heads are optional. Returns the names of our weights that the
    checkpoint lacks; they keep their values. `tensors` are from `read_tensors`.

    Raises:
        EncoderError: a tensor is missing or misshapen.
    """
    alone = isinstance(encoder, Bert)
    settings = encoder.settings if alone else encoder.encoder.settings
    converted = checkpoint_of(settings, tensors, heads=("pooler",) if alone else HEADS).tensors
    weights = [weight for weight in encoder.weights if weight.path in converted]
    assign(weights, {weight.path: converted[weight.path] for weight in weights}, error=EncoderError)
    return tuple(weight.path for weight in encoder.weights if weight.path not in converted)


def load_encoder(encoder: str | Path, *, seed: int = 0) -> Bert:
    """Load a published encoder with its tokenizer; see `fetch_encoder` for its names.

    Args:
        encoder: a name such as "minilm-l6" or "keras_hub:bert_tiny_en_uncased", or a folder in
            Hugging Face, KerasHub or Google layout.
        seed: of the weights that the checkpoint lacks, such as the pooler.

    Raises:
        EncoderError: a file is missing or damaged, or settings and weights do not fit.

    Example:
        encoder = load_encoder("minilm-l6")
        vectors = encoder.embed(["my router is dead"])  # float32 [1, 384]
        outputs = encoder(encoder.tokenizer(["my router is dead"]))
    """
    folder = fetch_encoder(encoder).folder
    settings, tensors = read_published(folder)
    loaded = Bert(settings, seed=seed, name="bert")
    load_published(loaded, tensors)
    loaded.tokenizer = WordPieceTokenizer.from_folder(folder)
    return loaded
