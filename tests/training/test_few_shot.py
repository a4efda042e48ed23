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


def run(make_rows, tiny_encoder, settings=QUICK, train=None, **given):
    encoder, told = tiny_encoder(), Notes()
    head = CnnHead(16, 3, HeadSettings(window_sizes=(2,), filters=4), seed=0, name="head")
    rows = train or make_rows(24, 0), make_rows(9, 1)
    result = train_few_shot(encoder, head, *rows, settings, embed_with=keras_embed, seed=0, progress=told, **given)
    return encoder, head, result, told


def test_the_encoder_is_tuned_before_the_head_is_trained(make_rows, tiny_encoder):
    untouched = extract(tiny_encoder().weights)
    encoder, _, result, told = run(make_rows, tiny_encoder)
    assert [name for name, _ in told.stages] == ["tuning the encoder by contrast", "computing encoder features", "training"]
    assert any(not np.array_equal(value, untouched[name]) for name, value in extract(encoder.weights).items())
    assert result.valid_logits.shape == (9, 3)
    still = run(make_rows, tiny_encoder, QUICK.model_copy(update={"contrast_steps": 0}))[0]
    for name, value in extract(still.weights).items():
        np.testing.assert_array_equal(value, untouched[name])


@pytest.mark.parametrize(("turned", "added", "said"), [(0, 3, "they are learned from too"), (1, 0, "they are left out")])
def test_names_are_learned_from_where_they_help_and_the_notes_say_so(make_rows, tiny_encoder, turned, added, said):
    rows = make_rows(3, 0)  # one row a label: without names no row that is held out can be right
    rows = rows.of(np.argsort(rows.labels))
    names = [rows.token_ids[(label + turned) % 3] for label in range(3)]  # the very rows, or those of other labels
    *_, told = run(make_rows, tiny_encoder, train=rows, label_names=names)
    assert told.notes[0].endswith(said)
    assert [total for name, total in told.stages if name == "computing encoder features"] == [3 + 9 + added]


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
