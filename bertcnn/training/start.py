"""The starting point of a training: an encoder and its tokenizer."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from bertcnn.backend import has_nvidia_gpu, on_gpu
from bertcnn.encoders import fetch_encoder, load_encoder
from bertcnn.errors import SettingsError
from bertcnn.models import Bert
from bertcnn.progress import Progress
from bertcnn.settings import ComputePrecision
from bertcnn.text import WordPieceTokenizer
from bertcnn.training.devices import compute_policy, gpu_name

SEEDS = 2**31  # exclusive upper limit


def check_seed(seed: object) -> None:
    """Raise a SettingsError for a seed that is not an integer from 0 to 2**31 - 1."""
    if not isinstance(seed, int | np.integer) or not 0 <= seed < SEEDS:
        raise SettingsError(
            f"seed {seed!r}", expected=f"a whole number from 0 to {SEEDS - 1}", fix="choose one"
        )


def note_device(progress: Progress, precision: ComputePrecision = "auto") -> None:
    """Report the GPU in use, or an NVIDIA GPU that is not used."""
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
    """An encoder that is ready for training.

    `sentence_encoder` is whether it is known to give texts of similar meaning similar embeddings.
    """

    name: str
    encoder: Bert
    tokenizer: WordPieceTokenizer
    sentence_encoder: bool

    @property
    def changes(self) -> dict[str, Any]:
        """Settings that change for this encoder: only a sentence encoder may have frozen layers."""
        return {} if self.sentence_encoder else {"frozen_share": 0.0}


def load_start(
    encoder: str | os.PathLike[str],
    max_tokens: int,
    *,
    seed: int,
    progress: Progress,
    precision: ComputePrecision = "auto",
    pair: bool = False,
) -> Start:
    """Fetch and load an encoder, by name or folder.

    Texts get at most `max_tokens` tokens; the encoder's own limit applies too. With `pair`, their
    first line is segment A.

    Raises:
        EncoderError: it is unknown or cannot be loaded.
    """
    note_device(progress, precision)
    fetched = fetch_encoder(encoder, progress=progress)
    loaded = load_encoder(fetched.folder, seed=seed)
    return Start(
        fetched.name,
        loaded,
        WordPieceTokenizer.from_folder(fetched.folder, max_tokens=max_tokens, pair=pair),
        fetched.entry is not None and fetched.entry.sentence_encoder,
    )
