"""Makes monitoring_golden.json: statsmodels and methodeutics on small tables, audits and streams.

Run where both are installed (they are no dependencies of bertcnn; statsmodels 0.15.0, methodeutics
0.1.0):

    python make_monitoring_golden.py

- `mid_p`: [won, lost, p]. McNemar's test is one of two Poisson counts with equal exposure, given
  their sum. Two-sided, Fagerland et al. double the one-sided p-value; statsmodels does not.
- `difference`: [won, lost, rows, low, high] of Bonett and Price: Wald's interval for the rows plus
  one more pair of either kind, without a correction for degrees of freedom.
- `effective`: answers of both models, groups and weights, and the variance of the weighted mean
  difference with a cluster-robust sandwich.
- `wilson`: [right, audits, low, high].
- `hajek`: audits with small probabilities, their weighted mean and its robust variance.
- `holm`: p-values, and which are rejected at a family-wise level of 5 %.
- `needed`: [share of rows that differ, distance, level, rows] with a power of 80 %.
- `wealth`: a stream of audits with their probabilities, and the wealth of bettors with these
  stakes, weights and first audits.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import statsmodels.api as sm
from methodeutics import Bankroll
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import NormalIndPower
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.rates import test_poisson_2indep

HERE = Path(__file__).parent
SEED = 20261127
TABLES = [(1, 7, 21), (0, 0, 300), (0, 6, 300), (9, 9, 300), (25, 14, 1000), (40, 61, 3000)]
PROMISED, ODDS = 0.95, (1.25, 1.5, 2, 3, 5, 10)
AUDITS, FIRST, ALL_SHARES = 60, 0.5, 2.11


def mean_and_variance(values, weights, **options):
    fitted = sm.WLS(values, np.ones(len(values)), weights=weights).fit(use_t=False, **options)
    return float(fitted.params[0]), float(fitted.cov_params()[0, 0])


def mid_p(won, lost):
    if won == lost:
        return float(test_poisson_2indep(won, 1, lost, 1, method="cond-midp").pvalue)
    fewer, more = sorted((won, lost))
    tested = test_poisson_2indep(fewer, 1, more, 1, method="cond-midp", alternative="smaller")
    return 2 * float(tested.pvalue)


def difference(won, lost, rows):
    values = np.repeat([1.0, -1.0, 0.0], [won + 1, lost + 1, rows - won - lost])
    fitted = sm.OLS(values, np.ones(len(values))).fit(cov_type="HC0", use_t=False)
    return [won, lost, rows, *fitted.conf_int()[0].tolist()]


def effective(generator):
    champion, challenger = (generator.random(400) < share for share in (0.9, 0.93))
    groups = generator.integers(0, 150, 400)
    challenger = np.where(groups < 60, champion, challenger)
    weights = generator.choice([1.0, 4.0, 25.0], 400)
    _, variance = mean_and_variance(
        challenger.astype(float) - champion,
        weights,
        cov_type="cluster",
        cov_kwds={"groups": groups, "use_correction": False},
    )
    columns = {"groups": groups, "weights": weights}
    return {name: column.tolist() for name, column in columns.items()} | {
        "champion": champion.astype(int).tolist(),
        "challenger": challenger.astype(int).tolist(),
        "variance": variance,
    }


def hajek(generator):
    right = generator.random(80) < 0.85
    pi = generator.choice([1e-9, 2e-9, 5e-9], 80)
    mean, variance = mean_and_variance(right.astype(float), 1 / pi, cov_type="HC0")
    columns = {"right": right.astype(int).tolist(), "pi": pi.tolist()}
    return columns | {"mean": mean, "variance": variance}


def needed(share, distance, level):
    # ratio 0: one sample
    rows = NormalIndPower().solve_power(
        distance / share**0.5, alpha=level, power=0.8, ratio=0, alternative="larger"
    )
    return [share, distance, level, float(rows)]


def wealth(generator):
    right = generator.random(AUDITS) < 0.8
    pi = generator.choice([0.01, 0.02, 0.05], AUDITS)
    place = np.arange(2, AUDITS + 2)
    shares = (1 - FIRST) / (ALL_SHARES * place * np.log(place) ** 2)
    shares[0] += FIRST
    total = 1 - np.cumsum(shares)
    audits = list(zip(right.tolist(), (pi.min() / pi).tolist(), strict=True))
    for odds in ODDS:
        error = odds * (1 - PROMISED) / (PROMISED + odds * (1 - PROMISED))
        stake = (PROMISED - (1 - error)) / (PROMISED * (1 - PROMISED))
        for first, share in enumerate(shares):
            bettor = Bankroll(lambda one, stake=stake: 1 + stake * one[1] * (PROMISED - one[0]))
            total[first:] += share / len(ODDS) * np.array(bettor.extend(audits[first:]).trajectory)
    return {
        "right": right.astype(int).tolist(),
        "pi": pi.tolist(),
        "promised": PROMISED,
        "wealth": total.tolist(),
    }


def main() -> None:
    generator = np.random.default_rng(SEED)
    chances = [0.001, 0.013, 0.0124, 0.04, 0.9]
    golden = {
        "mid_p": [[won, lost, mid_p(won, lost)] for won, lost, _ in TABLES if won + lost],
        "difference": [difference(*table) for table in TABLES],
        "effective": effective(generator),
        "wilson": [
            [right, audits, *map(float, proportion_confint(right, audits, method="wilson"))]
            for right, audits in ((0, 3), (3, 3), (19, 20), (190, 200), (998, 1000))
        ],
        "hajek": hajek(generator),
        "holm": [chances, multipletests(chances, method="holm")[0].tolist()],
        "needed": [needed(0.03, 0.01, 0.05), needed(0.04, 0.01, 0.025), needed(0.06, 0.02, 0.025)],
        "wealth": wealth(generator),
    }
    file = HERE / "monitoring_golden.json"
    file.write_text(json.dumps(golden) + "\n")
    names = ", ".join(f"{name} {version(name)}" for name in ("statsmodels", "methodeutics"))
    sys.stdout.write(f"{names}: {file.stat().st_size:,} bytes\n")


if __name__ == "__main__":
    main()
