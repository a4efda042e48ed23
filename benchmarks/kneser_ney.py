"""An n-gram model with interpolated, modified Kneser-Ney smoothing (Chen and Goodman 1999)."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import Final

START: Final = "<start>"
END: Final = "<end>"
Gram = tuple[Hashable, ...]


class KneserNey:
    """Probabilities of a token after the `order` - 1 tokens before it.

    The highest order counts n-grams. Below it, an n-gram counts once for each different token
    before it. The lowest order is interpolated with a uniform distribution.

    Args:
        texts: the tokens of each text; the end of a text is one more.
        order: n, at least 2.
        vocabulary: number of different tokens, with the end.
        discount: subtracted from every count; by default estimated in each order for counts of 1, 2
            and more (Chen and Goodman 1999, equation 26).
    """

    def __init__(
        self,
        texts: Iterable[Sequence[Hashable]],
        order: int,
        vocabulary: int,
        *,
        discount: float | None = None,
    ) -> None:
        self.order, self.vocabulary = order, vocabulary
        counts = Counter(gram for tokens in texts for gram in self._grams(tokens))
        self._followers: list[dict[Gram, Counter[Hashable]]] = []  # by length of the history
        self._discounts: list[tuple[float, ...]] = []
        for _ in range(order):
            followers: defaultdict[Gram, Counter[Hashable]] = defaultdict(Counter)
            for gram, count in counts.items():
                followers[gram[:-1]][gram[-1]] = count
            self._followers.insert(0, followers)
            estimated = _discounts(Counter(counts.values()))
            self._discounts.insert(0, estimated if discount is None else (discount,) * 3)
            counts = Counter(gram[1:] for gram in counts)

    def probability(self, token: Hashable, history: Gram) -> float:
        """The probability of a token after a history of at most `order` - 1 tokens."""
        lower = self.probability(token, history[1:]) if history else 1.0 / self.vocabulary
        followers = self._followers[len(history)].get(history)
        if followers is None:
            return lower
        discounts, total = self._discounts[len(history)], followers.total()
        count = followers.get(token, 0)
        own = max(count - discounts[min(count, 3) - 1], 0.0) if count else 0.0
        freed = sum(min(discounts[min(one, 3) - 1], one) for one in followers.values())
        return (own + freed * lower) / total

    def log_likelihood(self, tokens: Sequence[Hashable]) -> float:
        """The natural logarithm of a text's probability, with its end."""
        return sum(math.log(self.probability(gram[-1], gram[:-1])) for gram in self._grams(tokens))

    def _grams(self, tokens: Sequence[Hashable]) -> Iterable[Gram]:
        padded = [*[START] * (self.order - 1), *tokens, END]
        return zip(*(padded[start:] for start in range(self.order)), strict=False)


def _discounts(counts: Counter[int]) -> tuple[float, ...]:
    """Discounts of n-grams seen once, twice and more often, from how many were seen how often."""
    seen = [max(1, counts[times]) for times in range(1, 5)]
    share = seen[0] / (seen[0] + 2 * seen[1])
    ratios = [(times + 1) * share * seen[times] / seen[times - 1] for times in (1, 2, 3)]
    return tuple(max(0.0, times - ratio) for times, ratio in enumerate(ratios, 1))
