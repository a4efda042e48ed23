"""Predicts masked words with an encoder that has an MLM head."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bertcnn.encoders.checkpoint import EncoderCheckpoint, checkpoint_of, read_published
from bertcnn.encoders.config import read_tokenizer_settings
from bertcnn.encoders.download import fetch_encoder
from bertcnn.encoders.layout import VOCABULARY
from bertcnn.errors import EncoderError, SettingsError, one_line
from bertcnn.evaluation.probabilities import softmax
from bertcnn.progress import Progress
from bertcnn.text.wordpiece import MASK, WordPieceTokenizer, read_vocabulary


@dataclass(frozen=True)
class Guess:
    """A predicted piece, with its probability among all pieces of the vocabulary."""

    piece: str
    probability: float


def fill_mask(
    encoder: str | os.PathLike[str],
    text: str,
    *,
    best: int = 5,
    cache: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> list[list[Guess]]:
    """Predict the most probable pieces for each [MASK] of a text, in the text's order.

    Each gap is predicted with all the others masked.

    Args:
        encoder: anything that `fetch_encoder` takes; it must have an MLM head.
        text: a text with one or more [MASK].
        best: number of predictions for each gap.
        cache: folder of fetched encoders; see `cache_folder`.
        progress: callback for the bytes, if the encoder has to be fetched.

    Raises:
        SettingsError: the text has no [MASK] or is too long, or `best` is not positive.
        EncoderError: the encoder does not exist, or has no MLM head.
    """
    if best < 1:
        raise SettingsError(
            f"{best} predictions for each {MASK}",
            expected="at least 1",
            fix="give --best a positive number",
        )
    if MASK not in text:
        raise SettingsError(
            f"the text {one_line(text)} has no {MASK}",
            expected="one or more gaps",
            fix=f'give a text such as "Rome is the {MASK} of Italy."',
        )
    fetched = fetch_encoder(encoder, cache=cache, progress=progress)
    checkpoint = checkpoint_of(*read_published(fetched.folder))
    if "mlm" not in checkpoint.heads:
        raise EncoderError(
            f"the encoder {fetched.name!r} has no MLM head, so it cannot predict words",
            expected="an encoder with a head for masked language modelling",
            fix="choose bert-base-uncased, or pretrain one: `bertcnn pretrain TEXTS --out ENCODER`",
        )
    vocabulary, token_ids, places = _encode(fetched.folder, checkpoint, text)
    logits = _logits(checkpoint, token_ids, places)  # [P, V]
    probabilities = softmax(logits)
    ranked = np.argsort(-logits, axis=-1, kind="stable")[:, :best]
    return [
        [Guess(vocabulary[piece], float(row[piece])) for piece in order]
        for row, order in zip(probabilities, ranked, strict=True)
    ]


def _encode(
    folder: Path, checkpoint: EncoderCheckpoint, text: str
) -> tuple[Sequence[str], np.ndarray, np.ndarray]:
    """The vocabulary, the text's token ids int32 [T], and the gaps' positions int32 [P]."""
    longest = checkpoint.settings.max_positions
    vocabulary = read_vocabulary(folder / VOCABULARY)
    tokenizer = WordPieceTokenizer(vocabulary, read_tokenizer_settings(folder, longest))
    if MASK not in vocabulary:
        raise EncoderError(
            f"{folder / VOCABULARY} has no {MASK}",
            expected="BERT's special tokens",
            fix="use the vocab.txt that belongs to the encoder",
        )
    # the tokenizer reads a [MASK] in a text as ordinary characters, so the text is split at it
    encoded = tokenizer.encode(text.split(MASK))
    parts = [row[1:-1] for row in encoded.token_ids]
    length = (
        sum(map(len, parts)) + len(parts) + 1
    )  # the parts, a gap between each two, [CLS], [SEP]
    if encoded.truncated.any() or length > longest:
        raise SettingsError(
            f"a text of more than {longest} tokens", expected=f"at most {longest}", fix="shorten it"
        )
    first, last = encoded.token_ids[0][0], encoded.token_ids[0][-1]
    gap = np.array([vocabulary.index(MASK)], np.int32)
    joined = [part for pair in zip(parts, [gap] * len(parts), strict=True) for part in pair][:-1]
    token_ids = np.concatenate([[first], *joined, [last]]).astype(np.int32)
    return vocabulary, token_ids, np.flatnonzero(token_ids == gap[0]).astype(np.int32)


def _logits(checkpoint: EncoderCheckpoint, token_ids: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The MLM head's logits at these positions, float32 [P, V]."""
    from bertcnn.models.bert import Bert
    from bertcnn.models.pretraining import BertPretraining
    from bertcnn.models.weights import assign

    model = BertPretraining(Bert(checkpoint.settings, name="bert"))
    weights = [
        weight for weight in model.weights if weight.path in checkpoint.tensors
    ]  # other heads may be missing
    assign(
        weights,
        {weight.path: checkpoint.tensors[weight.path] for weight in weights},
        error=EncoderError,
    )
    inputs = {
        "token_ids": token_ids[None],
        "segment_ids": np.zeros_like(token_ids)[None],
        "padding_mask": np.ones_like(token_ids)[None],
        "masked_positions": places[None],
    }
    return np.asarray(model.predict_on_batch(inputs)["mlm_logits"])[0]
