"""The Keras model as an engine, on a CPU and on a simulated GPU."""

import os
import subprocess
import sys

import keras
import numpy as np
import pytest

import bertcnn
from bertcnn import backend
from bertcnn.inference.keras_engine import KerasEngine
from bertcnn.models.classifier import build_classifier
from bertcnn.settings import HeadSettings
from tests.tickets import tickets
from tests.tiny import noisy, saved, tiny_settings

LONGEST, CLASSES = 40, 3
ENCODER = tiny_settings(heads=2)


@pytest.fixture
def on_a_gpu(monkeypatch):
    """Make Keras report a GPU; the CPU does the work."""
    monkeypatch.setattr(keras.distribution, "list_devices", lambda: ["cuda:0"])


@pytest.fixture
def model():
    return noisy(build_classifier(ENCODER, HeadSettings(filters=6), CLASSES, seed=1))


@pytest.fixture
def token_ids():
    generator = np.random.default_rng(0)
    lengths = generator.integers(2, LONGEST + 1, 80)
    return [generator.integers(1, 50, length).astype(np.int32) for length in lengths]


@pytest.mark.on_jax
def test_on_a_gpu_it_computes_in_bfloat16_nearly_what_it_does_in_float32(
    model, token_ids, on_a_gpu
):
    exact = KerasEngine(model, 0, precision="float32")
    expected = exact.run(token_ids, evidence=True)
    engine = KerasEngine(model, 0)
    answers = engine.run(token_ids, evidence=True)
    assert (exact.name, engine.name) == ("keras", "keras-bfloat16")
    difference = answers.logits - expected.logits
    assert 0 < np.sqrt(np.mean(difference**2)) < 0.05 * expected.logits.std()
    np.testing.assert_allclose(
        answers.requested_evidence.means, expected.requested_evidence.means, atol=0.05
    )
    won = expected.requested_evidence.activations > 0
    assert (
        np.mean((answers.requested_evidence.windows == expected.requested_evidence.windows)[won])
        > 0.9
    )
    np.testing.assert_array_equal(engine.run(token_ids).logits, answers.logits)


@pytest.mark.on_jax
def test_its_logits_are_exact_sums_of_its_evidence_in_either_precision(model, token_ids):
    kernel, bias = (np.asarray(weight) for weight in model.head.get_layer("logits").weights)
    for precision in ("float32", "bfloat16"):
        output = KerasEngine(model, 0, precision=precision).run(token_ids, evidence=True)
        found = np.concatenate(
            [output.requested_evidence.activations, output.requested_evidence.means], axis=1
        )
        np.testing.assert_allclose(output.logits, found @ kernel + bias, rtol=0, atol=1e-4)


@pytest.fixture
def device(monkeypatch):
    """Simulate an NVIDIA GPU and the devices that Keras sees."""

    def pretend(*seen):
        monkeypatch.setattr(backend, "has_nvidia_gpu", lambda: True)
        monkeypatch.setattr(keras.distribution, "list_devices", lambda: list(seen))

    return pretend


def test_auto_is_keras_where_that_has_a_gpu_and_compiled_for_single_texts(encoder_folder, device):
    folder, texts = saved(encoder_folder), tickets()[0]
    compiled = bertcnn.load(folder, engine="openvino")
    device("gpu:0", "cpu:0")
    on_gpu = bertcnn.load(folder)
    assert on_gpu.engine.name == "keras-bfloat16"
    assert np.mean(on_gpu.predict(texts) == compiled.predict(texts)) > 0.97
    assert bertcnn.load(folder, streams=1).engine.name == compiled.engine.name
    device("cpu:0")
    assert bertcnn.load(folder).engine.name == compiled.engine.name


CODE = """
import sys
from pathlib import Path
from bertcnn import backend
backend._DEVICES = (Path(sys.argv[1]),)
import bertcnn
print(bertcnn.load(sys.argv[2]).engine.name.split("-")[0], "keras" in sys.modules)
"""


@pytest.mark.parametrize(
    ("plugins", "imported"), [([], "False"), (list(backend._PLUGINS[:1]), "True")]
)
def test_keras_is_imported_only_where_jax_should_see_a_gpu(
    encoder_folder, tmp_path, plugins, imported
):
    for name in ("nvidiactl", *plugins):
        (tmp_path / name).mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "KERAS_BACKEND"}
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path / "nvidiactl"), str(saved(encoder_folder))],
        env={**environment, "CUDA_VISIBLE_DEVICES": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["openvino", imported]  # JAX finds no GPU here
