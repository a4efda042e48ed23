"""BIO tags: from spans to tags of words, and from scores to the best valid tags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bertcnn.tasks.token_labels.labelled_texts import Span

_FORBIDDEN = -np.inf
OUTSIDE = 0  # tag of words without a label


@dataclass(frozen=True)
class FoundSpan:
    """A span found in a text.

    Attributes:
        start: index of its first character.
        end: index after its last character.
        probability: that exactly this span has this label; the sum over all valid tag sequences
            that contain it, with the model's calibrated probabilities of each word's tags.
    """

    start: int
    end: int
    label: str
    probability: float


def count_tags(labels: Sequence[str]) -> int:
    """Number of tags: O, and B and I of each label."""
    return 1 + 2 * len(labels)


def tags_of_spans(
    words: np.ndarray, spans: Sequence[Span], labels: Sequence[str]
) -> tuple[np.ndarray, int, int]:
    """The tags of words, int32 [words]: O is 0, B of label k is 2k + 1, I is 2k + 2.

    A span takes every word it touches, but for words that an earlier span has.

    Args:
        words: int [words, 2], characters of each word.
        spans: sorted, with known labels.
        labels: all labels, in the order of their tags.

    Returns:
        The tags, the number of spans that are wider than given, and the number of spans that lost
        a word to another span or have none.
    """
    tags = np.zeros(len(words), np.int32)
    widened = lost = 0
    for span in spans:
        touched = np.flatnonzero((words[:, 1] > span.start) & (words[:, 0] < span.end))
        free = touched[tags[touched] == OUTSIDE]
        lost += len(free) < len(touched) or not len(touched)
        if not len(free):
            continue
        first = 2 * labels.index(span.label) + 1
        tags[free], tags[free[0]] = first + 1, first
        widened += bool(words[free[0], 0] < span.start or words[free[-1], 1] > span.end)
    return tags, int(widened), int(lost)


def log_probabilities(scores: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    """Log-softmax of scores [words, tags] over the tags, float64."""
    scaled = np.asarray(scores, np.float64) / temperature
    return scaled - np.logaddexp.reduce(scaled, axis=-1, keepdims=True)


def transitions(labels: int) -> np.ndarray:
    """0 where a tag may follow another and -inf where not, float [tags, tags], by from and to.

    I of a label follows only B or I of the same label. A text begins as after O.
    """
    tags = np.arange(1 + 2 * labels)
    allowed = np.zeros((len(tags), len(tags)))
    for inside in tags[2::2]:
        allowed[:, inside] = _FORBIDDEN
        allowed[[inside - 1, inside], inside] = 0.0
    return allowed


def decode(scores: np.ndarray, words: np.ndarray, labels: Sequence[str]) -> list[FoundSpan]:
    """The spans of the most probable valid tag sequence of a text (Viterbi 1967).

    Args:
        scores: log-probabilities of each word's tags, float [words, tags].
        words: int [words, 2], characters of each word.
        labels: all labels, in the order of their tags.
    """
    if not len(scores):
        return []
    scores, allowed = np.asarray(scores, np.float64), transitions(len(labels))
    tags = _viterbi(scores, allowed)
    starts = np.flatnonzero(tags % 2 == 1)
    if not len(starts):
        return []
    forward, backward = _sums(scores, allowed)
    total = np.logaddexp.reduce(forward[-1])
    found = []
    for start in starts.tolist():
        end, inside = start, tags[start] + 1
        while end + 1 < len(tags) and tags[end + 1] == inside:
            end += 1
        before = 0.0 if start == 0 else np.logaddexp.reduce(forward[start - 1])
        path = scores[start, inside - 1] + scores[start + 1 : end + 1, inside].sum()
        # the next word does not continue the span
        after = 0.0
        if end + 1 < len(tags):
            following = scores[end + 1] + backward[end + 1] + allowed[inside]
            following[inside] = _FORBIDDEN
            after = np.logaddexp.reduce(following)
        share = float(np.exp(min(0.0, before + path + after - total)))
        label = labels[(int(inside) - 2) // 2]
        found.append(FoundSpan(int(words[start, 0]), int(words[end, 1]), label, share))
    return found


def _viterbi(scores: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    best, back = scores[0] + allowed[OUTSIDE], np.zeros(scores.shape, np.int64)
    for word in range(1, len(scores)):
        paths = best[:, None] + allowed
        back[word] = paths.argmax(axis=0)
        best = paths.max(axis=0) + scores[word]
    tags = np.zeros(len(scores), np.int64)
    tags[-1] = best.argmax()
    for word in range(len(scores) - 1, 0, -1):
        tags[word - 1] = back[word, tags[word]]
    return tags


def _sums(scores: np.ndarray, allowed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of the sums over all valid sequences before, with, and after each word's tag."""
    forward, backward = np.empty_like(scores), np.zeros_like(scores)
    forward[0] = scores[0] + allowed[OUTSIDE]
    for word in range(1, len(scores)):
        before = np.logaddexp.reduce(forward[word - 1][:, None] + allowed, axis=0)
        forward[word] = before + scores[word]
    for word in range(len(scores) - 2, -1, -1):
        after = scores[word + 1] + backward[word + 1]
        backward[word] = np.logaddexp.reduce(allowed + after[None, :], axis=1)
    return forward, backward
