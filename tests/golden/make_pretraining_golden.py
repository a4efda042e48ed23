"""Makes pretraining_golden.npz: outputs and gradients of Hugging Face's BertForPreTraining.

Its weights are small and random. Run where torch and transformers are installed (they are no
dependencies of bertcnn):

    python make_pretraining_golden.py

pretraining_golden.npz: `weights/NAME` and `gradients/NAME` by Hugging Face's names; the inputs
`token_ids`, `segment_ids`, `padding_mask`, int32 [B, T]; `masked_positions`, `masked_labels` int32
[B, P] and `masked_weights` float32 [B, P] (0 where a row has fewer than P); `next_labels` int32
[B]; and the outputs `mlm_logits` float32 [B, P, V], `nsp_logits` float32 [B, 2], `mlm_loss`,
`nsp_loss` float32 [].
"""

import sys
from pathlib import Path

import numpy as np
import torch
import transformers

HERE = Path(__file__).parent
ROWS, TOKENS, MASKED = 3, 10, 3
CONFIG = transformers.BertConfig(
    vocab_size=120,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=12,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    attn_implementation="eager",
)


def main() -> None:
    torch.manual_seed(20181011)
    model = transformers.BertForPreTraining(CONFIG).train()
    with torch.no_grad():
        for (
            name,
            weight,
            # larger than a fresh model's, and no bias at 0, so that every term matters
        ) in model.named_parameters():
            weight.copy_(
                torch.randn_like(weight) * 0.2 + (1.0 if "LayerNorm.weight" in name else 0.0)
            )
    generator = np.random.default_rng(1)
    token_ids = generator.integers(5, CONFIG.vocab_size, (ROWS, TOKENS)).astype(np.int32)
    lengths = np.array([TOKENS, 7, 4])
    padding_mask = (np.arange(TOKENS) < lengths[:, None]).astype(np.int32)
    token_ids *= padding_mask
    segment_ids = ((np.arange(TOKENS) >= lengths[:, None] // 2) * padding_mask).astype(np.int32)
    masked_positions = np.array([[1, 4, 8], [2, 5, 0], [1, 0, 0]], np.int32)
    masked_weights = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 0]], np.float32)
    masked_labels = (
        generator.integers(5, CONFIG.vocab_size, (ROWS, MASKED)) * masked_weights
    ).astype(np.int32)
    next_labels = np.array([0, 1, 1], np.int32)

    labels = np.full((ROWS, TOKENS), -100, np.int64)
    for row, column in zip(*np.nonzero(masked_weights), strict=True):
        labels[row, masked_positions[row, column]] = masked_labels[row, column]
    output = model(
        input_ids=torch.tensor(token_ids).long(),
        attention_mask=torch.tensor(padding_mask).long(),
        token_type_ids=torch.tensor(segment_ids).long(),
        labels=torch.tensor(labels),
        next_sentence_label=torch.tensor(next_labels).long(),
    )
    output.loss.backward()
    cross_entropy = torch.nn.functional.cross_entropy
    mlm_loss = cross_entropy(
        output.prediction_logits.view(-1, CONFIG.vocab_size), torch.tensor(labels).view(-1)
    )
    nsp_loss = cross_entropy(output.seq_relationship_logits, torch.tensor(next_labels).long())
    assert torch.allclose(mlm_loss + nsp_loss, output.loss)
    mlm_logits = output.prediction_logits.detach().numpy()[
        np.arange(ROWS)[:, None], masked_positions
    ]
    arrays = {}
    for name, weight in model.named_parameters():
        arrays[f"weights/{name}"] = weight.detach().numpy()
        arrays[f"gradients/{name}"] = weight.grad.numpy()
    path = HERE / "pretraining_golden.npz"
    np.savez_compressed(
        path,
        **arrays,
        token_ids=token_ids,
        segment_ids=segment_ids,
        padding_mask=padding_mask,
        masked_positions=masked_positions,
        masked_labels=masked_labels,
        masked_weights=masked_weights,
        next_labels=next_labels,
        mlm_logits=mlm_logits,
        nsp_logits=output.seq_relationship_logits.detach().numpy(),
        mlm_loss=mlm_loss.detach().numpy(),
        nsp_loss=nsp_loss.detach().numpy(),
    )
    sys.stdout.write(
        f"transformers {transformers.__version__}, torch {torch.__version__}: {len(arrays) // 2}"
        f" weights, {path.stat().st_size:,} bytes, losses {mlm_loss:.4f} and {nsp_loss:.4f}\n"
    )


if __name__ == "__main__":
    main()
