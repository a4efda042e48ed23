"""A competitor of scoring.py: our network in ONNX Runtime, texts sorted by length."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime  # type: ignore[import-not-found,import-untyped]
from transformers import AutoTokenizer

from benchmarks.measuring import TEXT, measure, parser, read_rows, write_scored

_BATCH_ROWS = 32


def main() -> None:
    """Load the model, then score and tell the speed."""
    arguments = parser("a folder of peer_model.py with what export_onnx.py puts in it")
    arguments.add_argument("--precision", choices=("int8", "float32"), required=True)
    options = arguments.parse_args()
    labels = json.loads((options.model / "labels.json").read_text(encoding="utf-8"))
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    session = onnxruntime.InferenceSession(
        options.model / f"network-{options.precision}.onnx", providers=["CPUExecutionProvider"]
    )

    def score(source: Path, target: Path) -> None:
        rows = read_rows(source)
        token_ids = tokenizer([row[TEXT] for row in rows], truncation=True)["input_ids"]
        order = sorted(range(len(rows)), key=lambda row: len(token_ids[row]))
        logits = np.empty((len(rows), len(labels)), np.float32)
        for start in range(0, len(order), _BATCH_ROWS):
            batch = order[start : start + _BATCH_ROWS]
            padded = np.full(
                (len(batch), len(token_ids[batch[-1]])), tokenizer.pad_token_id, np.int64
            )
            mask = np.zeros_like(padded)
            for place, row in enumerate(batch):
                padded[place, : len(token_ids[row])] = token_ids[row]
                mask[place, : len(token_ids[row])] = 1
            logits[batch] = session.run(["logits"], {"token_ids": padded, "mask": mask})[0]
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        write_scored(
            target,
            rows,
            [labels[place] for place in shares.argmax(axis=1)],
            shares.max(axis=1).tolist(),
        )

    measure(score, options, f"ONNX Runtime {onnxruntime.__version__}")


if __name__ == "__main__":
    main()
