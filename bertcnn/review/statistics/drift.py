"""Drift detection on incoming texts, without labels.

A day is compared with the same weekday of the eight weeks before, and a week with these eight
weeks. This avoids alarms for quiet Sundays, busy Mondays and normal weekly variation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, timedelta
from typing import Any, Final

import numpy as np
from scipy.stats import chi2_contingency, hypergeom, kstwo, t

from bertcnn.errors import SettingsError, one_line
from bertcnn.evaluation import LabelShift
from bertcnn.review.statistics.word_frequencies import NewWord
from bertcnn.wording import count

CONFIDENCE_EDGES: Final = tuple(step / 20 for step in range(21))
LENGTH_EDGES: Final = (0, *(round(8 * 2 ** (step / 2)) for step in range(20)))  # characters

_WEEK, _WEEKS, _FEWEST_WEEKS = timedelta(days=7), 8, 5
_FALSE_ALARM = 0.005  # probability on either side
_CHANCE_OF_WEEK = 0.001
_SMALLEST_CHANGE = 0.05  # of a week: the share of texts in other bins than before
_FEWEST_EXPECTED = 5  # texts of a label in the chi-squared test
_RANGE = 1.128  # the mean distance of two normal values, in standard deviations
_NAMED = 3


@dataclass(frozen=True)
class DailyFigures:
    """Counts of a day's texts.

    Attributes:
        out_of_scope: number of texts that belong to no label.
        labels: predicted labels of the others.
        confidence: counts of the others between `CONFIDENCE_EDGES`, low to high.
        lengths: counts of texts by number of characters between `LENGTH_EDGES`; the last bin is
            open.
        counts: other counts to watch, such as "automatic".
    """

    day: date
    texts: int
    out_of_scope: int = 0
    labels: Mapping[str, int] = field(default_factory=dict)
    confidence: tuple[int, ...] = ()
    lengths: tuple[int, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ShareCheck:
    """A day's share compared with earlier days of the same weekday.

    Attributes:
        days: number of earlier days.
        changed: whether it is significantly outside the limits; None if unknown.
        usual: pooled share of the earlier days.
        limits: lower and upper bound for the day's share.
        overdispersion: variation of the earlier days relative to chance.
        reason: why `changed` is unknown; "" otherwise.
    """

    counted: int
    texts: int
    days: int
    changed: bool | None = None
    usual: float | None = None
    limits: tuple[float, float] | None = None
    overdispersion: float | None = None
    reason: str = ""

    @property
    def rose(self) -> bool:
        """Whether it is above the upper limit."""
        return bool(self.changed and self.limits and self.counted > self.limits[1] * self.texts)


def overdispersion(counts: Sequence[int], texts: Sequence[int]) -> tuple[float, float]:
    """The centre of a p' chart, and its overdispersion.

    Laney 2002, "Improved Control Charts for Attributes". The textbook's limits are centre +- 3 x
    overdispersion x sqrt(centre x (1 - centre) / texts).

    Args:
        counts: of each day, in order.
        texts: of each day, above 0.

    Returns:
        The pooled share of all days; and their standard deviation from the mean moving range, in
        binomial standard deviations, 1 if it cannot be measured.

    Example:
        >>> centre, spread = overdispersion([10, 30, 10, 30], [100, 100, 100, 100])
        >>> centre, round(spread, 2)
        (0.2, 4.43)
    """
    numbers, totals = np.asarray(counts, float), np.asarray(texts, float)
    centre = float(numbers.sum() / totals.sum())
    if centre in (0.0, 1.0) or len(numbers) == 1:
        return centre, 1.0
    deviations = (numbers / totals - centre) / np.sqrt(centre * (1 - centre) / totals)
    return centre, float(np.abs(np.diff(deviations)).mean()) / _RANGE


def check_share(
    counted: int, texts: int, counts_before: Sequence[int], texts_before: Sequence[int]
) -> ShareCheck:
    """Whether a day's share differs from earlier days of the same weekday, which are in order.

    Uses a p' chart (see `overdispersion`), corrected for having only eight points: with the
    textbook's limits, simulations show 2 to 5 % false alarms on the upper side. The overdispersion
    is at least 1, and Student's t replaces the 3. For small counts, the day must also differ by
    Fisher's exact test. This leaves 0.0 to 0.6 % false alarms if days vary little more than by
    chance, and 2.8 % if they vary four times as much.

    Example:
        >>> check_share(30, 400, [8, 9, 6, 8, 10, 7, 8, 8], [400] * 8).rose
        True
    """
    kept = [pair for pair in zip(counts_before, texts_before, strict=True) if pair[1]]
    points = len(kept)
    if not texts or points < _FEWEST_WEEKS:
        reason = "there are no texts" if not texts else _too_few(points, "day", " of this weekday")
        return ShareCheck(counted, texts, points, reason=reason)
    numbers, totals = (list(column) for column in zip(*kept, strict=True))
    centre, spread = overdispersion(numbers, totals)
    variance = centre * (1 - centre) / texts * (1 + 1 / points)
    reach = float(t.isf(_FALSE_ALARM, points - 1) * max(spread, 1.0) * np.sqrt(variance))
    low, high = max(0.0, centre - reach), min(1.0, centre + reach)
    drawn = hypergeom(sum(totals) + texts, sum(numbers) + counted, texts)
    changed = bool(
        (counted / texts > high and drawn.sf(counted - 1) < _FALSE_ALARM)
        or (counted / texts < low and drawn.cdf(counted) < _FALSE_ALARM)
    )
    return ShareCheck(counted, texts, points, changed, centre, (low, high), spread)


def _too_few(number: int, noun: str, kind: str) -> str:
    available = f"{count(number, f'earlier {noun}')}{kind}"
    return f"only {available} to compare with, {_FEWEST_WEEKS} are needed"


@dataclass(frozen=True)
class WeekCheck:
    """A week's distribution compared with earlier weeks.

    Attributes:
        changed: whether it differs significantly, by more than earlier weeks differ from each
            other, and by at least 0.05; None if unknown.
        distance: the effect size, 0 to 1: the share of texts in other bins than before.
        place: position of the bin or label with the largest difference.
        chance: the p-value of the distance.
        limit: the largest usual distance.
        reason: why `changed` is unknown; "" otherwise.
    """

    texts: int
    weeks: int
    changed: bool | None = None
    distance: float | None = None
    place: int | None = None
    chance: float | None = None
    limit: float | None = None
    reason: str = ""


def check_week(
    week: Sequence[int], weeks_before: Sequence[Sequence[int]], *, ordered: bool
) -> WeekCheck:
    """Whether a week's distribution over bins or labels differs from earlier weeks.

    Ordered bins are compared by the two-sample Kolmogorov-Smirnov statistic, whose p-value is
    conservative for bins. Labels are compared by the total variation distance, with the p-value of
    a chi-squared test that merges rare labels. Each earlier week's distance to the others defines
    the usual range.

    Example:
        >>> check_week([10, 90], [[50, 50]] * 8, ordered=True).distance
        0.4
    """
    now = np.asarray(week, float)
    before = np.array([one for one in weeks_before if sum(one)], float)
    texts, weeks = int(now.sum()), len(before)
    if not texts or weeks < _FEWEST_WEEKS:
        reason = "there are no texts" if not texts else _too_few(weeks, "week", "")
        return WeekCheck(texts, weeks, reason=reason)
    together = before.sum(axis=0)
    gaps = _gaps(now, together, ordered)
    distance = float(gaps.max() if ordered else gaps.sum() / 2)
    usual = [_gaps(one, together - one, ordered) for one in before]
    distances = np.array([gap.max() if ordered else gap.sum() / 2 for gap in usual])
    reach = t.isf(_FALSE_ALARM, weeks - 1) * np.sqrt(1 + 1 / weeks) * distances.std(ddof=1)
    limit = float(distances.mean() + reach)
    if ordered:
        pairs = texts * together.sum() / (texts + together.sum())
        chance = float(kstwo.sf(distance, round(pairs)))
    else:
        chance = _chi_squared(now, together)
    changed = distance > max(limit, _SMALLEST_CHANGE) and chance < _CHANCE_OF_WEEK
    return WeekCheck(texts, weeks, changed, distance, int(gaps.argmax()), chance, limit)


def _gaps(one: np.ndarray, other: np.ndarray, ordered: bool) -> np.ndarray:
    """The differences of the shares per bin, or cumulative up to each edge; float64 [K]."""
    difference = one / one.sum() - other / other.sum()
    return np.abs(np.cumsum(difference) if ordered else difference)


def _chi_squared(one: np.ndarray, other: np.ndarray) -> float:
    """The p-value of the chi-squared test; labels with few texts are merged."""
    table = np.stack([one, other])
    expected = table.sum(axis=0) * min(one.sum(), other.sum()) / table.sum()
    rare = expected < _FEWEST_EXPECTED
    table = np.concatenate([table[:, ~rare], table[:, rare].sum(axis=1, keepdims=True)], axis=1)
    table = table[:, table.sum(axis=0) > 0]
    return float(chi2_contingency(table, correction=False).pvalue) if table.shape[1] > 1 else 1.0


@dataclass(frozen=True)
class DriftFinding:
    """One finding of a drift report: a sentence, and figures as JSON; `changed` is None if unknown.

    `about` is "out_of_scope", the name of another count, "labels", "label_shift", "confidence",
    "lengths" or "words".
    """

    about: str
    changed: bool | None
    sentence: str
    figures: Mapping[str, Any]


@dataclass(frozen=True)
class DriftReport:
    """The findings for a day and the week before it."""

    day: date
    findings: tuple[DriftFinding, ...]

    @property
    def changed(self) -> tuple[DriftFinding, ...]:
        """The findings that are alarms."""
        return tuple(one for one in self.findings if one.changed)

    def to_json(self) -> dict[str, Any]:
        """The report as a JSON object."""
        return {"day": self.day.isoformat(), "findings": [asdict(one) for one in self.findings]}


def drift_report(
    days: Sequence[DailyFigures],
    *,
    label_shift: LabelShift | None = None,
    words: Sequence[NewWord] | None = None,
) -> DriftReport:
    """The drift report for the last day; `days` may be in any order, and nine weeks are enough.

    The last day should be complete. `label_shift` and `words` are for the last seven days.

    Raises:
        SettingsError: there are no days, or one is repeated.
    """
    by_day = {one.day: one for one in days}
    if not days or len(by_day) < len(days):
        problem = (
            "0 days" if not days else f"{len(days)} days, {len(days) - len(by_day)} of them twice"
        )
        raise SettingsError(problem, expected="each day once", fix="add up the figures of each day")
    last = by_day[max(by_day)]
    earlier = [by_day.get(last.day - back * _WEEK) for back in range(_WEEKS, 0, -1)]
    same = [one for one in earlier if one is not None]
    findings = [_share_finding("out_of_scope", "out of scope", last, same)]
    findings += [_share_finding(name, one_line(name), last, same) for name in last.counts]
    weeks = [
        [one for one in days if 7 * back <= (last.day - one.day).days < 7 * (back + 1)]
        for back in range(_WEEKS + 1)
    ]
    findings.append(_label_finding(weeks))
    if label_shift is not None:
        changed = None if label_shift.reason else any(one.changed for one in label_shift.labels)
        findings.append(
            DriftFinding("label_shift", changed, label_shift.describe(), label_shift.to_json())
        )
    findings.append(_bin_finding("confidence", weeks, CONFIDENCE_EDGES, "a confidence below {}"))
    findings.append(_bin_finding("lengths", weeks, LENGTH_EDGES, "fewer than {} characters"))
    if words is not None:
        findings.append(_word_finding(words))
    return DriftReport(last.day, tuple(findings))


def _share_finding(
    name: str, words: str, last: DailyFigures, same: Sequence[DailyFigures]
) -> DriftFinding:
    def of(one: DailyFigures) -> int:
        return one.out_of_scope if name == "out_of_scope" else one.counts.get(name, 0)

    check = check_share(
        of(last), last.texts, [of(one) for one in same], [one.texts for one in same]
    )
    weekday = f"{last.day:%A}"
    if check.usual is None or check.limits is None:
        sentence = f"It is not known whether more or fewer texts are {words}: {check.reason}."
    else:
        limits = f"{check.limits[0]:.1%} to {check.limits[1]:.1%}"
        sentence = (
            f"{check.counted / check.texts:.1%} of {weekday}'s {count(check.texts, 'text')} are"
            f" {words}; {check.usual:.1%} is usual on a {weekday} ({limits})."
        )
    return DriftFinding(name, check.changed, sentence, asdict(check))


def _label_finding(weeks: Sequence[Sequence[DailyFigures]]) -> DriftFinding:
    totals = [sum((Counter(day.labels) for day in week), Counter[str]()) for week in weeks]
    names = sorted(set().union(*totals))
    now, *before = ([total[name] for name in names] for total in totals)
    check = check_week(now, before, ordered=False)
    if check.distance is None:
        sentence = f"It is not known whether the labels are given as before: {check.reason}."
        return DriftFinding("labels", None, sentence, asdict(check))
    shares, earlier = np.array(now) / sum(now), np.sum(before, axis=0) / np.sum(before)
    order = np.argsort(-np.abs(shares - earlier), kind="stable")[:_NAMED]
    moved = ", ".join(
        f"{one_line(names[index])} from {earlier[index]:.1%} to {shares[index]:.1%}"
        for index in order
    )
    sentence = (
        f"{check.distance:.1%} of the last seven days' {count(check.texts, 'text')} got other"
        f" labels than before (up to {check.limit:.1%} is usual), mainly {moved}."
    )
    shown = {"shares": dict(zip(names, shares.tolist(), strict=True))}
    return DriftFinding("labels", check.changed, sentence, {**asdict(check), **shown})


def _bin_finding(
    name: str, weeks: Sequence[Sequence[DailyFigures]], edges: Sequence[float], have: str
) -> DriftFinding:
    nothing = np.zeros(len(edges) - 1, int)
    bins: list[np.ndarray] = [
        sum((np.array(getattr(day, name), int) for day in week if getattr(day, name)), nothing)
        for week in weeks
    ]
    now, *before = (one.tolist() for one in bins)
    check = check_week(now, before, ordered=True)
    if check.place is None:
        sentence = f"It is not known whether {name} changed: {check.reason}."
        return DriftFinding(name, None, sentence, asdict(check))
    below, usual = (
        one[: check.place + 1].sum() / one.sum() for one in (bins[0], np.sum(bins[1:], axis=0))
    )
    sentence = (
        f"{below:.1%} of the last seven days' {count(check.texts, 'text')} have"
        f" {have.format(edges[check.place + 1])}, {usual:.1%} had before ({check.limit:.1%}"
        " apart are usual)."
    )
    return DriftFinding(name, check.changed, sentence, asdict(check))


def _word_finding(words: Sequence[NewWord]) -> DriftFinding:
    named = ", ".join(
        f"{one_line(one.word)} ({count(one.texts, 'text')} on {count(one.days, 'day')},"
        f" {one.before:.2%} before, {one.share:.2%} now)"
        for one in words[:_NAMED]
    )
    more = f", and {len(words) - _NAMED} more" if len(words) > _NAMED else ""
    sentence = (
        f"New frequent words: {named}{more}." if words else "There are no new frequent words."
    )
    return DriftFinding("words", bool(words), sentence, {"words": [asdict(one) for one in words]})
