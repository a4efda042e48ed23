"""How many answers are automatic at a promised precision: several procedures, simulated models.

    python -m benchmarks.thresholds [--draws 1000] [--target 0.95] [--seed 0]

The models differ in accuracy, and in how well their confidence separates right from wrong answers.
Each draw is a set of held-out rows, and each procedure chooses its threshold from them. Prints the
share of new answers above the threshold, and how often their precision is below the target.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from scipy.stats import binom

from bertcnn.evaluation import fewest_rows
from bertcnn.evaluation.thresholds import ERROR_PROBABILITY, find_threshold

_ROWS = (60, 150, 300, 1000, 5000)
_ACCURACIES = (0.8, 0.85, 0.9, 0.93, 0.97, 0.99)
_POPULATION = 20_000  # answers of a model, the most confident first
_STEPS = 50
_STAKES = np.linspace(0.05, 1, 20)  # as shares of the largest possible stake

Procedure = Callable[[np.ndarray, float], np.ndarray]  # wrong answers so far [draws, rows + 1]


def main() -> None:
    """Simulate, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--target", type=float, default=0.95)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    generator = np.random.default_rng(options.seed)
    print(
        f"seed {options.seed}, {options.draws:,} draws a model; means over models, and the model"
        " that is too imprecise most often\n"
    )
    print(f"| rows | confidence | largest possible | {' | '.join(_PROCEDURES)} |")
    print(f"|---|---|---|{'---|' * len(_PROCEDURES)}")
    for rows in _ROWS:
        for name, models in _MODELS.items():
            largest, shares, missed = zip(
                *(_one_model(right, rows, options, generator) for right in models), strict=True
            )
            cells = (
                f"{share:.2f}, {most:.1%}"
                for share, most in zip(np.mean(shares, 0), np.max(missed, 0), strict=True)
            )
            print(
                f"| {rows:,} | {name} | {np.mean(largest):.2f} | {' | '.join(cells)} |", flush=True
            )


def _one_model(
    right: np.ndarray, rows: int, options: argparse.Namespace, generator: np.random.Generator
) -> tuple[float, list[float], list[float]]:
    """The largest possible share, each procedure's mean share, and its rate of misses.

    A miss is a draw whose precision is below the target. All procedures see the same draws.
    """
    precision = np.cumsum(right) / np.arange(1, _POPULATION + 1)
    enough = np.flatnonzero(precision >= options.target)
    places = np.sort(generator.integers(0, _POPULATION, (options.draws, rows)), axis=1)
    wrong = (generator.random(places.shape) >= right[places]).cumsum(axis=1)
    so_far = np.pad(wrong, ((0, 0), (1, 0)))
    shares, missed = [], []
    for procedure in _PROCEDURES.values():
        chosen = procedure(so_far, options.target)
        last = places[np.arange(options.draws), np.maximum(chosen, 1) - 1]
        shares.append(float((np.where(chosen > 0, last + 1, 0) / _POPULATION).mean()))
        missed.append(float(((chosen > 0) & (precision[last] < options.target)).mean()))
    return (enough[-1] + 1) / _POPULATION if len(enough) else 0.0, shares, missed


def _with_mean(form: Callable[[float], np.ndarray], accuracy: float) -> np.ndarray:
    """The form, with its middle moved so that it has this accuracy."""
    low, high = -20.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if form(middle).mean() > accuracy else (middle, high)
    return form(high)


_PLACE = (np.arange(_POPULATION) + 0.5) / _POPULATION


def _late(middle: float) -> np.ndarray:
    """Right answers, except for the least confident ones."""
    return 1 - 0.75 / (1 + np.exp(-np.clip((_PLACE - middle) / 0.08, -50, 50)))


def _noisy(middle: float) -> np.ndarray:
    """The same with 2 % wrong labels."""
    return 0.98 * _late(middle)


def _gradual(middle: float) -> np.ndarray:
    """Precision falls with each answer."""
    return 1 - _PLACE**1.5 / (1 + np.exp(middle))


# the chance that each answer is right, float [_POPULATION], the most confident first
_MODELS = {
    "separates well": [_with_mean(_late, share) for share in _ACCURACIES],
    "the same, 2% wrong labels": [_with_mean(_noisy, share) for share in _ACCURACIES[:-1]],
    "separates badly": [_with_mean(_gradual, share) for share in _ACCURACIES],
    "says nothing, 94.99% right": [np.full(_POPULATION, 0.9499)],
}


def _ours(so_far: np.ndarray, target: float) -> np.ndarray:
    """`find_threshold`: how many rows are above it."""
    rows = so_far.shape[1] - 1
    confidence = -np.arange(rows, dtype=float)
    found = (find_threshold(confidence, np.diff(wrong) == 0, target) for wrong in so_far)
    return np.array([0 if one is None else int(1 - one) for one in found])


def _walks(starts: tuple[float, ...]) -> Procedure:
    """Fixed sequence tests from these shares of the rows, which split the error probability.

    A test that arrives at the next start passes its part on to the next test (Wiens 2003).
    """

    def chosen(so_far: np.ndarray, target: float) -> np.ndarray:
        draws, rows = so_far.shape[0], so_far.shape[1] - 1
        ends = [*(round(share * rows) for share in starts[1:]), rows + 1]
        best, level = np.zeros(draws, int), np.zeros(draws)
        for start, end in zip(starts, ends, strict=True):
            level = level + ERROR_PROBABILITY / len(starts)
            first = max(round(start * rows), fewest_rows(target))
            sizes = np.arange(first, min(end, rows), max(1, rows // _STEPS))
            if end > rows >= first:
                sizes = np.append(sizes, rows)
            if not len(sizes):
                continue
            passed = binom.cdf(so_far[:, sizes], sizes, 1 - target) <= level[:, np.newaxis]
            steps = np.logical_and.accumulate(passed, axis=1).sum(axis=1)
            best = np.where(steps > 0, np.append(0, sizes)[steps], best)
            level = np.where(steps == len(sizes), level, 0)
        return best

    return chosen


def _bets(so_far: np.ndarray, target: float) -> np.ndarray:
    """Bets against the target on each answer (Waudby-Smith and Ramdas 2024), with mixed stakes.

    The wealth is no martingale while the precision is above the target, but becomes one afterwards.
    So the last set of rows with enough wealth may be used.
    """
    sizes = np.arange(so_far.shape[1])
    stakes = (0.999 * _STAKES / target)[:, np.newaxis]
    wealth = np.full(so_far.shape, -np.inf)
    for stake in stakes:
        log = (sizes - so_far) * np.log1p(stake * (1 - target)) + so_far * np.log1p(-stake * target)
        wealth = np.logaddexp(wealth, log - np.log(len(stakes)))
    enough = wealth >= -np.log(ERROR_PROBABILITY)
    return np.where(enough.any(axis=1), sizes[-1] - enough[:, ::-1].argmax(axis=1), 0)


_PROCEDURES: dict[str, Procedure] = {
    "closed test (ours)": _ours,
    "one walk from 25%": _walks((0.25,)),
    "walks from 15, 40, 65, 90%": _walks((0.15, 0.4, 0.65, 0.9)),
    "bets": _bets,
}


if __name__ == "__main__":
    main()
