"""From how many rows `full` is better than `few-shot`, on the same rows.

    python -m benchmarks.few_or_full banking77/train.csv [--sets tickets,groups,reviews,movies]
    [--rows 20,50,150,400] [--draws 2]
    python -m benchmarks.few_or_full banking77/train.csv --sets banking77 --rows 20,30,50
    --unlabelled

Each label has `--rows` training rows, at most seven tenths of its rows. Up to 3,000 other rows are
the test set. With --unlabelled a third of the other rows is the test set, and `few-shot` also gets
the texts of the rest, without their labels. Sets: Banking77's labels; the same labels merged into
groups; the sample tickets; sentences of product and of film reviews.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.few_shot import ASKED, read
from benchmarks.heads import review_sentences
from benchmarks.recipes import grouped, movies
from bertcnn import BertCNNClassifier
from bertcnn.settings import Recipe

TICKETS = Path(__file__).parent.parent / "data" / "isp_tickets.csv"
_MOST_OF_A_LABEL = 0.7
_FIRST_SEED = 300  # of the draws; not used by other benchmarks


def main() -> None:
    """Draw rows, train both ways, and print accuracy and seconds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("banking77")
    parser.add_argument("--sets", default="tickets,groups,reviews,movies")
    parser.add_argument("--rows", default="20,50,150,400", help="of each label")
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument(
        "--unlabelled",
        action="store_true",
        help="few-shot with the texts of other rows too, besides",
    )
    options = parser.parse_args()
    sets: dict[str, Callable[[], tuple[list[str], np.ndarray]]] = {
        "banking77": partial(read, options.banking77),
        "groups": partial(grouped, options.banking77),
        "tickets": partial(read, str(TICKETS)),
        "reviews": review_sentences,
        "movies": movies,
    }
    for name in options.sets.split(","):
        texts, labels = sets[name]()
        for rows in map(int, options.rows.split(",")):
            for draw in range(options.draws):
                learned, asked, others = divided(labels, rows, draw, unlabelled=options.unlabelled)
                ways: list[tuple[Recipe, np.ndarray]] = [
                    ("full", others[:0]),
                    ("few-shot", others[:0]),
                ]
                if options.unlabelled:
                    ways.append(("few-shot", others))
                for recipe, unlabelled in ways:
                    started = time.perf_counter()
                    classifier = BertCNNClassifier(recipe=recipe, seed=draw)
                    classifier.fit(
                        of(texts, learned), list(labels[learned]), unlabelled=of(texts, unlabelled)
                    )
                    right = np.mean(classifier.predict(of(texts, asked)) == labels[asked])
                    way = (
                        f"{recipe} with {len(unlabelled):,} rows without a label"
                        if len(unlabelled)
                        else recipe
                    )
                    seconds = time.perf_counter() - started
                    print(
                        f"{name}: {rows} rows a label, draw {draw}, {way}: {right:.2%},"
                        f" {seconds:.0f} s",
                        flush=True,
                    )


def divided(
    labels: np.ndarray, rows: int, draw: int, *, unlabelled: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Indices of training rows, of test rows, and of the others."""
    chance = np.random.default_rng(_FIRST_SEED + draw)
    order = chance.permutation(len(labels))
    of_labels = [order[labels[order] == name] for name in np.unique(labels)]
    learned = np.concatenate(
        [own[: min(rows, int(_MOST_OF_A_LABEL * len(own)))] for own in of_labels]
    )
    others = chance.permutation(np.setdiff1d(order, learned))
    asked = min(ASKED, len(others) // 3 if unlabelled else len(others))
    return learned, others[:asked], others[asked:]


def of(texts: list[str], rows: np.ndarray) -> list[str]:
    """The texts of these rows."""
    return [texts[row] for row in rows]


if __name__ == "__main__":
    main()
