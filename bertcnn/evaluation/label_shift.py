"""Label shift: estimates the share of each label in unlabelled texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from scipy.stats import beta, norm

from bertcnn.errors import SettingsError, one_line
from bertcnn.wording import count

_BIAS_DEVIATION = 1.0  # in log odds; keeps labels without validation rows in place
_TOLERANCE, _MOST_ROUNDS = 1e-6, 1000
_LEAST_LEFT = 1e-3  # of a share, after an extrapolation step
_DRAWS, _MOST_TEXTS = 200, 10_000
_ERROR_PROBABILITY = 0.05
_TAIL = 0.025  # outside either end of an interval
_SMALLEST_CHANGE = 0.01  # of a share; smaller changes are not reported
_NAMED = 5


@dataclass(frozen=True, eq=False)
class ShiftCalibration:
    """Calibrated probabilities for label shift: softmax(logits / temperature + bias).

    Decisions need only the temperature. Label shift also needs the bias, so that the mean
    probability of each label on the validation rows equals its share.

    Attributes:
        temperature: above 0.
        bias: float64 [C].
        shares: float64 [C], mean probability of each label on the validation rows.
    """

    temperature: float
    bias: np.ndarray
    shares: np.ndarray
    rows: int

    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        """The calibrated probabilities of texts, float64 [N, C]."""
        return softmax(np.asarray(logits, float) / self.temperature + self.bias, axis=1)


def fit_shift_calibration(
    logits: np.ndarray, labels: np.ndarray, *, bias_deviation: float = _BIAS_DEVIATION
) -> ShiftCalibration:
    """Bias-corrected temperature scaling on validation rows.

    Alexandari, Kundaje and Shrikumar 2020, "Maximum Likelihood with Bias-Corrected Calibration is
    Hard-To-Beat at Label Shift Adaptation", section 4. The paper's fit gives a label without
    validation rows a bias of minus infinity, so a normal prior regularises the biases; its
    influence falls with the number of rows.

    `logits` are float [rows, C] of rows not trained on, or log probabilities; `labels` int [rows].
    `bias_deviation` is the prior's standard deviation; infinite for the paper's fit.

    Raises:
        SettingsError: there are no rows.

    Example:
        >>> logits = np.array([[2.0, 0.0], [0.0, 2.0], [2.0, 0.0], [0.0, 2.0]])
        >>> calibration = fit_shift_calibration(logits, np.array([0, 1, 0, 0]))
        >>> bool(calibration.bias[0] > calibration.bias[1])
        True
    """
    logits, labels = np.asarray(logits, float), np.asarray(labels, int)
    rows, classes = logits.shape
    if not rows:
        raise SettingsError(
            "0 validation rows to calibrate on", expected="at least 1", fix="hold rows out"
        )
    one_hot, precision = np.eye(classes)[labels], 1 / bias_deviation**2

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        slope, bias = np.exp(parameters[0]), parameters[1:]
        log_probabilities = log_softmax(slope * logits + bias, axis=1)
        residuals = np.exp(log_probabilities) - one_hot
        gradient = np.concatenate(
            [[slope * (residuals * logits).sum()], residuals.sum(axis=0) + precision * bias]
        )
        value = precision * (bias**2).sum() / 2 - log_probabilities[np.arange(rows), labels].sum()
        return value / rows, gradient / rows

    # optimise the log of the inverse temperature, which keeps it positive
    bounds = [(np.log(0.05), np.log(20.0)), *[(None, None)] * classes]
    result = minimize(loss, np.zeros(1 + classes), jac=True, method="L-BFGS-B", bounds=bounds)
    temperature, bias = float(np.exp(-result.x[0])), result.x[1:] - result.x[1:].mean()
    shares = softmax(logits / temperature + bias, axis=1).mean(axis=0)
    return ShiftCalibration(temperature, bias, shares, rows)


def estimate_label_shares(probabilities: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """The share of each label in unlabelled texts, float64 [C], by expectation maximisation.

    Saerens, Latinne and Decaestecker 2002, "Adjusting the Outputs of a Classifier to New a Priori
    Probabilities", equation 2.9. Assumes that only the label shares have changed, not the texts of
    each label.

    `probabilities` are float [N, C], calibrated; `shares` float [C], from the calibration rows.

    Example:
        >>> probabilities = np.array([[0.9, 0.1], [0.8, 0.2], [0.9, 0.1], [0.2, 0.8]])
        >>> estimate_label_shares(probabilities, np.array([0.5, 0.5])).round(2).tolist()
        [0.95, 0.05]
    """
    shares = np.asarray(shares, float)
    likelihoods = np.asarray(probabilities, float) / np.maximum(shares, np.finfo(float).tiny)
    return _maximize(likelihoods, np.ones(len(likelihoods)), shares)


def _maximize(likelihoods: np.ndarray, weights: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """The maximum likelihood shares, float64 [C].

    Plain EM needs hundreds of iterations if labels overlap, so each pair of iterations is followed
    by an extrapolation (SQUAREM, scheme S3: Varadhan and Roland 2008, section 3). `likelihoods` are
    [N, C], up to a factor for each text; `weights` [N]; `shares` [C], the starting point.
    """

    def round_of_em(shares: np.ndarray) -> np.ndarray:
        density = likelihoods @ shares  # [N]
        ratios = np.divide(weights, density, out=np.zeros_like(density), where=density > 0)
        shares = shares * (ratios @ likelihoods)
        return shares / shares.sum()

    for _ in range(_MOST_ROUNDS):
        once = round_of_em(shares)
        twice = round_of_em(once)
        step, curvature = once - shares, twice - 2 * once + shares
        if np.abs(step).sum() < _TOLERANCE:
            return twice
        ahead = max(1.0, float(np.linalg.norm(step)) / max(float(np.linalg.norm(curvature)), 1e-12))
        shares = shares + 2 * ahead * step + ahead**2 * curvature
        # a share of 0 could never grow
        shares = np.maximum(shares, _LEAST_LEFT * twice)
        shares = round_of_em(shares / shares.sum())
    return shares


@dataclass(frozen=True)
class LabelShare:
    """The frequency of a label in new texts.

    Attributes:
        share: the estimate, 0 to 1.
        interval: 95 % confidence interval.
        before: share in the validation rows.
        changed: whether the change is significant, corrected for all labels.
    """

    label: str
    share: float
    interval: tuple[float, float]
    before: float
    changed: bool


@dataclass(frozen=True)
class LabelShift:
    """The estimated shares of all labels, or why there is no estimate.

    Attributes:
        labels: in the model's order; empty without an estimate.
        reason: why there is no estimate; otherwise "".
    """

    texts: int
    labels: tuple[LabelShare, ...] = ()
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """All fields as a JSON object."""
        return asdict(self)

    def describe(self) -> str:
        """The changes, in sentences for the reader."""
        if self.reason:
            return f"The shares of the labels cannot be estimated: {self.reason}."
        moved = sorted(
            (one for one in self.labels if one.changed),
            key=lambda one: -abs(one.share - one.before),
        )
        if not moved:
            return f"No label's share has changed in {count(self.texts, 'text')}."
        named = [
            f"{one_line(one.label)} from {one.before:.1%} to {one.share:.1%} ({one.interval[0]:.1%}"
            f" to {one.interval[1]:.1%})"
            for one in moved[:_NAMED]
        ]
        more = f", and {len(moved) - _NAMED} more" if len(moved) > _NAMED else ""
        return f"Shares that have changed: {'; '.join(named)}{more}."


def estimate_label_shift(
    logits: np.ndarray,
    calibration: ShiftCalibration,
    labels: Sequence[str],
    *,
    out_of_scope_rose: bool = False,
) -> LabelShift:
    """The share of each label in new texts, with intervals.

    Intervals come from 200 bootstrap draws of at most 10,000 texts. They ignore the calibration's
    own error, so they are too narrow with a few hundred validation rows: with 200 and 300 rows they
    covered 88 to 93 % of the true shares. There is no estimate if the out-of-scope share has risen,
    because such texts would be distributed over all labels.

    `logits` are float [N, C] of new texts in scope, as for `fit_shift_calibration`.

    Example:
        >>> generator = np.random.default_rng(0)
        >>> truth = generator.integers(0, 2, 2000)
        >>> logits = generator.normal(size=(2000, 2)) + 4 * np.eye(2)[truth]
        >>> calibration = fit_shift_calibration(logits[:1000], truth[:1000])
        >>> rare = np.flatnonzero(truth[1000:] == 1)[:50]
        >>> new = np.concatenate([logits[1000:][truth[1000:] == 0][:450], logits[1000:][rare]])
        >>> found = estimate_label_shift(new, calibration, ["billing", "network"])
        >>> [round(one.share, 1) for one in found.labels]
        [0.9, 0.1]
    """
    texts = len(logits)
    if out_of_scope_rose:
        reason = "more texts than usual belong to none of the labels"
        return LabelShift(texts, reason=reason)
    if not texts:
        return LabelShift(0, reason="there are no texts")
    generator = np.random.default_rng(0)
    if texts > _MOST_TEXTS:
        logits = logits[generator.choice(texts, _MOST_TEXTS, replace=False)]
    before = calibration.shares
    likelihoods = calibration.probabilities(logits) / np.maximum(before, np.finfo(float).tiny)
    rows = len(likelihoods)
    shares = _maximize(likelihoods, np.ones(rows), before)
    weights = generator.multinomial(rows, np.full(rows, 1 / rows), _DRAWS).astype(float)
    drawn = np.stack([_maximize(likelihoods, one, shares) for one in weights])  # [draws, C]
    lower, upper = _interval(shares, drawn, rows)
    changed = _changed(shares, drawn.std(axis=0), calibration)
    shifts = tuple(
        LabelShare(
            name,
            float(shares[index]),
            (float(lower[index]), float(upper[index])),
            float(before[index]),
            bool(changed[index]),
        )
        for index, name in enumerate(labels)
    )
    return LabelShift(texts, shifts)


def _interval(shares: np.ndarray, drawn: np.ndarray, texts: int) -> np.ndarray:
    """The 95 % interval of each share, float64 [2, C].

    Quantiles of the draws, at least as wide as the interval for labelled texts (Clopper and Pearson
    1934), because draws of a rare label underestimate its variance.
    """
    lower, upper = np.quantile(drawn, [_TAIL, 1 - _TAIL], axis=0)
    labelled = texts * np.clip(shares, 0, 1)
    rarest = np.where(labelled > 0, beta.ppf(_TAIL, labelled, texts - labelled + 1), 0.0)
    commonest = np.where(labelled < texts, beta.ppf(1 - _TAIL, labelled + 1, texts - labelled), 1.0)
    return np.stack([np.minimum(lower, rarest), np.maximum(upper, commonest)])


def _changed(
    shares: np.ndarray, deviation: np.ndarray, calibration: ShiftCalibration
) -> np.ndarray:
    """Labels whose share changed significantly and by at least a point, bool [C].

    Corrected for all labels together (Holm 1979).
    """
    before = calibration.shares
    deviation = np.sqrt(deviation**2 + before * (1 - before) / calibration.rows)
    chance = 2 * norm.sf(np.abs(shares - before) / np.maximum(deviation, 1e-12))
    order = np.argsort(chance, kind="stable")
    passes = chance[order] <= _ERROR_PROBABILITY / np.arange(len(order), 0, -1)
    changed = np.zeros(len(order), bool)
    changed[order] = np.logical_and.accumulate(passes)
    return changed & (np.abs(shares - before) >= _SMALLEST_CHANGE)
