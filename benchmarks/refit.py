"""Whether retraining on all rows gains accuracy, and whether the held-out figures still hold.

    python -m benchmarks.refit train.csv [--rows 2000] [--recipe full] [--seeds 4] [--asked 4000]

Each seed draws rows and holds out a tenth of them. Both classifiers, with and without retraining,
are saved and loaded as users do, and tested on other rows. Prints the accuracy of both. For the
retrained classifier it also prints the expected calibration error and the share and precision of
automatic answers; its thresholds come from the first one's answers to the held-out rows. The paired
test is Student's t-test over the seeds.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from scipy.stats import ttest_rel
from sklearn.model_selection import train_test_split

from benchmarks.few_shot import read
from bertcnn import load_keras, show_progress
from bertcnn.evaluation.calibration import calibration_error
from bertcnn.inference import load
from bertcnn.settings import DECISIONS


def main() -> None:
    """Draw, train both, test and print, once for each seed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data")
    parser.add_argument(
        "--rows", type=int, default=2000, help="to learn from, those held out among them"
    )
    parser.add_argument("--recipe", default="full")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--asked", type=int, default=4000)
    options = parser.parse_args()
    load_keras()
    from bertcnn.classifier import BertCNNClassifier

    texts, labels = read(options.data)
    found: dict[bool, list[float]] = {False: [], True: []}
    for seed in range(options.seeds):
        rest, asked = train_test_split(
            np.arange(len(labels)), test_size=options.asked, stratify=labels, random_state=seed
        )
        rest, _ = train_test_split(
            rest, train_size=options.rows, stratify=labels[rest], random_state=seed
        )
        for refit in found:
            with tempfile.TemporaryDirectory() as folder, show_progress() as progress:
                classifier = BertCNNClassifier(
                    recipe=options.recipe,
                    seed=seed,
                    training={"refit": refit},
                    progress=progress,
                )
                classifier.fit([texts[row] for row in rest], [str(labels[row]) for row in rest])
                classifier.save(Path(folder) / "model")
                predictor = load(Path(folder) / "model")
            answers = predictor.answer([texts[row] for row in asked])
            right = np.array(predictor.labels)[answers.labels] == labels[asked]
            automatic = answers.decisions == DECISIONS.index("auto")
            found[refit].append(float(right.mean()))
            print(
                f"seed {seed}, {'on all rows' if refit else 'without those held out'}:"
                f" {right.mean():.2%} right, calibration error"
                f" {calibration_error(answers.confidence, right):.1%}, {automatic.mean():.1%}"
                f" automatic, of these {right[automatic].mean() if automatic.any() else 0:.1%}"
                " right",
                flush=True,
            )
    gain = np.subtract(found[True], found[False])
    line = f"on all rows {100 * gain.mean():+.2f} points"
    print(
        line if len(gain) < 2 else f"{line}, p = {ttest_rel(found[True], found[False]).pvalue:.3f}"
    )


if __name__ == "__main__":
    main()
