"""Audits: their selection, their rates, and estimates for all automatic answers."""

import hashlib
import hmac
import json
from pathlib import Path

import numpy as np
import pytest

from bertcnn.errors import SettingsError
from bertcnn.review.statistics.audit import (
    AuditedAccuracy,
    Stratum,
    accuracy_by_label,
    audit_accuracy,
    audits_needed,
    is_audited,
    uniform_number,
)

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "monitoring_golden.json").read_text())
SECRET = bytes(range(32))
DOUBTFUL, SURE, OTHER = Stratum("billing", 0), Stratum("billing", 2), Stratum("sales", 1)


def audited(right, total, *, pi=0.05, stratum=SURE, population=None):
    """The estimate from one stratum with `right` of `total` audits right."""
    answers = [True] * right + [False] * (total - right)
    return audit_accuracy(
        answers, [pi] * total, [stratum] * total, population or {stratum: round(total / pi)}
    )


def test_the_number_of_a_ticket_is_its_keyed_hash():
    digest = hmac.new(SECRET, "tícket 7".encode(), hashlib.sha256).hexdigest()
    number = uniform_number(SECRET, "tícket 7")
    assert number == pytest.approx(int(digest, 16) / 2**256, abs=2**-52)
    assert number != uniform_number(SECRET[1:], "tícket 7")
    assert 0 <= uniform_number(SECRET, "\ud800") < 1


def test_a_ticket_is_audited_if_its_number_is_below_the_rate():
    numbers = [uniform_number(SECRET, str(ticket)) for ticket in range(5000)]
    drawn = [is_audited(SECRET, str(ticket), 0.03) for ticket in range(5000)]
    assert drawn == [number < 0.03 for number in numbers]
    assert is_audited(SECRET, "any", 1.0)
    assert not is_audited(SECRET, "any", 0.0)


def test_an_empty_secret_is_refused():
    with pytest.raises(SettingsError, match=r"an empty secret; .*secrets\.token_bytes"):
        uniform_number(b"", "1")


@pytest.mark.parametrize(("right", "audits", "low", "high"), GOLDEN["wilson"])
def test_the_interval_of_equal_rates_is_wilsons(right, audits, low, high):
    found = audited(right, audits, pi=1e-6)
    assert found.accuracy == pytest.approx(right / audits)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-5)
    assert found.effective == pytest.approx(audits, rel=1e-5)


def test_unequal_rates_have_the_mean_and_the_variance_of_statsmodels():
    one = GOLDEN["hajek"]
    audits = len(one["right"])
    found = audit_accuracy(one["right"], one["pi"], [SURE] * audits, {SURE: 10**10})
    assert found.accuracy == pytest.approx(one["mean"])
    expected = one["mean"] * (1 - one["mean"]) / one["variance"]
    assert found.effective == pytest.approx(expected, rel=1e-6)
    assert found.effective < audits


def test_heavily_audited_strata_do_not_weigh_more():
    right = [False] * 50 + [True] * 150 + [True] * 98 + [False] * 2
    strata = [DOUBTFUL] * 200 + [SURE] * 100
    population = {DOUBTFUL: 1000, SURE: 10_000}
    found = audit_accuracy(right, [0.2] * 200 + [0.01] * 100, strata, population)
    assert found.accuracy == pytest.approx((750 + 9800) / 11_000)
    assert np.mean(right) < 0.83 < 0.92 < found.low


def test_auditing_everything_leaves_no_doubt():
    found = audited(90, 100, pi=1.0)
    assert (found.accuracy, found.low, found.high) == pytest.approx((0.9, 0.9, 0.9))
    half = audited(90, 100, pi=0.5)
    assert half.high - half.low < audited(90, 100, pi=0.01).high - audited(90, 100, pi=0.01).low
    assert audits_needed(found, 0.01) == 0


def test_errors_found_only_where_much_is_audited_do_not_make_the_rest_certain():
    right, strata = [False] * 30 + [True] * 70 + [True] * 100, [DOUBTFUL] * 100 + [SURE] * 100
    population = {DOUBTFUL: 100, SURE: 10_000}
    found = audit_accuracy(right, [1.0] * 100 + [0.01] * 100, strata, population)
    assert found.effective <= 205
    assert found.low < 0.98


def test_without_an_audit_there_is_no_estimate():
    found = audit_accuracy([], [], [], {SURE: 1204})
    assert (found.accuracy, found.low, found.high, found.unaudited) == (None, 0.0, 1.0, 1.0)
    assert found.reason == "none of 1,204 automatic answers was audited"
    assert json.loads(json.dumps(found.to_json()))["accuracy"] is None
    empty = audit_accuracy([], [], [], {})
    assert (empty.accuracy, empty.unaudited) == (None, 0.0)


def test_a_stratum_that_is_never_audited_widens_the_interval():
    known = audited(95, 100, pi=0.05, population={SURE: 2000})
    found = audited(95, 100, pi=0.05, population={SURE: 2000, OTHER: 500})
    assert found.unaudited == pytest.approx(0.2)
    assert found.low == pytest.approx(0.8 * known.low)
    assert found.high == pytest.approx(0.8 * known.high + 0.2)
    assert found.reason.startswith("20% of the automatic answers are in strata without an audit")


def test_a_small_stratum_may_have_no_audit_by_chance():
    found = audited(95, 100, pi=0.05, population={SURE: 2000, OTHER: 80})
    assert (found.unaudited, found.reason) == (0, "")


def test_each_label_has_its_own_figures():
    right = [True] * 9 + [False] + [True] * 20
    strata = [DOUBTFUL] * 5 + [SURE] * 5 + [OTHER] * 20
    population = {DOUBTFUL: 50, SURE: 50, OTHER: 200, Stratum("new", 0): 7}
    found = accuracy_by_label(right, [0.1] * 30, strata, population)
    assert list(found) == ["billing", "sales", "new"]
    assert (found["billing"].accuracy, found["billing"].audits) == (pytest.approx(0.9), 10)
    assert (found["sales"].accuracy, found["sales"].population) == (1.0, 200)
    assert found["new"].reason == "none of 7 automatic answers was audited"


def week(generator, accuracy):
    """Strata with very different sizes and error rates; doubtful ones are audited more often."""
    strata = [Stratum(str(label), tercile) for label in range(20) for tercile in range(3)]
    shares = np.repeat(generator.dirichlet(np.full(20, 0.5)) / 3, 3)
    errors = np.tile([1.9, 0.8, 0.3], 20) * np.repeat(generator.gamma(2, 0.5, 20), 3)
    for _ in range(20):
        errors = np.clip(errors * (1 - accuracy) / (shares @ errors), 0, 0.8)
    rates = np.tile([0.06, 0.03, 0.015], 20)
    sizes = generator.multinomial(30_000, shares)
    wrong = generator.binomial(sizes, errors)
    parts = [generator.binomial(part, rates) for part in (sizes - wrong, wrong)]
    right = np.repeat([True, False], [part.sum() for part in parts])
    places = np.concatenate([np.repeat(np.arange(60), part) for part in parts])
    drawn, population = [strata[place] for place in places], dict(zip(strata, sizes, strict=True))
    return audit_accuracy(right, rates[places], drawn, population), 1 - wrong.sum() / 30_000


@pytest.mark.parametrize("accuracy", [0.85, 0.95, 0.99])
def test_the_interval_covers_the_truth_in_19_of_20_weeks(accuracy):
    generator = np.random.default_rng(round(100 * accuracy))
    found = [week(generator, accuracy) for _ in range(200)]
    covered = np.mean([one.low <= truth <= one.high for one, truth in found])
    assert 0.915 <= covered <= 0.985  # 93 to 97 %, within the error of 200 weeks
    bias = np.mean([one.accuracy - truth for one, truth in found])
    assert abs(bias) < 0.002


@pytest.mark.parametrize("half_width", [0.01, 0.03, 0.2])
def test_the_stated_number_of_audits_narrows_the_interval_and_one_less_does_not(half_width):
    start = audited(50, 100, pi=1e-6)
    total = 100 + audits_needed(start, half_width)

    def width(audits):
        found = audited(audits // 2, audits, pi=1e-6)
        return (found.high - found.low) / 2

    if total > 100:
        assert width(total) <= half_width * 1.001
        assert width(total - 10) > half_width
    else:
        assert width(100) <= half_width


def test_before_the_first_audit_the_worst_is_allowed_for():
    nothing = audit_accuracy([], [], [], {SURE: 1000})
    assert audits_needed(nothing, 0.03) == pytest.approx(1067, abs=5)
    many = AuditedAccuracy(0.95, 0.8, 1.0, 10**6, 1e6, 10**7, 0.0, "")
    assert audits_needed(many, 0.03) == 0
    with pytest.raises(SettingsError, match="a half-width of 2"):
        audits_needed(nothing, 2)


@pytest.mark.parametrize(
    ("right", "pi", "strata", "population", "message"),
    [
        ([True], [0.1, 0.1], [SURE], {SURE: 9}, "1 values of right, 2 values of pi, 1 values of"),
        ([True], [1.1], [SURE], {SURE: 9}, "audit probabilities out of range"),
        ([2], [0.1], [SURE], {SURE: 9}, "audits that are not one True or False each"),
        ([True], [0.1], [SURE], {OTHER: 9}, "1 audit and 0 answers of 'billing', tercile 2"),
        ([True] * 3, [0.1] * 3, [SURE] * 3, {SURE: 2}, "3 audits and 2 answers of 'billing'"),
    ],
)
def test_mismatched_columns_are_refused(right, pi, strata, population, message):
    with pytest.raises(SettingsError, match=message):
        audit_accuracy(right, pi, strata, population)
    with pytest.raises(SettingsError, match=message):
        accuracy_by_label(right, pi, strata, population)
