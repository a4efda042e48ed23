"""BERT with the CNN head."""

import os
import subprocess
import sys

import keras
import numpy as np

from bertcnn.models.bert import Bert
from bertcnn.models.classifier import BertCnn, CnnHead, build_classifier
from bertcnn.settings import EncoderSettings, HeadSettings

CLASSES, WIDTH, FILTERS, WINDOWS = 3, 8, 4, (1, 2)
ENCODER = EncoderSettings(
    vocabulary_size=20, width=WIDTH, layers=2, heads=2, feed_forward_width=12, max_positions=8
)
HEAD = HeadSettings(window_sizes=WINDOWS, filters=FILTERS)
TOKEN_IDS = np.random.default_rng(0).integers(1, 20, (3, 6)).astype(np.int32)
MASK = (np.arange(6) < np.array([[6], [4], [2]])).astype(np.int32)
INPUTS = {"token_ids": TOKEN_IDS, "segment_ids": np.zeros_like(TOKEN_IDS), "padding_mask": MASK}


def test_the_classifier_has_no_pooler():
    model = build_classifier(ENCODER, HEAD, CLASSES)
    assert not [weight.path for weight in model.weights if "pooler" in weight.path]
    assert len({weight.path for weight in model.weights}) == len(model.weights)


def test_config_makes_the_same_network_again():
    model = build_classifier(ENCODER, HEAD, CLASSES, seed=7)
    twin = BertCnn.from_config(model.get_config())
    assert twin.get_config() == model.get_config()
    np.testing.assert_array_equal(twin(INPUTS), model(INPUTS))


def test_only_low_rank_matrices_are_trained_and_they_are_merged_when_saved(tmp_path):
    encoder = Bert(ENCODER)
    kernels = [encoder.get_layer(f"layer_{number}").attention.query for number in range(2)]
    full = BertCnn(encoder, CnnHead(WIDTH, CLASSES, HEAD, seed=1))
    before = np.array(full(INPUTS))
    for weight in encoder.weights:
        weight.trainable = False
    for kernel in kernels:
        kernel.enable_lora(rank=2)
    model = BertCnn(encoder, full.head)
    np.testing.assert_array_equal(model(INPUTS), before)  # the product starts at 0
    thin = {weight.path for weight in model.trainable_weights} - {
        weight.path for weight in model.head.weights
    }
    assert {path.rpartition("/")[2] for path in thin} == {"lora_kernel_a", "lora_kernel_b"}
    assert len(thin) == 2 * len(kernels)

    frozen = [np.array(weight) for weight in encoder.weights if not weight.trainable]
    model.compile(keras.optimizers.Adam(0.1), "mse", run_eagerly=True)
    for _ in range(2):  # while one matrix is 0, the other has no gradient
        model.train_on_batch(INPUTS, np.ones((3, CLASSES)))
    for weight, value in zip(
        [weight for weight in encoder.weights if not weight.trainable], frozen, strict=True
    ):
        np.testing.assert_array_equal(weight, value)
    assert all(np.any(kernel.lora_kernel_b) for kernel in kernels)

    model.save(tmp_path / "own.keras")
    loaded = keras.saving.load_model(tmp_path / "own.keras", compile=False)
    assert not [weight.path for weight in loaded.weights if "lora" in weight.path]
    np.testing.assert_allclose(loaded(INPUTS), model(INPUTS), rtol=0, atol=1e-6)
    assert np.abs(loaded(INPUTS) - before).max() > 0.01


def test_the_config_of_a_packed_head_keeps_documents_and_precision():
    head = CnnHead(WIDTH, CLASSES, HEAD, dtype="mixed_bfloat16").rebuilt(3)
    twin = CnnHead.from_config(head.get_config())
    assert twin.get_config() == head.get_config()
    assert twin.output.shape == (None, 3, CLASSES)
    for dtype, one in (("bfloat16", twin), ("float32", CnnHead(WIDTH, CLASSES, HEAD).rebuilt(3))):
        assert one.get_layer("convolution_2").compute_dtype == dtype


def test_a_logit_is_the_sum_of_bias_filters_and_mean():
    model = build_classifier(ENCODER, HEAD, CLASSES)
    weights = {weight.path: weight.numpy() for weight in model.head.weights}
    hidden = np.asarray(keras.Model(model.input, model.get_layer("layer_1").output)(INPUTS))
    for row, length in enumerate(MASK.sum(axis=1)):
        real = np.pad(hidden[row, :length], ((0, max(WINDOWS)), (0, 0)))
        features = []
        for window in WINDOWS:
            kernel, bias = (
                weights[f"convolution_{window}/kernel"],
                weights[f"convolution_{window}/bias"],
            )
            windows = [
                np.tensordot(real[start : start + window], kernel, 2) + bias
                for start in range(length)
            ]
            features.append(np.maximum(windows, 0).max(axis=0))
        features.append(hidden[row, :length].mean(axis=0))
        expected = np.concatenate(features) @ weights["logits/kernel"] + weights["logits/bias"]
        np.testing.assert_allclose(model(INPUTS)[row], expected, rtol=0, atol=1e-5)


def test_config_keeps_the_precision_of_encoder_and_head_and_logits_are_float32():
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = build_classifier(ENCODER, HEAD, CLASSES)
    finally:
        keras.config.set_dtype_policy(policy)
    twin = BertCnn.from_config(model.get_config())
    for layer in (twin.get_layer("layer_1"), twin.head.get_layer("convolution_2")):
        assert layer.compute_dtype == "bfloat16"
    logits = twin(INPUTS)
    assert keras.backend.standardize_dtype(logits.dtype) == "float32"
    np.testing.assert_array_equal(logits, model(INPUTS))


def test_a_classifier_on_jax_does_not_import_tensorflow():
    """TensorFlow takes seconds to import, and Keras imports it to serialise a dtype policy."""
    program = """
import sys
from bertcnn.models.classifier import build_classifier
from bertcnn.settings import EncoderSettings, HeadSettings
shape = EncoderSettings(vocabulary_size=9, width=4, layers=1, heads=1, feed_forward_width=4)
build_classifier(shape, HeadSettings(filters=2), 2, dtype="mixed_bfloat16").get_config()
sys.exit("tensorflow" in sys.modules)
"""
    environment = {**os.environ, "KERAS_BACKEND": "jax"}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


def test_keras_compile_and_fit_work():
    model, labels = build_classifier(ENCODER, HEAD, CLASSES), np.array([0, 1, 2])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.AdamW(1e-2), loss, metrics=["accuracy"], jit_compile=True)
    epochs = model.fit(INPUTS, labels, epochs=20, verbose=0).history
    assert epochs["loss"][-1] < 0.1 < epochs["loss"][0]
    assert epochs["accuracy"][-1] == 1.0
