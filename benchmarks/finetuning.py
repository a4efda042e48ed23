"""Full fine-tuning in rows/s, compared with a PyTorch loop that has the same weights.

    python -m benchmarks.finetuning train.csv

Ours is measured twice: on packed rows, as the recipe `full` trains, and on the same batches of
padded rows that the PyTorch loop gets.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.environment import ask_peer
from bertcnn import load_keras
from bertcnn.data import BatchPlan, PackedPlan, Packing, choose_lengths, lay_out, pad, plan_training
from bertcnn.settings import FULL, HeadSettings
from bertcnn.tables import guess_columns, read_table


def main() -> None:
    """Run alternating rounds; print each round, then the medians and their ratio."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", type=int, default=60, help="timed batches in a round")
    options = parser.parse_args()
    load_keras()
    from bertcnn.encoders import fetch_encoder, read_settings

    folder = fetch_encoder("minilm-l6").folder
    token_ids, labels = tokenized(options.data, folder)
    lengths = np.array([len(ids) for ids in token_ids])
    padded = choose_lengths(lengths, FULL.compiled_shapes)
    plans = plan_training(lengths, padded, FULL.batch_size, np.random.default_rng(0))
    first = [
        next(plan for plan in plans if plan.length == length)
        for length in padded
        if any(plan.length == length for plan in plans)
    ]
    plans = first + plans[: options.batches]
    dropout = read_settings(folder).dropout
    packing = Packing(lengths, FULL.batch_size)
    packed = packing.epoch(np.random.default_rng(0))
    compiled = [
        next(plan for plan in packed if plan.length == length) for _, length in packing.shapes
    ]
    ours, ours_padded, theirs = [], [], []
    with tempfile.TemporaryDirectory() as scratch:
        batches = Path(scratch) / "batches.npz"
        store(batches, token_ids, labels, plans)
        step, padded_step = (
            our_step(folder, token_ids, labels, packing.documents),
            our_step(folder, token_ids, labels),
        )
        run(step, compiled)  # compile
        run(padded_step, first)
        for _ in range(options.rounds):
            ours.append(run(step, packed[: options.batches]))
            ours_padded.append(run(padded_step, plans[len(first) :]))
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
            print(describe(ours[-1], ours_padded[-1], theirs[-1]), flush=True)
    print(
        f"median of {options.rounds}:"
        f" {describe(*map(statistics.median, (ours, ours_padded, theirs)))}"
    )
    print(
        f"dropout {dropout}, attention dropout {FULL.attention_dropout}, batch {FULL.batch_size},"
        f" padded lengths {padded}"
    )
    print(
        f"packed rows and tokens of a batch {packing.shapes}, at most {packing.documents} texts"
        " a row"
    )
    print("compilation not counted")


def describe(packed: float, padded: float, loop: float) -> str:
    """One round's rows/s and ratios."""
    return (
        f"bertcnn {packed:.1f} rows/s (padded rows: {padded:.1f}), PyTorch loop {loop:.1f}, "
        f"ratio {packed / loop:.2f} (padded rows: {padded / loop:.2f})"
    )


def tokenized(data: str, folder: Path) -> tuple[list[np.ndarray], np.ndarray]:
    """Token ids and label ids of a labelled file."""
    from bertcnn.text import WordPieceTokenizer, read_vocabulary

    table = read_table(data)
    choice = guess_columns(table)
    names, labels = np.unique(table.column(str(choice.label)), return_inverse=True)
    del names
    return (
        WordPieceTokenizer(read_vocabulary(folder / "vocab.txt"))
        .encode(table.column(choice.text[0]))
        .token_ids,
        labels,
    )


def store(
    path: Path, token_ids: list[np.ndarray], labels: np.ndarray, plans: list[BatchPlan]
) -> None:
    """Save the batches as arrays, for the peer."""
    arrays: dict[str, np.ndarray] = {
        "count": np.array(len(plans)),
        "classes": np.array(labels.max() + 1),
    }
    for index, plan in enumerate(plans):
        batch = pad(token_ids, plan)
        arrays |= {
            f"ids_{index}": batch.token_ids,
            f"mask_{index}": batch.padding_mask,
            f"labels_{index}": labels[plan.rows],
        }
    np.savez(path, **arrays)  # type: ignore[arg-type]


Step = Callable[[BatchPlan | PackedPlan], float]


def our_step(
    folder: Path, token_ids: list[np.ndarray], labels: np.ndarray, documents: int | None = None
) -> Step:
    """Our compiled training step on the published weights, as the recipe `full` builds it.

    With `documents`, for packed rows.
    """
    from bertcnn.encoders import load_encoder
    from bertcnn.models import BertCnn, CnnHead
    from bertcnn.training import LayerwiseAdamW, batch_parts, on_used_pieces
    from bertcnn.training.batches import Examples, labelled_batch
    from bertcnn.training.optimizer import layer_share
    from bertcnn.training.step import make_step, smoothed_cross_entropy

    encoder = load_encoder(folder)
    small, used = on_used_pieces(
        encoder, token_ids, FULL.attention_dropout, packed=documents is not None
    )
    classes = int(labels.max()) + 1
    head = CnnHead(
        encoder.settings.width, classes, HeadSettings(), documents=documents, name="head"
    )
    model = BertCnn(small, head, name="classifier")
    share = layer_share(encoder.settings.layers, FULL)
    optimizer = LayerwiseAdamW(
        FULL.learning_rate, share, weight_decay=FULL.weight_decay, clip_norm=FULL.gradient_clip
    )
    step = make_step(model, optimizer, smoothed_cross_entropy(FULL.label_smoothing))
    own = [np.searchsorted(used, ids).astype(np.int32) for ids in token_ids]

    def collate(plan: BatchPlan | PackedPlan) -> dict[str, np.ndarray]:
        return lay_out(own, plan) if isinstance(plan, PackedPlan) else pad(own, plan).inputs()

    examples = Examples(collate, np.array([len(ids) for ids in own]), labels)

    def on_batch(plan: BatchPlan | PackedPlan) -> float:
        parts = batch_parts(*labelled_batch(examples, plan, np.ones(classes, np.float32)))
        return float(step(parts)["loss"])

    return on_batch


def run(step: Step, plans: Sequence[BatchPlan | PackedPlan]) -> float:
    """Rows/s over full batches."""
    full = [plan for plan in plans if isinstance(plan, PackedPlan) or len(plan.rows) == plan.size]
    started = time.perf_counter()
    for plan in full:
        step(plan)
    return sum(int((plan.slots >= 0).sum()) for plan in full) / (time.perf_counter() - started)


if __name__ == "__main__":
    main()
