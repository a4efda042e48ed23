"""What averaging the weights of two or more trainings gains over one.

    python -m benchmarks.averaging train.csv [--rows 2000] [--recipe full] [--trainings 1 2 3]
    [--seeds 2] [--asked 4000]

For each seed rows are drawn, a tenth of which is held out; the classifiers learn from the others
and are asked, in float32, about rows that none has seen. Prints the accuracy and the seconds of
each, and the mean of what averaging gains, with Student's paired test.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy.stats import ttest_rel
from sklearn.model_selection import train_test_split

from benchmarks.few_shot import read
from bertcnn.cli.progress import show_progress
from bertcnn.cli.startup import load_keras


def main() -> None:
    """Draw, train, ask and print, once for each seed and number of trainings."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data")
    parser.add_argument(
        "--rows", type=int, default=2000, help="to learn from, those held out among them"
    )
    parser.add_argument("--recipe", default="full")
    parser.add_argument("--trainings", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--asked", type=int, default=4000)
    options = parser.parse_args()
    load_keras()
    from bertcnn.classifier import BertCNNClassifier

    texts, labels = read(options.data)
    found: dict[int, list[float]] = {trainings: [] for trainings in options.trainings}
    for seed in range(options.seeds):
        rest, asked = train_test_split(
            np.arange(len(labels)), test_size=options.asked, stratify=labels, random_state=seed
        )
        if options.rows < len(rest):
            rest, _ = train_test_split(
                rest, train_size=options.rows, stratify=labels[rest], random_state=seed
            )
        for trainings, accuracies in found.items():
            started = time.perf_counter()
            with show_progress() as progress:
                classifier = BertCNNClassifier(
                    recipe=options.recipe,
                    seed=seed,
                    training={"trainings": trainings},
                    progress=progress,
                )
                classifier.fit([texts[row] for row in rest], [str(labels[row]) for row in rest])
            seconds = time.perf_counter() - started
            accuracies.append(
                float(np.mean(classifier.predict([texts[row] for row in asked]) == labels[asked]))
            )
            print(
                f"seed {seed}, {trainings} trainings: {accuracies[-1]:.2%} right, {seconds:.0f} s",
                flush=True,
            )
    first, *others = found
    for trainings in others:
        gain = np.subtract(found[trainings], found[first])
        line = f"{trainings} trainings beside {first}: {100 * gain.mean():+.2f} points"
        print(
            line
            if len(gain) < 2
            else f"{line}, p = {ttest_rel(found[trainings], found[first]).pvalue:.3f}"
        )


if __name__ == "__main__":
    main()
