"""Converted published weights, compared with Hugging Face's BertModel."""

import json
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from bertcnn.data.batches import BatchPlan, pad
from bertcnn.encoders import load_encoder, load_published
from bertcnn.errors import EncoderError
from bertcnn.models import Bert, extract
from bertcnn.text.wordpiece import WordPieceTokenizer

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
    return (
        minilm_tokenizer(minilm_folder)
        .encode([text for batch in batches for text in batch])
        .token_ids
    )


def minilm_tokenizer(folder):
    return WordPieceTokenizer.from_folder(folder)


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
    """Per text: sequence_output float [T, D] and pooled_output float [D], in batches of 8."""
    found = []
    for start in range(0, len(token_ids), 8):
        batch = range(start, min(start + 8, len(token_ids)))
        sequence, pooled = run(minilm, token_ids, batch)
        found += [
            (sequence[place, : len(token_ids[row])], pooled[place])
            for place, row in enumerate(batch)
        ]
    return found


@pytest.mark.on_jax
def test_padded_batches_equal_hugging_face(in_batches, token_ids, golden):
    counts = golden["id_counts"]
    expected_ids = np.split(golden["ids"], np.cumsum(counts)[:-1])[: len(token_ids)]
    assert len(token_ids) >= 50
    assert max(map(len, token_ids)) == 512
    for row, (sequence, pooled) in enumerate(in_batches):
        np.testing.assert_array_equal(token_ids[row], expected_ids[row])
        np.testing.assert_allclose(
            sequence[golden["positions"][row]], golden["sequence"][row], rtol=0, atol=CLOSE
        )
        np.testing.assert_allclose(sequence.mean(axis=0), golden["mean"][row], rtol=0, atol=CLOSE)
        np.testing.assert_allclose(pooled, golden["pooled"][row], rtol=0, atol=CLOSE)


def test_a_text_alone_and_in_a_padded_batch_get_the_same_vectors(
    minilm, in_batches, token_ids, golden
):
    # float32 sums in another order; Hugging Face's own differ by up to 6e-6
    rounding = 1e-6 * np.abs(golden["sequence"]).max()
    for row, (sequence, pooled) in enumerate(in_batches):
        alone, pooled_alone = run(minilm, token_ids, [row])
        np.testing.assert_allclose(alone[0, : len(token_ids[row])], sequence, rtol=0, atol=rounding)
        np.testing.assert_allclose(pooled_alone[0], pooled, rtol=0, atol=rounding)


# === Weights ===


@pytest.fixture
def folder(encoder_folder, tmp_path):
    """A copy of the tiny encoder to damage."""
    return Path(shutil.copytree(encoder_folder, tmp_path / "copy"))


@pytest.fixture
def tensors(encoder_folder):
    return load_file(encoder_folder / "model.safetensors")


@pytest.fixture(scope="module")
def tiny(encoder_folder):
    return load_encoder(encoder_folder)


def test_old_names_and_those_of_larger_models_are_understood(folder, tensors, tiny):
    old = {
        f"bert.{name}".replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor
        for name, tensor in tensors.items()
    }
    save_file(
        {**old, "cls.predictions.bias": np.zeros(7, np.float32)}, folder / "model.safetensors"
    )
    loaded = load_encoder(folder)
    for ours, expected in zip(loaded.weights, tiny.weights, strict=True):
        np.testing.assert_array_equal(ours.numpy(), expected.numpy())


def test_a_checkpoint_without_pooler_leaves_ours_as_it_is(tiny, tensors):
    encoder = Bert(tiny.settings, seed=1)
    before = extract(encoder.weights)
    absent = load_published(
        encoder,
        {name: tensor for name, tensor in tensors.items() if not name.startswith("pooler.")},
    )
    assert sorted(absent) == ["pooler/bias", "pooler/kernel"]
    after, wanted = extract(encoder.weights), extract(tiny.weights)
    for name, value in after.items():
        np.testing.assert_array_equal(value, (before if name in absent else wanted)[name])


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "encoder.layer.1.output.dense.weight",
            None,
            r"without 'encoder\.layer\.1\.output\.dense\.weight' \(it starts with",
        ),
        (
            "embeddings.position_embeddings.weight",
            np.zeros((65, 16), np.float32),
            r"'embeddings/positions' has the shape \(65, 16\); expected \(64, 16\)",
        ),
    ],
    ids=["missing", "shape"],
)
def test_a_wrong_tensor_is_named_and_nothing_changes(tiny, tensors, name, value, message):
    before = tiny.get_weights()
    changed = {key: tensor + 1 for key, tensor in tensors.items() if key != name}
    if value is not None:
        changed[name] = value
    with pytest.raises(EncoderError, match=message):
        load_published(tiny, changed)
    np.testing.assert_array_equal(tiny.get_weights()[0], before[0])
