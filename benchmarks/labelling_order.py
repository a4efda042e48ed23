"""Which texts to label first: accuracy by number of labels, for several orders of labelling.

    python -m benchmarks.labelling_order banking77/train.csv [--seeds 3]

A logistic regression on mean token embeddings is trained on the first texts of each order and
tested on 3,000 held-out rows, or a third of a smaller file. `ours` starts with `cold_start_order`
and continues with `review_order` in batches of 50, each time with the regression trained on all
texts labelled so far. The other orders take the most uncertain texts instead, from the same start
or from a random one, or multiply uncertainty by typicality, the mean cosine to the 20 nearest
texts.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks.few_shot import ASKED, INVERSE_REGULARIZATION, read, unit_embeddings
from bertcnn.review.statistics import cold_start_order, review_order, suggest_labels

LABELLED = (100, 200, 400, 770)
START, BATCH = 100, 50
NEIGHBOURS = 20


@dataclass(frozen=True)
class Pool:
    """Unlabelled texts, whose labels are looked up once they are chosen."""

    texts: list[str]
    embeddings: np.ndarray
    labels: np.ndarray
    typicality: np.ndarray

    def learn(self, rows: np.ndarray) -> LogisticRegression:
        """Train the regression on these rows."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
            regression = LogisticRegression(C=INVERSE_REGULARIZATION, max_iter=300)
            return regression.fit(self.embeddings[rows], self.labels[rows])

    def cold_start(self) -> np.ndarray:
        """The first texts of `ours`."""
        groups = np.full(len(self.texts), -1)
        for group, topic in enumerate(suggest_labels(self.embeddings, self.texts)):
            groups[list(topic.rows)] = group
        return cold_start_order(self.embeddings, groups)[:START]


def most_useful(
    rule: str, pool: Pool, labelled: np.ndarray, regression: LogisticRegression, size: int
) -> np.ndarray:
    """The rows to label next."""
    left = np.setdiff1d(np.arange(len(pool.texts)), labelled)
    probabilities = regression.predict_proba(pool.embeddings[left])
    second, first = np.partition(probabilities, -2, axis=1)[:, -2:].T
    uncertainty = 1 - (first - second)
    if rule == "ours":
        return left[
            review_order(
                uncertainty,
                pool.embeddings[left],
                size=size,
                predicted=probabilities.argmax(axis=1),
                labelled=pool.embeddings[labelled],
            )
        ]
    factor = pool.typicality[left] if rule == "product" else 1.0
    return left[np.argsort(-uncertainty * factor, kind="stable")[:size]]


def label(rule: str, pool: Pool, start: np.ndarray) -> list[np.ndarray]:
    """The labelled rows at each size in `LABELLED`."""
    rows, found = start, []
    for wanted in (number for number in LABELLED if number <= len(pool.texts)):
        while len(rows) < wanted:
            size = min(BATCH, wanted - len(rows))
            rows = np.concatenate([rows, most_useful(rule, pool, rows, pool.learn(rows), size)])
        found.append(rows[:wanted])
    return found


def main() -> None:
    """Label in each order, with each seed, and print the mean accuracies."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    texts, labels = read(options.data)
    embeddings = unit_embeddings(texts)
    found: dict[str, list[list[float]]] = {}
    for seed in range(options.seeds):
        order = np.random.default_rng(seed).permutation(len(texts))
        asked, rows = np.split(order, [min(ASKED, len(order) // 3)])
        own = embeddings[rows]
        pool = Pool([texts[row] for row in rows], own, labels[rows], typicality(own))
        chance, cold = np.arange(len(rows)), pool.cold_start()
        for name, rule, start in (
            ("random", "", chance),
            ("uncertain, random start", "uncertain", chance[:START]),
            ("uncertain, our start", "uncertain", cold),
            ("uncertain x typical, our start", "product", cold),
            ("ours", "ours", cold),
        ):
            right = [
                float(np.mean(pool.learn(first).predict(embeddings[asked]) == labels[asked]))
                for first in label(rule, pool, start)
            ]
            found.setdefault(name, []).append(right)
    steps = [f"{number} labels" for number in LABELLED[: len(found["ours"][0])]]
    print(f"| order | {' | '.join(steps)} |")
    print(f"|---|{'---|' * len(steps)}")
    for name, figures in found.items():
        cells = [
            f"{100 * np.mean(column):.1f} ± {100 * np.std(column):.1f}"
            for column in zip(*figures, strict=True)
        ]
        print(f"| {name} | {' | '.join(cells)} |")


def typicality(embeddings: np.ndarray) -> np.ndarray:
    """The mean cosine of each text to its nearest neighbours, float32 [N]."""
    cosines = embeddings @ embeddings.T
    np.fill_diagonal(cosines, -1)
    return np.partition(cosines, -NEIGHBOURS, axis=1)[:, -NEIGHBOURS:].mean(axis=1)


if __name__ == "__main__":
    main()
