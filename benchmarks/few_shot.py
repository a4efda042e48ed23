"""A few rows per label: a recipe compared with logistic regression on the frozen encoder.

    python -m benchmarks.few_shot train.csv [--rows 10] [--draws 5] [--recipe auto] [--encoder
    minilm-l6] [--test test.csv] [--unlabelled]

Both train on the same rows, newly drawn each time. Without --test, the test set is 3,000 other rows
of the file. With --unlabelled the classifier also gets the texts, without labels, of all rows that
are neither training nor test rows; at most a third of the file's other rows are test rows then.
"""

from __future__ import annotations

import argparse
import statistics

import numpy as np
from sklearn.linear_model import LogisticRegression

from bertcnn import BertCNNClassifier
from bertcnn.inference import fastest_embed, mean_embeddings
from bertcnn.progress import Silent
from bertcnn.tables import guess_columns, read_table
from bertcnn.training import load_start

ENCODER = "minilm-l6"
ASKED = 3000
INVERSE_REGULARIZATION = 10.0  # the best of 1, 10 and 100 on Banking77's training rows


def main() -> None:
    """Draw rows, train both, and print each draw and the means."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data")
    parser.add_argument("--rows", type=int, default=10, help="of each label")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--recipe", default="auto")
    parser.add_argument(
        "--encoder",
        default=ENCODER,
        help="of the classifier; the regression stands on the published one",
    )
    parser.add_argument("--test", help="rows to be asked about; by default others of the file")
    parser.add_argument(
        "--unlabelled", action="store_true", help="the file's other texts too, without labels"
    )
    options = parser.parse_args()
    texts, labels = read(options.data)
    asked_texts, asked_labels = read(options.test) if options.test else ([], np.array([]))
    ours, theirs = [], []
    for draw in range(options.draws):
        chance = np.random.default_rng(draw)
        order = chance.permutation(len(texts))
        learned = np.concatenate(
            [order[labels[order] == name][: options.rows] for name in np.unique(labels)]
        )
        others = chance.permutation(np.setdiff1d(order, learned))
        if not options.test:
            most = min(ASKED, len(others) // 3) if options.unlabelled else ASKED
            asked_texts, asked_labels = [texts[row] for row in others[:most]], labels[others[:most]]
            others = others[most:]
        known, unlabelled = (
            [texts[row] for row in learned],
            ([texts[row] for row in others] if options.unlabelled else []),
        )
        classifier = BertCNNClassifier(options.encoder, recipe=options.recipe, seed=draw)
        classifier.fit(known, list(labels[learned]), unlabelled=unlabelled)
        ours.append(float(np.mean(classifier.predict(asked_texts) == asked_labels)))
        vectors, asked = unit_embeddings(known), unit_embeddings(asked_texts)
        regression = LogisticRegression(C=INVERSE_REGULARIZATION, max_iter=2000).fit(
            vectors, labels[learned]
        )
        theirs.append(float(regression.score(asked, asked_labels)))
        print(
            f"draw {draw}: {classifier.recipe_[0]} {ours[-1]:.2%}, logistic regression"
            f" {theirs[-1]:.2%}",
            flush=True,
        )
    for name, found in ((options.recipe, ours), ("logistic regression", theirs)):
        print(
            f"{name}: {statistics.mean(found):.2%}, standard deviation"
            f" {statistics.stdev(found) if len(found) > 1 else 0.0:.2%}"
        )


def read(path: str) -> tuple[list[str], np.ndarray]:
    """Texts and labels of a file."""
    table = read_table(path)
    columns = guess_columns(table)
    return table.column(columns.text[0]), np.array(table.column(str(columns.label)))


def unit_embeddings(texts: list[str]) -> np.ndarray:
    """Each text's mean token embedding, of length 1: float32 [rows, D]."""
    start = load_start(ENCODER, 512, seed=0, progress=Silent())
    token_ids = start.tokenizer.encode(texts).token_ids
    embed = fastest_embed(start.encoder, start.tokenizer.pad_id)
    means = mean_embeddings(embed, token_ids, start.encoder.settings.width)
    return means / np.linalg.norm(means, axis=1, keepdims=True)


if __name__ == "__main__":
    main()
