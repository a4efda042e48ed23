"""A published checkpoint's config.json and tokenizer_config.json."""

import json
import shutil
from pathlib import Path

import pytest

from bertcnn.encoders.config import read_settings
from bertcnn.errors import BertCNNError, EncoderError
from bertcnn.text.tokenizer_settings import read_tokenizer_settings
from tests.tiny import tiny_settings


def test_the_settings_come_from_config_json(encoder_folder, tiny_vocabulary):
    expected = {"heads": 2, "feed_forward_width": 32, "max_positions": 64}
    assert read_settings(encoder_folder) == tiny_settings(
        vocabulary_size=len(tiny_vocabulary), **expected
    )


@pytest.fixture
def folder(encoder_folder, tmp_path):
    """A copy of the tiny encoder to damage."""
    return Path(shutil.copytree(encoder_folder, tmp_path / "copy"))


def change_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("gelu", "gelu"),
        ("gelu_new", "gelu_tanh"),
        ("gelu_pytorch_tanh", "gelu_tanh"),
        ("relu", "relu"),
    ],
)
def test_the_activation_is_the_checkpoints(folder, theirs, ours):
    change_config(folder, hidden_act=theirs)
    assert read_settings(folder).activation == ours


@pytest.mark.parametrize(
    ("key", "value"),
    [("model_type", "roberta"), ("position_embedding_type", "relative_key"), ("hidden_act", None)],
)
def test_another_architecture_is_refused(folder, key, value):
    change_config(folder, **{key: value})
    with pytest.raises(EncoderError, match=f"describes .*{value!r}.*expected model_type 'bert' "):
        read_settings(folder)


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff\xfe\x00"])
@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("config.json", read_settings),
        ("tokenizer_config.json", read_tokenizer_settings),
    ],
)
def test_broken_json_is_refused_in_one_line(folder, name, read, content):
    (folder / name).write_bytes(content)
    with pytest.raises(
        EncoderError, match=rf"{name} could not be read \(.*; expected .* fetch the encoder again"
    ):
        read(folder)


def test_a_classifier_folder_is_not_taken_for_an_encoder(folder):
    (folder / "config.json").write_text('{"encoder": {}, "encoder_name": "minilm-l6", "head": {}}')
    with pytest.raises(EncoderError, match=r"is a trained classifier; expected an encoder\."):
        read_settings(folder)


def test_a_missing_or_impossible_shape_is_refused(folder):
    change_config(folder, num_attention_heads=3)
    with pytest.raises(BertCNNError, match="width divisible by heads, not 16 by 3"):
        read_settings(folder)


def test_casing_comes_from_the_tokenizers_file_and_is_uncased_without_one(folder):
    assert read_tokenizer_settings(folder).lowercase
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert not read_tokenizer_settings(folder).lowercase
    (folder / "tokenizer_config.json").unlink()
    assert read_tokenizer_settings(folder).lowercase


@pytest.mark.parametrize(("positions", "head"), [(512, 128), (64, 16), (4, 1)])
def test_the_longest_text_is_the_encoders_and_a_quarter_of_it_is_head(folder, positions, head):
    change_config(folder, max_position_embeddings=positions)
    settings = read_tokenizer_settings(folder)
    assert (settings.max_tokens, settings.head_tokens) == (positions, head)
    shorter = read_tokenizer_settings(folder, max_tokens=8)
    assert shorter.max_tokens == min(8, positions)
