"""Sequential test of the promised accuracy, valid at any time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bertcnn.errors import SettingsError
from bertcnn.review.statistics.audit import flags, probabilities

_ODDS = (1.25, 1.5, 2.0, 3.0, 5.0, 10.0)  # of an error, as multiples of the promised ones
_ALARM = 20.0
_FIRST = 0.5  # share of the wealth bet from the first audit on; later audits get the rest
_ALL_SHARES = 2.11  # at least the sum of 1 / (n log(n)^2) over n from 2 on
_HIGHEST_LOG = 700.0  # of a float


@dataclass(frozen=True, eq=False)
class AccuracyWatch:
    """Evidence that accuracy is below the promise, audit by audit.

    Attributes:
        wealth: float64 [audits], a bettor's wealth after each audit, starting from 1. While the
            promise is kept, it ever reaches 20 with a probability of at most 5 %.
        alarm: index of the first audit with a wealth of at least 20; None if there is none.
    """

    wealth: np.ndarray
    alarm: int | None


def watch_accuracy(
    right: Sequence[bool] | np.ndarray,
    promised: float,
    *,
    pi: Sequence[float] | np.ndarray | None = None,
) -> AccuracyWatch:
    """Test by betting that automatic answers are at least as accurate as promised.

    Each audit is a bet at odds that are fair if the promise is just kept (Waudby-Smith and Ramdas
    2023, section 4). Six bettors assume that errors are 1.25 to 10 times as likely, and stake
    optimally under their assumption. By Ville's inequality, their mean wealth exceeds 20 with a
    probability of at most 5 % if the promise is kept, so the alarm can be checked every day. The
    test detects only harm, not any change (Podkopaev and Ramdas 2022).

    A bettor who has lost for a year would need another year to notice a lower accuracy. Half of the
    wealth is therefore kept for bettors who start later, some at every audit; shares that sum to 1
    keep the guarantee.

    If audit probabilities differ, stakes are proportional to (lowest pi) / pi. A bet is then fair
    for all tickets together, as if the audits were thinned to the lowest probability, but none is
    discarded. An audit at an even lower probability lowers all earlier stakes, so record an alarm
    when it is raised.

    Args:
        right: bool [audits], whether each audited answer was right, in the order of the tickets.
        promised: the accuracy promised, between 0 and 1.
        pi: float [audits], audit probabilities; by default all equal.

    Raises:
        SettingsError: `promised` or a probability is out of range, or the lengths differ.

    Example:
        >>> kept, broken = [True] * 95 + [False] * 5, [True] * 80 + [False] * 20
        >>> watch_accuracy(kept * 4, 0.95).alarm
        >>> watch_accuracy(kept + broken, 0.95).alarm
        186
    """
    right = flags(right, "audits")
    if not 0 < promised < 1:
        raise SettingsError(
            f"a promised accuracy of {promised}",
            expected="a number between 0 and 1",
            fix="give 0.95 for 95 %",
        )
    scale = np.ones(len(right))
    if pi is not None:
        pi = probabilities(pi)
        if len(pi) != len(right):
            raise SettingsError(
                f"{len(right):,} audits and {len(pi):,} probabilities",
                expected="one probability for each audit",
                fix="give columns of the same audits",
            )
        scale = pi.min(initial=1.0) / pi
    log_wealth = _log_wealth(np.where(right, promised - 1, promised) * scale, promised)
    reached = np.flatnonzero(log_wealth >= np.log(_ALARM))
    return AccuracyWatch(
        np.exp(np.minimum(log_wealth, _HIGHEST_LOG)), int(reached[0]) if len(reached) else None
    )


def _log_wealth(surprises: np.ndarray, promised: float) -> np.ndarray:
    """The log wealth after each audit, float64 [audits]; `surprises`: errors minus promised."""
    index = np.arange(2.0, len(surprises) + 2)
    shares = (1 - _FIRST) / (_ALL_SHARES * index * np.log(index) ** 2)
    shares[:1] += _FIRST
    # log of the wealth kept for later; [audits]
    log_wealth = np.log1p(-np.cumsum(shares))
    for stake in _stakes(promised):
        gains = np.cumsum(np.log1p(stake * surprises))
        before = np.concatenate([[0.0], gains[:-1]])
        bettor = gains + np.logaddexp.accumulate(np.log(shares) - before)
        log_wealth = np.logaddexp(log_wealth, bettor - np.log(len(_ODDS)))
    return log_wealth


def _stakes(promised: float) -> np.ndarray:
    """The optimal stakes of the six bettors under their assumed odds."""
    odds = np.array(_ODDS)
    error = odds * (1 - promised) / (promised + odds * (1 - promised))
    return (error - (1 - promised)) / (promised * (1 - promised))
