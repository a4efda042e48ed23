"""Champion and challenger: figures of statsmodels and scikit-learn, and the four verdicts."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import f1_score

from bertcnn.errors import SettingsError
from bertcnn.evaluation.paired import (
    LostLabel,
    PairedDifference,
    lost_labels,
    mid_p,
    paired_difference,
)
from bertcnn.review.statistics.comparison import Answers, compare, judge, rows_missing

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "monitoring_golden.json").read_text())
LABELS = np.array(["billing", "network", "sales", "web"])
WRONG = "elsewhere"
LOST = (LostLabel("billing", 60, 51, 34, 1e-5),)


def right_answers(won, lost, rows, both_wrong=0):
    """Which answers of champion and challenger are right, for these counts of won and lost rows."""
    champion = np.ones(rows, bool)
    champion[: won + both_wrong] = False
    challenger = np.ones(rows, bool)
    challenger[won : won + both_wrong + lost] = False
    return champion, challenger


def models(won, lost, rows, both_wrong=0, automatic=(None, None)):
    """True labels in turn, and the answers of champion and challenger."""
    actual = LABELS[np.arange(rows) % 4]
    answers = [np.where(one, actual, WRONG) for one in right_answers(won, lost, rows, both_wrong)]
    return actual, *(Answers(*both) for both in zip(answers, automatic, strict=True))


@pytest.mark.parametrize(("won", "lost", "p_value"), GOLDEN["mid_p"])
def test_the_mid_p_value_is_that_of_statsmodels_either_way_round(won, lost, p_value):
    assert mid_p(won, lost) == pytest.approx(p_value, rel=1e-9)
    assert mid_p(lost, won) == mid_p(won, lost)
    assert mid_p(0, 0) == 0.5


@pytest.mark.parametrize(("won", "lost", "rows", "low", "high"), GOLDEN["difference"])
def test_the_interval_is_that_of_bonett_and_price(won, lost, rows, low, high):
    found = paired_difference(*right_answers(won, lost, rows))
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-9)
    assert found.estimate == pytest.approx((won - lost) / rows)
    assert (found.won, found.lost) == pytest.approx((won / rows, lost / rows))
    assert found.effective == pytest.approx(rows)
    assert low < found.at_least < found.high


def test_groups_and_weights_have_the_variance_of_statsmodels_sandwich():
    one = {name: np.array(column) for name, column in GOLDEN["effective"].items()}
    champion, challenger = one["champion"].astype(bool), one["challenger"].astype(bool)
    found = paired_difference(champion, challenger, groups=one["groups"], weights=one["weights"])
    change = challenger.astype(float) - champion
    assert found.estimate == pytest.approx(np.average(change, weights=one["weights"]))
    spread = np.average(change**2, weights=one["weights"]) - found.estimate**2
    assert found.effective == pytest.approx(spread / float(one["variance"]), rel=1e-9)
    assert found.groups == len(np.unique(one["groups"]))
    assert found.effective < 0.8 * found.rows


def test_the_interval_covers_the_truth_with_groups_of_near_duplicates():
    generator = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        sizes = generator.choice([1, 1, 1, 5, 15], 300)
        kind = generator.choice(3, 300, p=[0.94, 0.035, 0.025])  # rows: same, won, lost
        groups = np.repeat(np.arange(300), sizes)
        champion, challenger = kind[groups] != 1, kind[groups] != 2
        found = paired_difference(champion, challenger, groups=groups)
        covered += found.low <= 0.01 <= found.high
    assert 0.92 <= covered / 400 <= 0.99


def test_the_figures_are_scikit_learns():
    generator = np.random.default_rng(3)
    actual = generator.choice(LABELS, 500, p=[0.6, 0.3, 0.09, 0.01])
    answers = [np.where(generator.random(500) < 0.8, actual, generator.choice(LABELS, 500))] * 2
    answers[1] = np.where(generator.random(500) < 0.1, "new label", answers[1])
    weights = generator.choice([0.2, 1.0, 30.0], 500)
    automatic = [generator.random(500) < share for share in (0.5, 0.7)]
    found = compare(
        actual, *(Answers(*both) for both in zip(answers, automatic, strict=True)), weights=weights
    )
    for figure, name in ((found.macro_f1.champion, 0), (found.macro_f1.challenger, 1)):
        peer = f1_score(actual, answers[name], average="macro", sample_weight=weights)
        assert figure == pytest.approx(peer, abs=1e-5)
    assert found.automated.champion == pytest.approx(np.average(automatic[0], weights=weights))
    assert found.challenger == pytest.approx(np.average(answers[1] == actual, weights=weights))
    accuracy = np.average((answers[1] == actual)[automatic[1]], weights=weights[automatic[1]])
    assert found.automatic_accuracy[1] == pytest.approx(accuracy)


def test_the_bootstrap_has_the_spread_of_fresh_samples():
    generator = np.random.default_rng(4)

    def sample():
        actual = generator.choice(LABELS, 800)
        champion = np.where(generator.random(800) < 0.9, actual, LABELS[0])
        challenger = np.where(generator.random(800) < 0.05, LABELS[1], champion)
        automatic = generator.random(800) < 0.8, generator.random(800) < 0.85
        return actual, Answers(champion, automatic[0]), Answers(challenger, automatic[1])

    found = compare(*sample())
    f1, automated = [], []
    for _ in range(150):
        actual, champion, challenger = sample()
        scores = [f1_score(actual, one.labels, average="macro") for one in (champion, challenger)]
        f1.append(scores[1] - scores[0])
        automated.append(challenger.automatic.mean() - champion.automatic.mean())
    for pair, drawn in ((found.macro_f1, f1), (found.automated, automated)):
        assert pair.low < pair.difference < pair.high
        assert (pair.high - pair.low) / 3.92 == pytest.approx(np.std(drawn), rel=0.2)


def test_the_bootstrap_weighs_the_rows_as_the_figures_do():
    actual, champion, challenger = models(40, 0, 400, both_wrong=40)
    automatic = np.arange(400) < 40
    champion, challenger = (
        replace(champion, automatic=~automatic),
        replace(challenger, automatic=automatic),
    )
    found = compare(actual, champion, challenger, weights=np.where(automatic, 30.0, 1.0))
    for pair in (found.macro_f1, found.automated):
        assert pair.low < pair.difference < pair.high
    assert found.automated.low > 0.3  # -0.8 without weights


def test_the_bootstrap_draws_groups_and_repeats_itself():
    actual, champion, challenger = models(30, 30, 600, both_wrong=60)
    groups = np.arange(600) // 6  # adjacent, so that won and lost rows stay together
    alone = compare(actual, champion, challenger)
    grouped = compare(actual, champion, challenger, groups=groups)
    width = [one.macro_f1.high - one.macro_f1.low for one in (alone, grouped)]
    assert width[1] > 1.8 * width[0]
    assert compare(actual, champion, challenger, groups=groups) == grouped
    assert compare(actual, champion, challenger, groups=[f"{one:03}" for one in groups]) == grouped


def test_holm_decides_as_statsmodels_which_labels_are_lost():
    chances, rejected = GOLDEN["holm"]
    found = lost_labels(*label_changes([0] * 5, [6, 4, 4, 2, 0]))
    assert [one.label for one in found] == ["label 0"]
    assert sorted(zip(chances, rejected, strict=True))[2] == (0.013, True)
    # p is 1 / 2^(lost + 1): 0.00049, 0.0078, 0.0156, 0.125, against 0.01, 0.0125, 0.0167, 0.025
    found = lost_labels(*label_changes([0] * 5, [10, 6, 5, 2, 0]))
    assert [one.label for one in found] == ["label 0", "label 1", "label 2"]
    assert found[1].p_value == pytest.approx(0.5**7)
    assert (found[0].rows, found[0].champion, found[0].challenger) == (30, 30, 20)


def label_changes(won, lost, rows=30):
    """`rows` rows of each label, with these counts of won and lost rows."""
    parts = [right_answers(*both, rows) for both in zip(won, lost, strict=True)]
    actual = np.repeat([f"label {place}" for place in range(len(won))], rows)
    return actual, *(np.concatenate([part[model] for part in parts]) for model in range(2))


def test_a_label_with_fewer_than_20_rows_is_not_judged():
    assert lost_labels(*label_changes([0], [15], rows=19)) == ()
    assert len(lost_labels(*label_changes([0], [15], rows=20))) == 1


def test_near_duplicates_are_one_loss_of_a_label():
    actual, champion, challenger = label_changes([0], [15])
    assert lost_labels(actual, champion, challenger)
    groups = np.where(np.arange(30) < 15, 0, np.arange(30))
    assert lost_labels(actual, champion, challenger, groups=groups) == ()


def test_equal_models_seldom_lose_a_label():
    generator = np.random.default_rng(5)
    refused = 0
    for _ in range(300):
        actual = generator.integers(0, 12, 1000)
        change = generator.choice(3, 1000, p=[0.9, 0.05, 0.05])
        refused += bool(lost_labels(actual, change != 1, change != 2))
    assert refused / 300 <= 0.08


def measured(estimate=0.0, half=0.009, rows=1000, **options):
    one_sided = half * 1.645 / 1.96
    return PairedDifference(
        estimate,
        estimate - half,
        estimate + half,
        estimate - one_sided,
        **({"won": 0.02, "lost": 0.02, "rows": rows, "groups": rows, "effective": rows} | options),
    )


@pytest.mark.parametrize(
    ("difference", "lost", "gains", "verdict"),
    [
        (measured(0.02), (), (), "better"),
        (measured(0.02, rows=299), (), ("alarm",), "cannot tell"),
        (measured(-0.05, rows=299), LOST, (), "cannot tell"),
        (measured(0.02, rows=5000, groups=299), (), (), "cannot tell"),
        (measured(0.02, rows=300), (), (), "better"),
        (measured(0.02), LOST, (), "worse"),
        (measured(-0.005), (), ("alarm",), "worse"),
        (measured(-0.0049, half=0.005), (), ("alarm",), "not worse"),
        (measured(0.0), (), ("alarm",), "not worse"),
        (measured(0.0), (), (), "cannot tell"),
        (measured(0.0, half=0.02), (), ("alarm",), "cannot tell"),
    ],
)
def test_the_verdict_follows_the_rule(difference, lost, gains, verdict):
    assert judge(difference, lost, gains) == verdict


def test_a_challenger_one_point_worse_is_almost_never_called_better():
    generator = np.random.default_rng(6)
    verdicts = []
    for _ in range(1500):
        won, lost, _ = generator.multinomial(300, [0.015, 0.025, 0.96])
        found = paired_difference(*right_answers(won, lost, 300))
        verdicts.append(judge(found, (), ("alarm",)))
    assert verdicts.count("better") / 1500 <= 0.025
    assert verdicts.count("not worse") / 1500 <= 0.065  # one-sided 5 %, plus the error of 1,500


@pytest.mark.parametrize(("share", "distance", "level", "rows"), GOLDEN["needed"])
def test_the_rows_needed_are_those_of_statsmodels(share, distance, level, rows):
    # shares such that, with one more pair of either kind, they equal these
    won = lost = (share * 402 - 2) / 400 / 2
    if level == 0.05:
        start = measured(rows=400, won=won, lost=lost)
        assert rows_missing(start, gain=True) + 400 == pytest.approx(rows, abs=1)
    else:
        start = measured(distance, rows=400, won=won, lost=lost)
        assert rows_missing(start, gain=False) + 400 == pytest.approx(rows, abs=1)


def test_the_needed_rows_give_a_power_of_80_percent_for_equal_models():
    generator = np.random.default_rng(7)
    rows = 1000 + rows_missing(measured(won=0.014, lost=0.014), gain=True)
    verdicts = []
    for _ in range(400):
        won, lost, _ = generator.multinomial(rows, [0.015, 0.015, 0.97])
        found = paired_difference(*right_answers(won, lost, rows))
        verdicts.append(judge(found, (), ("alarm",)))
    assert 0.74 <= verdicts.count("not worse") / 400 <= 0.9


def test_duplicates_and_weights_raise_the_rows_that_are_missing():
    plain, half = measured(), measured(effective=500.0)
    needed = [1000 + rows_missing(one, gain=True) for one in (plain, half)]
    assert needed[1] == pytest.approx(2 * needed[0], rel=0.06)
    assert rows_missing(measured(0.3, rows=200, groups=100), gain=False) == 400


def test_a_lucky_start_does_not_lower_the_rows_that_show_no_loss():
    lucky, equal = measured(0.004, half=0.02), measured(0.0, half=0.02)
    assert rows_missing(lucky, gain=True) == rows_missing(equal, gain=True)
    unlucky = measured(-0.004, half=0.02)
    assert rows_missing(unlucky, gain=True) > 2 * rows_missing(equal, gain=True)


@pytest.mark.parametrize(
    ("counts", "gains", "verdict", "words"),
    [
        ((60, 20, 2000, 100), [], "better", "on 94.0% of 2,000 tickets, the present one on"),
        ((30, 30, 3000, 100), ["tv"], "not worse", "at worst -0.4 points (95% confidence)"),
        ((10, 20, 1000, 50), ["tv"], "worse", "-2.1 to +0.1 points, so it may be chance)"),
        ((0, 100, 210, 0), ["tv"], "cannot tell", "210 tickets to compare them on, and about 90"),
        ((20, 20, 1000, 50), ["tv"], "cannot tell", "93.0%, and about 1,600 more audits"),
        ((200, 200, 20_000, 0), [], "cannot tell", "unless the new one has another advantage"),
    ],
)
def test_a_verdict_is_explained_with_its_figures(counts, gains, verdict, words):
    won, lost, rows, both_wrong = counts
    found = compare(*models(won, lost, rows, both_wrong), gains=gains)
    assert found.verdict == verdict
    assert words in found.sentences
    assert found.p_value == mid_p(won, lost)
    assert all(f"It gains: {gain}" in found.sentences for gain in gains if verdict == "not worse")


def test_the_missing_rows_are_counted_unless_the_verdict_is_clear():
    assert compare(*models(60, 20, 2000, 100)).rows_missing is None
    assert 500 < compare(*models(20, 20, 1000, 50), gains=["tv"]).rows_missing < 3000
    assert compare(*models(200, 200, 20_000)).rows_missing == 0
    assert compare(*models(0, 100, 210), gains=["tv"]).rows_missing == 90
    assert "chance" not in compare(*models(10, 60, 1000)).sentences
    assert compare(*models(0, 0, 1)).rows_missing >= 299
    assert rows_missing(measured(0.0, half=0.004, rows=30_000), gain=False) == 0


def test_more_automatic_answers_are_a_gain_if_they_are_right():
    automatic = np.arange(3000) >= 600, np.arange(3000) >= 300
    actual, champion, challenger = models(30, 30, 3000, both_wrong=270, automatic=automatic)
    found = compare(actual, champion, challenger)
    assert (found.automated.champion, found.automated.challenger) == pytest.approx((0.8, 0.9))
    assert found.automatic_accuracy == pytest.approx((1.0, 2670 / 2700))
    # 330 rows are wrong; the champion answers none of them automatically, the challenger 30
    assert found.gains == ()
    assert found.verdict == "cannot tell"
    found = compare(actual, champion, challenger, promised=0.95)
    assert found.gains == ("10.0 points more of the tickets need no person",)
    assert found.verdict == "not worse"


def test_fewer_automatic_answers_are_no_gain():
    automatic = np.arange(3000) >= 300, np.arange(3000) >= 600
    found = compare(*models(30, 30, 3000, both_wrong=270, automatic=automatic), promised=0.5)
    assert found.gains == ()
    none = np.zeros(3000, bool)
    found = compare(*models(30, 30, 3000, automatic=(none, none)))
    assert (found.automatic_accuracy, found.gains) == ((None, None), ())


def test_nobody_is_asked_for_more_audits_than_anybody_reads():
    weights = np.ones(1000)
    weights[[0, 70]] = 1000  # a won ticket and a lost one stand for two thirds of all
    found = compare(*models(20, 20, 1000, both_wrong=50), weights=weights)
    assert found.verdict == "cannot tell"
    assert found.rows_missing > 10_000
    assert "10,000 more audits would probably show none; keep the present" in found.sentences
    assert "confidence" not in found.sentences


def test_a_lost_label_is_named_although_accuracy_is_better():
    actual, before, after = label_changes([0, 30, 0, 0], [12, 0, 0, 0], rows=200)
    actual = np.where(actual == "label 0", "billing\x1b", actual)
    found = compare(
        actual, Answers(np.where(before, actual, WRONG)), Answers(np.where(after, actual, WRONG))
    )
    assert found.verdict == "worse"
    assert found.difference.estimate > 0
    assert found.sentences == (
        r"The new model clearly loses 1 label: 'billing\x1b', 188 instead of 200 of 200 right."
    )
    many = label_changes([60] * 6, [0] * 6, rows=100)
    lost = compare(
        many[0], Answers(np.where(many[2], many[0], WRONG)), Answers(np.where(many[1], many[0], ""))
    )
    assert "clearly loses 6 labels: " in lost.sentences
    assert lost.sentences.endswith("; and 3 more.")


def test_all_figures_are_json():
    automatic = np.ones(400, bool), np.arange(400) > 10
    found = compare(*models(3, 40, 400, automatic=automatic), weights=np.full(400, 2.0))
    told = json.loads(json.dumps(found.to_json()))
    assert (told["verdict"], told["difference"]["rows"]) == ("worse", 400)
    assert told["lost_labels"][0]["label"] in LABELS
    assert told["automatic_accuracy"] == pytest.approx([1 - 3 / 400, 357 / 389])


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"labels": ["billing"] * 399}, {}, "columns of 400, 400, 399 rows"),
        ({}, {"groups": [1]}, "columns of 400, 400, 400, 1 rows"),
        ({}, {"weights": [0.0] * 400}, "a weight that is not above 0"),
        ({}, {"weights": [float("nan")] * 400}, "a weight that is not above 0"),
        ({"automatic": [True]}, {}, "decisions on 400 and 1 of 400 rows"),
        ({"automatic": ["auto"] * 400}, {}, "decisions that are not one True or False each"),
    ],
)
def test_mismatched_columns_are_refused(change, options, message):
    actual, champion, challenger = models(0, 0, 400, automatic=(np.ones(400, bool),) * 2)
    with pytest.raises(SettingsError, match=message):
        compare(actual, champion, replace(challenger, **change), **options)
    with pytest.raises(SettingsError, match="columns of 0, 0, 0 rows"):
        compare([], Answers([]), Answers([]))
