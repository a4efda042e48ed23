"""Checkpoints by our tensor names, with their heads, and written again."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from bertcnn.encoders import Pieces, read_settings, write_encoder
from bertcnn.encoders.checkpoint import (
    HEADS,
    EncoderCheckpoint,
    checkpoint_of,
    head_of,
    published_name,
    read_checkpoint,
)
from bertcnn.encoders.layout import check_layout
from bertcnn.errors import EncoderError
from bertcnn.shapes import pretraining_shapes
from bertcnn.text.tokenizer_settings import read_tokenizer_settings
from tests.tiny import tiny_settings

VOCABULARY = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "Rome", "is", "##s")
SETTINGS = tiny_settings(
    vocabulary_size=len(VOCABULARY), width=4, heads=2, feed_forward_width=6, max_positions=5
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


def write(folder, *, settings=SETTINGS, heads=HEADS, lowercase=True):
    checkpoint = EncoderCheckpoint(settings, random_tensors(heads=heads))
    write_encoder(folder, checkpoint, Pieces(VOCABULARY, lowercase=lowercase))


@pytest.mark.parametrize(
    "heads",
    [(), ("pooler",), ("mlm",), ("pooler", "mlm"), HEADS],
    ids=lambda heads: "-".join(heads) or "none",
)
def test_a_written_checkpoint_is_read_with_its_heads(tmp_path, heads):
    write(tmp_path, heads=heads, lowercase=False)
    check_layout(tmp_path)
    found = read_checkpoint(tmp_path)
    assert (found.heads, found.settings) == (heads, SETTINGS)
    same(found.tensors, random_tensors(heads=heads))
    assert not read_tokenizer_settings(tmp_path).lowercase


@pytest.mark.parametrize("positions", ["interleaved", "concatenated"])
def test_sinusoids_are_still_sinusoids_when_read_again(tmp_path, positions):
    settings = SETTINGS.model_copy(update={"positions": positions})
    write(tmp_path, settings=settings)
    assert read_settings(tmp_path) == settings


def test_a_folder_of_a_later_format_is_refused(tmp_path):
    write(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "bertcnn": {"format": 2}}))
    with pytest.raises(EncoderError, match=r"has bertcnn .*'format': 2.*; expected format 1"):
        read_settings(tmp_path)


def test_the_names_are_those_hugging_face_looks_for(tmp_path):
    write(tmp_path)
    names = load_file(tmp_path / "model.safetensors").keys()
    assert {
        "bert.encoder.layer.1.output.dense.weight",
        "cls.predictions.bias",
        "cls.seq_relationship.weight",
    } <= names
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["architectures"] == ["BertForPreTraining"]


def test_a_head_in_part_is_refused_by_name():
    tensors = published(random_tensors())
    del tensors["cls.predictions.transform.LayerNorm.bias"]
    with pytest.raises(
        EncoderError,
        match=r"without 'cls\.predictions\.transform\.LayerNorm\.bias'.* heads that are whole",
    ):
        checkpoint_of(SETTINGS, tensors)


@pytest.mark.parametrize(("change", "heads"), [(0, HEADS), (1, ("pooler", "nsp"))])
def test_an_untied_decoder_is_not_an_mlm_head(change, heads):
    tensors = published(random_tensors())
    table = tensors["embeddings.word_embeddings.weight"]
    decoder = {"cls.predictions.decoder.weight": table + change}
    assert checkpoint_of(SETTINGS, tensors | decoder).heads == heads


def test_the_biases_other_name_is_understood(tmp_path):
    tensors = published(random_tensors())
    expected = tensors.pop("cls.predictions.bias")
    tensors["cls.predictions.decoder.bias"] = expected
    np.testing.assert_array_equal(checkpoint_of(SETTINGS, tensors).tensors["mlm/bias"], expected)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "weights.pt", "weights.pkl", "model.pth"])
def test_pickled_weights_are_refused_with_advice(tmp_path, name):
    write(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / name)
    advice = "which can run code when it is opened.*AutoModelForPreTraining.*save_pretrained"
    with pytest.raises(EncoderError, match=f"only as {name}, {advice}"):
        check_layout(tmp_path)
    with pytest.raises(EncoderError, match=f"{name} is a pickle file, {advice}"):
        check_layout(tmp_path / name)


def test_pickled_weights_beside_sound_ones_do_not_matter(tmp_path):
    write(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    check_layout(tmp_path)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_weights_in_half_precision_are_read_as_float32(tmp_path, dtype):
    write(tmp_path)
    path = tmp_path / "model.safetensors"
    save_file({name: tensor.astype(dtype) for name, tensor in load_file(path).items()}, path)
    for name, tensor in read_checkpoint(tmp_path).tensors.items():
        assert tensor.dtype == np.float32
        np.testing.assert_allclose(tensor, random_tensors()[name], rtol=2**-8, atol=1e-7)
