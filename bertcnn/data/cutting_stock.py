"""Near-optimal packing: cutting stock by column generation."""

from __future__ import annotations

import numpy as np

_ROUNDING = 1e-6  # in rows, and in the value of a pattern
_MOST_STEPS = 500  # of the simplex method; stopped early, its solution is still a valid packing


def best_patterns(counts: np.ndarray, capacity: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Solves the linear relaxation of bin packing: the fewest rows, where rows may be fractional.

    A pattern is the number of items of each size in one row. A linear program with very many
    columns decides how often each pattern is used. The simplex method only needs the column with
    the highest value at the current prices of the sizes, which is a knapsack problem (Gilmore and
    Gomory 1961, "A Linear Programming Approach to the Cutting-Stock Problem").

    Args:
        counts: int [capacity + 1], the number of items of each size; none of size 0.
        capacity: the size of a row.
        most: the maximum number of items in a row.

    Returns:
        Patterns, int64 [P, capacity + 1], and the rows of each, float64 [P]; together they hold
        exactly these items.

    Example:
        >>> lengths = np.bincount([6, 6, 4, 4, 5, 5, 5, 5], minlength=11)
        >>> patterns, rows = best_patterns(lengths, capacity=10, most=2)
        >>> round(float(rows.sum()), 6)
        4.0
    """
    sizes = np.flatnonzero(counts)
    # the initial basis: rows with items of one size each
    alone = np.minimum(most, capacity // sizes)
    patterns, inverse, rows = np.diag(alone), np.diag(1 / alone), counts[sizes] / alone
    knapsack = _Knapsack(sizes, capacity, most)
    for _ in range(_MOST_STEPS):
        worth, pattern = knapsack.fill(inverse.sum(axis=0))
        if worth <= 1 + _ROUNDING:
            break
        change = inverse @ pattern  # of all rows, for each row of the new pattern
        reach = np.divide(rows, change, out=np.full(len(rows), np.inf), where=change > _ROUNDING)
        leaves = int(reach.argmin())
        rows -= reach[leaves] * change
        rows[leaves], patterns[leaves] = reach[leaves], pattern
        pivot = inverse[leaves] / change[leaves]
        inverse -= np.outer(change, pivot)
        inverse[leaves] = pivot
    by_size = np.zeros((len(sizes), capacity + 1), np.int64)
    by_size[:, sizes] = patterns
    return by_size, rows


class _Knapsack:
    """The items of the highest total value that fit into a row, by dynamic programming."""

    def __init__(self, sizes: np.ndarray, capacity: int, most: int) -> None:
        self._sizes, self._capacity, self._most = sizes, capacity, most
        # [room, choice]; the first choice is no item
        room_left = np.arange(capacity + 1)[:, None] - np.append(0, sizes)
        self._fits, self._room_left = room_left >= 0, np.maximum(room_left, 0)

    def fill(self, prices: np.ndarray) -> tuple[float, np.ndarray]:
        """The best value and pattern, int64 [sizes], for the prices, float64 [sizes]."""
        prices, worth, choices = np.append(0, prices), np.zeros(self._capacity + 1), []
        for _ in range(self._most):
            by_choice = np.where(self._fits, prices + worth[self._room_left], -np.inf)
            choices.append(by_choice.argmax(axis=1))
            worth = by_choice.max(axis=1)
        pattern, room = np.zeros(len(prices), np.int64), self._capacity
        for choice in reversed(choices):
            pattern[choice[room]] += 1
            room = self._room_left[room, choice[room]]
        return float(worth[-1]), pattern[1:]
