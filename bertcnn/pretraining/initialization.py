"""What pretraining begins with: an encoder, or a learned vocabulary and random weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bertcnn.encoders.checkpoint import head_of, read_published
from bertcnn.encoders.config import read_tokenizer_settings
from bertcnn.encoders.convert import load_published
from bertcnn.encoders.download import fetch_encoder
from bertcnn.encoders.layout import VOCABULARY, WEIGHTS, sha256_of
from bertcnn.models.pretraining import BertPretraining
from bertcnn.pretraining.documents import DocumentFiles
from bertcnn.progress import Progress
from bertcnn.settings import EncoderSettings, TokenizerSettings
from bertcnn.text.vocabulary import learn_vocabulary
from bertcnn.text.wordpiece import WordPieceTokenizer, read_vocabulary


@dataclass(frozen=True)
class NewEncoder:
    """An encoder to be made from nothing.

    Attributes:
        size: "tiny", "mini", "small", "medium", "base" or "large"; or a shape, of which the
            vocabulary's size is replaced.
        vocabulary_size: pieces to learn; by default as many as the text supports, up to 30,522.
        lowercase: also strips accents.
    """

    size: str | EncoderSettings = "mini"
    vocabulary_size: int | None = None
    lowercase: bool = True

    def shape(self, vocabulary_size: int) -> EncoderSettings:
        """The encoder's settings with so many pieces.

        Raises:
            SettingsError: there is no such size.
        """
        if isinstance(self.size, str):
            return EncoderSettings.of_size(self.size, vocabulary_size)
        return self.size.model_copy(update={"vocabulary_size": vocabulary_size})


@dataclass(frozen=True)
class Beginning:
    """An encoder before its pretraining.

    Attributes:
        name: in words, for what is told of it.
        settings: its shape.
        tokenizer: vocabulary and casing.
        tensors: published weights by Hugging Face's names; empty where all begins at random.
        sha256: of the published weights' file; None where there is none.
    """

    name: str
    settings: EncoderSettings
    tokenizer: WordPieceTokenizer
    tensors: Mapping[str, np.ndarray]
    sha256: str | None

    def load(self, model: BertPretraining, progress: Progress) -> None:
        """Give `model` what there is, and say which heads begin at random.

        Raises:
            EncoderError: the weights are not those of this shape.
        """
        if not self.tensors:
            return
        absent = {head_of(name) for name in load_published(model, self.tensors)}
        for head, words in (
            ("mlm", "head for masked words"),
            ("nsp", "head for next sentences"),
            ("pooler", "pooler"),
        ):
            if head in absent:
                progress.note(f"{self.name} has no {words}: one is started from random weights")


def identify(start: str | Path | NewEncoder) -> dict[str, Any]:
    """The part of a run's identity that says how it begins; nothing is fetched or learned yet."""
    if not isinstance(start, NewEncoder):
        return {"from": str(start)}
    size = start.size if isinstance(start.size, str) else start.size.model_dump(mode="json")
    return {
        "from": None,
        "size": size,
        "vocabulary_size": start.vocabulary_size,
        "lowercase": start.lowercase,
    }


def begin_new(
    start: NewEncoder, files: DocumentFiles, learned: Sequence[str] | None, progress: Progress
) -> Beginning:
    """An encoder from nothing.

    Args:
        start: its size and the size of its vocabulary.
        files: texts to learn the vocabulary from.
        learned: the vocabulary, where an interrupted run has learned it.
        progress: told how far it is.

    Raises:
        SettingsError: there is no such size, or the vocabulary is larger than the text supports.
        TableError: the texts cannot be read, or are too few.
    """
    start.shape(start.vocabulary_size or 1)  # a size that does not exist is refused before any work
    if learned is None:
        progress.stage("learning the vocabulary", files.total_bytes, "bytes")
        learned = learn_vocabulary(
            _documents(files, progress), size=start.vocabulary_size, lowercase=start.lowercase
        )
        progress.note(f"a vocabulary of {len(learned):,} pieces")
    settings = start.shape(len(learned))
    limits = TokenizerSettings(
        lowercase=start.lowercase, max_tokens=settings.max_positions, head_tokens=1
    )
    return Beginning("the new encoder", settings, WordPieceTokenizer(learned, limits), {}, None)


def _documents(files: DocumentFiles, progress: Progress) -> Iterator[str]:
    """The documents, each as one text."""
    sentences: list[str] = []
    for piece in files.sentences(progress):
        sentences += piece
        if not piece and sentences:
            yield "\n".join(sentences)
            sentences = []
    if sentences:
        yield "\n".join(sentences)


def begin_from(start: str | Path, progress: Progress) -> Beginning:
    """An encoder by name or path.

    Raises:
        EncoderError: there is none, or it is damaged.
    """
    fetched = fetch_encoder(start, progress=progress)
    settings, tensors = read_published(fetched.folder)
    limits = read_tokenizer_settings(fetched.folder, settings.max_positions)
    tokenizer = WordPieceTokenizer(read_vocabulary(fetched.folder / VOCABULARY), limits)
    return Beginning(
        fetched.name, settings, tokenizer, tensors, sha256_of(fetched.folder / WEIGHTS)
    )
