"""Encoders and tokenizers by name, and the vectors of texts."""

import numpy as np
import pytest

from bertcnn import load, load_encoder, load_tokenizer
from bertcnn.errors import EncoderError
from tests.tiny import saved

TEXTS = ["my router is dead", "refund"]


def test_a_name_gives_the_encoder_and_the_inputs_it_takes(minilm_folder):
    inputs = load_tokenizer("minilm-l6")(TEXTS)
    assert {name: values.dtype for name, values in inputs.items()} == dict.fromkeys(
        ("token_ids", "segment_ids", "padding_mask"), np.int32
    )
    assert inputs["padding_mask"].sum(axis=1).tolist() == [7, 4]
    by_name, by_folder = load_encoder("minilm-l6"), load_encoder(minilm_folder)
    vectors = np.asarray(by_name(inputs)["sequence_output"])
    assert vectors.shape == (2, 7, 384)
    np.testing.assert_array_equal(vectors, np.asarray(by_folder(inputs)["sequence_output"]))


def test_an_unknown_name_is_a_one_line_error():
    for function in (load_encoder, load_tokenizer):
        with pytest.raises(EncoderError) as caught:
            function("minilm-l7")
        assert "\n" not in str(caught.value)


def test_no_texts_are_an_empty_batch(encoder_folder):
    assert load_tokenizer(encoder_folder)([])["token_ids"].shape == (0, 0)


def test_a_model_gives_the_vector_of_each_text(encoder_folder):
    model = load(saved(encoder_folder))
    vectors = model.embed(TEXTS)
    assert vectors.shape == (2, model.bundle.config.encoder.width)
    np.testing.assert_allclose(model.embed(TEXTS[::-1])[::-1], vectors, atol=1e-4)
    assert not np.allclose(vectors[0], vectors[1])
