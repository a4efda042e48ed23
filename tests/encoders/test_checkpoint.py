"""Checkpoints by our tensor names, with their heads, and written again."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from bertcnn.encoders.checkpoint import (
    HEADS,
    EncoderCheckpoint,
    checkpoint_of,
    head_of,
    published_name,
    read_checkpoint,
)
from bertcnn.encoders.config import read_settings
from bertcnn.encoders.folder import Pieces, write_encoder
from bertcnn.encoders.layout import check_layout
from bertcnn.errors import EncoderError
from bertcnn.settings import EncoderSettings
from bertcnn.shapes import pretraining_shapes
from bertcnn.text.tokenizer_settings import read_tokenizer_settings

VOCABULARY = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "Rome", "is", "##s")
SETTINGS = EncoderSettings(
    vocabulary_size=len(VOCABULARY),
    width=4,
    layers=2,
    heads=2,
    feed_forward_width=6,
    max_positions=5,
)


def random_tensors(settings=SETTINGS, heads=HEADS):
    generator = np.random.default_rng(0)
    shapes = {
        name: shape
        for name, shape in pretraining_shapes(settings).items()
        if head_of(name) in (None, *heads)
    }
    return {name: generator.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def published(tensors):
    return {
        published_name(name): (value.T if name.endswith("/kernel") else value).copy()
        for name, value in tensors.items()
    }


def same(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.mark.parametrize(
    "heads",
    [(), ("pooler",), ("mlm",), ("pooler", "mlm"), HEADS],
    ids=lambda heads: "-".join(heads) or "none",
)
def test_what_is_written_is_read_again_with_the_heads_there_are(tmp_path, heads):
    tensors = random_tensors(heads=heads)
    write_encoder(
        tmp_path, EncoderCheckpoint(SETTINGS, tensors), Pieces(VOCABULARY, lowercase=False)
    )
    check_layout(tmp_path)
    found = read_checkpoint(tmp_path)
    assert found.heads == heads
    assert found.settings == SETTINGS
    same(found.tensors, tensors)
    assert not read_tokenizer_settings(tmp_path).lowercase


@pytest.mark.parametrize("positions", ["interleaved", "concatenated"])
def test_sinusoids_are_still_sinusoids_when_read_again(tmp_path, positions):
    settings = SETTINGS.model_copy(update={"positions": positions})
    write_encoder(
        tmp_path, EncoderCheckpoint(settings, random_tensors()), Pieces(VOCABULARY, lowercase=True)
    )
    assert read_settings(tmp_path) == settings


def test_a_folder_of_a_later_format_is_refused(tmp_path):
    write_encoder(
        tmp_path, EncoderCheckpoint(SETTINGS, random_tensors()), Pieces(VOCABULARY, lowercase=True)
    )
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "bertcnn": {"format": 2}}))
    with pytest.raises(EncoderError, match=r"has bertcnn .*'format': 2.*; expected format 1"):
        read_settings(tmp_path)


def test_the_names_are_those_hugging_face_looks_for(tmp_path):
    write_encoder(
        tmp_path, EncoderCheckpoint(SETTINGS, random_tensors()), Pieces(VOCABULARY, lowercase=True)
    )
    names = load_file(tmp_path / "model.safetensors").keys()
    assert {
        "bert.encoder.layer.1.output.dense.weight",
        "cls.predictions.bias",
        "cls.seq_relationship.weight",
    } <= names
    assert json.loads((tmp_path / "config.json").read_text())["architectures"] == [
        "BertForPreTraining"
    ]


def test_a_head_in_part_is_refused_by_name():
    tensors = published(random_tensors())
    del tensors["cls.predictions.transform.LayerNorm.bias"]
    with pytest.raises(
        EncoderError,
        match=r"without 'cls\.predictions\.transform\.LayerNorm\.bias'.* heads that are whole",
    ):
        checkpoint_of(SETTINGS, tensors)


def test_a_decoder_of_its_own_is_no_mlm_head():
    tensors = published(random_tensors())
    tied = {
        **tensors,
        "cls.predictions.decoder.weight": tensors["embeddings.word_embeddings.weight"],
    }
    assert checkpoint_of(SETTINGS, tied).heads == HEADS
    untied = {
        **tensors,
        "cls.predictions.decoder.weight": tensors["embeddings.word_embeddings.weight"] + 1,
    }
    assert checkpoint_of(SETTINGS, untied).heads == ("pooler", "nsp")


def test_the_biases_other_name_is_understood(tmp_path):
    tensors = published(random_tensors())
    expected = tensors.pop("cls.predictions.bias")
    tensors["cls.predictions.decoder.bias"] = expected
    np.testing.assert_array_equal(checkpoint_of(SETTINGS, tensors).tensors["mlm/bias"], expected)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "weights.pt", "weights.pkl", "model.pth"])
def test_pickled_weights_are_refused_with_advice(tmp_path, name):
    write_encoder(
        tmp_path, EncoderCheckpoint(SETTINGS, random_tensors()), Pieces(VOCABULARY, lowercase=True)
    )
    (tmp_path / "model.safetensors").rename(tmp_path / name)
    for path, words in (
        (tmp_path, f"only as {name}"),
        (tmp_path / name, f"{name} is a pickle file"),
    ):
        with pytest.raises(
            EncoderError,
            match=(
                rf"{words}, which can run code when it is"
                r" opened.*AutoModelForPreTraining.*save_pretrained"
            ),
        ):
            check_layout(path)


def test_pickled_weights_beside_sound_ones_do_not_matter(tmp_path):
    write_encoder(
        tmp_path, EncoderCheckpoint(SETTINGS, random_tensors()), Pieces(VOCABULARY, lowercase=True)
    )
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    check_layout(tmp_path)
    save_file({}, tmp_path / "model.safetensors")
    with pytest.raises(EncoderError, match=r"without 'embeddings\.word_embeddings\.weight'"):
        read_checkpoint(tmp_path)


def test_weights_in_bfloat16_are_read_as_float32(tmp_path):
    write_encoder(
        tmp_path, EncoderCheckpoint(SETTINGS, random_tensors()), Pieces(VOCABULARY, lowercase=True)
    )
    published = load_file(tmp_path / "model.safetensors")
    save_file(
        {name: tensor.astype("bfloat16") for name, tensor in published.items()},
        tmp_path / "model.safetensors",
    )
    for name, tensor in read_checkpoint(tmp_path).tensors.items():
        assert tensor.dtype == np.float32
        np.testing.assert_allclose(tensor, random_tensors()[name], rtol=2**-8)
