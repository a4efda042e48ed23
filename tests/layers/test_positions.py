"""Sinusoidal positions, compared number by number with their formulas."""

import math

import numpy as np

from bertcnn.layers.embeddings import concatenated_sinusoids, interleaved_sinusoids

POSITIONS, WIDTH = 50, 12


def test_interleaved_positions_follow_the_paper():
    found = interleaved_sinusoids(POSITIONS, WIDTH)
    assert found.dtype == np.float32
    for position in range(POSITIONS):
        for i in range(WIDTH // 2):
            angle = position / 10_000 ** (2 * i / WIDTH)
            assert abs(found[position, 2 * i] - math.sin(angle)) < 1e-6
            assert abs(found[position, 2 * i + 1] - math.cos(angle)) < 1e-6


def test_concatenated_positions_follow_tensor2tensor():
    found = concatenated_sinusoids(POSITIONS, WIDTH)
    timescales = WIDTH // 2
    # get_timing_signal_1d with its default timescales of 1 and 10,000
    increment = math.log(1.0e4 / 1.0) / (timescales - 1)
    for position in range(POSITIONS):
        for i in range(timescales):
            scaled_time = position * 1.0 * math.exp(i * -increment)
            assert abs(found[position, i] - math.sin(scaled_time)) < 1e-6
            assert abs(found[position, timescales + i] - math.cos(scaled_time)) < 1e-6
