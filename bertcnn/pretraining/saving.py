"""What pretraining leaves: an encoder folder in Hugging Face layout, with both heads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bertcnn.encoders.checkpoint import Checkpoint
from bertcnn.encoders.export import check_encoder_target
from bertcnn.encoders.folder import STORY, Pieces, write_encoder
from bertcnn.storage.files import write_new
from bertcnn.storage.folders import new_folder
from bertcnn.storage.manifest import canonical_json
from bertcnn.text.wordpiece import WordPieceTokenizer

VERSION: Final = 1  # of the story


def save_encoder(
    target: Path,
    encoder: Checkpoint,
    tokenizer: WordPieceTokenizer,
    *,
    story: Mapping[str, Any],
    overwrite: bool,
) -> None:
    """Save an encoder, whole or not at all.

    Args:
        target: a folder that is not there yet.
        encoder: shape and weights, those of the heads too.
        tokenizer: its vocabulary and casing.
        story: how it came about, as JSON.
        overwrite: whether an encoder there may be replaced.

    Raises:
        OutputError: it cannot be written, or something has been put there meanwhile.
    """
    with new_folder(target, overwrite=overwrite, check=check_encoder_target) as new:
        write_encoder(new, encoder, Pieces(tokenizer.vocabulary, tokenizer.settings.lowercase))
        write_new(new / STORY, canonical_json({"version": VERSION, **story}))
