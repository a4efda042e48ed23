"""Checkpoints: complete or absent, the newest complete one wins, other settings are refused."""

import errno

import keras
import numpy as np
import pytest

from bertcnn.errors import BundleError, OutputError, SettingsError, TrainingError
from bertcnn.storage import files
from bertcnn.training.checkpoint import (
    Checkpoint,
    check_same_settings,
    forget_checkpoints,
    newest_checkpoint,
    restore_state,
    save_checkpoint,
    training_state,
)
from bertcnn.training.optimizer import LayerwiseAdamW


def make(step, fill=1.0):
    return Checkpoint(
        step,
        {"seed": 0},
        {"tokens": 10 * step},
        {"weights/a": np.full((2, 3), fill, np.float32), "fixed/0": np.arange(2)},
    )


def save(folder, *steps):
    for step in steps:
        save_checkpoint(folder, make(step))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_saved_checkpoints_are_restored_and_only_two_are_kept(tmp_path):
    assert newest_checkpoint(tmp_path, pytest.fail) is None
    save(tmp_path, 1, 2, 3)
    found = newest_checkpoint(tmp_path, pytest.fail)
    assert (found.step, found.settings, found.progress) == (3, {"seed": 0}, {"tokens": 30})
    np.testing.assert_array_equal(found.tensors["weights/a"], np.ones((2, 3), np.float32))
    assert found.tensors["fixed/0"].dtype == np.arange(2).dtype
    assert names(tmp_path) == ["step-000000002", "step-000000003"]


@pytest.mark.parametrize("name", ["state.safetensors", "checkpoint.json", "manifest.json"])
@pytest.mark.parametrize("damage", ["changed", "missing"])
def test_a_damaged_checkpoint_is_skipped_with_a_note(tmp_path, name, damage):
    save(tmp_path, 1, 2)
    path = tmp_path / "step-000000002" / name
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-20] + b"0" * 20)
    notes = []
    assert newest_checkpoint(tmp_path, notes.append).step == 1
    (note,) = notes
    assert note.startswith("the checkpoint step-000000002: ")
    assert note.endswith("; it is skipped")
    save(tmp_path, 2)
    assert newest_checkpoint(tmp_path, pytest.fail).step == 2


def test_damaged_checkpoints_are_an_error_instead_of_a_restart(tmp_path):
    save(tmp_path, 1, 2)
    for step in (1, 2):
        (tmp_path / f"step-00000000{step}" / "manifest.json").write_text("{}")
    with pytest.raises(BundleError, match=r"no checkpoint in .* can be used .*--restart"):
        newest_checkpoint(tmp_path, [].append)


def test_saving_after_a_fallback_removes_damaged_later_checkpoints(tmp_path):
    save(tmp_path, 1, 5, 9)
    (tmp_path / "step-000000009" / "manifest.json").unlink()
    save(tmp_path, 7)
    assert names(tmp_path) == ["step-000000005", "step-000000007"]


def test_numbers_that_are_not_finite_are_never_saved(tmp_path):
    save(tmp_path, 1)
    with pytest.raises(
        TrainingError, match="after step 2, weights/a holds a number that is not finite"
    ):
        save_checkpoint(tmp_path, make(2, np.nan))
    assert names(tmp_path) == ["step-000000001"]


def test_a_full_disk_is_reported_and_the_last_checkpoint_stays(tmp_path, monkeypatch):
    save(tmp_path, 1)

    def full(handle, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "write", full)
    with pytest.raises(OutputError, match=r"no space left to write .*; expected room on the disk"):
        save(tmp_path, 2)
    monkeypatch.undo()
    assert newest_checkpoint(tmp_path, pytest.fail).step == 1
    assert names(tmp_path) == ["step-000000001"]


def test_other_settings_are_refused_by_name(tmp_path):
    check_same_settings({"seed": 0, "steps": 5}, {"seed": 0}, tmp_path)
    with pytest.raises(
        SettingsError, match=r"steps = '5', this run has '6'.*start over with --restart"
    ):
        check_same_settings({"seed": 0, "steps": 5}, {"seed": 0, "steps": 6}, tmp_path)


def network(units=3):
    model = keras.Sequential(
        [
            keras.Input((2,)),
            keras.layers.Dense(units, name="dense"),
            keras.layers.Dropout(0.5, seed=1),
        ],
        name="network",
    )
    optimizer = LayerwiseAdamW(0.1, lambda _: 1.0, weight_decay=0.0, clip_norm=1.0)
    optimizer.build(model.trainable_variables)
    return model, optimizer


def test_the_state_of_a_training_goes_over_to_another():
    model, optimizer = network()
    model(np.ones((1, 2), np.float32), training=True)
    optimizer.apply(
        [np.full(weight.shape, 0.5, np.float32) for weight in model.trainable_variables],
        model.trainable_variables,
    )
    state = training_state(model, optimizer)
    other = network()
    restore_state(state, *other)
    for name, value in training_state(*other).items():
        np.testing.assert_array_equal(value, state[name], err_msg=name)
    assert int(other[1].iterations) == 1
    assert any(name.startswith("fixed/") for name in state), "the state of dropout is part of it"
    with pytest.raises(BundleError, match=r"has the shape \(2, 3\); expected \(2, 4\)"):
        restore_state(state, *network(4))


def test_only_checkpoints_are_forgotten(tmp_path):
    save(tmp_path, 1, 2)
    (tmp_path / "step-000000002" / "manifest.json").write_text("{}")
    (tmp_path / "board").mkdir()
    (tmp_path / "notes.txt").write_text("mine")
    forget_checkpoints(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["board", "notes.txt"]
