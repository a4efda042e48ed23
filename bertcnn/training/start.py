"""What a training starts from: an encoder and the tokenizer that belongs to it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from bertcnn.backend import has_nvidia_gpu, on_gpu
from bertcnn.encoders.config import read_tokenizer_settings
from bertcnn.encoders.convert import load_encoder
from bertcnn.encoders.download import fetch_encoder
from bertcnn.errors import SettingsError
from bertcnn.models.bert import Bert
from bertcnn.progress import Progress
from bertcnn.settings import ComputePrecision, TokenizerSettings
from bertcnn.text.wordpiece import WordPieceTokenizer, read_vocabulary
from bertcnn.training.devices import compute_policy, gpu_name

SEEDS = 2**31  # a seed is less


def check_seed(seed: object) -> None:
    """Refuse a seed that is no whole number from 0 to 2**31 - 1.

    Raises:
        SettingsError: it is not.
    """
    if not isinstance(seed, int | np.integer) or not 0 <= seed < SEEDS:
        raise SettingsError(
            f"seed {seed!r}", expected=f"a whole number from 0 to {SEEDS - 1}", fix="choose one"
        )


def note_device(progress: Progress, precision: ComputePrecision = "auto") -> None:
    """Note which GPU a training computes on, or that there is one which it does not use."""
    if on_gpu():
        name = "JAX" if keras.backend.backend() == "jax" else "TensorFlow"
        computed = compute_policy(precision).removeprefix("mixed_")
        progress.note(f"training on {gpu_name()}, {name}, {computed}")
    elif has_nvidia_gpu():
        progress.note(
            "training on the CPU, although there is an NVIDIA GPU; to train on that: pip install"
            " 'jax[cuda13]'"
        )


@dataclass(frozen=True)
class Start:
    """An encoder, ready to be trained.

    Attributes:
        name: its name in a model made from it.
        encoder: with its published weights.
        tokenizer: makes its input.
        sentence_encoder: whether it is known to have been tuned so that texts which mean the same
            have similar embeddings.
    """

    name: str
    encoder: Bert
    tokenizer: WordPieceTokenizer
    sentence_encoder: bool

    @property
    def changes(self) -> dict[str, Any]:
        """What is changed in the settings for this encoder.

        No layer of an encoder that has yet to learn what texts mean stays as it is.
        """
        return {} if self.sentence_encoder else {"frozen_share": 0.0}


def load_start(
    encoder: str | os.PathLike[str],
    max_tokens: int,
    *,
    seed: int,
    progress: Progress,
    precision: ComputePrecision = "auto",
) -> Start:
    """Fetch and load an encoder.

    Args:
        encoder: name of a published one, or a folder.
        max_tokens: that a text may have, if the encoder reads as many.
        seed: of its dropout.
        progress: reports the download, and what the training computes on.
        precision: of the training.

    Raises:
        EncoderError: it is unknown or cannot be had.
    """
    note_device(progress, precision)
    fetched = fetch_encoder(encoder, progress=progress)
    loaded = load_encoder(fetched.folder, seed=seed)
    limits = read_tokenizer_settings(fetched.folder, loaded.settings.max_positions)
    most = min(limits.max_tokens, max_tokens)
    settings = TokenizerSettings(
        lowercase=limits.lowercase,
        max_tokens=most,
        head_tokens=min(limits.head_tokens, (most - 2) // 4 + 1),
    )
    tokenizer = WordPieceTokenizer(read_vocabulary(fetched.folder / "vocab.txt"), settings)
    return Start(
        fetched.name,
        loaded,
        tokenizer,
        fetched.entry is not None and fetched.entry.sentence_encoder,
    )
