"""Masking for the masked language model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bertcnn.pretraining.pairs import ranges
from bertcnn.settings import PretrainingDataSettings

# shares of the chosen tokens; the rest stays unchanged (Devlin et al. 2019, section 3.1)
SHOWN_AS_MASK, SHOWN_AS_RANDOM = 0.8, 0.1


@dataclass(frozen=True)
class Vocabulary:
    """The properties of a vocabulary that masking needs.

    `special`, bool [V], are tokens that are never predicted or drawn; `continues`, bool [V], are
    pieces that continue a word.
    """

    mask_id: int
    special: np.ndarray
    continues: np.ndarray


class MaskedTokens(NamedTuple):
    """Rows with some tokens masked.

    Attributes:
        token_ids: int32 [B, T], input of the network.
        masked_positions: int32 [B, P], positions of the chosen tokens, ascending, then 0 as filler.
        masked_labels: int32 [B, P], the original tokens, 0 at fillers.
        masked_weights: float32 [B, P], 1, and 0 at fillers.
    """

    token_ids: np.ndarray
    masked_positions: np.ndarray
    masked_labels: np.ndarray
    masked_weights: np.ndarray


def mask_tokens(
    token_ids: np.ndarray,
    vocabulary: Vocabulary,
    settings: PretrainingDataSettings,
    generator: np.random.Generator,
) -> MaskedTokens:
    """Mask `mask_fraction` of each row's tokens int32 [B, T] (Devlin et al. 2019, section 3.1).

    [CLS], [SEP], [PAD] and [UNK] are never chosen. A row with n other tokens has n x
    `mask_fraction` chosen, at most `masked_places`; the number is rounded up or down at random, so
    that the mean is right for short rows too. Each chosen token becomes [MASK] (80%), becomes a
    random ordinary piece (10%), or stays (10%). With `whole_words` the pieces of a word are chosen
    together, and each is then replaced independently.
    """
    candidates = ~vocabulary.special[token_ids]  # [B, T]
    counts = candidates.sum(1) * settings.mask_fraction + generator.random(len(token_ids))  # [B]
    limits = np.minimum(np.floor(counts).astype(np.int64), settings.masked_places)
    if settings.whole_words:
        continues = vocabulary.continues[token_ids]
        selected = _choose_words(continues, candidates, limits, settings.masked_places, generator)
    else:
        selected = _choose_tokens(candidates, limits, generator)
    rows, positions = np.nonzero(selected)  # ordered by row and position
    labels = token_ids[rows, positions]
    way = generator.random(len(labels))
    ordinary = np.flatnonzero(~vocabulary.special)
    random = ordinary[generator.integers(0, len(ordinary), len(labels))]
    masked = token_ids.copy()
    masked[rows, positions] = np.select(
        [way < SHOWN_AS_MASK, way < SHOWN_AS_MASK + SHOWN_AS_RANDOM],
        [vocabulary.mask_id, random],
        labels,
    )
    slots = ranges(np.zeros_like(limits), selected.sum(1))[1]
    shape = len(token_ids), settings.masked_places
    result = MaskedTokens(
        masked, np.zeros(shape, np.int32), np.zeros(shape, np.int32), np.zeros(shape, np.float32)
    )
    result.masked_positions[rows, slots] = positions
    result.masked_labels[rows, slots] = labels
    result.masked_weights[rows, slots] = 1.0
    return result


def _choose_tokens(
    candidates: np.ndarray, limits: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    order = np.argsort(np.where(candidates, generator.random(candidates.shape), 2.0), axis=1)
    selected = np.zeros_like(candidates)
    np.put_along_axis(selected, order, np.arange(candidates.shape[1]) < limits[:, None], axis=1)
    return selected


def _choose_words(
    continues: np.ndarray,
    candidates: np.ndarray,
    limits: np.ndarray,
    most: int,
    generator: np.random.Generator,
) -> np.ndarray:
    """Choose random whole words of each row up to its limit, bool [B, T].

    A word that would exceed the limit is chosen with a probability that keeps the mean.
    """
    batch, length = candidates.shape
    goes_on = continues & candidates
    goes_on[:, 1:] &= candidates[:, :-1]
    goes_on[:, 0] = False
    # [B, T], each token's word
    word = np.cumsum(~goes_on, axis=1) - 1 + np.arange(batch)[:, None] * length
    sizes = np.bincount(word[candidates], minlength=batch * length)
    keys = np.where(sizes > 0, generator.random(batch * length), 2.0).reshape(batch, length)
    order = np.argsort(keys, axis=1)
    ordered = np.take_along_axis(sizes.reshape(batch, length), order, axis=1)
    after = np.cumsum(ordered, axis=1)
    missing = limits[:, None] - (after - ordered)
    taken = (generator.random(ordered.shape) * ordered < missing) & (ordered > 0) & (after <= most)
    by_word = np.zeros((batch, length), bool)
    np.put_along_axis(by_word, order, taken, axis=1)
    return by_word.reshape(-1)[word] & candidates
