"""Whether texts of the model's own domain are called out of scope, and other domains always are.

    python -m benchmarks.own_trade data/intents.csv [--column domain] [--recipe frozen]

For each domain of the file a model is trained, saved and loaded as users do, on five sixths of its
rows. Prints which share of the last sixth, and of 1,500 rows of the other domains, is called out of
scope and answered automatically. Also prints the AUROC of the outlier score with and without its
background.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.out_of_scope import auroc, automatic_share, labelled, outside_share, read, without
from bertcnn import load_keras
from bertcnn.inference import load
from bertcnn.tables import read_table

_OTHERS = 1500


def main() -> None:
    """Train one model for each domain, and print a line for each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--column", default="domain")
    parser.add_argument("--recipe", default="frozen")
    options = parser.parse_args()
    load_keras()
    from bertcnn.classifier import BertCNNClassifier

    texts, labels = labelled(options.data)
    domains = np.array(read_table(options.data).column(options.column))
    print("| domain | labels | AUROC, without background | own: called, automatic | others |")
    figures = []
    for place, domain in enumerate(sorted(set(domains))):
        chance = np.random.default_rng(place)
        own = chance.permutation(np.flatnonzero(domains == domain))
        tested, learned = own[: len(own) // 6], own[len(own) // 6 :]
        others = chance.permutation(np.flatnonzero(domains != domain))[:_OTHERS]
        with tempfile.TemporaryDirectory() as folder:
            classifier = BertCNNClassifier(recipe=options.recipe)
            classifier.fit([texts[row] for row in learned], [labels[row] for row in learned])
            classifier.save(Path(folder) / "model")
            predictor = load(Path(folder) / "model")
        scope = predictor.bundle.scope
        parts = [[texts[row] for row in rows] for rows in (tested, others)]
        known, strange = (read(predictor, part) for part in parts)
        found = [
            auroc(scope.outlier_score(known), scope.outlier_score(strange)),
            auroc(without(scope, known, "background"), without(scope, strange, "background")),
            *(
                share(predictor, part)
                for part in parts
                for share in (outside_share, automatic_share)
            ),
        ]
        figures.append(found)
        print(_line(domain, len(predictor.labels), found), flush=True)
    print(_line("mean", len(figures), np.mean(figures, axis=0).tolist()))


def _line(name: str, labels: int, found: list[float]) -> str:
    return (
        f"| {name} | {labels} | {found[0]:.3f}, {found[1]:.3f} | {found[2]:.1%}, {found[3]:.1%} |"
        f" {found[4]:.1%}, {found[5]:.1%} |"
    )


if __name__ == "__main__":
    main()
