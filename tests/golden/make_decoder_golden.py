"""Makes decoder_golden.npz: outputs of PyTorch's nn.TransformerDecoderLayer with random weights.

Run where torch is installed (it is no dependency of bertcnn):

    python make_decoder_golden.py

decoder_golden.npz, all float32 except the mask: `weights/NAME` by PyTorch's names, with matrices
[out, in]; the inputs `hidden` [B, T, D], `memory` [B, S, D] and `memory_mask` int32 [B, S], 1 at
tokens and 0 at padding; and the output, `output` [B, T, D], under a causal mask.
"""

import sys
from pathlib import Path

import numpy as np
import torch

HERE = Path(__file__).parent
SEED = 20170612
ROWS, TOKENS, SOURCE_TOKENS, WIDTH, HEADS, INNER = 2, 5, 7, 16, 4, 32
LENGTHS = [7, 4]  # source tokens
EPSILON = 1e-6


@torch.no_grad()
def main() -> None:
    torch.manual_seed(SEED)
    layer = torch.nn.TransformerDecoderLayer(
        WIDTH,
        HEADS,
        INNER,
        dropout=0.0,
        activation="relu",
        layer_norm_eps=EPSILON,
        batch_first=True,
        norm_first=False,
    ).eval()
    for name, weight in layer.named_parameters():
        # larger than a fresh layer's, and no bias at 0, so that every term matters
        normalisation = name.startswith("norm") and name.endswith("weight")
        weight.copy_(torch.randn_like(weight) * 0.3 + float(normalisation))
    hidden = torch.randn(ROWS, TOKENS, WIDTH)
    memory = torch.randn(ROWS, SOURCE_TOKENS, WIDTH)
    mask = torch.arange(SOURCE_TOKENS)[None] < torch.tensor(LENGTHS)[:, None]
    later = torch.triu(torch.ones(TOKENS, TOKENS, dtype=torch.bool), diagonal=1)
    output = layer(hidden, memory, tgt_mask=later, memory_key_padding_mask=~mask)
    np.savez_compressed(
        HERE / "decoder_golden.npz",
        hidden=hidden.numpy(),
        memory=memory.numpy(),
        memory_mask=mask.numpy().astype(np.int32),
        output=output.numpy(),
        **{f"weights/{name}": weight.numpy() for name, weight in layer.named_parameters()},
    )
    size = (HERE / "decoder_golden.npz").stat().st_size
    sys.stdout.write(f"torch {torch.__version__}: {size:,} bytes\n")


if __name__ == "__main__":
    main()
