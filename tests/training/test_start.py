"""Notes on a training's device."""

import pytest

from bertcnn import backend
from bertcnn.backend import on_gpu
from bertcnn.training.start import note_device
from tests.listener import Listener


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
