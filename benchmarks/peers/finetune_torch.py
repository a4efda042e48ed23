"""The peer of finetuning.py: a plain PyTorch loop over the same batches.

The same weights and the same network.

Runs in the peers' environment; answers on standard output with one JSON line.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
import torch
from torch import nn

from benchmarks.peers.network import BertCnn


def main() -> None:
    """Train on the batches of the file, after a warm-up, and tell the speed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("checkpoint")
    parser.add_argument("batches")
    parser.add_argument("--warmup", type=int, required=True)
    parser.add_argument("--dropout", type=float, required=True)
    parser.add_argument("--attention-dropout", type=float, required=True)
    options = parser.parse_args()
    torch.manual_seed(0)
    stored = np.load(options.batches)
    count = int(stored["count"])
    dropout = {"dropout": options.dropout, "attention_dropout": options.attention_dropout}
    model = BertCnn(options.checkpoint, int(stored["classes"]), **dropout).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, weight_decay=0.01)
    loss_function = nn.CrossEntropyLoss(label_smoothing=0.1)
    rows = 0
    started = time.perf_counter()
    for index in range(count):
        if index == options.warmup:
            rows, started = 0, time.perf_counter()
        token_ids, mask, labels = (
            torch.from_numpy(stored[f"{name}_{index}"].astype(np.int64))
            for name in ("ids", "mask", "labels")
        )
        optimizer.zero_grad(set_to_none=True)
        loss = loss_function(model(token_ids, mask), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rows += len(labels)
    print(
        json.dumps(
            {
                "rows_per_second": rows / (time.perf_counter() - started),
                "loss": float(loss.detach()),
            }
        )
    )


if __name__ == "__main__":
    main()
