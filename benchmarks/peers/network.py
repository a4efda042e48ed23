"""Our network in PyTorch: transformers' BertModel with the same CNN head."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn
from transformers import BertModel


class BertCnn(nn.Module):
    """BERT's token embeddings through Conv1d branches, masked max and mean, a linear layer.

    Args:
        checkpoint: BertModel's folder.
        classes: number of labels.
        dropout: of the encoder.
        attention_dropout: of the encoder's attention.
        windows: tokens under a filter, for each branch.
        filters: of each branch.
    """

    def __init__(
        self,
        checkpoint: str | Path,
        classes: int,
        *,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        windows: tuple[int, ...] = (2, 3, 4),
        filters: int = 128,
    ) -> None:
        super().__init__()
        self.bert = BertModel.from_pretrained(
            checkpoint,
            add_pooling_layer=False,
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=attention_dropout,
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
            activations = torch.relu(
                branch(nn.functional.pad(channels, (0, branch.kernel_size[0] - 1)))
            )
            pooled.append((activations * real.transpose(1, 2)).amax(dim=2))
        pooled.append((hidden * real).sum(1) / real.sum(1).clamp(min=1))
        return self.linear(self.dropout(torch.cat(pooled, dim=1)))


def trained(folder: Path) -> BertCnn:
    """The trained network in a folder of `peer_model.write_peer_model`, ready to answer."""
    head = load_file(folder / "head.safetensors")
    windows = tuple(
        sorted(
            int(name.split("_")[1].split("/")[0])
            for name in head
            if name.endswith("/kernel") and "_" in name
        )
    )
    filters = head[f"convolution_{windows[0]}/bias"].shape[0]
    model = BertCnn(folder, head["logits/bias"].shape[0], windows=windows, filters=filters)
    with torch.no_grad():
        for window, branch in zip(windows, model.branches, strict=True):
            # ours is [W, D, N], theirs [N, D, W]
            branch.weight.copy_(head[f"convolution_{window}/kernel"].permute(2, 1, 0))
            branch.bias.copy_(head[f"convolution_{window}/bias"])
        model.linear.weight.copy_(head["logits/kernel"].T)
        model.linear.bias.copy_(head["logits/bias"])
    return model.eval()
