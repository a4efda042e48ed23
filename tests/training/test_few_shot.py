"""The few-shot recipe."""

import numpy as np
import pytest

from bertcnn.models import CnnHead, extract
from bertcnn.settings import FEW_SHOT, HeadSettings
from bertcnn.training import RunOptions, TokenizedRows, TrainingData
from bertcnn.training.few_shot import (
    accuracy_without_and_with,
    train_few_shot,
    with_pseudo_labels,
)
from tests.listener import Listener

QUICK = FEW_SHOT.model_copy(update={"epochs": 1, "contrast_steps": 1})


class Notes(Listener):
    """Records what was done in each stage."""

    def __init__(self):
        super().__init__()
        self.each = []

    def stage(self, name, total, unit="rows"):
        super().stage(name, total, unit)
        self.each.append([name, total, 0])

    def advance(self, done, **_):
        self.each[-1][2] += done


def totals(told, name):
    return [total for one, total, _ in told.each if one == name]


def run(make_rows, tiny_encoder, settings=QUICK, train=None, valid=None, *, refit=False, **given):
    encoder, told = tiny_encoder(), Notes()
    head = CnnHead(16, 3, HeadSettings(window_sizes=(2,), filters=4), seed=0, name="head")
    data = TrainingData(train or make_rows(24, 0), valid or make_rows(9, 1), **given)
    result = train_few_shot(encoder, head, data, settings, RunOptions(0, told, refit=refit))
    return encoder, head, result, told


@pytest.fixture(scope="module")
def plain(make_rows, tiny_encoder):
    """Trained on labelled rows only; do not change it."""
    return run(make_rows, tiny_encoder)


@pytest.fixture(scope="module")
def helped(make_rows, tiny_encoder):
    """Trained on 40 unlabelled rows too; do not change it."""
    return run(make_rows, tiny_encoder, unlabelled=make_rows(40, 2).token_ids)


def test_the_encoder_is_tuned_before_the_head_is_trained(make_rows, tiny_encoder, plain):
    untouched = extract(tiny_encoder().weights)
    encoder, _, result, told = plain
    assert [name for name, *_ in told.stages] == [
        "comparing rows",
        "contrastive training of the encoder",
        "computing encoder features",
        "training",
    ]
    assert any(
        not np.array_equal(value, untouched[name])
        for name, value in extract(encoder.weights).items()
    )
    assert result.valid_logits.shape == (9, 3)
    still = run(make_rows, tiny_encoder, QUICK.model_copy(update={"contrast_steps": 0}))[0]
    for name, value in extract(still.weights).items():
        np.testing.assert_array_equal(value, untouched[name])


@pytest.mark.parametrize(
    ("turned", "added", "said"),
    [(0, 3, "they are used for training too"), (1, 0, "they are left out")],
)
def test_names_are_learned_from_where_they_help_and_the_notes_say_so(
    make_rows, tiny_encoder, turned, added, said
):
    rows = make_rows(3, 0)  # one row per label: without names, no held-out prediction can be right
    rows = rows.of(np.argsort(rows.labels))
    names = [
        rows.token_ids[(label + turned) % 3] for label in range(3)
    ]  # the rows themselves, or those of other labels
    settings = QUICK.model_copy(update={"contrast_steps": 0})
    *_, told = run(make_rows, tiny_encoder, settings, train=rows, label_names=names)
    assert told.notes[0].endswith(said)
    assert totals(told, "computing encoder features") == [3 + 9 + added]


def test_the_benefit_of_names_is_measured_on_held_out_rows():
    chance = np.random.default_rng(0)
    centres = chance.normal(size=(12, 8))
    labels = np.repeat(np.arange(12), 2)
    means = (centres[labels] + 0.9 * chance.normal(size=(24, 8))).astype(np.float32)
    without, right = accuracy_without_and_with(means, labels, centres.astype(np.float32), 0)
    _, wrong = accuracy_without_and_with(
        means, labels, np.roll(centres, 1, axis=0).astype(np.float32), 0
    )
    assert right > without + 0.1
    assert wrong < without


def test_unlabelled_rows_are_pseudo_labelled_and_trained_on(make_rows, tiny_encoder, plain, helped):
    *_, result, told = helped
    assert (plain[2].pseudo_labelled, result.pseudo_labelled) == (0, 36)  # the most confident 90%
    assert told.notes[-1].startswith("40 rows without a label: of 9 held-out rows")
    assert told.notes[-1].endswith("they are used for training too")
    assert totals(told, "computing encoder features") == [24 + 9 + 36]
    assert told.stages[0][:2] == ("comparing rows", 24 + 9 + 40)
    assert totals(told, "comparing rows once more") == [24 + 9 + 40]
    assert all(done == total for _, total, done in told.each)
    again = run(make_rows, tiny_encoder, unlabelled=make_rows(40, 2).token_ids)[2]
    assert again.valid_logits.tolist() == result.valid_logits.tolist()


def test_pseudo_labels_train_the_head(make_rows, tiny_encoder):
    few, asked = make_rows(3, 0), make_rows(60, 1)
    # the head stays the initial regression
    settings = QUICK.model_copy(update={"contrast_steps": 0, "learning_rate": 1e-9})

    def right(**given):
        result = run(make_rows, tiny_encoder, settings, few, valid=asked, **given)[2]
        return np.mean(result.valid_logits.argmax(axis=1) == asked.labels)

    assert right(unlabelled=make_rows(300, 2).token_ids) > right() + 0.05


def test_many_rows_without_a_label_are_passed_over_less_often(make_rows, tiny_encoder):
    others = make_rows(300, 2).token_ids
    for given, unlabelled, epochs in ((20, 0, 20), (20, 24, 11), (20, 300, 6), (1, 300, 1)):
        settings = QUICK.model_copy(update={"epochs": given, "contrast_steps": 0})
        result = run(make_rows, tiny_encoder, settings, unlabelled=others[:unlabelled])[2]
        assert len(result.epochs) == epochs


def test_pseudo_labels_do_not_depend_on_held_out_labels_before_the_end():
    chance = np.random.default_rng(0)
    centres = np.eye(3, 8)
    labels = np.array([0, 1, 2, 0, 1, 2])
    means = (centres[labels] + 0.05 * chance.normal(size=(6, 8))).astype(np.float32)
    means = np.concatenate(
        [means, (centres[[0, 1, 2] * 10] + 0.05 * chance.normal(size=(30, 8))).astype(np.float32)]
    )
    means[6:9] = [0, 0, 0, 0, 0, 0, 1, 0]  # similar to none of the labels
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    ids = [np.array([2, number, 3], np.int32) for number in range(36)]

    def called(valid_labels):
        valid = TokenizedRows(ids[3:6], np.array(valid_labels))
        return with_pseudo_labels(
            TokenizedRows(ids[:3], labels[:3]), valid, ids[6:], [means], None, Notes()
        )

    (right, right_again), (wrong, wrong_again) = called([0, 1, 2]), called([1, 2, 0])
    assert right.labels.tolist() == right_again.tolist() == [0, 1, 2] * 10
    assert wrong.labels.tolist() == right.labels.tolist() != wrong_again.tolist()
    assert [row[1] for row in right.token_ids] == [
        0,
        1,
        2,
        *range(9, 36),
    ]  # all except the three that resemble none


def test_class_weights_reduce_the_pseudo_labels_of_frequent_labels():
    # training, held-out, unlabelled
    angles = np.concatenate([np.linspace(0, 0.1, 9), [1.5], [0, 1.5], np.linspace(0.3, 1.2, 20)])
    means = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    ids = [np.array([2, number, 3], np.int32) for number in range(32)]
    train, valid = (
        TokenizedRows(ids[:10], np.repeat([0, 1], [9, 1])),
        TokenizedRows(ids[10:12], np.array([0, 1])),
    )

    def rare(class_weight):
        rows, again = with_pseudo_labels(train, valid, ids[12:], [means], class_weight, Notes())
        return rows.labels[10:].sum(), again[10:].sum()

    assert rare("none") < rare(None) < rare("balanced")


def numbered(labels):
    """Rows whose only content is their number, with these labels."""
    return [np.array([2, number, 3], np.int32) for number in range(len(labels))]


def embeds(*views):
    """Embeds each row by its number; each call uses the next view, and the last one repeatedly."""
    left = list(views)

    def embed_with(_):
        view = left.pop(0) if len(left) > 1 else left[0]

        def embed(token_ids, store):
            for row, ids in enumerate(token_ids):
                store([row], np.tile(view[ids[1]], (1, len(ids), 1)))

        return embed

    return embed_with


def divided_by_a_line(labels, turned):
    """Linearly separable views of rows; the neighbours of `turned` rows have the other label."""
    after = np.stack([np.ones(len(labels)), np.where(labels == 0, 0.05, -0.05)], axis=1)
    noise = 0.01 * np.random.default_rng(0).normal(size=(len(labels), 2))
    before = np.eye(2)[np.where(turned, 1 - labels, labels)] + noise
    views = [view / np.linalg.norm(view, axis=1, keepdims=True) for view in (before, after)]
    return [np.pad(view, ((0, 0), (0, 14))).astype(np.float32) for view in views]


@pytest.mark.parametrize(
    ("misled", "with_them", "said", "called"),
    [
        (10, 0, "they are left out", 0),
        (1, 9, "which can be chance: they are used for training too", 9),
    ],
)
def test_unlabelled_rows_are_left_out_if_they_lower_held_out_accuracy(
    make_rows, tiny_encoder, misled, with_them, said, called
):
    labels = np.array([0, 1] * 15)  # training, held-out, unlabelled
    turned = np.arange(30) >= 10
    turned[10 + misled :] = misled == 10
    ids = numbered(labels)
    encoder, told = tiny_encoder(), Notes()
    result = train_few_shot(
        encoder,
        CnnHead(16, 2, HeadSettings(window_sizes=(2,), filters=4), seed=0, name="head"),
        TrainingData(
            TokenizedRows(ids[:10], labels[:10]),
            TokenizedRows(ids[10:20], labels[10:20]),
            unlabelled=ids[20:],
        ),
        QUICK.model_copy(update={"contrast_steps": 0}),
        RunOptions(0, told, embed_with=embeds(*divided_by_a_line(labels, turned))),
    )
    outcome = (
        f"of 10 held-out rows 10 would get the right label without these, {with_them} with them"
    )
    assert told.notes[-1].startswith(f"10 rows without a label: {outcome}")
    assert told.notes[-1].endswith(said)
    assert result.pseudo_labelled == called
