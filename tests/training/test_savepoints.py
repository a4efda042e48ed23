"""An interrupted training that resumes ends with an uninterrupted one's weights, bit for bit."""

import re
import shutil

import numpy as np
import pytest

from bertcnn.models.weights import extract
from bertcnn.progress import Silent
from bertcnn.training import RunOptions, Savepoints, savepoint_folder
from bertcnn.training.fit import fit
from tests.listener import Listener
from tests.training.test_fit import SETTINGS, head

FEW = SETTINGS.model_copy(update={"epochs": 2})
BATCHES = 8  # per epoch
IDENTITY = {"data": "some rows", "learning_rate": 0.02}


class Interrupting(Listener):
    """Interrupts a training after some batches."""

    def __init__(self, batches):
        super().__init__()
        self.batches = batches

    def advance(self, done, **figures):  # noqa: ARG002
        if self.batches is not None and done == 1:
            self.batches -= 1
            if not self.batches:
                raise KeyboardInterrupt


@pytest.fixture(scope="module")
def train(make_rows, vector_examples):
    parts = vector_examples(make_rows(60, 0)), vector_examples(make_rows(20, 1, noise=True))

    def run(folder, batches=None, identity=IDENTITY, seconds=0.0, settings=FEW):
        model, listener = head(), Interrupting(batches)
        savepoints = Savepoints(folder, identity, listener, seconds)
        try:
            options = RunOptions(0, listener, savepoints)
            result = fit(model, *parts, settings, options, layers=0)
        except KeyboardInterrupt:
            return None
        return extract(model.weights), result, listener.notes

    return run


@pytest.fixture(scope="module")
def whole(train, tmp_path_factory):
    """An uninterrupted run without savepoints."""
    folder = tmp_path_factory.mktemp("whole") / "savepoints"
    found = train(folder, seconds=3600.0)
    assert not folder.exists()
    assert found[2] == []
    return found


@pytest.fixture(scope="module")
def broken(train, tmp_path_factory):
    """The savepoints of a training interrupted in its second epoch; to be copied."""
    folder = tmp_path_factory.mktemp("broken") / "savepoints"
    train(folder, BATCHES + 3)
    assert sorted(path.name for path in folder.iterdir()) == ["step-000000010", "step-000000011"]
    return folder


def assert_same(found, expected):
    assert found[1].epochs == expected[1].epochs
    assert found[1].kept_epoch == expected[1].kept_epoch
    np.testing.assert_array_equal(found[1].valid_logits, expected[1].valid_logits)
    for name, value in expected[0].items():
        np.testing.assert_array_equal(found[0][name], value)


def test_a_result_is_kept_in_its_own_folder_for_the_same_training_only(tmp_path):
    savepoints = Savepoints(tmp_path, IDENTITY, Silent())
    between = savepoints.part("between")
    assert between.kept() is None
    between.keep({"epochs": [1, 2]}, {"logits": np.arange(6, dtype=np.float32).reshape(2, 3)})
    told, tensors = Savepoints(tmp_path, IDENTITY, Silent()).part("between").kept()
    assert told == {"epochs": [1, 2]}
    np.testing.assert_array_equal(tensors["logits"], [[0, 1, 2], [3, 4, 5]])
    assert savepoints.kept() is None
    listener = Listener()
    other = Savepoints(tmp_path, {**IDENTITY, "data": "others"}, listener)
    assert other.part("between").kept() is None
    assert "starts over" in listener.notes[0]


@pytest.mark.on_jax
def test_a_training_resumes_within_an_epoch(train, whole, broken, tmp_path):
    found = train(shutil.copytree(broken, tmp_path / "broken"))
    assert found[2] == ["resuming an interrupted training after step 11 of 16"]
    assert_same(found, whole)


def test_a_training_resumes_at_the_end_of_an_epoch_and_after_a_second_interruption(
    train, whole, tmp_path
):
    train(tmp_path / "broken", BATCHES)
    train(tmp_path / "broken", 1)
    found = train(tmp_path / "broken")
    assert found[2] == ["resuming an interrupted training after step 9 of 16"]
    assert_same(found, whole)


@pytest.mark.parametrize("batches", [BATCHES, BATCHES * FEW.epochs - 2])
def test_the_mean_of_the_last_steps_is_resumed_too(train, tmp_path, batches):
    settings = FEW.model_copy(update={"learning_rate": 0.005, "averaged_share": 0.7})
    expected = train(tmp_path / "whole", seconds=3600.0, settings=settings)
    assert expected[1].averaged
    train(tmp_path / "broken", batches, settings=settings)
    found = train(tmp_path / "broken", settings=settings)
    assert found[2][0].startswith("resuming an interrupted training after")
    assert_same(found, expected)


def test_a_damaged_savepoint_is_skipped(train, whole, broken, tmp_path):
    folder = shutil.copytree(broken, tmp_path / "broken")
    newest = folder / "step-000000011" / "state.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1] + b"?")
    found = train(folder)
    assert "it is skipped" in found[2][0]
    assert "after step 10 of 16" in found[2][1]
    assert_same(found, whole)


def test_another_training_starts_over(train, broken, tmp_path):
    folder, other = shutil.copytree(broken, tmp_path / "broken"), {**IDENTITY, "learning_rate": 0.5}
    assert train(folder, 2, other) is None  # interrupted after two batches, so it started over
    listener = Listener()
    again = Savepoints(folder, {**IDENTITY, "learning_rate": 0.1}, listener)
    assert again.restore(None, None) is None
    assert re.fullmatch(
        r"an interrupted training cannot be continued, so this one starts over: .* learning_rate ="
        r" '0.5', this run has '0.1'",
        listener.notes[0],
    )


def test_an_interruption_saves_the_training_though_no_savepoint_was_due(train, tmp_path):
    assert train(tmp_path, BATCHES + 3, seconds=3600.0) is None
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000011"]


def test_savepoints_lie_beside_the_model(tmp_path):
    assert savepoint_folder(tmp_path / "model") == tmp_path / ".model.training"
