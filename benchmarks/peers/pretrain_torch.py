"""The peer of pretraining.py: Hugging Face's BertForPreTraining in a PyTorch loop.

Runs in the peers' environment; answers on standard output with one JSON line.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
import torch
from torch import nn
from transformers import BertConfig, BertForPreTraining  # type: ignore[import-not-found,import-untyped]

_IGNORED = -100  # the label of a place that the loss leaves out


def main() -> None:
    """Learn from the batches of the file, after a warm-up on the first; or measure the peak."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches")
    parser.add_argument("--peak", action="store_true")
    options = parser.parse_args()
    print(
        json.dumps(
            {"flops_per_second": peak()} if options.peak else {"seconds": seconds(options.batches)}
        )
    )


def peak() -> float:
    """The best of a few matrix products in float32, FLOP/s."""
    best = 0.0
    for rows, inner in ((4096, 1024), (2048, 2048)):
        left, right = torch.ones(rows, inner), torch.ones(inner, inner)
        for _ in range(9):
            started = time.perf_counter()
            left @ right
            best = max(best, 2 * rows * inner * inner / (time.perf_counter() - started))
    return best


def seconds(path: str) -> float:
    """Of one pass over the batches."""
    torch.manual_seed(0)
    stored = np.load(path)
    config = BertConfig(
        vocab_size=int(stored["vocabulary_size"]),
        hidden_size=int(stored["width"]),
        num_hidden_layers=int(stored["layers"]),
        num_attention_heads=int(stored["heads"]),
        intermediate_size=int(stored["feed_forward_width"]),
        max_position_embeddings=int(stored["max_positions"]),
    )
    model = BertForPreTraining(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01)
    batches = [inputs(stored, number) for number in range(int(stored["count"]))]
    started = 0.0
    for number, batch in enumerate([batches[0], *batches]):
        if number == 1:
            started = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        model(**batch).loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return time.perf_counter() - started


def inputs(stored: dict[str, np.ndarray], number: int) -> dict[str, torch.Tensor]:
    """One batch as the model takes it."""
    found = {
        name: stored[f"{name}_{number}"] for name in ("token_ids", "segment_ids", "padding_mask")
    }
    labels = np.full(found["token_ids"].shape, _IGNORED)
    rows, places = np.nonzero(stored[f"masked_weights_{number}"])
    labels[rows, stored[f"masked_positions_{number}"][rows, places]] = stored[
        f"masked_labels_{number}"
    ][rows, places]
    following = np.where(
        stored[f"next_weights_{number}"] > 0, stored[f"next_labels_{number}"], _IGNORED
    )
    arrays = {
        "input_ids": found["token_ids"],
        "token_type_ids": found["segment_ids"],
        "attention_mask": found["padding_mask"],
        "labels": labels,
        "next_sentence_label": following,
    }
    return {name: torch.from_numpy(values.astype(np.int64)) for name, values in arrays.items()}


if __name__ == "__main__":
    main()
