"""The encoder as a whole."""

import re

import keras
import numpy as np
import pytest

from bertcnn.errors import SettingsError
from bertcnn.models.bert import Bert
from bertcnn.settings import EncoderSettings

VOCABULARY, WIDTH, LAYERS, HEADS, INNER = 50, 16, 2, 2, 32
SETTINGS = EncoderSettings(
    vocabulary_size=VOCABULARY,
    width=WIDTH,
    layers=LAYERS,
    heads=HEADS,
    feed_forward_width=INNER,
    max_positions=12,
)
TOKEN_IDS = np.random.default_rng(0).integers(0, VOCABULARY, (3, 7)).astype(np.int32)
INPUTS = {
    "token_ids": TOKEN_IDS,
    "segment_ids": np.zeros_like(TOKEN_IDS),
    "padding_mask": np.ones_like(TOKEN_IDS),
}


# Devlin et al. 2019 (base, large) and the published checkpoints of the others
@pytest.mark.parametrize(
    ("size", "weights"),
    [
        ("tiny", 4_385_920),
        ("mini", 11_170_560),
        ("small", 28_763_648),
        ("medium", 41_373_184),
        ("base", 109_482_240),
        ("large", 335_141_888),
    ],
)
def test_the_released_sizes_have_the_published_number_of_weights(size, weights):
    shape = EncoderSettings.of_size(size)
    assert shape.parameters == weights
    try:
        with keras.StatelessScope(initialize_variables=False):  # the weights are not initialised
            assert Bert(shape).count_params() == weights
    finally:
        # nor later: Keras keeps a list of uninitialised variables
        keras.utils.clear_session(free_memory=False)


def test_a_size_google_did_not_release_is_refused():
    with pytest.raises(SettingsError, match="the size 'huge'; expected one of tiny, mini, small"):
        EncoderSettings.of_size("huge")


def test_another_seed_makes_other_weights_everywhere():
    one, other = Bert(SETTINGS, seed=0), Bert(SETTINGS, seed=1)
    for first, second in zip(one.trainable_weights, other.trainable_weights, strict=True):
        assert np.array_equal(first.numpy(), second.numpy()) == first.path.endswith(
            ("bias", "gamma", "beta")
        ), first.path


def test_no_two_weights_start_equal():
    values = [
        weight.numpy()
        for weight in Bert(SETTINGS).trainable_weights
        if not weight.path.endswith(("bias", "gamma", "beta"))
    ]
    assert len({value.ravel()[:8].tobytes() for value in values}) == len(values)


@pytest.mark.parametrize(
    "policy", [pytest.param("mixed_bfloat16", marks=pytest.mark.on_jax), "mixed_float16"]
)
def test_it_runs_in_half_precision(policy):
    full, half = Bert(SETTINGS), Bert(SETTINGS, dtype=policy)
    outputs = half(INPUTS)
    assert {keras.backend.standardize_dtype(output.dtype) for output in outputs.values()} == {
        policy.removeprefix("mixed_")
    }
    found = keras.ops.cast(outputs["sequence_output"], "float32")
    np.testing.assert_allclose(found, full(INPUTS)["sequence_output"], atol=0.1)


def packed_row(documents, length):
    """Inputs of a packed encoder: one row of concatenated documents, then padding."""
    row = {
        name: np.zeros((1, length), np.int32)
        for name in ("token_ids", "segment_ids", "document_ids", "position_ids")
    }
    start = 0
    for number, tokens in enumerate(documents, 1):
        place = slice(start, start + len(tokens))
        row["token_ids"][0, place], row["document_ids"][0, place] = tokens, number
        row["position_ids"][0, place], row["segment_ids"][0, place] = (
            np.arange(len(tokens)),
            np.arange(len(tokens)) > len(tokens) // 2,
        )
        start += len(tokens)
    return row


def alone(tokens):
    """The same for an unpacked encoder and one document."""
    segments = (np.arange(len(tokens)) > len(tokens) // 2).astype(np.int32)
    return {
        "token_ids": tokens[None],
        "segment_ids": segments[None],
        "padding_mask": np.ones_like(tokens)[None],
    }


@pytest.mark.on_jax
def test_packed_documents_get_the_same_vectors_as_alone():
    generator = np.random.default_rng(1)
    lengths = (
        (12,),
        (4, 7),
        (1, 4, 1, 4, 1),
        (7,),
        (4, 4, 4),
    )  # few different ones: JAX compiles every operation for each
    rows = [
        [generator.integers(1, VOCABULARY, length).astype(np.int32) for length in row]
        for row in lengths
    ]
    packed, unpacked = Bert(SETTINGS, packed=True, seed=2), Bert(SETTINGS, seed=2)
    for weight in unpacked.weights:  # initial weights hardly attend to anything
        weight.assign(
            generator.normal(1 if weight.path.endswith("gamma") else 0, 0.3, weight.shape)
        )
    packed.set_weights(unpacked.get_weights())
    inputs = {
        name: np.concatenate([packed_row(row, 12)[name] for row in rows])
        for name in packed_row([], 12)
    }
    found = packed(inputs)
    sequence = np.asarray(found["sequence_output"])
    assert np.isfinite(sequence).all()
    for row, documents in enumerate(rows):
        start = 0
        for tokens in documents:
            expected = unpacked(alone(tokens))
            np.testing.assert_allclose(
                sequence[row, start : start + len(tokens)],
                expected["sequence_output"][0],
                rtol=0,
                atol=1e-5,
            )
            pooled = packed.pooler(found["sequence_output"][row : row + 1, start])
            np.testing.assert_allclose(pooled, expected["pooled_output"], rtol=0, atol=1e-5)
            start += len(tokens)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("packed", [False, True])
def test_config_makes_the_same_network_again(packed, dtype):
    encoder = Bert(SETTINGS, packed=packed, dtype=dtype, seed=4, name="bert")
    twin = Bert.from_config(encoder.get_config())
    assert twin.get_config() == encoder.get_config()
    assert twin.get_layer("layer_1").dtype_policy.name == dtype
    inputs = packed_row([np.arange(5, 9)], 12) if packed else INPUTS
    found = twin(inputs)["sequence_output"]
    assert keras.backend.standardize_dtype(found.dtype) == dtype.removeprefix("mixed_")
    found, expected = (
        np.asarray(keras.ops.cast(one, "float32"))
        for one in (found, encoder(inputs)["sequence_output"])
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.on_jax
@pytest.mark.parametrize("positions", ["learned", "interleaved", "concatenated"])
def test_padding_and_neighbours_do_not_change_a_row(positions):
    encoder = Bert(SETTINGS.model_copy(update={"positions": positions}), seed=3)
    generator = np.random.default_rng(2)
    lengths = (1, 4, 7, 12)
    rows = [generator.integers(1, VOCABULARY, length).astype(np.int32) for length in lengths]
    batch = {name: np.zeros((len(rows), 12), np.int32) for name in INPUTS}
    # not even the content of padding may matter
    batch["token_ids"][:] = generator.integers(1, VOCABULARY, batch["token_ids"].shape)
    for row, tokens in enumerate(rows):
        for name, values in alone(tokens).items():
            batch[name][row, : len(tokens)] = values[0]
    together = encoder(batch)
    for row, tokens in enumerate(rows):
        single = encoder(alone(tokens))
        found = np.asarray(together["sequence_output"])[row, : len(tokens)]
        np.testing.assert_allclose(found, single["sequence_output"][0], rtol=0, atol=1e-6)
        np.testing.assert_allclose(
            together["pooled_output"][row], single["pooled_output"][0], rtol=0, atol=1e-6
        )


def kinds_of_numbers(function):
    """The dtypes of softmax, normalisation and matrix products in a function without arguments."""
    if keras.backend.backend() == "jax":
        import jax

        names = {"exp": "softmax", "rsqrt": "normalisation", "dot_general": "product"}
        steps = str(jax.make_jaxpr(function)())
        return {
            (names[name], kind)
            for kind, name in re.findall(r":(\w+)\[[^\]]*\] = (exp|rsqrt|dot_general)\b", steps)
        }
    import tensorflow as tf

    nodes = tf.function(function).get_concrete_function().graph.get_operations()
    names = {"Softmax": "softmax", "Rsqrt": "normalisation"}
    names |= dict.fromkeys(("MatMul", "BatchMatMulV2"), "product")
    short = {"float32": "f32", "bfloat16": "bf16"}
    return {
        (names[node.type], short[node.outputs[0].dtype.name])
        for node in nodes
        if node.type in names
    }


@pytest.mark.on_jax
def test_softmax_and_normalisation_are_in_float32_where_products_are_in_bfloat16():
    encoder = Bert(SETTINGS, dtype="mixed_bfloat16")
    found = kinds_of_numbers(lambda: encoder(INPUTS)["sequence_output"])
    assert found == {("softmax", "f32"), ("normalisation", "f32"), ("product", "bf16")}
