"""Initial weights of pretraining: a published encoder, or random with a new vocabulary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import numpy as np

from bertcnn.encoders import (
    WEIGHTS,
    fetch_encoder,
    head_of,
    load_published,
    read_published,
)
from bertcnn.models import BertPretraining
from bertcnn.pretraining.documents import DocumentFiles
from bertcnn.progress import Progress
from bertcnn.settings import EncoderSettings, TokenizerSettings
from bertcnn.storage import sha256_of
from bertcnn.text import WordPieceTokenizer, learn_vocabulary

_HEADS = {
    "mlm": "head for masked words",
    "nsp": "head for next sentences",
    "pooler": "pooler",
}


@dataclass(frozen=True)
class NewEncoder:
    """An encoder to pretrain from scratch.

    Attributes:
        size: "tiny", "mini", "small", "medium", "base" or "large"; or settings, whose vocabulary
            size is replaced.
        vocabulary_size: pieces to learn; by default as many as the text supports, up to 30,522.
        lowercase: lowercase texts and strip accents.
    """

    size: str | EncoderSettings = "mini"
    vocabulary_size: int | None = None
    lowercase: bool = True

    def shape(self, vocabulary_size: int) -> EncoderSettings:
        """The encoder's settings for a vocabulary of this size."""
        if isinstance(self.size, str):
            return EncoderSettings.of_size(self.size, vocabulary_size)
        return self.size.model_copy(update={"vocabulary_size": vocabulary_size})


@dataclass(frozen=True)
class StartingEncoder:
    """An encoder before its pretraining; `tensors` is empty if its weights are random."""

    name: str
    settings: EncoderSettings
    tokenizer: WordPieceTokenizer
    tensors: Mapping[str, np.ndarray]
    sha256: str | None

    def load(self, model: BertPretraining, progress: Progress) -> None:
        """Load published weights into `model`, and report heads that start at random."""
        if not self.tensors:
            return
        absent = {head_of(name) for name in load_published(model, self.tensors)}
        for head, words in _HEADS.items():
            if head in absent:
                progress.note(f"{self.name} has no {words}: it starts from random weights")


def identify(start: str | Path | NewEncoder) -> dict[str, Any]:
    """The start as part of a run's identity; fetches and learns nothing."""
    if not isinstance(start, NewEncoder):
        return {"from": str(start)}
    size = start.size if isinstance(start.size, str) else start.size.model_dump(mode="json")
    return {"from": None, **vars(start), "size": size}


def begin_new(
    start: NewEncoder, files: DocumentFiles, learned: Sequence[str] | None, progress: Progress
) -> StartingEncoder:
    """Start from random weights, with `learned` as vocabulary or one learned from the files.

    Raises:
        SettingsError: the size is unknown, or the text does not support so large a vocabulary.
        TableError: the texts cannot be read, or are too few.
    """
    start.shape(start.vocabulary_size or 1)  # refuse an unknown size before any work
    if learned is None:
        progress.stage("learning the vocabulary", files.total_bytes, "bytes")
        learned = learn_vocabulary(
            _documents(files, progress), size=start.vocabulary_size, lowercase=start.lowercase
        )
        progress.note(f"vocabulary of {len(learned):,} pieces")
    settings = start.shape(len(learned))
    limits = TokenizerSettings(
        lowercase=start.lowercase, max_tokens=settings.max_positions, head_tokens=1
    )
    return StartingEncoder(
        "the new encoder", settings, WordPieceTokenizer(learned, limits), {}, None
    )


def _documents(files: DocumentFiles, progress: Progress) -> Iterator[str]:
    for are_sentences, pieces in groupby(files.sentences(progress), bool):
        if are_sentences:
            yield "\n".join(chain.from_iterable(pieces))


def begin_from(start: str | Path, progress: Progress) -> StartingEncoder:
    """Start from an encoder, by name or path."""
    fetched = fetch_encoder(start, progress=progress)
    folder = fetched.folder
    settings, tensors = read_published(folder)
    tokenizer = WordPieceTokenizer.from_folder(folder)
    return StartingEncoder(fetched.name, settings, tokenizer, tensors, sha256_of(folder / WEIGHTS))
