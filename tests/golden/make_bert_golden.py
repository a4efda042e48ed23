"""Makes bert_golden.npz: outputs of Hugging Face's BertModel for minilm-l6 on bert_texts.json.

Run where torch and transformers are installed (they are no dependencies of bertcnn):

    python make_bert_golden.py FOLDER_OF_MINILM_L6

The checkpoint's pooler is replaced by random weights (POOLER_SEED, drawn with NumPy), because the
published one was never trained; the test repeats `random_pooler`. Every text is run in a padded
batch of 8 and alone; both must agree.

bert_texts.json: "batches", lists of 8 texts each, and "tokenizer_only", texts with ids only.
bert_golden.npz: `ids` and `id_counts` (all texts, one after another), and for the texts in batches
`positions` int [rows, 4], `sequence` float32 [rows, 4, D] (sequence_output there), `mean` float32
[rows, D] (over a text's tokens), `pooled` float32 [rows, D].
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
import transformers

HERE = Path(__file__).parent
POOLER_SEED = 20181011
POSITION_SEED = 1


def random_pooler(width: int) -> tuple[np.ndarray, np.ndarray]:
    """Kernel float32 [in, out] and bias float32 [out]."""
    generator = np.random.default_rng(POOLER_SEED)
    return generator.normal(0, 0.05, (width, width)).astype(np.float32), generator.normal(
        0, 0.05, width
    ).astype(np.float32)


def load(folder: str) -> transformers.BertModel:
    model = transformers.BertModel.from_pretrained(
        folder, attn_implementation="eager", dtype=torch.float32
    ).eval()
    kernel, bias = random_pooler(model.config.hidden_size)
    with torch.no_grad():
        model.pooler.dense.weight.copy_(torch.from_numpy(kernel.T))
        model.pooler.dense.bias.copy_(torch.from_numpy(bias))
    return model


@torch.no_grad()
def run(model: transformers.BertModel, ids: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    length = max(map(len, ids))
    padded = torch.tensor([row + [0] * (length - len(row)) for row in ids])
    mask = torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in ids])
    output = model(input_ids=padded, attention_mask=mask, token_type_ids=torch.zeros_like(padded))
    return output.last_hidden_state.numpy(), output.pooler_output.numpy()


def main(folder: str) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = load(folder)
    given = json.loads((HERE / "bert_texts.json").read_text(encoding="utf-8"))
    batches = given["batches"]
    texts = [text for batch in batches for text in batch]
    ids = [
        tokenizer(text, truncation=False, padding=False)["input_ids"]
        for text in [*texts, *given["tokenizer_only"]]
    ]
    generator = np.random.default_rng(POSITION_SEED)
    positions, sequence, mean, pooled, worst = [], [], [], [], 0.0
    for number in range(len(batches)):
        rows = ids[8 * number : 8 * number + 8]
        hidden, pools = run(model, rows)
        for row, token_ids in enumerate(rows):
            last = len(token_ids) - 1
            places = [0, last // 2, last, int(generator.integers(len(token_ids)))]
            alone, pool_alone = run(model, [token_ids])
            worst = max(
                worst,
                np.abs(alone[0] - hidden[row, : last + 1]).max(),
                np.abs(pool_alone[0] - pools[row]).max(),
            )
            positions.append(places)
            sequence.append(hidden[row, places])
            mean.append(hidden[row, : last + 1].mean(axis=0))
            pooled.append(pools[row])
    assert max(map(len, ids)) == 512
    assert worst < 1e-5, worst
    np.savez_compressed(
        HERE / "bert_golden.npz",
        ids=np.concatenate(ids).astype(np.int32),
        id_counts=np.array([len(row) for row in ids], np.int32),
        positions=np.array(positions, np.int32),
        sequence=np.array(sequence),
        mean=np.array(mean),
        pooled=np.array(pooled),
    )
    size = (HERE / "bert_golden.npz").stat().st_size
    sys.stdout.write(
        f"transformers {transformers.__version__}, torch {torch.__version__}: {len(texts)} texts,"
        f" {len(ids)} tokenized, {size:,} bytes\nlengths {[len(row) for row in ids[: len(texts)]]};"
        f" alone and in a batch differ by at most {worst:.1e}\n"
    )


if __name__ == "__main__":
    main(sys.argv[1])
