"""Class weights none, sqrt and balanced on a file with a long tail of rare labels.

    python -m benchmarks.class_weights train.csv [--seeds 5] [--steepness 50]

Each seed shuffles the labels. From the first label to the last, each keeps fewer of its rows, in
equal ratios; the last keeps one row in `--steepness` (3 at least). The result is a long tail, as in
real label sets. A fifth of the file is the test set and loses no rows. Recipe `frozen`; Student's
paired t-test over the seeds.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import numpy as np
from scipy.stats import ttest_rel
from sklearn.metrics import f1_score, recall_score
from sklearn.model_selection import train_test_split

from benchmarks.few_shot import read
from benchmarks.heads import MOST_TOKENS, features_of
from bertcnn.models import CnnHead, Forward, padded_up_to
from bertcnn.progress import Silent
from bertcnn.settings import FROZEN, FROZEN_HEAD
from bertcnn.training import RunOptions
from bertcnn.training.batches import Examples
from bertcnn.training.head import fit_head

RULES = ("none", "sqrt", "balanced")
ASKED, CHOOSING, FEWEST = 0.2, 0.1, 3


def main() -> None:
    """Train with each rule on the same rows and print macro-F1 and accuracy.

    Macro-F1 is printed for all labels and for the rarest third.

    Accuracy is printed twice: on the test rows, where all labels are equally common, and reweighted
    to the label frequencies of the training rows.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--steepness",
        type=float,
        default=50.0,
        help="rows of the commonest label for one of the rarest",
    )
    options = parser.parse_args()
    texts, labels = read(options.data)
    found: dict[str, list[tuple[float, float, float, float]]] = {rule: [] for rule in RULES}
    with tempfile.TemporaryDirectory(prefix="bertcnn-weights-") as folder:
        features, lengths, targets, width = features_of(texts, labels, Path(folder))
        classes = int(targets.max()) + 1
        for seed in range(options.seeds):
            rest, ask = train_test_split(
                np.arange(len(targets)), test_size=ASKED, stratify=targets, random_state=seed
            )
            taken, rare = thinned(targets, rest, options.steepness, seed)
            learn, choose = train_test_split(taken, test_size=CHOOSING, random_state=seed)
            missing = np.setdiff1d(targets, targets[learn])
            learn, choose = (
                np.concatenate([learn, choose[np.isin(targets[choose], missing)]]),
                choose[~np.isin(targets[choose], missing)],
            )
            learned, chosen, asked = (
                Examples(features.of(rows).collate, lengths[rows], targets[rows])
                for rows in (learn, choose, ask)
            )
            for rule in RULES:
                head = CnnHead(width, classes, FROZEN_HEAD, seed=seed, name="head")
                settings = FROZEN.model_copy(
                    update={"class_weight": rule, "max_tokens": MOST_TOKENS}
                )
                fit_head(head, learned, chosen, settings, RunOptions(seed, Silent()))
                predicted = (
                    Forward(head, padded_up_to(MOST_TOKENS))
                    .rows(asked.collate, asked.lengths)
                    .argmax(axis=1)
                )
                f1 = f1_score(
                    targets[ask], predicted, average=None, labels=range(classes), zero_division=0.0
                )
                recall = recall_score(
                    targets[ask], predicted, average=None, labels=range(classes), zero_division=0.0
                )
                usual = np.average(recall, weights=np.bincount(targets[learn], minlength=classes))
                found[rule].append(
                    (float(f1.mean()), float(f1[rare].mean()), float(recall.mean()), float(usual))
                )
                shown = ", ".join(f"{figure:.2%}" for figure in found[rule][-1])
                print(f"seed {seed}, {len(learn)} rows to learn from, {rule}: {shown}", flush=True)
    for place, name in enumerate(
        (
            "macro-F1",
            "macro-F1 of the rarest third",
            "accuracy, labels alike",
            "accuracy, labels as thinned",
        )
    ):
        plain = [figures[place] for figures in found["none"]]
        for rule in RULES:
            own = [figures[place] for figures in found[rule]]
            line = f"{name:<29} {rule:<9} {statistics.mean(own):.2%} +- {statistics.stdev(own):.2%}"
            print(
                line
                if rule == "none"
                else (
                    f"{line}; {100 * np.mean(np.subtract(own, plain)):+.2f} points, p ="
                    f" {ttest_rel(own, plain).pvalue:.3f}"
                )
            )


def thinned(
    targets: np.ndarray, rows: np.ndarray, steepness: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rows to keep, int [kept], where each label keeps fewer rows than the one before.

    Also returns the third of the labels with the fewest rows, int [labels].
    """
    chance = np.random.default_rng(seed)
    order = chance.permutation(int(targets.max()) + 1)
    kept = []
    for place, label in enumerate(order):
        own = chance.permutation(rows[targets[rows] == label])
        kept.append(own[: max(FEWEST, round(len(own) * steepness ** (-place / (len(order) - 1))))])
    return np.sort(np.concatenate(kept)), order[-(len(order) // 3) :]


if __name__ == "__main__":
    main()
