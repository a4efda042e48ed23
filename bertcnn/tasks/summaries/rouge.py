"""ROUGE-L, and what a summary is compared with: the first sentence of its text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bertcnn.errors import TableError
from bertcnn.wording import count

_WORD = re.compile(r"[^\W_]+")
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|\n+")
_RESAMPLES = 2000


def rouge_l(summary: str, reference: str) -> float:
    """F1 of the longest common subsequence of words, 0 to 1 (Lin 2004, section 3.1).

    It equals rouge-score's `rougeL` without stemming on ASCII texts, as the tests compare; other
    letters belong to words too. rouge-score's last release is from 2022 and it builds only from
    source, so it is a reference and not a dependency.

    Example:
        >>> rouge_l("Router is dead", "The router died, is dead")
        0.75
    """
    words, others = (_WORD.findall(text.lower()) for text in (summary, reference))
    common = _longest_common_subsequence(words, others)
    return 2 * common / (len(words) + len(others)) if common else 0.0


def _longest_common_subsequence(words: Sequence[str], others: Sequence[str]) -> int:
    """The length, by dynamic programming."""
    lengths = [0] * (len(others) + 1)  # of the words so far and the first k others
    for word in words:
        diagonal = 0
        for k, other in enumerate(others, 1):
            longest = diagonal + 1 if word == other else max(lengths[k], lengths[k - 1])
            diagonal, lengths[k] = lengths[k], longest
    return lengths[-1]


def first_sentence(text: str) -> str:
    """The text up to the first full stop, question or exclamation mark, or line break.

    Example:
        >>> first_sentence("No signal at 9.30! It was good before.")
        'No signal at 9.30!'
    """
    stripped = text.strip()
    end = _SENTENCE_END.search(stripped)
    return stripped[: end.start()] if end else stripped


@dataclass(frozen=True)
class Mean:
    """A mean with its 95 % bootstrap interval over the pairs, 2,000 resamples."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, scores: np.ndarray) -> Mean:
        """The mean of a score per pair, float [pairs] (Efron and Tibshirani 1993, section 13.3)."""
        rows = np.random.default_rng(0).integers(len(scores), size=(_RESAMPLES, len(scores)))
        low, high = np.quantile(scores[rows].mean(axis=1), (0.025, 0.975))
        return cls(float(scores.mean()), float(low), float(high))

    def __str__(self) -> str:
        return f"{self.value:.1%} ({self.low:.1%} to {self.high:.1%})"


@dataclass(frozen=True)
class SummaryFigures:
    """How close summaries, and each text's first sentence, are to given summaries.

    Attributes:
        rouge_l: mean ROUGE-L, 0 to 1.
        first_sentence: the same for the first sentences.
        gain: difference of both on the same pairs.
    """

    pairs: int
    rouge_l: Mean
    first_sentence: Mean
    gain: Mean

    @classmethod
    def of(
        cls, texts: Sequence[str], summaries: Sequence[str], references: Sequence[str]
    ) -> SummaryFigures:
        """Compare a summary of each text with its reference; there is at least 1.

        Raises:
            TableError: no pairs.
        """
        if not references:
            raise TableError("0 pairs", expected="at least 1", fix="give texts and summaries")
        own = np.array(list(map(rouge_l, summaries, references)))
        first = np.array(
            [
                rouge_l(first_sentence(text), other)
                for text, other in zip(texts, references, strict=True)
            ]
        )
        return cls(len(references), Mean.of(own), Mean.of(first), Mean.of(own - first))

    @property
    def lines(self) -> list[str]:
        """The figures for people, and what they say."""
        if self.gain.low > 0:
            verdict = "the summaries are closer to the given ones"
        elif self.gain.high < 0:
            verdict = "the first sentence is closer to the given ones: show that instead"
        else:
            verdict = "no difference can be shown"
        return [
            f"{count(self.pairs, 'pair')}, ROUGE-L with 95 % intervals:",
            f"summaries {self.rouge_l}, first sentence {self.first_sentence}",
            f"difference {self.gain}: {verdict}",
        ]

    def to_json(self) -> dict[str, Any]:
        """The figures for programs."""
        return asdict(self)
