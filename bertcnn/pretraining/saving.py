"""Saves a pretrained encoder in Hugging Face layout, with both heads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bertcnn.encoders import (
    PRETRAINING_RECORD,
    EncoderCheckpoint,
    Pieces,
    check_encoder_target,
    write_encoder,
)
from bertcnn.storage import canonical_json, new_folder, write_new
from bertcnn.text import WordPieceTokenizer

VERSION: Final = 1


def save_encoder(
    target: Path,
    encoder: EncoderCheckpoint,
    tokenizer: WordPieceTokenizer,
    *,
    record: Mapping[str, Any],
    overwrite: bool,
) -> None:
    """Save an encoder with its heads atomically; the record is JSON."""
    with new_folder(target, overwrite=overwrite, check=check_encoder_target) as new:
        write_encoder(new, encoder, Pieces(tokenizer.vocabulary, tokenizer.settings.lowercase))
        write_new(new / PRETRAINING_RECORD, canonical_json({"version": VERSION, **record}))
