"""Training on the word pieces that occur."""

import numpy as np

from bertcnn.models.weights import extract
from bertcnn.settings import FULL
from bertcnn.training.vocabulary_pruning import on_used_pieces, put_back, renumbered


def test_the_smaller_encoder_answers_alike_and_gives_back_what_it_has(
    make_rows, tiny_encoder, token_examples
):
    rows, encoder = make_rows(6, 0), tiny_encoder()
    small, used = on_used_pieces(encoder, rows.token_ids, FULL.attention_dropout)
    assert small.settings.vocabulary_size == len(used) < encoder.settings.vocabulary_size
    ids = renumbered(rows.token_ids, used)
    for mine, theirs in zip(ids, rows.token_ids, strict=True):
        found, expected = (
            model(
                {
                    "token_ids": one[None],
                    "segment_ids": 0 * one[None],
                    "padding_mask": 0 * one[None] + 1,
                }
            )
            for model, one in ((small, mine), (encoder, theirs))
        )
        np.testing.assert_allclose(
            found["sequence_output"], expected["sequence_output"], rtol=0, atol=1e-5
        )
    before = extract(encoder.weights)
    for weight in small.weights:
        weight.assign(weight + 1.0)
    put_back(encoder, small, used)
    for name, value in extract(encoder.weights).items():
        expected = before[name] + 1.0
        if name == "embeddings/tokens":
            expected = before[name].copy()
            expected[used] += 1.0
        np.testing.assert_array_equal(value, expected.astype(np.float32), err_msg=name)


def test_the_smaller_encoder_computes_in_the_precision_that_is_asked_for(make_rows, tiny_encoder):
    encoder, token_ids = tiny_encoder(), make_rows(6, 0).token_ids
    small, _ = on_used_pieces(encoder, token_ids, 0.0, policy="mixed_bfloat16")
    layer = small.get_layer("layer_0")
    assert (layer.compute_dtype, layer.variable_dtype) == ("bfloat16", "float32")
    small, _ = on_used_pieces(encoder, token_ids, 0.0)
    assert small.get_layer("layer_0").compute_dtype == "float32"
