"""Trainings on parts of the same rows."""

import numpy as np
import pytest

from bertcnn.encoders.convert import load_encoder
from bertcnn.models.weights import extract
from bertcnn.progress import Silent
from bertcnn.settings import HeadSettings, TrainingSettings
from bertcnn.training.features import TokenizedRows
from bertcnn.training.recipes import train
from bertcnn.training.training_data import RunOptions, TrainingData
from bertcnn.workflows.repeated import FullTrials, HeadTrials, Trial

HEAD = HeadSettings(window_sizes=(2,), filters=8)
SETTINGS = TrainingSettings(epochs=1, batch_size=8, compiled_shapes=1)


@pytest.fixture(scope="module")
def rows(make_rows):
    return make_rows(30, seed=1)


def attempt(train_rows):
    return Trial(np.array(train_rows), np.arange(24, 30), HEAD, SETTINGS, seed=7)


def part(rows, chosen):
    return TokenizedRows([rows.token_ids[row] for row in chosen], rows.labels[chosen])


@pytest.mark.parametrize("recipe", ["frozen", "full"])
def test_each_training_is_what_it_would_be_alone(rows, shallow_encoder_folder, tmp_path, recipe):
    encoder = load_encoder(shallow_encoder_folder, seed=7)
    before = {name: value.copy() for name, value in extract(encoder.weights).items()}
    run = (
        FullTrials(encoder, rows)
        if recipe == "full"
        else HeadTrials(encoder, rows, None, tmp_path / "features", Silent())
    )
    run(attempt(range(12, 24)), Silent())
    second = run(attempt(range(3, 20)), Silent())
    fresh = load_encoder(shallow_encoder_folder, seed=7)
    learned, valid = part(rows, np.arange(3, 20)), part(rows, np.arange(24, 30))
    _, alone = train(
        fresh, TrainingData(learned, valid), HEAD, recipe, SETTINGS, RunOptions(7, Silent())
    )
    # features are kept in half precision
    assert np.allclose(second.valid_logits, alone.valid_logits, atol=2e-3)
    assert all(
        np.array_equal(value, before[name]) for name, value in extract(encoder.weights).items()
    )
