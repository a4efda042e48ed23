"""Which device Keras computes on."""

import keras
import pytest

from bertcnn.layers.device import on_gpu


@pytest.mark.parametrize(
    ("devices", "found"),
    [(["cpu:0"], False), (["gpu:0", "cpu:0"], True), (["cuda:0"], True), (["tpu:0"], False)],
)
def test_a_gpu_is_known_by_its_name(monkeypatch, devices, found):
    monkeypatch.setattr(keras.distribution, "list_devices", lambda: devices)
    assert on_gpu() == found
