"""Predicts masked words with an encoder that has an MLM head."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bertcnn.encoders import (
    VOCABULARY,
    EncoderCheckpoint,
    checkpoint_of,
    fetch_encoder,
    read_published,
)
from bertcnn.errors import EncoderError, SettingsError, one_line
from bertcnn.evaluation import softmax
from bertcnn.progress import Progress
from bertcnn.text import MASK, WordPieceTokenizer


@dataclass(frozen=True)
class Guess:
    """A predicted piece and its probability."""

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

    While a gap is predicted, all the others stay masked.

    Args:
        encoder: anything that `fetch_encoder` takes; it must have an MLM head.
        text: a text with one or more [MASK].
        best: number of predictions for each gap.
        cache: see `cache_folder`.
        progress: progress callback for a download.

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
            expected="a head for masked language modelling that shares the token embeddings",
            fix="give bert-base-uncased, a folder saved by Hugging Face's BertForMaskedLM or"
            " BertForPreTraining, or one of `bertcnn pretrain TEXTS --out ENCODER`",
        )
    tokenizer = WordPieceTokenizer.from_folder(fetched.folder)
    vocabulary = tokenizer.vocabulary
    if MASK not in vocabulary:
        raise EncoderError(
            f"{fetched.folder / VOCABULARY} has no {MASK}",
            expected="BERT's special tokens",
            fix="use the vocab.txt that belongs to the encoder",
        )
    longest = checkpoint.settings.max_positions
    # the tokenizer reads [MASK] as ordinary characters, so the text is split at it
    encoded = tokenizer.encode(text.split(MASK))
    token_ids = _joined(encoded.token_ids, vocabulary.index(MASK))
    if encoded.truncated.any() or len(token_ids) > longest:
        raise SettingsError(
            f"a text of more than {longest} tokens", expected=f"at most {longest}", fix="shorten it"
        )
    positions = np.flatnonzero(token_ids == vocabulary.index(MASK)).astype(np.int32)
    logits = _logits(checkpoint, token_ids, positions)  # [P, V]
    # published checkpoints may have more embeddings than pieces
    ranked = np.argsort(-logits[:, : len(vocabulary)], axis=-1, kind="stable")[:, :best]
    return [
        [Guess(vocabulary[piece], float(row[piece])) for piece in order]
        for row, order in zip(softmax(logits), ranked, strict=True)
    ]


def _joined(parts: Sequence[np.ndarray], mask_id: int) -> np.ndarray:
    """Token ids int32 [T] of texts joined by [MASK], from one [CLS] to one [SEP]."""
    (classify, *first), *others = (part[:-1] for part in parts)
    gaps = [token for part in others for token in (mask_id, *part[1:])]
    return np.array([classify, *first, *gaps, parts[0][-1]], np.int32)


def _logits(
    checkpoint: EncoderCheckpoint, token_ids: np.ndarray, positions: np.ndarray
) -> np.ndarray:
    from bertcnn.models import Bert, BertPretraining, assign

    model = BertPretraining(Bert(checkpoint.settings, name="bert"))
    weights = [weight for weight in model.weights if weight.path in checkpoint.tensors]
    assign(weights, checkpoint.tensors, error=EncoderError)
    inputs = {
        "token_ids": token_ids[None],
        "segment_ids": np.zeros_like(token_ids)[None],
        "padding_mask": np.ones_like(token_ids)[None],
        "masked_positions": positions[None],
    }
    return np.asarray(model.predict_on_batch(inputs)["mlm_logits"])[0]
