"""Rows with several labels: a recipe compared with one logistic regression per label.

    python -m benchmarks.several_labels train.csv [--recipe frozen] [--seeds 3] [--labels 30]

No public data set with several labels is available, so rows are made from a file with one label per
row, from its most common labels. A third of the rows are two texts with different labels, joined,
and some are three. Both classifiers train on the same rows. The regression is evaluated twice: with
a threshold of one half, and with thresholds from the validation rows, as the classifier has them.
"""

from __future__ import annotations

import argparse
import statistics
from collections import Counter

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.multiclass import OneVsRestClassifier

from benchmarks.few_shot import INVERSE_REGULARIZATION, read, unit_embeddings
from bertcnn import BertCNNClassifier
from bertcnn.data import LabelSet, indicators
from bertcnn.evaluation.multi_label import choose_thresholds

PARTS, SHARES = (1, 2, 3), (0.6, 0.33, 0.07)
ASKED = 700


def main() -> None:
    """Train both with each seed; print F1 and the share of rows with all labels right."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data")
    parser.add_argument("--recipe", default="frozen")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--labels", type=int, default=30)
    options = parser.parse_args()
    texts, labels = read(options.data)
    names = sorted(name for name, _ in Counter(labels.tolist()).most_common(options.labels))
    found: dict[str, list[tuple[float, ...]]] = {}
    for seed in range(options.seeds):
        rows = joined(
            [text for text, label in zip(texts, labels, strict=True) if label in names],
            labels[np.isin(labels, names)],
            seed,
        )
        learned, chosen, asked = rows[: -2 * ASKED], rows[-2 * ASKED : -ASKED], rows[-ASKED:]
        classifier = BertCNNClassifier(recipe=options.recipe, seed=seed)
        classifier.fit(*columns(learned), valid=columns(chosen))
        truth = [indicators([own for _, own in part], names) for part in (learned, chosen, asked)]
        answers = {"classifier": indicators(classifier.predict(columns(asked)[0]).tolist(), names)}
        vectors = [unit_embeddings(columns(part)[0]) for part in (learned, chosen, asked)]
        regression = OneVsRestClassifier(
            LogisticRegression(C=INVERSE_REGULARIZATION, max_iter=2000)
        ).fit(vectors[0], truth[0])
        shares = [regression.predict_proba(part) for part in vectors]
        answers["regressions, from 1/2 on"] = shares[2] >= 0.5
        answers["regressions, own thresholds"] = shares[2] >= choose_thresholds(shares[1], truth[1])
        for name, given in answers.items():
            figures = [
                float(f1_score(truth[2], given, average=average, zero_division=0.0))
                for average in ("micro", "macro")
            ]
            found.setdefault(name, []).append(
                (*figures, float((truth[2] == given).all(axis=1).mean()))
            )
            print(
                f"seed {seed}, {name}: {', '.join(f'{figure:.2%}' for figure in found[name][-1])}",
                flush=True,
            )
    for name, every in found.items():
        shown = (
            f"{statistics.mean(figures):.2%} +- {statistics.stdev(figures):.2%}"
            for figures in zip(*every, strict=True)
        )
        print(f"{name}: micro-F1, macro-F1, all labels right: {', '.join(shown)}")


def joined(texts: list[str], labels: np.ndarray, seed: int) -> list[tuple[str, LabelSet]]:
    """Rows of one to three of the texts, each text in one row at most.

    Training, validation and test rows have no text in common.
    """
    chance = np.random.default_rng(seed)
    order, made = chance.permutation(len(texts)).tolist(), []
    while order:
        parts = int(chance.choice(PARTS, p=SHARES))
        if len(order) < parts:
            break
        taken = [order.pop() for _ in range(parts)]
        made.append(
            (
                " ".join(texts[row] for row in taken),
                tuple(sorted({str(labels[row]) for row in taken})),
            )
        )
    return made


def columns(rows: list[tuple[str, LabelSet]]) -> tuple[list[str], list[LabelSet]]:
    """Texts and label sets."""
    return [text for text, _ in rows], [own for _, own in rows]


if __name__ == "__main__":
    main()
