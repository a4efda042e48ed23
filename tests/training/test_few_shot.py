"""The recipe for few rows a label."""

import numpy as np
import pytest

from bertcnn.models.classifier import CnnHead
from bertcnn.models.weights import extract
from bertcnn.progress import Silent
from bertcnn.settings import FEW_SHOT, HeadSettings
from bertcnn.training.features import keras_embed
from bertcnn.training.few_shot import accuracy_without_and_with, train_few_shot

QUICK = FEW_SHOT.model_copy(update={"epochs": 1, "contrast_steps": 1})


class Notes(Silent):
    def __init__(self):
        self.stages, self.notes = [], []

    def stage(self, name, total, unit="rows"):  # noqa: ARG002
        self.stages.append((name, total))

    def note(self, message):
        self.notes.append(message)


def run(make_rows, tiny_encoder, settings=QUICK, **given):
    encoder, told = tiny_encoder(), Notes()
    head = CnnHead(16, 3, HeadSettings(window_sizes=(2,), filters=4), seed=0, name="head")
    rows = make_rows(24, 0), make_rows(9, 1)
    result = train_few_shot(encoder, head, *rows, settings, embed_with=keras_embed, seed=0, progress=told, **given)
    return encoder, head, result, told


def names_like(make_rows, *, right):
    """A text for each label, of its kind or of another's."""
    rows = make_rows(3, 5)
    first = [rows.token_ids[np.flatnonzero(rows.labels == label)[0]] for label in range(3)]
    return first if right else [first[1], first[2], first[0]]


def test_the_encoder_is_tuned_before_the_head_is_trained(make_rows, tiny_encoder):
    untouched = extract(tiny_encoder().weights)
    encoder, _, result, told = run(make_rows, tiny_encoder)
    assert [name for name, _ in told.stages] == ["tuning the encoder by contrast", "computing encoder features", "training"]
    assert any(not np.array_equal(value, untouched[name]) for name, value in extract(encoder.weights).items())
    assert result.valid_logits.shape == (9, 3)
    still = run(make_rows, tiny_encoder, QUICK.model_copy(update={"contrast_steps": 0}))[0]
    for name, value in extract(still.weights).items():
        np.testing.assert_array_equal(value, untouched[name])


def test_names_are_learned_from_where_they_help_and_the_notes_say_so(make_rows, tiny_encoder):
    *_, told = run(make_rows, tiny_encoder, label_names=names_like(make_rows, right=True))
    rows = [total for name, total in told.stages if name == "computing encoder features" and total > 3]
    assert told.notes[0].endswith(("they are learned from too", "they are left out"))
    assert rows == [24 + 9 + (3 if told.notes[0].endswith("too") else 0)]


def test_whether_names_help_is_asked_of_rows_that_were_not_learned_from():
    chance = np.random.default_rng(0)
    centres = chance.normal(size=(12, 8))
    labels = np.repeat(np.arange(12), 2)
    means = (centres[labels] + 0.9 * chance.normal(size=(24, 8))).astype(np.float32)
    without, right = accuracy_without_and_with(means, labels, centres.astype(np.float32), 0)
    _, wrong = accuracy_without_and_with(means, labels, np.roll(centres, 1, axis=0).astype(np.float32), 0)
    assert right > without + 0.1
    assert wrong < without


@pytest.mark.parametrize("counts", [(1, 1), (1, 5)])
def test_labels_with_a_single_row_can_be_asked_about(counts):
    labels = np.repeat([0, 1], counts)
    means = np.random.default_rng(1).normal(size=(len(labels), 4)).astype(np.float32)
    shares = accuracy_without_and_with(means, labels, np.eye(2, 4, dtype=np.float32), 0)
    assert all(0.0 <= share <= 1.0 for share in shares)
