"""Encoders with their tokenizers, and embeddings of texts."""

import json
from pathlib import Path

import keras
import numpy as np
import pytest

from bertcnn import Bert, WordPieceTokenizer, load, load_encoder
from bertcnn.bundle import read_bundle
from bertcnn.errors import EncoderError, SettingsError
from bertcnn.inference.keras_engine import classifier_of
from tests.tiny import saved

TEXTS = ["my router is dead", "refund", "", "the router is on fire and the bill is wrong"]
GOLDEN = Path(__file__).parent.parent / "golden"


def test_a_name_gives_the_encoder_and_the_inputs_it_takes(minilm_folder):
    by_name, by_folder = load_encoder("minilm-l6"), load_encoder(minilm_folder)
    inputs = by_name.tokenizer(TEXTS[:2])
    assert {name: values.dtype for name, values in inputs.items()} == dict.fromkeys(
        ("token_ids", "segment_ids", "padding_mask"), np.int32
    )
    assert inputs["padding_mask"].sum(axis=1).tolist() == [7, 4]
    vectors = np.asarray(by_name(inputs)["sequence_output"])
    assert vectors.shape == (2, 7, 384)
    np.testing.assert_array_equal(vectors, np.asarray(by_folder(inputs)["sequence_output"]))


def test_an_unknown_name_is_a_one_line_error():
    with pytest.raises(EncoderError) as caught:
        load_encoder("minilm-l7")
    assert "\n" not in str(caught.value)


# === WordPieceTokenizer.from_folder ===


def test_a_folder_gives_its_tokenizer(encoder_folder):
    tokenizer = WordPieceTokenizer.from_folder(str(encoder_folder))
    assert tokenizer.settings.max_tokens == load_encoder(encoder_folder).settings.max_positions
    encoder = load_encoder(encoder_folder)
    assert encoder(tokenizer(TEXTS))["pooled_output"].shape == (4, encoder.settings.width)
    assert tokenizer([])["token_ids"].shape == (0, 0)


def test_the_longest_input_may_be_shorter_and_a_text_may_be_a_pair(encoder_folder):
    tokenizer = WordPieceTokenizer.from_folder(encoder_folder, max_tokens=6)
    assert tokenizer([" ".join(TEXTS)])["token_ids"].shape == (1, 6)
    tokenizer = WordPieceTokenizer.from_folder(encoder_folder, pair=True)
    assert tokenizer(["router\nbill"])["segment_ids"].max() == 1


def test_one_string_is_refused(encoder_folder):
    with pytest.raises(SettingsError, match="one string; expected a list of strings"):
        WordPieceTokenizer.from_folder(encoder_folder)("my router is dead")


def test_a_folder_that_is_no_encoder_is_refused_in_one_line(encoder_folder, tmp_path):
    for folder in (tmp_path, saved(encoder_folder)):
        with pytest.raises(EncoderError, match=r"config\.json") as caught:
            WordPieceTokenizer.from_folder(folder)
        assert "\n" not in str(caught.value)


# === embed ===


def test_embeddings_equal_hugging_faces(minilm_folder):
    batches = json.loads((GOLDEN / "bert_texts.json").read_text(encoding="utf-8"))["batches"]
    texts = [text for batch in batches for text in batch]
    encoder = load_encoder(minilm_folder)
    with np.load(GOLDEN / "bert_golden.npz") as golden:
        means, positions, sequence = (golden[name] for name in ("mean", "positions", "sequence"))
    np.testing.assert_allclose(encoder.embed(texts), means, rtol=0, atol=1e-5)
    tokens = encoder.embed(texts, pool="none")
    for vectors, places, expected in zip(tokens, positions, sequence, strict=True):
        np.testing.assert_allclose(vectors[places], expected, rtol=0, atol=1e-5)


def test_an_encoder_embeds_with_its_current_weights(encoder_folder):
    encoder = load_encoder(encoder_folder)
    before = encoder.embed(TEXTS)
    assert before.dtype == np.float32
    encoder.get_layer("embeddings").normalize.beta.assign_add(np.ones(encoder.settings.width))
    after = encoder.embed(TEXTS)
    assert np.abs(after - before).max() > 0.01
    inputs = encoder.tokenizer(TEXTS)
    output, mask = np.asarray(encoder(inputs)["sequence_output"]), inputs["padding_mask"] > 0
    tokens = encoder.embed(TEXTS, pool="none")
    for row, vectors in enumerate(tokens):
        assert vectors.dtype == np.float32
        np.testing.assert_allclose(vectors, output[row][mask[row]], rtol=0, atol=1e-5)
        np.testing.assert_allclose(vectors.mean(axis=0), after[row], rtol=0, atol=1e-6)


def test_no_texts_have_no_embeddings(encoder_folder):
    encoder, model = load_encoder(encoder_folder), load(saved(encoder_folder))
    for one in (encoder, model):
        assert one.embed([]).shape == (0, encoder.settings.width)
        assert one.embed([], pool="none") == []


def test_unusable_input_of_embed_is_refused_in_one_line(encoder_folder):
    encoder, model = load_encoder(encoder_folder), load(saved(encoder_folder))
    for one in (encoder, model):
        with pytest.raises(SettingsError, match="pool 'max'; expected 'mean' for one vector"):
            one.embed(TEXTS, pool="max")
        with pytest.raises(SettingsError, match="one string"):
            one.embed("refund")
    with pytest.raises(SettingsError, match=r"without a tokenizer.*from_folder\(folder\)"):
        Bert(encoder.settings).embed(TEXTS)


def test_an_encoder_from_a_keras_file_takes_its_tokenizer_again(encoder_folder, tmp_path):
    encoder = load_encoder(encoder_folder)
    encoder.save(tmp_path / "encoder.keras")
    again = keras.saving.load_model(tmp_path / "encoder.keras")
    again.tokenizer = WordPieceTokenizer.from_folder(encoder_folder)
    np.testing.assert_array_equal(again.embed(TEXTS), encoder.embed(TEXTS))


@pytest.mark.parametrize("engine", ["auto", "keras"])
def test_a_model_embeds_as_its_keras_network(encoder_folder, engine):
    folder = saved(encoder_folder)
    model, network = load(folder, engine=engine), classifier_of(read_bundle(folder))
    means, tokens = model.embed(TEXTS), model.embed(TEXTS, pool="none")
    assert means.dtype == np.float32
    inputs = WordPieceTokenizer(model.bundle.vocabulary, model.bundle.config.tokenizer)(TEXTS)
    hidden = keras.Model(network.input, network.encoder_output).predict_on_batch(inputs)
    for row, vectors in enumerate(tokens):
        assert vectors.dtype == np.float32
        expected = hidden[row][inputs["padding_mask"][row] > 0]
        np.testing.assert_allclose(vectors, expected, rtol=0, atol=1e-5)
        cosine = means[row] @ expected.mean(axis=0)
        cosine /= np.linalg.norm(means[row]) * np.linalg.norm(expected.mean(axis=0))
        assert cosine > 0.99  # the engine may be int8
    np.testing.assert_allclose(model.embed(TEXTS[::-1])[::-1], means, atol=1e-4)
