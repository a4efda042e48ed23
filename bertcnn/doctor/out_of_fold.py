"""Out-of-fold label probabilities by logistic regression on the frozen encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from bertcnn.backend import keras_has_gpu
from bertcnn.bundle import unit
from bertcnn.data import numbered
from bertcnn.encoders import FetchedEncoder, read_checkpoint, read_settings
from bertcnn.inference import Embed, mean_embeddings
from bertcnn.progress import Progress
from bertcnn.settings import FULL
from bertcnn.text import WordPieceTokenizer

FOLDS = 5
_EMBEDDED_TOKENS = 256  # of a longer text: a quarter of them from its start, the rest from its end
# inverse regularisation; chosen on Banking77 and the sample tickets with 5% of the labels flipped
_STRENGTH = 5.0
# 100 gives the same ranking on Banking77 in a fraction of the time
_ITERATIONS = 25


@dataclass(frozen=True)
class OutOfFold:
    """Held-out predictions for each row.

    Attributes:
        rows: int64 [judged], rows whose label also occurs in other folds.
        names: the labels of these rows, ascending.
        labels: int64 [judged], indices into `names`.
        probabilities: float64 [judged, C]; each row sums to 1.
    """

    rows: np.ndarray
    names: tuple[str, ...]
    labels: np.ndarray
    probabilities: np.ndarray


def truncated_texts(fetched: FetchedEncoder, texts: Sequence[str]) -> tuple[np.ndarray, int]:
    """Which texts exceed the encoder's default limit, bool [texts], and the limit in tokens."""
    tokenizer = WordPieceTokenizer.from_folder(fetched.folder, max_tokens=FULL.max_tokens)
    return tokenizer.encode(texts).truncated, tokenizer.settings.max_tokens


def unit_embeddings(
    fetched: FetchedEncoder, texts: Sequence[str], progress: Progress
) -> np.ndarray:
    """Mean token embeddings of texts, of length 1, float32 [texts, D]."""
    tokenizer = WordPieceTokenizer.from_folder(fetched.folder, max_tokens=_EMBEDDED_TOKENS)
    embed = _embed(fetched.folder, tokenizer.pad_id)
    width = read_settings(fetched.folder).width
    progress.stage("reading the texts with the encoder", len(texts), "texts")
    return unit(mean_embeddings(embed, tokenizer.encode(texts).token_ids, width, progress))


def _embed(folder: Path, pad_id: int) -> Embed:
    """The encoder's output, by Keras on a GPU, else by OpenVINO.

    Imported lazily: checks of texts alone need neither.
    """
    if keras_has_gpu():
        from bertcnn.encoders import load_encoder
        from bertcnn.inference import keras_embed

        return keras_embed(load_encoder(folder))
    from bertcnn.inference import encoder_graph, token_embeddings

    checkpoint = read_checkpoint(folder)
    return partial(token_embeddings, encoder_graph(checkpoint.tensors, checkpoint.settings), pad_id)


def out_of_fold(
    features: np.ndarray,
    labels: Sequence[str],
    fold_of: np.ndarray,
    progress: Progress,
    folds: int = FOLDS,
) -> OutOfFold | None:
    """Each row's probabilities from a model trained on the other folds.

    None if fewer than two labels can be judged. `features` are float32 [rows, D], `fold_of` int64
    [rows]; `progress` advances by fold.
    """
    from sklearn.linear_model import LogisticRegression

    names, codes = numbered(labels)
    probabilities = np.zeros((len(labels), len(names)))
    predicted = np.zeros(len(labels), np.bool_)
    progress.stage("looking for label errors", folds, "folds")
    for fold in range(folds):
        held_out, taught = np.flatnonzero(fold_of == fold), np.flatnonzero(fold_of != fold)
        classes = np.unique(codes[taught])
        if len(held_out) and len(classes) > 1:
            model = LogisticRegression(C=_STRENGTH, max_iter=_ITERATIONS)
            _fit_quietly(model, features[taught], codes[taught])
            probabilities[np.ix_(held_out, classes)] = model.predict_proba(features[held_out])
            predicted[held_out] = np.isin(codes[held_out], classes)
        progress.advance(1)
    rows = np.flatnonzero(predicted)
    kept = np.unique(codes[rows])
    if len(kept) < 2:
        return None
    of_kept = probabilities[np.ix_(rows, kept)]
    of_kept = of_kept / np.maximum(of_kept.sum(axis=1, keepdims=True), 1e-12)
    return OutOfFold(
        rows, tuple(names[code] for code in kept), np.searchsorted(kept, codes[rows]), of_kept
    )


def _fit_quietly(model: object, features: np.ndarray, codes: np.ndarray) -> None:
    """Fit without the warning about the iteration limit: stopping early is intended."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(features, codes)  # type: ignore[attr-defined]
