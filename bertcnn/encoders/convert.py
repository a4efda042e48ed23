"""Published checkpoints in: a folder in Hugging Face layout becomes our `Bert`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from bertcnn.encoders.checkpoint import HEADS, checkpoint_of, read_published
from bertcnn.errors import EncoderError
from bertcnn.models.bert import Bert
from bertcnn.models.pretraining import BertPretraining
from bertcnn.models.weights import assign


def load_published(
    encoder: Bert | BertPretraining, tensors: Mapping[str, np.ndarray]
) -> tuple[str, ...]:
    """Give `encoder` the published weights, each by its name; all or nothing.

    A checkpoint without a pooler or a head of pretraining, which are optional there, leaves ours as
    they are.

    Args:
        encoder: ours, alone or with the heads of pretraining.
        tensors: by Hugging Face's names, as `read_tensors` returns them.

    Returns:
        The names of our weights that the checkpoint does not have: none, or the pooler's and the
        heads'.

    Raises:
        EncoderError: a tensor is missing or has another shape.
    """
    alone = isinstance(encoder, Bert)
    settings = encoder.settings if alone else encoder.encoder.settings
    found = checkpoint_of(settings, tensors, heads=("pooler",) if alone else HEADS).tensors
    weights = [weight for weight in encoder.weights if weight.path in found]
    assign(weights, {weight.path: found[weight.path] for weight in weights}, error=EncoderError)
    return tuple(weight.path for weight in encoder.weights if weight.path not in found)


def load_encoder(folder: Path, *, seed: int = 0) -> Bert:
    """The encoder in a folder with `config.json` and `model.safetensors`, or in KerasHub's layout.

    Raises:
        EncoderError: a file is missing or broken, or the two do not fit.
    """
    settings, tensors = read_published(folder)
    encoder = Bert(settings, seed=seed, name="bert")
    load_published(encoder, tensors)
    return encoder
