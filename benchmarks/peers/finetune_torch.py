"""The peer of finetuning.py: a plain PyTorch loop over the same batches, with the same weights and the same network.

Runs in the peers' environment; answers on standard output with one JSON line.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
import torch
from torch import nn
from transformers import BertModel


class BertCnn(nn.Module):
    """BERT's token embeddings through Conv1d branches, masked max, masked mean and one linear layer."""

    def __init__(self, checkpoint: str, classes: int, dropout: float, attention_dropout: float) -> None:
        super().__init__()
        windows, filters = (2, 3, 4), 128
        self.bert = BertModel.from_pretrained(
            checkpoint, add_pooling_layer=False, hidden_dropout_prob=dropout, attention_probs_dropout_prob=attention_dropout
        )
        width = self.bert.config.hidden_size
        self.branches = nn.ModuleList(nn.Conv1d(width, filters, window) for window in windows)
        self.dropout = nn.Dropout(0.1)
        self.linear = nn.Linear(len(windows) * filters + width, classes)

    def forward(self, token_ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Logits [B, C]."""
        hidden = self.bert(token_ids, attention_mask=mask).last_hidden_state  # [B, T, D]
        real = mask[:, :, None].to(hidden.dtype)
        channels = (hidden * real).transpose(1, 2)  # [B, D, T]
        pooled = []
        for branch in self.branches:
            activations = torch.relu(branch(nn.functional.pad(channels, (0, branch.kernel_size[0] - 1))))
            pooled.append((activations * real.transpose(1, 2)).amax(dim=2))
        pooled.append((hidden * real).sum(1) / real.sum(1).clamp(min=1))
        return self.linear(self.dropout(torch.cat(pooled, dim=1)))


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
    model = BertCnn(options.checkpoint, int(stored["classes"]), options.dropout, options.attention_dropout).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, weight_decay=0.01)
    loss_function = nn.CrossEntropyLoss(label_smoothing=0.1)
    rows = 0
    started = time.perf_counter()
    for index in range(count):
        if index == options.warmup:
            rows, started = 0, time.perf_counter()
        token_ids, mask, labels = (torch.from_numpy(stored[f"{name}_{index}"].astype(np.int64)) for name in ("ids", "mask", "labels"))
        optimizer.zero_grad(set_to_none=True)
        loss = loss_function(model(token_ids, mask), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rows += len(labels)
    print(json.dumps({"rows_per_second": rows / (time.perf_counter() - started), "loss": float(loss.detach())}))


if __name__ == "__main__":
    main()
