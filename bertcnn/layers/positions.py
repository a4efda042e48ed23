"""Sinusoidal position embeddings in two layouts."""

from __future__ import annotations

import numpy as np

_LONGEST_WAVE = 10_000.0  # divided by 2 pi, in tokens


def interleaved_sinusoids(positions: int, width: int) -> np.ndarray:
    """Alternating sine and cosine (Vaswani et al. 2017, section 3.5), float32 [positions, D].

    Entry 2i is sin(p / 10000^(2i/D)), and entry 2i+1 is its cosine. `width` is D, even.
    """
    frequencies = _LONGEST_WAVE ** (-np.arange(0, width, 2) / width)  # [D/2]
    angles = np.arange(positions)[:, None] * frequencies  # [positions, D/2]
    return (
        np.stack([np.sin(angles), np.cos(angles)], axis=-1)
        .reshape(positions, width)
        .astype(np.float32)
    )


def concatenated_sinusoids(positions: int, width: int) -> np.ndarray:
    """All sines, then all cosines, float32 [positions, D]; `width` is D, even.

    The wave lengths go from 2 pi to 10000 x 2 pi, both included.

    Source: tensorflow/tensor2tensor `layers/common_attention.py`, `get_timing_signal_1d`, the
    layout of the paper's own code.
    """
    waves = width // 2
    frequencies = _LONGEST_WAVE ** (-np.arange(waves) / max(waves - 1, 1))  # [D/2]
    angles = np.arange(positions)[:, None] * frequencies  # [positions, D/2]
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1).astype(np.float32)


SINUSOIDS = {
    "interleaved": interleaved_sinusoids,
    "concatenated": concatenated_sinusoids,
}  # by name in `EncoderSettings.positions`
