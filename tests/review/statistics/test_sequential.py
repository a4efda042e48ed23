"""The sequential test of a promised accuracy, compared with methodeutics' bankrolls."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertcnn.errors import SettingsError
from bertcnn.review.statistics.sequential import watch_accuracy

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "monitoring_golden.json").read_text())
PROMISED = 0.95


def streams(accuracy, audits, repeats, seed=0):
    return np.random.default_rng(seed).random((repeats, audits)) < accuracy


def alarms(rows, probabilities=None):
    """Number of audits until the alarm; infinity without one."""
    both = zip(rows, [None] * len(rows) if probabilities is None else probabilities, strict=True)
    found = [watch_accuracy(row, PROMISED, pi=pi).alarm for row, pi in both]
    return np.array([np.inf if alarm is None else alarm + 1 for alarm in found])


def test_the_wealth_is_that_of_bankrolls_one_for_each_stake_and_first_audit():
    one = GOLDEN["wealth"]
    found = watch_accuracy(one["right"], one["promised"], pi=one["pi"])
    assert found.wealth == pytest.approx(one["wealth"], rel=1e-9)
    assert found.alarm == int(np.argmax(np.array(one["wealth"]) >= 20)) > 0


@pytest.mark.parametrize("pi", [None, [0.5, 0.1, 0.2, 0.1, 1.0, 0.3, 0.1, 0.7]])
def test_the_bets_are_fair_if_the_promise_is_just_kept(pi):
    answers = np.array(list(product([False, True], repeat=8)))
    wealth = np.stack([watch_accuracy(row, 0.7, pi=pi).wealth for row in answers])
    chance = np.where(answers, 0.7, 0.3).prod(axis=1)
    assert chance @ wealth == pytest.approx(np.ones(8), abs=1e-12)
    assert np.where(answers, 0.8, 0.2).prod(axis=1) @ wealth[:, -1] < 1


def test_a_kept_promise_seldom_gives_alarm_however_long_it_is_watched():
    # at most 5 %, plus the error of 300 streams
    assert np.isfinite(alarms(streams(PROMISED, 3000, 300))).mean() <= 0.075
    assert np.isfinite(alarms(streams(0.97, 3000, 100))).mean() <= 0.01


@pytest.mark.parametrize(("accuracy", "audits"), [(0.90, 166), (0.92, 389)])
def test_a_broken_promise_is_noticed_after_as_many_audits_as_expected(accuracy, audits):
    median = np.median(alarms(streams(accuracy, 3000, 200)))
    assert median == pytest.approx(audits, rel=0.25)


def test_a_fall_is_noticed_after_a_good_year_too():
    good, bad = streams(0.97, 6000, 50), streams(0.90, 2500, 50, seed=1)
    found = alarms(np.concatenate([good, bad], axis=1))
    assert (found > 6000).mean() > 0.9
    assert np.median(found) - 6000 < 900  # 4,000 if all bettors began at the first audit


def uneven(accuracy, repeats=150, audits=2000):
    """Half of the tickets are audited four times as often and are always right."""
    generator = np.random.default_rng(2)
    often = generator.random((repeats, audits)) < 0.8
    return often | (generator.random((repeats, audits)) < 2 * accuracy - 1), np.where(
        often, 0.4, 0.1
    )


def test_frequent_audits_do_not_hide_errors_elsewhere():
    right, pi = uneven(0.85)
    assert np.isfinite(alarms(right, pi)).mean() > 0.95
    # 94 % of the audited answers are right, nearly as promised
    assert np.isfinite(alarms(right)).mean() < 0.6


def test_the_promise_holds_with_uneven_probabilities():
    right, pi = uneven(PROMISED)
    assert np.isfinite(alarms(right, pi)).mean() <= 0.085


def test_before_the_first_audit_nothing_is_known():
    assert watch_accuracy([], PROMISED).alarm is None
    assert len(watch_accuracy([], PROMISED, pi=[]).wealth) == 0


@settings(max_examples=50)
@given(st.lists(st.booleans(), max_size=300), st.floats(0.001, 0.999))
def test_wealth_is_above_nothing_and_later_audits_do_not_change_it(right, promised):
    wealth = watch_accuracy(right, promised).wealth
    assert (wealth > 0).all()
    assert np.isfinite(wealth).all()
    half = len(right) // 2
    assert watch_accuracy(right[:half], promised).wealth == pytest.approx(wealth[:half])


def test_a_long_run_of_errors_does_not_overflow():
    assert 1e300 < watch_accuracy([False] * 3000, PROMISED).wealth[-1] < np.inf


@pytest.mark.parametrize(
    ("right", "promised", "pi", "message"),
    [
        ([True], 95, None, "a promised accuracy of 95; expected a number between 0 and 1"),
        ([True], 1.0, None, "a promised accuracy of 1.0"),
        ([0.5], 0.9, None, "audits that are not one True or False each"),
        ([[True]], 0.9, None, "audits that are not one True or False each"),
        ([None], 0.9, None, "audits that are not one True or False each"),
        ([True], 0.9, [0.0], "audit probabilities out of range"),
        ([True], 0.9, [float("nan")], "audit probabilities out of range"),
        ([True], 0.9, [0.1, 0.1], "1 audits and 2 probabilities"),
    ],
)
def test_invalid_audits_are_refused(right, promised, pi, message):
    with pytest.raises(SettingsError, match=message):
        watch_accuracy(right, promised, pi=pi)
