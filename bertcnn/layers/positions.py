"""Sinusoidal positions, in the two layouts in use."""

from __future__ import annotations

import numpy as np

_LONGEST_WAVE = 10_000.0  # over 2 pi, in tokens


def interleaved_sinusoids(positions: int, width: int) -> np.ndarray:
    """Alternating sine and cosine (Vaswani et al. 2017, section 3.5).

    Entry 2i is sin(p / 10000^(2i/D)), entry 2i+1 is the cosine of the same.

    Args:
        positions: rows of the table.
        width: D, even.

    Returns:
        float32 [positions, D].

    Source: Vaswani et al. 2017, section 3.5.
    """
    frequencies = _LONGEST_WAVE ** (-np.arange(0, width, 2) / width)  # [D/2]
    angles = np.arange(positions)[:, None] * frequencies  # [positions, D/2]
    return (
        np.stack([np.sin(angles), np.cos(angles)], axis=-1)
        .reshape(positions, width)
        .astype(np.float32)
    )


def concatenated_sinusoids(positions: int, width: int) -> np.ndarray:
    """All sines, then all cosines; the wave lengths go from 2 pi to 10000 x 2 pi, both included.

    Args:
        positions: rows of the table.
        width: D, even.

    Returns:
        float32 [positions, D].

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
}  # by their names in `EncoderSettings.positions`
