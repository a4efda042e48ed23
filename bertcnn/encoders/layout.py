"""Folders in Hugging Face layout: required files, and errors for missing ones."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Final

from bertcnn.errors import EncoderError

CONFIG: Final = "config.json"
VOCABULARY: Final = "vocab.txt"
TOKENIZER_CONFIG: Final = "tokenizer_config.json"
WEIGHTS: Final = "model.safetensors"

REQUIRED: Final = (CONFIG, VOCABULARY, WEIGHTS)
OPTIONAL: Final = (TOKENIZER_CONFIG,)
LARGEST: Final = {
    CONFIG: 1 << 20,
    VOCABULARY: 1 << 26,
    TOKENIZER_CONFIG: 1 << 20,
    WEIGHTS: 1 << 33,
}  # most bytes accepted
PICKLES: Final = (
    ".bin",
    ".pt",
    ".pth",
    ".pkl",
    ".pickle",
    ".joblib",
    ".ckpt",
)  # suffixes of files that can run code when opened
PICKLED: Final = (
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "tf_model.h5",
    "flax_model.msgpack",
    "model.pt",
    "model.ckpt",
)

_CONVERT = (
    "convert it where transformers is installed:"
    " AutoModelForPreTraining.from_pretrained(FOLDER).save_pretrained(NEW)"
)
_PIECE = 1 << 20  # bytes


class SourceError(Exception):
    """A source failed, with a short reason; the next source is tried."""


class NotCarriedError(SourceError):
    """A source does not have the encoder; reported only if all sources fail."""


def copy_capped(origin: IO[bytes], path: Path, largest: int) -> None:
    """Copy an open file to a new file in pieces and sync it to disk.

    Declared sizes of archives or servers are not trusted.

    Raises:
        SourceError: the file has more than `largest` bytes.
    """
    done = 0
    with path.open("xb") as file:
        while piece := origin.read(_PIECE):
            done += len(piece)
            if done > largest:
                raise SourceError(f"its {path.name} is larger than {largest:,} bytes")
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())


def check_layout(folder: Path) -> None:
    """Refuse a folder that is not an encoder.

    Raises:
        EncoderError: the folder or a file is missing, or the weights are only pickled.
    """
    expected = f"a folder with {', '.join(REQUIRED)}"
    fix = "give such a folder, or a name from `bertcnn encoder list`"
    if not folder.exists():
        raise EncoderError(f"{folder} does not exist", expected=expected, fix=fix)
    if not folder.is_dir():
        if folder.suffix in PICKLES:
            raise EncoderError(
                f"{folder} is a pickle file, which can run code when it is opened",
                expected=expected,
                fix=_CONVERT,
            )
        raise EncoderError(f"{folder} is a file", expected=expected, fix=fix)
    missing = [name for name in REQUIRED if not (folder / name).is_file()]
    pickled = [
        path.name
        for path in sorted(folder.iterdir())
        if path.name in PICKLED or path.suffix in PICKLES
    ]
    if WEIGHTS in missing and pickled:
        raise EncoderError(
            f"{folder} has its weights only as {pickled[0]}, which can run code when it is opened",
            expected=WEIGHTS,
            fix=_CONVERT,
        )
    if missing:
        raise EncoderError(
            f"{folder} has no {' and no '.join(missing)}", expected=expected, fix=fix
        )
