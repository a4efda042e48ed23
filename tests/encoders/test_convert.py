"""Published weights in: equal to Hugging Face's BertModel, and to KerasHub's as far as its GELU allows."""

import json
from pathlib import Path

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from bertcnn.data.batches import BatchPlan, pad
from bertcnn.encoders.convert import load_encoder, load_published, published_name, read_settings, read_tensors, read_tokenizer_settings
from bertcnn.errors import EncoderError
from bertcnn.models.bert import Bert
from bertcnn.models.weights import extract
from bertcnn.settings import EncoderSettings
from bertcnn.text.wordpiece import WordPieceTokenizer, read_vocabulary

GOLDEN = Path(__file__).parent.parent / "golden"
POOLER_SEED = 20181011  # as in golden/make_bert_golden.py
CLOSE = 1e-5
COMPILED_LENGTHS = (32, 128, 512)  # JAX compiles every shape


@pytest.fixture(scope="module")
def golden():
    with np.load(GOLDEN / "bert_golden.npz") as arrays:
        return dict(arrays)


@pytest.fixture(scope="module")
def batches():
    return json.loads((GOLDEN / "bert_texts.json").read_text(encoding="utf-8"))["batches"]


@pytest.fixture(scope="module")
def token_ids(minilm_folder, batches):
    return minilm_tokenizer(minilm_folder).encode([text for batch in batches for text in batch]).token_ids


def minilm_tokenizer(folder):
    return WordPieceTokenizer(read_vocabulary(folder / "vocab.txt"), read_tokenizer_settings(folder, 512))


def with_random_pooler(encoder):
    generator = np.random.default_rng(POOLER_SEED)
    width = encoder.settings.width
    kernel, bias = generator.normal(0, 0.05, (width, width)), generator.normal(0, 0.05, width)
    encoder.get_layer("pooler").set_weights([kernel.astype(np.float32), bias.astype(np.float32)])
    return encoder


def run(encoder, token_ids, rows):
    """The outputs for these rows in one batch: float [b, T, D] and [b, D]."""
    length = max(len(token_ids[row]) for row in rows)
    if keras.backend.backend() == "jax":
        length = next(compiled for compiled in COMPILED_LENGTHS if compiled >= length)
    batch = pad(token_ids, BatchPlan(np.array(rows), length, len(rows)))
    outputs = encoder.predict_on_batch(batch.inputs())
    return outputs["sequence_output"], outputs["pooled_output"]


@pytest.fixture(scope="module")
def minilm(minilm_folder):
    return with_random_pooler(load_encoder(minilm_folder))


@pytest.fixture(scope="module")
def in_batches(minilm, token_ids):
    """Per text: sequence_output float [T, D] and pooled_output float [D], each computed in a padded batch of 8."""
    found = []
    for start in range(0, len(token_ids), 8):
        rows = list(range(start, start + 8))
        sequence, pooled = run(minilm, token_ids, rows)
        found += [(sequence[place, : len(token_ids[row])], pooled[place]) for place, row in enumerate(rows)]
    return found


def test_padded_batches_equal_hugging_face(in_batches, token_ids, golden):
    counts = golden["id_counts"]
    expected_ids = np.split(golden["ids"], np.cumsum(counts)[:-1])[: len(token_ids)]
    assert len(token_ids) >= 50
    assert max(map(len, token_ids)) == 512
    for row, (sequence, pooled) in enumerate(in_batches):
        np.testing.assert_array_equal(token_ids[row], expected_ids[row])
        np.testing.assert_allclose(sequence[golden["positions"][row]], golden["sequence"][row], rtol=0, atol=CLOSE)
        np.testing.assert_allclose(sequence.mean(axis=0), golden["mean"][row], rtol=0, atol=CLOSE)
        np.testing.assert_allclose(pooled, golden["pooled"][row], rtol=0, atol=CLOSE)
