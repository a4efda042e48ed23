"""Cost and results of `bertcnn distill`: accuracy, calibration, decisions and rows/s.

    python -m benchmarks.distillation train.csv test.csv TEACHER ... --out FOLDER [--layers 3]

Each teacher, trained on train.csv, gets a student with the teacher's seed; students already in
--out are not trained again. Teachers and students are tested on test.csv. Then their speed on it is
measured in alternating rounds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import numpy as np

from benchmarks.inputs import Rows, read_input
from bertcnn import distill_csv, load, show_progress
from bertcnn.evaluation.calibration import calibration_error
from bertcnn.inference import Predictor
from bertcnn.settings import DECISIONS


def figures(predictor: Predictor, rows: Rows) -> np.ndarray:
    """Accuracy, calibration error, automatic share, and accuracy of automatic answers, in %."""
    answers = predictor.answer(rows.texts)
    right = np.array(predictor.labels)[answers.labels] == np.array(rows.labels)
    automatic = answers.decisions == DECISIONS.index("auto")
    error = calibration_error(answers.confidence, right)
    of_automatic = right[automatic].mean() if automatic.any() else np.nan
    return 100 * np.array([right.mean(), error, automatic.mean(), of_automatic])


def rows_per_second(predictor: Predictor, rows: Rows) -> tuple[float, float]:
    """Rows/s in wall time, and in processor time of this process."""
    began, processor = time.perf_counter(), time.process_time()
    predictor.answer(rows.texts)
    seconds, used = time.perf_counter() - began, time.process_time() - processor
    return len(rows.texts) / seconds, len(rows.texts) / used


def main() -> None:
    """Distil, and print the results of teachers and students."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("train", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("teachers", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--texts", type=Path, help="file of texts without a label")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    sides: dict[str, list[Predictor]] = {"teacher": [], "student": []}
    for folder in options.teachers:
        teacher = load(folder)
        student = options.out / f"{folder.name}-{options.layers}"
        if not student.exists():
            with show_progress() as progress:
                distill_csv(
                    folder,
                    options.train,
                    student,
                    layers=options.layers,
                    unlabelled=options.texts,
                    seed=teacher.bundle.config.seed,
                    progress=progress,
                )
        sides["teacher"].append(teacher)
        sides["student"].append(load(student))
    rows = read_input(options.test, sides["teacher"][0].bundle.config)
    found = {
        side: np.array([figures(predictor, rows) for predictor in predictors])
        for side, predictors in sides.items()
    }
    lost = found["teacher"][:, 0] - found["student"][:, 0]
    for side, values in found.items():
        means = np.nanmean(values, axis=0)
        each = ", ".join(f"{value:.2f}" for value in values[:, 0])
        print(
            f"{side}: accuracy {means[0]:.2f} % ({each}), calibration error {means[1]:.1f} %,"
            f" {means[2]:.1f} % automatic, {means[3]:.2f} % of these right"
        )
    spread = f", standard error {lost.std(ddof=1) / len(lost) ** 0.5:.2f}" if len(lost) > 1 else ""
    print(f"lost: {lost.mean():.2f} points{spread}")
    speeds: dict[str, list[tuple[float, float]]] = {side: [] for side in sides}
    for _ in range(options.rounds):
        for side, predictors in sides.items():
            speeds[side].append(rows_per_second(predictors[0], rows))
    rates = {side: statistics.median(rate for rate, _ in values) for side, values in speeds.items()}
    costs = {side: statistics.median(used for _, used in values) for side, values in speeds.items()}
    print(
        f"rows/s: {rates['teacher']:,.0f} and {rates['student']:,.0f},"
        f" {rates['student'] / rates['teacher']:.2f} times;"
        f" by processor time {costs['student'] / costs['teacher']:.2f} times"
    )


if __name__ == "__main__":
    main()
