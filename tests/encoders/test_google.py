"""Google's checkpoints of 2018, written here with the tensor names of run_pretraining.py."""

import json

import numpy as np
import pytest

from bertcnn.encoders import encoder_info, fetch_encoder
from bertcnn.encoders.checkpoint import HEADS, read_checkpoint
from bertcnn.encoders.google import google_name
from bertcnn.errors import EncoderError
from bertcnn.text.tokenizer_settings import read_tokenizer_settings
from bertcnn.text.wordpiece import read_vocabulary
from tests.encoders.test_checkpoint import SETTINGS, random_tensors, same

PREFIX = "bert_model.ckpt"
VOCABULARY = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "rome", "is", "##s")
OPTIMIZER = (
    "bert/embeddings/word_embeddings/adam_m",
    "bert/pooler/dense/kernel/adam_v",
    "global_step",
)
# a few of each kind, as `gsutil` and tf.train.list_variables show them in uncased_L-12_H-768_A-12
NAMES = {
    "embeddings/tokens": "bert/embeddings/word_embeddings",
    "embeddings/positions": "bert/embeddings/position_embeddings",
    "embeddings/segments": "bert/embeddings/token_type_embeddings",
    "embeddings/normalize/gamma": "bert/embeddings/LayerNorm/gamma",
    "layer_1/attention/query/kernel": "bert/encoder/layer_1/attention/self/query/kernel",
    "layer_0/attention/output/bias": "bert/encoder/layer_0/attention/output/dense/bias",
    "layer_0/attention_norm/beta": "bert/encoder/layer_0/attention/output/LayerNorm/beta",
    "layer_1/expand/kernel": "bert/encoder/layer_1/intermediate/dense/kernel",
    "layer_1/contract/kernel": "bert/encoder/layer_1/output/dense/kernel",
    "layer_1/output_norm/gamma": "bert/encoder/layer_1/output/LayerNorm/gamma",
    "pooler/kernel": "bert/pooler/dense/kernel",
    "mlm/transform/kernel": "cls/predictions/transform/dense/kernel",
    "mlm/normalize/gamma": "cls/predictions/transform/LayerNorm/gamma",
    "mlm/bias": "cls/predictions/output_bias",
    "nsp/kernel": "cls/seq_relationship/output_weights",
    "nsp/bias": "cls/seq_relationship/output_bias",
}


def test_names_are_googles():
    assert {name: google_name(name) for name in NAMES} == NAMES


@pytest.fixture(scope="module")
def tensors():
    return random_tensors()


def write_google(folder, tensors, vocabulary=VOCABULARY):
    """A folder like Google's unpacked archives, including the optimizer's variables."""
    import tensorflow as tf

    stored = {
        google_name(name): value.T if name == "nsp/kernel" else value
        for name, value in tensors.items()
    }
    stored |= {name: np.zeros(3, np.float32) for name in OPTIMIZER}
    folder.mkdir(exist_ok=True)
    values = [tf.constant(np.ascontiguousarray(value)) for value in stored.values()]
    names, slices = list(stored), [""] * len(stored)
    tf.raw_ops.SaveV2(
        prefix=str(folder / PREFIX), tensor_names=names, shape_and_slices=slices, tensors=values
    )
    config = {
        "hidden_act": "gelu",
        "hidden_size": SETTINGS.width,
        "intermediate_size": SETTINGS.feed_forward_width,
        "max_position_embeddings": SETTINGS.max_positions,
        "num_attention_heads": SETTINGS.heads,
        "num_hidden_layers": SETTINGS.layers,
        "vocab_size": SETTINGS.vocabulary_size,
    }
    (folder / "bert_config.json").write_text(json.dumps(config))
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in vocabulary))
    return folder


def test_every_tensor_arrives_and_the_optimizers_stay(tmp_path, tensors):
    folder = write_google(tmp_path / "google", tensors)
    fetched = fetch_encoder(folder, cache=tmp_path / "cache")
    found = read_checkpoint(fetched.folder)
    assert found.settings == SETTINGS
    assert found.heads == HEADS
    same(found.tensors, tensors)
    assert read_vocabulary(fetched.folder / "vocab.txt") == VOCABULARY
    assert fetch_encoder(folder, cache=tmp_path / "cache").folder == fetched.folder  # unchanged
    about = encoder_info(folder)
    assert (about.parameters, about.encoder) == (SETTINGS.parameters, SETTINGS)


@pytest.mark.parametrize(("piece", "lowercase"), [("rome", True), ("Rome", False), ("##É", False)])
def test_the_vocabulary_determines_lower_casing(tmp_path, tensors, piece, lowercase):
    folder = write_google(tmp_path / "google", tensors, (*VOCABULARY[:5], piece, *VOCABULARY[6:]))
    fetched = fetch_encoder(folder, cache=tmp_path / "cache")
    assert read_tokenizer_settings(fetched.folder).lowercase == lowercase


def test_heads_are_optional(tmp_path, tensors):
    without = {
        name: value for name, value in tensors.items() if not name.startswith(("mlm/", "nsp/"))
    }
    fetched = fetch_encoder(write_google(tmp_path / "google", without), cache=tmp_path / "cache")
    assert read_checkpoint(fetched.folder).heads == ("pooler",)


def without(name):
    return lambda folder, tensors: write_google(
        folder, {key: value for key, value in tensors.items() if key != name}
    )


def add_nan(folder, tensors):
    write_google(folder, {**tensors, "mlm/bias": tensors["mlm/bias"] * np.nan})


LACKS = "expected bert_config.json, vocab.txt and one checkpoint"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder, _: (folder / f"{PREFIX}.index").unlink(), LACKS),
        (lambda folder, _: (folder / "vocab.txt").unlink(), LACKS),
        (
            lambda folder, _: (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n"),
            "holds 2 pieces; expected the 8 of bert_config.json",
        ),
        (
            lambda folder, _: (folder / f"{PREFIX}.index").write_bytes(b"no table"),
            "could not be read .*expected a checkpoint of TensorFlow",
        ),
        (
            lambda folder, _: (folder / f"{PREFIX}.data-00000-of-00001").unlink(),
            "could not be read",
        ),
        (
            lambda folder, _: (folder / "bert_config.json").write_text("{"),
            "bert_config.json could not be read",
        ),
        (
            without("layer_1/expand/bias"),
            "'bert/encoder/layer_1/intermediate/dense/bias' of the shape none, it is missing",
        ),
        (without("nsp/bias"), "'cls/seq_relationship/output_bias' of the shape none"),
        (add_nan, "'cls/predictions/output_bias' with NaN or infinity"),
    ],
    ids=["index", "vocabulary", "short", "no-table", "data", "config", "tensor", "head", "nan"],
)
def test_damage_is_a_one_line_error_and_nothing_is_kept(tmp_path, tensors, damage, message):
    folder = write_google(tmp_path / "google", tensors)
    damage(folder, tensors)
    with pytest.raises(EncoderError, match=message):
        fetch_encoder(folder, cache=tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("encoders/*"))
