"""Token embeddings, as computed on a CPU and on a GPU."""

import keras
import numpy as np
import pytest

from bertcnn.doctor import out_of_fold
from bertcnn.encoders import fetch_encoder, load_encoder
from bertcnn.inference import fastest_embed, keras_embed, mean_embeddings
from bertcnn.progress import Silent
from tests.tickets import tickets


@pytest.fixture
def gpu(monkeypatch):
    """Make Keras report a GPU; the CPU does the work."""
    return lambda: monkeypatch.setattr(keras.distribution, "list_devices", lambda: ["cuda:0"])


@pytest.fixture
def token_ids():
    generator = np.random.default_rng(0)
    lengths = generator.integers(2, 24, 40)
    return [generator.integers(1, 150, length).astype(np.int32) for length in lengths]


@pytest.mark.on_jax
def test_a_gpu_gives_nearly_equal_float32_embeddings_of_the_current_weights(
    encoder_folder, token_ids, gpu
):
    encoder, found = load_encoder(encoder_folder), {}

    def store(rows, hidden):
        found.update(zip(rows.tolist(), hidden, strict=False))  # without fillers

    embed = keras_embed(encoder)
    for weight in encoder.trainable_weights[:3]:
        weight.assign(weight + 0.1)
    embed(token_ids, store)
    expected = dict(found)
    gpu()
    embed(token_ids, store)
    assert found.keys() == set(range(len(token_ids)))
    for row, ids in enumerate(token_ids):
        assert found[row].dtype == np.float32
        difference = found[row][: len(ids)] - expected[row][: len(ids)]
        assert 0 < np.abs(difference).max() < 0.1


@pytest.mark.on_jax
def test_the_device_decides_who_computes(encoder_folder, token_ids, gpu):
    encoder = load_encoder(encoder_folder)
    width = encoder.settings.width
    on_cpu = mean_embeddings(fastest_embed(encoder, 0), token_ids, width)
    in_float32 = mean_embeddings(keras_embed(encoder), token_ids, width)
    np.testing.assert_allclose(on_cpu, in_float32, rtol=0, atol=1e-5)
    gpu()
    on_gpu = mean_embeddings(fastest_embed(encoder, 0), token_ids, width)
    assert 1e-4 < np.abs(on_gpu - in_float32).max() < 0.05


def test_the_doctor_reads_texts_on_a_gpu_too(encoder_folder, gpu, monkeypatch):
    fetched, texts = fetch_encoder(encoder_folder, progress=Silent()), tickets()[0]
    compiled = out_of_fold.unit_embeddings(fetched, texts, Silent())
    monkeypatch.setattr(out_of_fold, "keras_has_gpu", lambda: True)
    gpu()
    found = out_of_fold.unit_embeddings(fetched, texts, Silent())
    assert (found != compiled).any()
    assert (found * compiled).sum(axis=1).min() > 0.999
