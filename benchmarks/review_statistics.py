"""Do the figures on a model in use keep their promises? Simulated weeks and comparisons.

    python -m benchmarks.review_statistics [--repeats 1000] [--seed 0]

Prints how often the interval of audited accuracy covers the truth, how often and how late the watch
over a promised accuracy raises an alarm, and which verdict a challenger of known accuracy gets.
Next to each it prints the usual rule without such figures.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.optimize import brentq
from scipy.stats import beta, binom

from bertcnn.evaluation import LostLabel, PairedDifference, lost_labels, paired_difference
from bertcnn.review.statistics import Stratum, audit_accuracy, watch_accuracy
from bertcnn.review.statistics.comparison import HALF_POINT, judge

_WEEK, _AUDITED, _REVIEWED = 35_000, 0.03, 0.13  # tickets; shares of automatic ones and of all
_REVIEW_ACCURACY = 0.6
_PROMISED, _DAY, _YEAR = 0.95, 30, 365  # audits a day
_CHAMPION, _DIFFERING = 0.9, 0.03
_RAREST, _FLOOR = 0.001, 0.25  # error rate; audit probability, relative to equal ones
_LIKE_ALL = 2  # pseudo-audits of each stratum at the overall error rate


def main() -> None:
    """Simulate, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    generator = np.random.default_rng(options.seed)
    print(f"seed {options.seed}, {options.repeats:,} repeats a row\n")
    _audit_table(options.repeats, generator)
    _watch_table(options.repeats, generator)
    _rates_table(options.repeats, generator)
    _verdict_table(options.repeats, generator)


def _audit_table(repeats: int, generator: np.random.Generator) -> None:
    print(
        f"Accuracy of automatic answers, among {_WEEK:,} tickets a week, {_AUDITED:.0%} of them"
        " audited at rates from the audits of the week before. Covered: by the 95% interval;"
        " exact: Clopper and Pearson's, without the rates; reviewed: the share right among all"
        " tickets that people saw.\n"
    )
    print("| labels | accuracy | covered | half-width | exact covers | reviewed, mean error |")
    print("|---|---|---|---|---|---|")
    for labels in (8, 30, 77):
        for accuracy in (0.85, 0.95, 0.99):
            found = np.array([_week(labels, accuracy, generator) for _ in range(repeats)])
            covered, half, exact, naive = found.mean(axis=0)
            print(
                f"| {labels} | {accuracy:.0%} | {covered:.1%} | {100 * half:.2f} points |"
                f" {exact:.1%} | {100 * naive:+.1f} points |",
                flush=True,
            )
    print()


def _week(
    labels: int, accuracy: float, generator: np.random.Generator
) -> tuple[float, float, float, float]:
    """One week: covered, half-width, covered by the exact interval, error of reviewed ones."""
    strata = [Stratum(str(label), tercile) for label in range(labels) for tercile in range(3)]
    automatic = round(_WEEK * (1 - _REVIEWED))
    shares = np.repeat(generator.dirichlet(np.full(labels, 0.5)) / 3, 3)
    errors = _error_rates(shares, 1 - accuracy, generator)
    rates = np.full(len(strata), _AUDITED)
    for _ in range(2):  # the week before, for its error rates, and this one
        sizes = generator.multinomial(automatic, shares)
        wrong = generator.binomial(sizes, errors)
        seen = [generator.binomial(part, rates) for part in (sizes - wrong, wrong)]
        right = np.repeat([True, False], [part.sum() for part in seen])
        places = np.concatenate([np.repeat(np.arange(len(strata)), part) for part in seen])
        used, audited = rates, [strata[place] for place in places]
        population = dict(zip(strata, sizes.tolist(), strict=True))
        rates = _audit_rates(population, right, audited)
    found = audit_accuracy(right, used[places], audited, population)
    truth = 1 - wrong.sum() / automatic
    hits, total = int(right.sum()), len(right)
    low, high = beta.ppf(0.025, hits, total - hits + 1), beta.ppf(0.975, hits + 1, total - hits)
    reviewed = round(_WEEK * _REVIEWED)
    naive = (hits + _REVIEW_ACCURACY * reviewed) / (total + reviewed)
    return (
        found.low <= truth <= found.high,
        (found.high - found.low) / 2,
        low <= truth <= (high if hits < total else 1),
        naive - truth,
    )


def _audit_rates(
    sizes: Mapping[Stratum, int], right: np.ndarray, audited: Sequence[Stratum]
) -> np.ndarray:
    """Next week's audit probability of each stratum, float [strata].

    It is proportional to the standard deviation of the errors (Neyman 1934, section IV), with error
    rates guessed from this week's audits and shrunk towards the overall rate.
    """
    audits, wrong = Counter(audited), Counter[Stratum]()
    for stratum, one in zip(audited, right.tolist(), strict=True):
        wrong[stratum] += not one
    overall = wrong.total() / max(1, len(right))
    rates = {one: (wrong[one] + _LIKE_ALL * overall) / (audits[one] + _LIKE_ALL) for one in audits}
    usual = float(np.mean(list(rates.values())))
    guesses = np.clip([rates.get(one, usual) for one in sizes], _RAREST, 1 - _RAREST)
    deviations, numbers = np.sqrt(guesses * (1 - guesses)), np.array(list(sizes.values()))
    lowest, wanted = _FLOOR * _AUDITED, _AUDITED * sum(sizes.values())
    factor = brentq(
        lambda tried: numbers @ np.clip(tried * deviations, lowest, 1) - wanted,
        0,
        1 / float(deviations.min()),
    )
    return np.clip(factor * deviations, lowest, 1)


def _error_rates(shares: np.ndarray, overall: float, generator: np.random.Generator) -> np.ndarray:
    """Error rates by stratum: labels differ, and low confidence errs six times as often."""
    labels = len(shares) // 3
    rates = np.tile([1.9, 0.8, 0.3], labels) * np.repeat(generator.gamma(2, 0.5, labels), 3)
    for _ in range(20):  # until the mean is the wanted one, in spite of the bounds
        rates = np.clip(rates * overall / (shares @ rates), 0.0002, 0.8)
    return rates


def _watch_table(repeats: int, generator: np.random.Generator) -> None:
    print(
        f"The watch over a promised accuracy of {_PROMISED:.0%}, {_DAY} audits a day, looked at"
        f" every day. Exact test: of all audits so far, at 5%. From the start: the same bettors,"
        " none of whom begins later. Alarms within a year, or before accuracy falls; audits: median"
        " until it is noticed.\n"
    )
    print(
        "| accuracy | alarms: ours, exact test, from the start"
        " | audits: ours, exact test, from the start |"
    )
    print("|---|---|---|")
    audits = _DAY * _YEAR
    for before, days, after in (
        (_PROMISED, _YEAR, None),
        (0.96, _YEAR, None),
        (0, 0, 0.90),
        (0, 0, 0.92),
        (0.97, 60, 0.90),
        (0.97, _YEAR, 0.90),
    ):
        good = days * _DAY
        alarms = []
        for _ in range(repeats):
            right = generator.random(good) < before
            if after is not None:
                right = np.append(right, generator.random(audits) < after)
            alarms.append([_daily(one) for one in (_ours(right), _exact(right), _start(right))])
        found = np.array(alarms)
        early, late = (found < good).mean(axis=0), ["", "", ""]
        if after is not None:
            late = [
                f"{np.median(column[column >= good]) - good:.0f}" if (column >= good).any() else "-"
                for column in found.T
            ]
        name = " then ".join(
            part
            for part in (
                f"{before:.0%} for {days} days" if days else "",
                f"{after:.0%}" if after is not None else "",
            )
            if part
        )
        shown = ", ".join(f"{share:.1%}" for share in early) if days else ""
        print(f"| {name} | {shown} | {', '.join(late) if after is not None else ''} |", flush=True)
    print()


def _ours(right: np.ndarray) -> float:
    alarm = watch_accuracy(right, _PROMISED).alarm
    return np.inf if alarm is None else alarm + 1


def _exact(right: np.ndarray) -> float:
    """Audits until the exact test, done at the end of each day, is significant."""
    looks = np.arange(_DAY, len(right) + 1, _DAY)
    reached = binom.cdf(np.cumsum(right)[looks - 1], looks, _PROMISED) <= 0.05
    return float(looks[reached.argmax()]) if reached.any() else np.inf


def _start(right: np.ndarray) -> float:
    """Audits until six bettors who all start at the first audit have 20 times their capital."""
    odds = np.array([1.25, 1.5, 2, 3, 5, 10])[:, np.newaxis]
    error = odds * (1 - _PROMISED) / (_PROMISED + odds * (1 - _PROMISED))
    ratio = np.where(right, (1 - error) / _PROMISED, error / (1 - _PROMISED))
    reached = np.logaddexp.reduce(np.log(ratio).cumsum(axis=1), axis=0) >= np.log(20 * len(odds))
    return float(reached.argmax() + 1) if reached.any() else np.inf


def _daily(audits: float) -> float:
    """Audits at the end of the day, when the alarm is seen."""
    return np.ceil(audits / _DAY) * _DAY


def _rates_table(repeats: int, generator: np.random.Generator) -> None:
    print(
        "The same watch where a tenth of the answers errs three times as often and is audited"
        " four times as often. Ours: smaller stakes; thinned: audits left out, to the lowest"
        " probability. Median audits until it is noticed.\n"
    )
    print("| accuracy | ours | thinned |")
    print("|---|---|---|")
    share, often, errs = 0.1, 4, 3
    for accuracy in (0.90, 0.92):
        found = []
        for _ in range(repeats):
            odd = generator.random(_DAY * _YEAR) < share * often / (share * often + 1 - share)
            usual = (1 - accuracy) / (share * errs + 1 - share)
            right = generator.random(len(odd)) >= np.where(odd, errs * usual, usual)
            pi = np.where(odd, 0.01 * often, 0.01)
            kept = np.flatnonzero(generator.random(len(odd)) < 0.01 / pi)
            ours = watch_accuracy(right, _PROMISED, pi=pi).alarm
            thinned = watch_accuracy(right[kept], _PROMISED).alarm
            found.append(
                (
                    np.inf if ours is None else ours + 1,
                    np.inf if thinned is None else kept[thinned] + 1,
                )
            )
        ours, thinned = np.median(found, axis=0)
        print(f"| {accuracy:.0%} | {ours:.0f} | {thinned:.0f} |", flush=True)
    print()


def _verdict_table(repeats: int, generator: np.random.Generator) -> None:
    print(
        f"A challenger of known accuracy against a champion at {_CHAMPION:.0%}, 20 labels, one of"
        f" them right and the other wrong on {_DIFFERING:.0%} of the rows or a little more."
        " Promoted by half a point: whenever it looks half a point better.\n"
    )
    verdicts = ("better", "not worse", "cannot tell", "worse")
    print(f"| rows | difference | {' | '.join(verdicts)} | promoted by half a point |")
    print("|---|---|---|---|---|---|---|")
    for rows in (300, 1000, 3000, 7500):
        for points in (-1, -0.5, 0, 0.5, 1, 2):
            counts: Counter[str] = Counter()
            naive = 0
            for _ in range(repeats):
                difference, lost = _challenge(rows, points / 100, generator)
                counts[judge(difference, lost, ["fewer reviews"])] += 1
                naive += difference.estimate >= HALF_POINT
            shares = " | ".join(f"{counts[verdict] / repeats:.1%}" for verdict in verdicts)
            print(f"| {rows:,} | {points:+g} | {shares} | {naive / repeats:.1%} |", flush=True)


def _challenge(
    rows: int, difference: float, generator: np.random.Generator
) -> tuple[PairedDifference, Sequence[LostLabel]]:
    """A comparison on random rows."""
    labels = generator.choice(20, rows, p=1 / np.arange(1, 21) / (1 / np.arange(1, 21)).sum())
    differing = max(_DIFFERING, abs(difference) + 0.01)
    won = (differing + difference) / 2
    lost = differing - won
    number = generator.random(rows)
    champion = number < _CHAMPION
    challenger = np.where(champion, number >= lost, number >= 1 - won)
    return (
        paired_difference(champion, challenger),
        lost_labels(labels, champion, challenger),
    )


if __name__ == "__main__":
    main()
