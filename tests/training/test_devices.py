"""Precision, and the devices that a training is distributed to."""

import keras
import numpy as np
import pytest

from bertcnn import backend
from bertcnn.backend import on_gpu
from bertcnn.errors import SettingsError
from bertcnn.models.weights import extract
from bertcnn.progress import Silent
from bertcnn.settings import FEW_SHOT, FROZEN, FULL, HeadSettings
from bertcnn.training.devices import compute_policy, join_processes, limit_devices
from bertcnn.training.recipes import train
from bertcnn.training.start import note_device
from bertcnn.training.training_data import RunOptions, TrainingData
from tests.learnable import new_encoder
from tests.listener import Listener


@pytest.mark.skipif(on_gpu(), reason="there is a GPU")
def test_auto_is_float32_on_a_cpu_and_bfloat16_on_a_gpu(monkeypatch):
    assert compute_policy("auto") == compute_policy("float32") == "float32"
    assert compute_policy("bfloat16") == "mixed_bfloat16"
    monkeypatch.setattr(keras.distribution, "list_devices", lambda: ["cuda:0"])
    assert compute_policy("auto") == "mixed_bfloat16"
    assert compute_policy("float32") == "float32"


@pytest.mark.on_jax
@pytest.mark.parametrize(
    ("recipe", "settings"), [("full", FULL), ("frozen", FROZEN), ("few-shot", FEW_SHOT)]
)
def test_every_recipe_learns_in_bfloat16_and_keeps_float32_weights(recipe, settings, make_rows):
    data = TrainingData(make_rows(48, 0), make_rows(24, 1))
    changes = {"epochs": 8, "fewest_steps": 0, "batch_size": 8, "learning_rate": 1e-2}
    found = {}
    for precision in ("float32", "bfloat16"):
        chosen = settings.model_copy(update={**changes, "precision": precision, "refit": False})
        model, result = train(
            new_encoder(), data, HeadSettings(filters=16), recipe, chosen, RunOptions(0, Silent())
        )
        assert {str(variable.dtype) for variable in model.trainable_variables} == {"float32"}
        assert model.head.compute_policy.compute_dtype == "float32"
        assert result.valid_logits.dtype == np.float32
        assert (result.valid_logits.argmax(axis=1) == data.valid.labels).mean() > 0.8
        found[precision] = extract(model.weights)
    assert any(
        not np.array_equal(value, found["bfloat16"][name])
        for name, value in found["float32"].items()
    )


def test_more_devices_than_there_are_are_refused():
    for count in (0, 99):
        with pytest.raises(SettingsError, match=rf"^{count} devices; expected 1 to "):
            limit_devices(count)
    limit_devices(1)
    limit_devices(None)


@pytest.mark.skipif(keras.backend.backend() == "jax", reason="it can train together")
def test_only_jax_trains_on_several_machines():
    with pytest.raises(SettingsError, match="with Keras on tensorflow; expected JAX"):
        join_processes()


@pytest.mark.on_jax
@pytest.mark.skipif(keras.backend.backend() != "jax", reason="about JAX")
def test_a_multi_process_training_needs_its_process_settings(monkeypatch):
    monkeypatch.delenv("JAX_COORDINATOR_ADDRESS", raising=False)
    with pytest.raises(SettingsError, match="JAX_COORDINATOR_ADDRESS"):
        join_processes()


@pytest.mark.skipif(on_gpu(), reason="there is a GPU that is used")
def test_a_gpu_that_is_not_used_is_noted(monkeypatch, tmp_path):
    notes, device = Listener(), tmp_path / "nvidiactl"
    monkeypatch.setattr(backend, "_DEVICES", (device,))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    note_device(notes)
    assert notes.notes == []
    device.touch()
    note_device(notes)
    assert notes.notes == [
        "training on the CPU, although there is an NVIDIA GPU; to train on that: pip install"
        " 'jax[cuda13]'"
    ]
