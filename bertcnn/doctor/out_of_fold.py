"""Each row's label probabilities from a model that has not seen the row.

The frozen encoder and a logistic regression in folds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from bertcnn.backend import keras_has_gpu
from bertcnn.bundle.scope import unit
from bertcnn.data.label_sets import numbered
from bertcnn.encoders.checkpoint import read_checkpoint
from bertcnn.encoders.config import read_settings, read_tokenizer_settings
from bertcnn.encoders.download import FetchedEncoder
from bertcnn.inference.embeddings import Embed, mean_embeddings
from bertcnn.progress import Progress
from bertcnn.settings import FULL, TokenizerSettings
from bertcnn.text.wordpiece import WordPieceTokenizer, read_vocabulary

FOLDS = 5
_EMBEDDED_TOKENS = 256  # of a longer text, the first quarter of these and the rest from its end
# inverse of the regularisation; chosen on Banking77 and the sample tickets with 5% of the labels
# flipped
_STRENGTH = 5.0
# the ranking on Banking77 stays the same with 100, and takes a fraction of the time
_ITERATIONS = 25


@dataclass(frozen=True)
class OutOfFold:
    """What models say of rows they have not learned from.

    Attributes:
        rows: int64 [judged], the rows whose label could be judged: those whose label other rows
            teach too.
        names: the labels that these rows have, ascending.
        labels: int64 [judged], places in `names`.
        probabilities: float64 [judged, C], each row sums to 1.
    """

    rows: np.ndarray
    names: tuple[str, ...]
    labels: np.ndarray
    probabilities: np.ndarray


def truncated_texts(fetched: FetchedEncoder, texts: Sequence[str]) -> tuple[np.ndarray, int]:
    """Which texts are longer than a model of this encoder reads by default.

    bool [texts], and that limit in tokens.
    """
    tokenizer = _tokenizer(fetched.folder, FULL.max_tokens)
    return tokenizer.encode(texts).truncated, tokenizer.settings.max_tokens


def unit_embeddings(
    fetched: FetchedEncoder, texts: Sequence[str], progress: Progress
) -> np.ndarray:
    """The mean of each text's token embeddings, of length 1, float32 [texts, D]."""
    tokenizer = _tokenizer(fetched.folder, _EMBEDDED_TOKENS)
    embed = _embed(fetched.folder, tokenizer.pad_id)
    width = read_settings(fetched.folder).width
    progress.stage("reading the texts with the encoder", len(texts), "texts")
    return unit(mean_embeddings(embed, tokenizer.encode(texts).token_ids, width, progress))


def _embed(folder: Path, pad_id: int) -> Embed:
    """The encoder's output, by Keras on a GPU, else by OpenVINO.

    Checks of texts alone need neither.
    """
    if keras_has_gpu():
        from bertcnn.encoders.convert import load_encoder
        from bertcnn.inference.keras_embeddings import keras_embed

        return keras_embed(load_encoder(folder))
    from bertcnn.inference.openvino_engine import token_embeddings
    from bertcnn.inference.openvino_graph import encoder_graph

    checkpoint = read_checkpoint(folder)
    return partial(token_embeddings, encoder_graph(checkpoint.tensors, checkpoint.settings), pad_id)


def _tokenizer(folder: Path, most: int) -> WordPieceTokenizer:
    limits = read_tokenizer_settings(folder, read_settings(folder).max_positions)
    tokens = min(most, limits.max_tokens)
    settings = TokenizerSettings(
        lowercase=limits.lowercase,
        max_tokens=tokens,
        head_tokens=min(limits.head_tokens, (tokens - 2) // 4 + 1),
    )
    return WordPieceTokenizer(read_vocabulary(folder / "vocab.txt"), settings)


def out_of_fold(
    features: np.ndarray,
    labels: Sequence[str],
    fold_of: np.ndarray,
    progress: Progress,
    folds: int = FOLDS,
) -> OutOfFold | None:
    """Each row's probabilities by a model trained on the other folds.

    None if fewer than two labels could be judged.

    Args:
        features: float32 [rows, D].
        labels: one a row.
        fold_of: int64 [rows].
        progress: progress callback; it advances with every fold.
        folds: how many.
    """
    from sklearn.linear_model import LogisticRegression

    names, codes = numbered(labels)
    probabilities = np.zeros((len(labels), len(names)))
    judged = np.zeros(len(labels), np.bool_)
    progress.stage("looking for label errors", folds, "folds")
    for fold in range(folds):
        held_out, taught = np.flatnonzero(fold_of == fold), np.flatnonzero(fold_of != fold)
        known = np.unique(codes[taught])
        if len(held_out) and len(known) > 1:
            model = LogisticRegression(C=_STRENGTH, max_iter=_ITERATIONS)
            _fit_quietly(model, features[taught], codes[taught])
            probabilities[np.ix_(held_out, known)] = model.predict_proba(features[held_out])
            judged[held_out] = np.isin(codes[held_out], known)
        progress.advance(1)
    rows = np.flatnonzero(judged)
    kept = np.unique(codes[rows])
    if len(kept) < 2:
        return None
    of_kept = probabilities[np.ix_(rows, kept)]
    of_kept = of_kept / np.maximum(of_kept.sum(axis=1, keepdims=True), 1e-12)
    return OutOfFold(
        rows, tuple(names[place] for place in kept), np.searchsorted(kept, codes[rows]), of_kept
    )


def _fit_quietly(model: object, features: np.ndarray, codes: np.ndarray) -> None:
    """Fit, with the warning about the limit of iterations left out.

    Stopping early is a choice here.
    """
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(features, codes)  # type: ignore[attr-defined]
