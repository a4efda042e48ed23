"""Full fine-tuning in rows/s, beside a plain PyTorch loop with the same weights and batches, taking turns.

python -m benchmarks.finetuning train.csv
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.environment import ask_peer
from bertcnn.cli.quiet import load_keras
from bertcnn.data.batches import BatchPlan, choose_lengths, pad, plan_training
from bertcnn.data.columns import guess_columns
from bertcnn.data.tables import read_table
from bertcnn.settings import FULL, HeadSettings


def main() -> None:
    """Take turns and print each round, then the medians and their ratio."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", type=int, default=60, help="timed batches in a round")
    options = parser.parse_args()
    load_keras()
    from bertcnn.encoders.config import read_settings
    from bertcnn.encoders.download import fetch_encoder

    folder = fetch_encoder("minilm-l6").folder
    token_ids, labels = tokenized(options.data, folder)
    lengths = np.array([len(ids) for ids in token_ids])
    padded = choose_lengths(lengths, FULL.compiled_shapes)
    plans = plan_training(lengths, padded, FULL.batch_size, np.random.default_rng(0))
    first = [next(plan for plan in plans if plan.length == length) for length in padded if any(plan.length == length for plan in plans)]
    plans = first + plans[: options.batches]
    dropout = read_settings(folder).dropout
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as scratch:
        batches = Path(scratch) / "batches.npz"
        store(batches, token_ids, labels, plans)
        step = our_step(folder, token_ids, labels)
        run(step, first)  # compile
        for _ in range(options.rounds):
            ours.append(run(step, plans[len(first) :]))
            answer = ask_peer(
                "finetune_torch",
                folder,
                batches,
                "--warmup",
                len(first),
                "--dropout",
                dropout,
                "--attention-dropout",
                FULL.attention_dropout,
            )
            theirs.append(float(answer["rows_per_second"]))
            print(f"bertcnn {ours[-1]:.1f} rows/s, PyTorch loop {theirs[-1]:.1f} rows/s, ratio {ours[-1] / theirs[-1]:.2f}", flush=True)
    mine, other = statistics.median(ours), statistics.median(theirs)
    print(f"median of {options.rounds}: bertcnn {mine:.1f} rows/s, PyTorch loop {other:.1f} rows/s, ratio {mine / other:.2f}")
    print(f"dropout {dropout}, attention dropout {FULL.attention_dropout}, batch {FULL.batch_size}, padded lengths {padded}")
    print("compilation not counted")


def tokenized(data: str, folder: Path) -> tuple[list[np.ndarray], np.ndarray]:
    """Token ids and label numbers of a labelled file."""
    from bertcnn.text.wordpiece import WordPieceTokenizer, read_vocabulary

    table = read_table(data)
    choice = guess_columns(table)
    names, labels = np.unique(table.column(str(choice.label)), return_inverse=True)
    del names
    return WordPieceTokenizer(read_vocabulary(folder / "vocab.txt")).encode(table.column(choice.text[0])).token_ids, labels


def store(path: Path, token_ids: list[np.ndarray], labels: np.ndarray, plans: list[BatchPlan]) -> None:
    """The batches as arrays, for the peer."""
    arrays: dict[str, np.ndarray] = {"count": np.array(len(plans)), "classes": np.array(labels.max() + 1)}
    for index, plan in enumerate(plans):
        batch = pad(token_ids, plan)
        arrays |= {f"ids_{index}": batch.token_ids, f"mask_{index}": batch.padding_mask, f"labels_{index}": labels[plan.rows]}
    np.savez(path, **arrays)  # type: ignore[arg-type]


def our_step(folder: Path, token_ids: list[np.ndarray], labels: np.ndarray) -> Callable[[BatchPlan], float]:
    """Our compiled training step on the published weights, as the recipe `full` makes it."""
    from bertcnn.encoders.convert import load_encoder
    from bertcnn.models.classifier import BertCnn, CnnHead
    from bertcnn.training.optimizer import LayerwiseAdamW, layer_share
    from bertcnn.training.recipes import on_used_pieces
    from bertcnn.training.step import make_step, smoothed_cross_entropy

    encoder = load_encoder(folder)
    small, used = on_used_pieces(encoder, token_ids, FULL)
    head = CnnHead(encoder.settings.width, int(labels.max()) + 1, HeadSettings(), name="head")
    model = BertCnn(small, head, name="classifier")
    share = layer_share(encoder.settings.layers, FULL)
    optimizer = LayerwiseAdamW(FULL.learning_rate, share, weight_decay=FULL.weight_decay, clip_norm=FULL.gradient_clip)
    step = make_step(model, optimizer, smoothed_cross_entropy(FULL.label_smoothing))

    def on_batch(plan: BatchPlan) -> float:
        inputs = pad(token_ids, plan).inputs()
        inputs["token_ids"] = np.searchsorted(used, inputs["token_ids"]).astype(np.int32)
        targets = np.eye(int(labels.max()) + 1, dtype=np.float32)[labels[plan.rows]]
        return step(inputs, targets, np.ones(len(targets), np.float32))

    return on_batch


def run(step: Callable[[BatchPlan], float], plans: list[BatchPlan]) -> float:
    """Rows/s over full batches."""
    full = [plan for plan in plans if len(plan.rows) == plan.size]
    started = time.perf_counter()
    for plan in full:
        step(plan)
    return sum(len(plan.rows) for plan in full) / (time.perf_counter() - started)


if __name__ == "__main__":
    main()
