"""Drift: days and weeks compared with earlier ones."""

import json
from datetime import date, timedelta

import numpy as np
import pytest
from scipy.stats import chi2_contingency, ks_2samp

from bertcnn.errors import SettingsError
from bertcnn.evaluation.label_shift import LabelShare, LabelShift
from bertcnn.review.statistics.drift import (
    DailyFigures,
    check_share,
    check_week,
    drift_report,
    overdispersion,
)
from bertcnn.review.statistics.word_frequencies import NewWord
from tests.review.history import daily_figures

# emergency attendances seen within 4 hours, in 20 weeks (Mohammed and others 2013, table 1), and
# the limits that R's qicharts2 computes for the last ten from the first ten: qic(x = i, y = r, n =
# n, data = nhs_accidents, chart = "pp", freeze = 10)
SEEN = [266501, 264225, 276532, 281461, 269071, 261215, 270409, 279778, 270483, 270320]
SEEN += [267923, 271478, 255353, 256820, 261835, 259144, 255910, 260863, 264465, 260989]
ALL = [280443, 276823, 291681, 296155, 282343, 275888, 283867, 295251, 284468, 282529]
ALL += [279618, 283932, 266629, 268091, 276803, 271578, 266005, 273520, 278574, 273772]
CENTRE = 0.95105964383277042
UPPER = [0.96347286817633804, 0.96337820533609975, 0.96377163185660875, 0.96373692287076951]
UPPER += [0.96353582781729674, 0.96365527323778544, 0.96378653314426965, 0.96361047891731622]
UPPER += [0.96349610668219032, 0.96360470122895214]

LAST = date(2026, 4, 30)  # a Thursday


def test_the_p_prime_chart_is_that_of_qicharts2():
    centre, spread = overdispersion(SEEN[:10], ALL[:10])
    assert centre == pytest.approx(CENTRE, abs=1e-12)
    deviation = spread * np.sqrt(centre * (1 - centre) / np.array(ALL[10:]))
    assert centre + 3 * deviation == pytest.approx(UPPER, abs=1e-12)
    assert spread > 10  # far more than chance


def test_an_overdispersed_share_is_not_an_alarm_where_chance_alone_would_be():
    check = check_share(SEEN[16], ALL[16], SEEN[:8], ALL[:8])
    assert check.overdispersion > 5
    assert not check.changed
    chance = [round(CENTRE * number) for number in ALL[:8]]  # if weeks hardly differed
    assert check_share(SEEN[16], ALL[16], chance, ALL[:8]).rose


def test_a_share_rises_and_falls():
    before = [20, 25, 18, 22, 19, 24, 21, 20]
    rose = check_share(60, 1000, before, [1000] * 8)
    assert (rose.changed, rose.rose, rose.days) == (True, True, 8)
    assert rose.usual == pytest.approx(0.021125)
    assert rose.limits[0] < 0.021 < rose.limits[1] < 0.06
    fell = check_share(2, 1000, before, [1000] * 8)
    assert (fell.changed, fell.rose) == (True, False)
    same = check_share(24, 1000, before, [1000] * 8)
    assert (same.changed, same.rose) == (False, False)


def test_a_first_text_out_of_scope_is_no_alarm_but_many_are():
    assert check_share(1, 100, [0] * 8, [100] * 8).changed is False
    assert check_share(4, 100, [0] * 8, [100] * 8).rose


def test_false_alarms_are_rare():
    generator = np.random.default_rng(0)
    counts = generator.binomial(500, 0.03, (400, 9)).tolist()
    alarms = [check_share(one[8], 500, one[:8], [500] * 8).changed for one in counts]
    assert np.mean(alarms) < 0.02
    raised = generator.binomial(500, 0.09, 200)
    found = [check_share(int(one), 500, counts[0][:8], [500] * 8).rose for one in raised]
    assert np.mean(found) > 0.9


@pytest.mark.parametrize(
    ("texts", "before", "reason"),
    [
        (100, [100] * 4, "only 4 earlier days of this weekday to compare with, 5 are needed"),
        (100, [100] + [0] * 7, "only 1 earlier day of this weekday to compare with, 5 are needed"),
        (0, [100] * 8, "there are no texts"),
    ],
)
def test_too_little_cannot_tell(texts, before, reason):
    check = check_share(0, texts, [0] * len(before), before)
    assert (check.changed, check.rose, check.limits, check.reason) == (None, False, None, reason)


def weeks(generator, shares, number=8, texts=700):
    return generator.multinomial(texts, shares, number).tolist()


def expanded(counts):
    return np.repeat(np.arange(len(counts)), counts)


def test_ordered_bins_are_compared_as_scipy_does():
    generator = np.random.default_rng(1)
    before, now = weeks(generator, [0.1, 0.2, 0.3, 0.4]), [110, 160, 200, 230]
    check = check_week(now, before, ordered=True)
    peer = ks_2samp(expanded(now), expanded(np.sum(before, axis=0)), method="asymp")
    assert check.distance == pytest.approx(peer.statistic)
    assert check.chance == pytest.approx(peer.pvalue)
    assert check.place == peer.statistic_location
    assert check.changed


def test_labels_are_compared_by_chi_squared_with_rare_ones_together():
    generator = np.random.default_rng(2)
    before, now = weeks(generator, [0.5, 0.3, 0.195, 0.003, 0.002]), [300, 300, 91, 6, 3]
    check = check_week(now, before, ordered=False)
    total = np.sum(before, axis=0)
    assert total[3:].max() < 30  # expected counts out of 700: below five
    assert check.distance == pytest.approx(np.abs(total / 5600 - np.array(now) / 700).sum() / 2)
    table = [[*now[:3], 9], [*total[:3], total[3:].sum()]]
    assert check.chance == pytest.approx(chi2_contingency(table).pvalue, rel=1e-6)
    assert check.place == 1
    assert check.changed


def test_a_usual_week_is_no_change():
    generator = np.random.default_rng(3)
    for ordered in (True, False):
        alarms = [
            check_week(
                *weeks(generator, [0.1, 0.3, 0.6], 1),
                weeks(generator, [0.1, 0.3, 0.6]),
                ordered=ordered,
            ).changed
            for _ in range(100)
        ]
        assert sum(alarms) == 0


def test_weeks_that_always_differ_are_no_alarm():
    generator = np.random.default_rng(4)
    alarms = []
    for _ in range(100):
        mixes = generator.dirichlet([6, 6, 6], 9)
        now, *before = (generator.multinomial(700, mix).tolist() for mix in mixes)
        check = check_week(now, before, ordered=False)
        alarms.append(check.changed)
        assert check.limit > 0.15
    assert sum(alarms) <= 5


def test_a_change_too_small_to_matter_is_none():
    before, now = [[500_000, 500_000]] * 8, [520_000, 480_000]
    check = check_week(now, before, ordered=False)
    assert check.chance < 1e-6
    assert check.distance == pytest.approx(0.02)
    assert check.changed is False


def test_too_few_weeks_cannot_tell():
    check = check_week([1, 2], [[5, 5]] * 4 + [[0, 0]] * 4, ordered=True)
    assert (check.changed, check.weeks) == (None, 4)
    assert check.reason == "only 4 earlier weeks to compare with, 5 are needed"
    assert check_week([0, 0], [[5, 5]] * 8, ordered=False).reason == "there are no texts"
    assert check_week([50], [[50]] * 8, ordered=False).changed is False  # one label only


def history(days=63, seed=0, texts=200, **last):
    """Days of random texts; `recent` changes the last seven."""
    generator, found = np.random.default_rng(seed), []
    for back in range(days):
        given = {"outside": 0.03, "automatic": 0.8, "billing": 0.5, "high": 0.7, "length": 100.0}
        given |= last if back < 7 else {}
        number = texts if (LAST - timedelta(days=back)).weekday() < 5 else texts // 4
        confidence = np.where(generator.random(number) < given["high"], 0.96, 0.62)
        found.append(
            daily_figures(
                LAST - timedelta(days=back),
                generator.gamma(2, given["length"] / 2, number).astype(int).tolist(),
                (generator.random(number) < given["outside"]).tolist(),
                np.where(
                    generator.random(number) < given["billing"], "billing", "network"
                ).tolist(),
                confidence.tolist(),
                {"automatic": int(generator.binomial(number, given["automatic"]))},
            )
        )
    return found


def by_name(report):
    return {one.about: one for one in report.findings}


@pytest.mark.parametrize(
    ("change", "about"),
    [
        ({"outside": 0.2}, "out_of_scope"),
        ({"automatic": 0.4}, "automatic"),
        ({"billing": 0.7}, "labels"),
        ({"high": 0.5}, "confidence"),
        ({"length": 180.0}, "lengths"),
    ],
)
def test_each_change_is_found_and_no_other(change, about):
    report = drift_report(history(seed=1, **change))
    assert [one.about for one in report.changed] == [about]


def test_sentences_say_what_changed():
    found = by_name(drift_report(history(seed=1, outside=0.2, billing=0.7, high=0.5)))
    for about, told in (
        ("out_of_scope", "18.0% of Thursday's 200 texts are out of scope; 2.6% is usual on a"),
        ("labels", "mainly 'billing' from 49.4% to 71.2%, 'network' from 50.6% to 28.8%."),
        ("confidence", "51.5% of the last seven days' 885 texts have a confidence below 0.65"),
    ):
        assert told in found[about].sentence


def test_the_order_of_the_days_does_not_count_nor_do_older_ones():
    days = history()
    expected = drift_report(days).to_json()
    assert json.loads(json.dumps(expected))["day"] == "2026-04-30"
    assert drift_report(days[::-1]).to_json() == expected
    assert drift_report(history(days=90)).to_json() == expected


def test_a_quiet_weekday_is_compared_with_its_own_kind():
    days = [one for one in history(days=70) if one.day <= LAST - timedelta(days=4)]  # up to Sunday
    check = by_name(drift_report(days))["out_of_scope"]
    assert check.figures["texts"] == 50
    assert "Sunday" in check.sentence


def test_counts_alone_are_enough():
    days = [DailyFigures(LAST - timedelta(days=back), 100, 2) for back in range(63)]
    found = by_name(drift_report(days))
    assert found["out_of_scope"].changed is False
    assert found["labels"].changed is None
    assert found["confidence"].figures["reason"] == "there are no texts"


def test_label_shift_and_words_are_part_of_the_report():
    shift = LabelShift(90, (LabelShare("billing", 0.6, (0.5, 0.7), 0.4, changed=True),))
    words = [NewWord("outage", 14, 4, 0.07, 0.0001, 61.0)]
    report = drift_report(history(), label_shift=shift, words=words)
    assert [one.about for one in report.changed] == ["label_shift", "words"]
    found = by_name(report)
    assert "'outage' (14 texts on 4 days, 0.01% before, 7.00% now)" in found["words"].sentence
    assert "'billing' from 40.0% to 60.0%" in found["label_shift"].sentence
    void = drift_report(
        history(), label_shift=LabelShift(90, reason="there are no texts"), words=[]
    )
    assert by_name(void)["label_shift"].changed is None
    assert by_name(void)["words"].sentence == "There are no new frequent words."


def test_days_must_come_once():
    days = history(days=3)
    with pytest.raises(SettingsError, match="4 days, 1 of them twice; expected each day once"):
        drift_report([*days, days[0]])
    with pytest.raises(SettingsError, match="0 days; expected"):
        drift_report([])
