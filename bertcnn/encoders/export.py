"""Exports an encoder for transformers and sentence-transformers."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from bertcnn.encoders.checkpoint import Head, read_checkpoint
from bertcnn.encoders.download import fetch_encoder
from bertcnn.encoders.folder import FILES, Pieces, write_encoder, write_sentence_modules
from bertcnn.encoders.layout import CONFIG, VOCABULARY, WEIGHTS
from bertcnn.errors import one_line
from bertcnn.progress import Progress
from bertcnn.storage import check_replaceable, check_target, is_debris, new_folder, real_folder
from bertcnn.text import read_tokenizer_settings, read_vocabulary


@dataclass(frozen=True)
class EncoderExport:
    """An exported encoder.

    Attributes:
        heads: pretraining heads in the export.
    """

    folder: Path
    name: str
    heads: tuple[Head, ...]


def check_encoder_target(out: str | os.PathLike[str], overwrite: bool) -> None:
    """Refuse an unusable target folder before any work.

    Raises:
        OutputError: the folder is taken or not writable.
    """
    check_target(out, lambda target: _check_replaceable(target, overwrite))


def export_encoder(
    name_or_path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    cache: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> EncoderExport:
    """Write an encoder as a folder for `transformers` and `sentence-transformers`.

    `AutoModel`, `AutoModelForMaskedLM` and `SentenceTransformer` load it. Sentence embeddings are
    mean token embeddings. Pretraining heads are included if the encoder has them.

    Raises:
        EncoderError: the encoder does not exist or is damaged.
        OutputError: `out` is taken or not writable.
    """
    check_encoder_target(out, overwrite)
    fetched = fetch_encoder(name_or_path, cache=cache, progress=progress)
    checkpoint = read_checkpoint(fetched.folder)
    lowercase = read_tokenizer_settings(fetched.folder).lowercase
    pieces = Pieces(read_vocabulary(fetched.folder / VOCABULARY), lowercase)
    with new_folder(real_folder(out), overwrite=overwrite, check=_check_replaceable) as new:
        write_encoder(new, checkpoint, pieces)
        write_sentence_modules(new, checkpoint.settings)
    return EncoderExport(Path(out), fetched.name, checkpoint.heads)


def _check_replaceable(target: Path, overwrite: bool) -> None:
    check_replaceable(
        target,
        overwrite,
        holds="an encoder",
        expected="an encoder as it was exported",
        stranger=_stranger,
    )


def _stranger(folder: Path) -> str | None:
    """Why a folder is not an encoder; None if it is."""
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}
    foreign = sorted(name for name in names - FILES if not is_debris(name))
    if foreign:
        return f"holds {one_line(foreign[0])}, which is no part of one"
    return None if {CONFIG, WEIGHTS} <= names else "is none"
