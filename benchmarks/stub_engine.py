"""A model with a stub network that answers at once, or after a given time.

    python -m benchmarks.stub_engine IN OUT [--seconds-a-row S]

The command scores a file with it, as `bertcnn score` does.
"""

from __future__ import annotations

import argparse
import string
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bertcnn.bundle import Bundle, BundleConfig, Calibration, Decisions
from bertcnn.inference import EngineOutput, Predictor
from bertcnn.inference.engines import Evidence
from bertcnn.scoring import score_csv
from bertcnn.settings import EncoderSettings, HeadSettings, TokenizerSettings

LABELS = ("account", "billing", "hardware", "network", "software")
_VOCABULARY = (
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    *string.digits,
    *(f"##{digit}" for digit in string.digits),
    "router",
    "refund",
    "app",
    "is",
)
_WIDTH, _FILTERS = 4, 2


class StubEngine:
    """Computes logits from the token ids by arithmetic.

    A real network's answers depend on the other rows of the batch, but only in their last digits.
    The stub's answers depend on the batch in their first digits, so that a run that splits the same
    texts into other batches is detected.

    Attributes:
        seconds_a_row: time for a row.
        asked: rows so far.
    """

    name = "stub"

    def __init__(self, seconds_a_row: float = 0.0) -> None:
        self.seconds_a_row, self.asked = seconds_a_row, 0
        self._lock = threading.Lock()  # as in real engines, one call at a time

    def run(self, token_ids: Sequence[np.ndarray], *, evidence: bool = False) -> EngineOutput:
        """Logits of each row, in order, and evidence for single windows.

        Both are computed from the ids.
        """
        with self._lock:
            self.asked += len(token_ids)
            time.sleep(self.seconds_a_row * len(token_ids))
        if not len(token_ids):
            nothing = Evidence.empty(0, _FILTERS, 0)
            return EngineOutput(
                np.empty((0, len(LABELS)), np.float32), nothing if evidence else None
            )
        lengths = np.fromiter(map(len, token_ids), np.int64, len(token_ids))
        starts = np.cumsum(lengths) - lengths
        sums = np.add.reduceat(
            np.concatenate(token_ids).astype(np.float64) ** 1.5, starts
        ) + 0.01 * len(token_ids)
        activations = np.abs(np.sin(sums[:, None] * np.arange(1, _FILTERS + 1))).astype(np.float32)
        windows = (sums[:, None] * np.arange(1, _FILTERS + 1) % lengths[:, None]).astype(np.int32)
        logits = (3 * np.sin(sums[:, None] * np.arange(1, len(LABELS) + 1))).astype(np.float32)
        return EngineOutput(
            logits,
            (
                Evidence(activations, windows, np.empty((len(windows), 0), np.float32))
                if evidence
                else None
            ),
        )


def stub_predictor(seconds_a_row: float = 0.0) -> Predictor:
    """A model with that engine and the real tokenizer."""
    config = BundleConfig(
        encoder=EncoderSettings(
            vocabulary_size=len(_VOCABULARY),
            width=_WIDTH,
            layers=1,
            heads=2,
            feed_forward_width=8,
            max_positions=32,
        ),
        encoder_name="stub",
        head=HeadSettings(window_sizes=(2,), filters=_FILTERS),
        tokenizer=TokenizerSettings(max_tokens=32, head_tokens=8),
        text_columns=("text",),
        label_column="label",
        recipe="frozen",
        seed=0,
        versions={},
        created_at="2026-11-21T00:00:00+00:00",
    )
    kernel = np.sin(np.arange((_FILTERS + _WIDTH) * len(LABELS), dtype=np.float32)).reshape(
        -1, len(LABELS)
    )
    tensors = {"logits/kernel": kernel, "logits/bias": np.zeros(len(LABELS), np.float32)}
    calibration, decisions = (
        Calibration(temperature=1.0, fitted_on_rows=1),
        Decisions(thresholds=(0.6,) * len(LABELS)),
    )
    bundle = Bundle(config, LABELS, _VOCABULARY, tensors, calibration, {}, "", decisions)
    return Predictor(bundle, StubEngine(seconds_a_row))


def main() -> None:
    """Score a file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--seconds-a-row", type=float, default=0.0)
    options = parser.parse_args()
    score_csv(
        stub_predictor(options.seconds_a_row), options.source, options.target, probabilities=True
    )


if __name__ == "__main__":
    main()
