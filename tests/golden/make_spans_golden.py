"""Makes spans_golden.npz: start and end scores of BERT with one linear layer, in PyTorch.

The weights are random; the blocks are PyTorch's own nn.TransformerEncoderLayer. Run where torch is
installed (it is no dependency of bertcnn):

    python make_spans_golden.py

spans_golden.npz: `weights/NAME`, float32, by the names of `Spans`, with matrices [out, in]; the
inputs `token_ids`, `segment_ids` and `padding_mask`, int32 [B, T], the latter 1 at tokens and 0 at
padding; and the output, `scores`, float32 [B, T, 2].
"""

import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

HERE = Path(__file__).parent
SEED = 20181011
VOCABULARY, POSITIONS, WIDTH, LAYERS, HEADS, INNER = 40, 12, 16, 2, 4, 32
TOKENS = 9
QUESTIONS, LENGTHS = [4, 3], [9, 6]  # tokens of each row's question, and of the whole row
EPSILON = 1e-12


class Spans(nn.Module):
    """Devlin et al. 2019, sections 3 and 4.2, without dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(POSITIONS, WIDTH)
        self.segments = nn.Embedding(2, WIDTH)
        self.normalize = nn.LayerNorm(WIDTH, EPSILON)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                WIDTH,
                HEADS,
                INNER,
                dropout=0.0,
                activation="gelu",
                layer_norm_eps=EPSILON,
                batch_first=True,
                norm_first=False,
            )
            for _ in range(LAYERS)
        )
        self.spans = nn.Linear(WIDTH, 2)

    def forward(self, token_ids, segment_ids, mask):
        places = torch.arange(token_ids.shape[1])[None]
        hidden = self.tokens(token_ids) + self.positions(places) + self.segments(segment_ids)
        hidden = self.normalize(hidden)
        for layer in self.layers:
            hidden = layer(hidden, src_key_padding_mask=~mask)
        return self.spans(hidden)


def main() -> None:
    torch.manual_seed(SEED)
    model = Spans()  # training mode has no fused fast path; there is no dropout
    with torch.no_grad():
        for name, weight in model.named_parameters():
            # larger than fresh weights, and no bias at 0, so that every term matters
            normalisation = "norm" in name and name.endswith("weight")
            weight.copy_(torch.randn_like(weight) * 0.3 + float(normalisation))
    places = torch.arange(TOKENS)[None]
    mask = places < torch.tensor(LENGTHS)[:, None]
    token_ids = torch.where(mask, torch.randint(1, VOCABULARY, (2, TOKENS)), 0)
    segment_ids = ((places >= torch.tensor(QUESTIONS)[:, None]) & mask).long()
    scores = model(token_ids, segment_ids, mask).detach()
    np.savez_compressed(
        HERE / "spans_golden.npz",
        token_ids=token_ids.numpy().astype(np.int32),
        segment_ids=segment_ids.numpy().astype(np.int32),
        padding_mask=mask.numpy().astype(np.int32),
        scores=scores.numpy(),
        **{f"weights/{name}": one.detach().numpy() for name, one in model.named_parameters()},
    )
    size = (HERE / "spans_golden.npz").stat().st_size
    sys.stdout.write(f"torch {torch.__version__}: {size:,} bytes\n")


if __name__ == "__main__":
    main()
