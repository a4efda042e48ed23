"""Converts Google's checkpoints of 2018 (TensorFlow 1) to Hugging Face layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from bertcnn.encoders.checkpoint import EncoderCheckpoint, head_of, published_name
from bertcnn.encoders.config import settings_of
from bertcnn.encoders.converted import OtherLayout
from bertcnn.encoders.folder import Pieces, write_encoder
from bertcnn.encoders.layout import VOCABULARY
from bertcnn.errors import EncoderError, one_line
from bertcnn.settings import EncoderSettings
from bertcnn.shapes import pretraining_shapes
from bertcnn.text import read_vocabulary

CONFIG: Final = "bert_config.json"
_INDEX = (  # the file of a TensorFlow checkpoint that lists the tensors
    ".index"
)
_FETCH_AGAIN = "download and unpack Google's archive again, for example uncased_L-12_H-768_A-12.zip"
# Heads: our weight name -> Google's (google-research/bert, run_pretraining.py); the encoder's names
# follow from Hugging Face's
_HEADS = {
    "mlm/transform/kernel": "cls/predictions/transform/dense/kernel",
    "mlm/transform/bias": "cls/predictions/transform/dense/bias",
    "mlm/normalize/gamma": "cls/predictions/transform/LayerNorm/gamma",
    "mlm/normalize/beta": "cls/predictions/transform/LayerNorm/beta",
    "mlm/bias": "cls/predictions/output_bias",
    "nsp/kernel": "cls/seq_relationship/output_weights",
    "nsp/bias": "cls/seq_relationship/output_bias",
}
_TRANSPOSED = ("nsp/kernel",)  # all other kernels are [in, out], like ours


def google_name(name: str) -> str:
    """Google's name of our weight.

    Example:
        >>> google_name("layer_3/attention/query/kernel")
        'bert/encoder/layer_3/attention/self/query/kernel'
    """
    if name in _HEADS:
        return _HEADS[name]
    module, _, _ = published_name(name).rpartition(".")
    parameter = name.rpartition("/")[2]
    path = "bert/" + module.replace("encoder.layer.", "encoder/layer_").replace(".", "/")
    return path if parameter in ("tokens", "positions", "segments") else f"{path}/{parameter}"


def is_google_checkpoint(folder: Path) -> bool:
    """Whether a folder has a bert_config.json and none of Hugging Face's files."""
    return (folder / CONFIG).is_file() and not (folder / "config.json").exists()


def google_files(folder: Path) -> tuple[Path, ...]:
    """Settings, vocabulary, weights index, and weights, in this order.

    Raises:
        EncoderError: a file is missing, or there are several checkpoints.
    """
    indices = sorted(path for path in folder.glob(f"*.ckpt*{_INDEX}") if path.is_file())
    if not (folder / VOCABULARY).is_file() or len(indices) != 1:
        contents = one_line(", ".join(sorted(path.name for path in folder.iterdir())))
        raise EncoderError(
            f"{folder} holds {contents}",
            expected=f"{CONFIG}, {VOCABULARY} and one checkpoint, bert_model.ckpt{_INDEX}",
            fix=_FETCH_AGAIN,
        )
    data = sorted(
        path
        for path in folder.glob(f"{indices[0].name.removesuffix(_INDEX)}.data-*")
        if path.is_file()
    )
    return (folder / CONFIG, folder / VOCABULARY, indices[0], *data)


def read_google_settings(folder: Path) -> EncoderSettings:
    """The encoder settings; `bert_config.json` has the same keys as Hugging Face's file.

    Raises:
        EncoderError: the file is unreadable, or describes another model than BERT.
    """
    return settings_of(folder / CONFIG)


def read_google_vocabulary(folder: Path) -> tuple[tuple[str, ...], bool]:
    """The vocabulary in the order of ids, and whether it is uncased.

    Google's files do not state the casing. An uncased vocabulary has no piece with a capital
    letter, a cased one has thousands.

    Raises:
        EncoderError: the file is unreadable.
    """
    vocabulary = read_vocabulary(folder / VOCABULARY)
    cased = any(
        piece != piece.lower()
        for piece in vocabulary
        if not (piece.startswith("[") and piece.endswith("]"))
    )
    return vocabulary, not cased


def read_google_checkpoint(folder: Path) -> EncoderCheckpoint:
    """All weights of encoder and heads, without the optimizer's state.

    TensorFlow checkpoints contain only tensors, no code.

    Raises:
        EncoderError: a file is missing or damaged, or a tensor is missing or misshapen.
    """
    settings = read_google_settings(folder)
    reader, stored = _open(folder)
    tensors: dict[str, np.ndarray] = {}
    for name, shape in pretraining_shapes(settings).items():
        tensor = google_name(name)
        expected_shape = shape[::-1] if name in _TRANSPOSED else shape
        if (
            tensor not in stored
            and head_of(name) is not None
            and not any(_head_there(stored, name))
        ):
            continue
        if stored.get(tensor) != expected_shape:
            raise EncoderError(
                f"{folder} has {tensor!r} of the shape {stored.get(tensor, 'none, it is missing')}",
                expected=f"{expected_shape}",
                fix=_FETCH_AGAIN,
            )
        values = _tensor(reader, folder, tensor)
        tensors[name] = np.ascontiguousarray(values.T if name in _TRANSPOSED else values)
    return EncoderCheckpoint(settings, tensors)


def write_google_published(origin: Path, folder: Path) -> None:
    """Convert Google's encoder to Hugging Face layout, in an empty folder.

    Raises:
        EncoderError: the checkpoint is damaged.
        OSError: the folder is not writable.
    """
    checkpoint = read_google_checkpoint(origin)
    vocabulary, lowercase = read_google_vocabulary(origin)
    expected = checkpoint.settings.vocabulary_size
    if len(vocabulary) != expected:
        raise EncoderError(
            f"{origin / VOCABULARY} holds {len(vocabulary):,} pieces",
            expected=f"the {expected:,} of {CONFIG}",
            fix=_FETCH_AGAIN,
        )
    write_encoder(folder, checkpoint, Pieces(vocabulary, lowercase))


GOOGLE_LAYOUT: Final = OtherLayout(
    "a checkpoint of Google's", "google-folder-", "1", google_files, write_google_published
)


def _head_there(stored: dict[str, tuple[int, ...]], name: str) -> list[bool]:
    """For each weight of a head, whether the checkpoint has it."""
    pooler = ("pooler/kernel", "pooler/bias")
    return [
        google_name(weight) in stored
        for weight in (*_HEADS, *pooler)
        if head_of(weight) == head_of(name)
    ]


def _open(folder: Path) -> tuple[Any, dict[str, tuple[int, ...]]]:
    import tensorflow as tf

    prefix = str(google_files(folder)[2]).removesuffix(_INDEX)
    try:
        reader = tf.train.load_checkpoint(prefix)
        return reader, {
            name: tuple(shape) for name, shape in reader.get_variable_to_shape_map().items()
        }
    except (OSError, ValueError, RuntimeError, tf.errors.OpError) as error:
        raise _broken(prefix, error) from None


def _tensor(reader: Any, folder: Path, name: str) -> np.ndarray:  # noqa: ANN401
    import tensorflow as tf

    try:
        values = np.asarray(reader.get_tensor(name), np.float32)
    except (OSError, ValueError, RuntimeError, tf.errors.OpError) as error:
        raise _broken(str(folder), error) from None
    if not np.isfinite(values).all():
        raise EncoderError(
            f"{folder} has {name!r} with NaN or infinity in it",
            expected="finite numbers",
            fix=_FETCH_AGAIN,
        )
    return values


def _broken(path: str, error: Exception) -> EncoderError:
    return EncoderError(
        f"{path} could not be read ({one_line(error)})",
        expected="a checkpoint of TensorFlow",
        fix=_FETCH_AGAIN,
    )
