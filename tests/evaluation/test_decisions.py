"""Confidence thresholds for automatic answers."""

import json

import numpy as np
import pytest

from bertcnn.bundle.schemas import HeldOut
from bertcnn.bundle.scope import OutOfScopeDetector
from bertcnn.data.hierarchy import Hierarchy
from bertcnn.errors import SettingsError
from bertcnn.evaluation.decisions import (
    HeldBack,
    automation,
    decide,
    describe_decisions,
    describe_out_of_scope,
    describe_promise,
    held_out_answers,
)
from bertcnn.evaluation.thresholds import find_threshold
from bertcnn.settings import PrecisionTargets

LABELS = ("billing", "hardware")


def rows_of(confidence, right, predicted=None):
    """Held-out rows as they are saved."""
    order = np.argsort(-np.asarray(confidence), kind="stable")
    called = np.zeros(len(order), int) if predicted is None else np.asarray(predicted)
    columns = (np.asarray(confidence), called, np.asarray(right, bool))
    return HeldOut(
        **{
            name: tuple(column[order].tolist())
            for name, column in zip(("confidence", "predicted", "right"), columns, strict=True)
        }
    )


def draw(generator, rows):
    """A model whose confidence, uniform between 0.7 and 1, is its chance of being right."""
    confidence = generator.uniform(0.7, 1, rows)
    return confidence, generator.random(rows) < confidence


def test_labels_without_their_own_target_share_one_threshold():
    generator = np.random.default_rng(5)
    confidence, right = draw(generator, 5000)
    predicted = generator.integers(0, 2, 5000)
    decisions = decide(
        rows_of(confidence, right, predicted), LABELS, PrecisionTargets.of("0.9,hardware=0.95")
    )
    own = predicted == 1
    assert decisions.thresholds == (
        find_threshold(confidence[~own], right[~own], 0.9),
        find_threshold(confidence[own], right[own], 0.95),
    )
    assert decisions.thresholds[0] < decisions.thresholds[1]
    assert (decisions.own_rows, decisions.reachable) == (("hardware",), None)


def test_a_perfect_label_does_not_raise_the_precision_of_another():
    generator = np.random.default_rng(0)
    predicted, confidence = generator.integers(0, 2, 4000), generator.random(4000)
    right = (predicted == 1) | (generator.random(4000) < 0.91)
    assert find_threshold(confidence, right, 0.94) is not None
    decisions = decide(
        rows_of(confidence, right, predicted), LABELS, PrecisionTargets.of("0.94,hardware=0.9999")
    )
    assert decisions.thresholds == (None, None)
    assert 0.88 < decisions.reachable < 0.92


def test_a_rarely_predicted_label_gets_its_threshold_from_all_rows():
    confidence, right = draw(np.random.default_rng(5), 5000)
    predicted = np.arange(5000) < 50  # 97% needs 76
    decisions = decide(
        rows_of(confidence, right, predicted), LABELS, PrecisionTargets.of("0.9,hardware=0.97")
    )
    assert (
        decisions.thresholds[1] == find_threshold(confidence, right, 0.97) > decisions.thresholds[0]
    )
    assert decisions.own_rows == ()


def test_an_unreachable_target_sends_everything_to_review_and_reports_the_best():
    confidence, right = (
        np.linspace(1, 0.5, 100),
        np.arange(100) % 10 != 9,
    )  # nine of ten are right at any confidence
    decisions = decide(rows_of(confidence, right), LABELS, PrecisionTargets.of(0.95))
    assert decisions.thresholds == (None, None)
    reachable = decisions.reachable
    assert 0.75 < reachable < 0.9
    assert find_threshold(confidence, right, reachable) is not None
    assert find_threshold(confidence, right, reachable + 0.01) is None
    told = describe_decisions(decisions, LABELS)
    assert f"cannot be shown on 100 held-out rows; {100 * reachable:.0f}% is the most" in told


def test_label_targets_are_named_and_not_presented_as_the_overall_target():
    confidence = np.linspace(1, 0.5, 400)
    predicted, right = (
        np.arange(400) % 2,
        np.arange(400) % 20 != 9,
    )  # hardware answers are right 9 times in 10, billing always
    targets = PrecisionTargets.of("0.95,hardware=0.8")
    reached = decide(rows_of(confidence, right, predicted), LABELS, targets)
    assert describe_decisions(reached, LABELS).startswith(
        "at 95% precision ('hardware' 80%) 100% of tickets are handled automatically"
    )
    decisions = decide(
        rows_of(confidence, right, 1 - predicted), LABELS, PrecisionTargets.of("0.99,hardware=0.8")
    )
    assert decisions.thresholds[0] is None
    assert decisions.thresholds[1] is not None
    told = describe_decisions(decisions, LABELS)
    assert f"; {100 * decisions.reachable:.0f}% is the most they can show: only labels" in told
    kept = round(100 * automation(decisions).share)
    assert f"('hardware' 80%) are automatic: {kept}% of tickets, {100 - kept}% go" in told


def test_decisions_are_described_in_numbers_and_words():
    confidence = np.linspace(1, 0.5, 200)
    decisions = decide(rows_of(confidence, np.arange(200) < 150), LABELS, PrecisionTargets.of(0.95))
    found = automation(decisions)
    assert (found.rows, found.automatic, found.right) == (200, 152, 150)
    assert json.loads(json.dumps(found.to_json()))["auto_precision"] == "0.95"
    told = "at 95% precision 76% of tickets are handled automatically, 24% go to review"
    assert describe_decisions(decisions, LABELS) == told


def test_held_out_answers_are_stored_without_their_order():
    probabilities = np.array([[0.75, 0.25], [0.125, 0.875], [0.5, 0.5]], np.float32)
    assert held_out_answers(probabilities, np.array([0, 0, 1])) == HeldOut(
        confidence=(0.875, 0.75, 0.5), predicted=(1, 0, 0), right=(False, True, False)
    )


def held_back(outside, doubtful=None, strange=None):
    """`HeldBack` with these flags; missing ones are False."""
    nothing = np.zeros(len(outside), bool)
    return HeldBack(
        outside,
        nothing if doubtful is None else doubtful,
        nothing if strange is None else strange,
    )


def test_out_of_scope_and_doubtful_rows_are_counted_but_set_no_threshold():
    generator = np.random.default_rng(6)
    confidence, right = draw(generator, 400)
    probabilities = np.stack([confidence, 1 - confidence], axis=1).astype(np.float32)
    labels, kind = np.where(right, 0, 1), generator.integers(0, 9, 400)
    back = held_back(kind == 0, doubtful=kind == 1)
    answers = held_out_answers(probabilities, labels, back)
    assert (answers.rows, answers.out_of_scope, answers.doubtful) == (
        400,
        (kind == 0).sum(),
        (kind == 1).sum(),
    )
    others = held_out_answers(probabilities[kind > 1], labels[kind > 1])
    assert (answers.confidence, answers.right) == (others.confidence, others.right)
    found = automation(decide(answers, LABELS, PrecisionTargets.of(0.9)))
    assert (found.rows, found.doubtful) == (400, (kind == 1).sum())
    assert found.share == found.automatic / 400
    scope = OutOfScopeDetector(logit_centroids=np.ones((1, 2), np.float32))
    told = describe_out_of_scope(answers, scope, several_labels=True)
    assert told.startswith(
        f"{(kind == 0).sum()} of 400 held-out rows ({(kind == 0).mean():.1%}) get no label or look"
    )
    assert f"{(kind == 1).sum()} more are too near that" in told
    assert describe_out_of_scope(answers, OutOfScopeDetector()).startswith("too few rows")


def test_every_answer_to_an_out_of_scope_row_is_wrong():
    generator = np.random.default_rng(7)
    confidence, right = draw(generator, 600)
    probabilities = np.stack([confidence, 1 - confidence], axis=1).astype(np.float32)
    labels = np.where(right, 0, 1)
    strange = generator.random(600) < 0.2
    outside = strange & (generator.random(600) < 0.5)
    answers = held_out_answers(probabilities, labels, held_back(outside, strange=strange))
    assert answers.out_of_scope == 0
    assert answers.strange_held_back == outside.sum()
    assert sum(answers.strange) == (strange & ~outside).sum()
    order = np.argsort(-confidence[~outside], kind="stable")
    expected = np.where(strange, False, right)[~outside][order]
    assert answers.right == tuple(expected.tolist())
    decisions = decide(answers, LABELS, PrecisionTargets.of(0.7))
    found = automation(decisions)
    limit = decisions.thresholds[0]
    assert found.strange == strange.sum()
    assert found.strange_automatic == ((confidence >= limit) & strange & ~outside).sum() > 0
    assert found.right <= found.automatic - found.strange_automatic
    share = 1 - found.strange_automatic / found.strange
    assert f"({share:.0%}) go to a person" in describe_promise(decisions)
    plain = decide(held_out_answers(probabilities, labels), LABELS, PrecisionTargets.of(0.7))
    assert plain.thresholds[0] <= limit
    assert "--out-of-scope" in describe_promise(plain)


def test_a_parent_is_never_right_for_an_out_of_scope_row():
    hierarchy = Hierarchy.of(("x > a", "x > b", "y"))
    probabilities = np.array([[0.6, 0.3, 0.1], [0.5, 0.4, 0.1]], np.float32)
    nothing = np.zeros(2, bool)
    found = held_out_answers(
        probabilities,
        np.array([0, 0]),
        held_back(nothing, strange=np.array([False, True])),
        hierarchy,
    )
    assert found.parents[0].right == (True, False)


@pytest.mark.parametrize(
    "change",
    [{"strange": (True,)}, {"strange": (True, False), "right": (True, True)}],
)
def test_flags_of_another_length_are_refused(change):
    values = {"confidence": (0.9, 0.8), "predicted": (0, 1), "right": (False, True)}
    with pytest.raises(SettingsError, match="HeldOut"):
        HeldOut(**{**values, **change})


@pytest.mark.parametrize(("rows", "kept"), [(0, 0), (1, 1), (5000, 5000), (5001, 5000)])
def test_a_sample_of_very_many_held_out_rows_is_stored(rows, kept):
    confidence = np.linspace(0.5, 1, rows, dtype=np.float32)
    answers = held_out_answers(np.stack([confidence, 1 - confidence], axis=1), np.zeros(rows, int))
    assert len(answers.right) == kept
    assert all(answers.right)
    assert not kept or answers.confidence[0] == confidence[-1]


def test_without_rows_nothing_is_automatic():
    decisions = decide(HeldOut(), LABELS, PrecisionTargets())
    assert (decisions.thresholds, automation(decisions).share) == ((None, None), 0.0)
    assert describe_decisions(decisions, LABELS).endswith(
        "0 held-out rows: all tickets go to review"
    )


@pytest.mark.parametrize(
    "given_as",
    ["95", "", "0.95,billing", 1.0, 0, "0.9,billing=2", "0.9,0.5", "a=.9,a=.8", None, "nan", True],
)
def test_an_invalid_precision_is_an_error(given_as):
    with pytest.raises(
        SettingsError,
        match=r"^automatic precision .*expected a share between 0 and 1.*'0\.95,billing=0\.99'",
    ):
        PrecisionTargets.of(given_as)


@pytest.mark.parametrize(
    ("written", "overall", "labels"),
    [
        (
            "repair, or other=0.99, 0.9,billing=0.97",
            0.9,
            {"repair, or other": 0.99, "billing": 0.97},
        ),
        ("billing=0.99, a=b=0.9", 0.95, {"billing": 0.99, "a=b": 0.9}),
    ],
    ids=["with commas", "with an equals sign"],
)
def test_targets_are_parsed_and_formatted(written, overall, labels):
    targets = PrecisionTargets.of(written)
    assert targets == PrecisionTargets(overall=overall, labels=labels)
    assert PrecisionTargets.of(str(targets)) == targets


def test_a_target_for_an_unknown_label_is_an_error():
    with pytest.raises(SettingsError, match="precision for the label 'Billing'; expected labels"):
        decide(HeldOut(), LABELS, PrecisionTargets.of("0.9,Billing=0.99"))
