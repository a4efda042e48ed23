"""Deterministic, stratified splits of labelled rows that keep duplicates together."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence

import numpy as np

from bertcnn.errors import SettingsError

# more than any model reads; NFKC takes quadratic time for consecutive combining marks
_COMPARED_CHARACTERS = 20_000
_NOT_LETTERS = re.compile(r"[\W\d_]+")


def duplicate_key(text: str) -> str:
    """The first 20,000 characters without case, spaces, punctuation and digits, if any are left.

    Example:
        >>> duplicate_key("Order 4711: NO signal!") == duplicate_key("order 12, no signal")
        True
    """
    text = text[:_COMPARED_CHARACTERS]
    plain = _NOT_LETTERS.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()
    return plain or " ".join(text.split())


def split_validation(
    texts: Sequence[str], labels: Sequence[str], fraction: float
) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers for training and validation, both int64 and ascending.

    Texts that only differ in case, spaces, punctuation and digits form a group, which is never
    split. Each label's groups are ordered by a hash of their text, and the first ones are for
    validation. So the split depends only on the texts and labels, not on chance or row order, and
    new rows move few old ones. A label with at least two groups has one on each side; a label with
    one group is only in training. A group with several labels counts for the commonest. It stays in
    training if no other training group has one of its labels.

    Raises:
        SettingsError: the fraction is out of range, or there are not as many labels as texts.

    Example:
        >>> texts = [f"router {word}" for word in ("dead", "slow", "hot", "lost")]
        >>> train, valid = split_validation(texts, ["hardware"] * 4, 0.25)
        >>> len(train), len(valid)
        (3, 1)
    """
    if not 0 <= fraction < 1:
        raise SettingsError(
            f"the validation fraction was {fraction}",
            expected="at least 0 and less than 1",
            fix="give such a share",
        )
    if len(texts) != len(labels):
        raise SettingsError(
            f"{len(texts):,} texts and {len(labels):,} labels",
            expected="one label for each text",
            fix="check both lists",
        )
    keys = [duplicate_key(text) for text in texts]
    by_label = _by_label(keys, labels, keys)
    is_valid = np.zeros(len(texts), np.bool_)
    for label_groups in by_label.values():
        for rows in _first_groups(sorted(label_groups), fraction):
            is_valid[rows] = True
    learned = {label for label, held_out in zip(labels, is_valid, strict=True) if not held_out}
    for rows in (rows for groups in by_label.values() for _, rows in groups):
        if not learned.issuperset(labels[row] for row in rows):
            is_valid[rows] = False
    return np.flatnonzero(~is_valid), np.flatnonzero(is_valid)


def assign_folds(
    groups: Sequence[Hashable], labels: Sequence[str], texts: Sequence[str], folds: int
) -> np.ndarray:
    """The fold of each row, int64 [rows]: groups stay together, and labels are spread evenly.

    Each label's groups are distributed by a hash of their first text, so folds do not depend on
    chance or on the order of labels. A group with several labels counts for the commonest.

    Example:
        >>> assign_folds([0, 1, 2, 2], ["a", "a", "b", "b"], ["w", "x", "y", "z"], folds=2).tolist()
        [1, 0, 0, 0]
    """
    by_label = _by_label(groups, labels, texts)
    fold_of = np.zeros(len(labels), np.int64)
    dealt = 0
    for label in sorted(by_label):
        for _, rows in sorted(by_label[label]):
            fold_of[rows] = dealt % folds
            dealt += 1
    return fold_of


def stratified_part(labels: np.ndarray, most: int, generator: np.random.Generator) -> np.ndarray:
    """About `most` rows, int64 and ascending: the same share of each label's, at least one.

    `labels` are integers from 0 to C - 1.

    Example:
        >>> labels = np.array([0] * 90 + [1] * 9 + [2])
        >>> np.bincount(labels[stratified_part(labels, 22, np.random.default_rng(0))])
        array([20,  2,  1])
    """
    if most >= len(labels):
        return np.arange(len(labels))
    order = generator.permutation(len(labels))
    grouped = order[np.argsort(labels[order], kind="stable")]
    counts = np.bincount(labels)
    rank = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    quotas = np.maximum(1, np.rint(counts * (most / len(labels))).astype(np.int64))
    return np.sort(grouped[rank < np.repeat(quotas, counts)])


def _by_label(
    groups: Sequence[Hashable], labels: Sequence[str], texts: Sequence[str]
) -> dict[str, list[tuple[bytes, list[int]]]]:
    """The groups by their commonest label: a hash of the first text, and the rows."""
    members: dict[Hashable, list[int]] = defaultdict(list)
    for row, group in enumerate(groups):
        members[group].append(row)
    by_label: dict[str, list[tuple[bytes, list[int]]]] = defaultdict(list)
    for rows in members.values():
        by_label[_main_label([labels[row] for row in rows])].append((_hash(texts[rows[0]]), rows))
    return by_label


def _hash(key: str) -> bytes:
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _main_label(labels: list[str]) -> str:
    return min(Counter(labels).items(), key=lambda item: (-item[1], item[0]))[0]


def _first_groups(groups: list[tuple[bytes, list[int]]], fraction: float) -> list[list[int]]:
    """Groups in order until they hold `fraction` of the rows; never none or all of several."""
    if fraction == 0 or len(groups) < 2:
        return []
    target = fraction * sum(len(rows) for _, rows in groups)
    chosen: list[list[int]] = []
    held = 0
    for _, rows in groups[:-1]:
        if chosen and held + len(rows) / 2 > target:
            break
        chosen.append(rows)
        held += len(rows)
    return chosen
