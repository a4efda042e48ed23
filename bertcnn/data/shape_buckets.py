"""Batches of few shapes, so that a service can compile all shapes at startup.

A compiled engine builds kernels for every new shape. `plan_packed` has few shapes for many texts,
but one for each number of rows in a small batch.
"""

from __future__ import annotations

import numpy as np

from bertcnn.data.packing import PackedPlan, plan_packed

_ROWS = {
    32: (1, 2, 4, 8, 12, 16),
    64: (1, 2, 4, 6, 8),
    128: (1, 2, 3, 4),
}  # rows of a batch, by tokens of a row
_PLACES = 4  # texts in a shared row
_ALONE = (16, 32, 48, 64, 96, 128)  # tokens of a row with one text
_STEP = 64  # between longer rows
_BATCH_TOKENS = 512  # in batches of several rows with one long text each

Shape = tuple[int, int, int]  # rows B, tokens T, texts of a row K


def fixed_shapes(longest: int) -> list[Shape]:
    """All shapes that `plan_fixed` uses for texts of at most `longest` tokens.

    Example:
        >>> [shape for shape in fixed_shapes(30) if shape[2] == 1]
        [(1, 16, 1), (1, 30, 1)]
    """
    alone = [(1, length, 1) for length in _lengths(longest)]
    shared = [
        (rows, length, _PLACES)
        for length, counts in _ROWS.items()
        if length // 2 < longest or length == min(_ROWS)
        for rows in counts
    ]
    together = [(rows, length, 1) for _, length, _ in alone if (rows := _rows_of_long(length)) > 1]
    return alone + together + shared


def plan_fixed(lengths: np.ndarray, longest: int) -> list[PackedPlan]:
    """The batches of `plan_packed`, padded to `fixed_shapes(longest)`.

    A last batch of long texts that is not full is computed row by row.
    """
    plans: list[PackedPlan] = []
    long: dict[int, list[int]] = {}  # texts with a row of their own, by the tokens of the row
    for plan in plan_packed(lengths, longest, _PLACES):
        rows, texts_per_row = plan.slots.shape
        if texts_per_row == 1:  # long texts, or one alone
            length = next(step for step in _lengths(longest) if step >= plan.length)
            long.setdefault(length, []).extend(plan.slots[plan.slots >= 0].tolist())
            continue
        filled = next(count for count in _ROWS[plan.length] if count >= rows)
        empty = np.full((filled - rows, texts_per_row), -1, np.int64)
        plans.append(PackedPlan(np.concatenate([plan.slots, empty]), plan.length))
    for length, texts in long.items():
        rows = _rows_of_long(length)
        full = len(texts) // rows * rows
        starts = [*range(0, full, rows), *range(full, len(texts))]
        parts = np.split(np.array(texts)[:, None], starts[1:])
        plans += [PackedPlan(part, length) for part in parts]
    return plans


def _rows_of_long(length: int) -> int:
    """Rows in a full batch of texts too long to share a row; 1 for shorter texts."""
    return max(1, _BATCH_TOKENS // length) if length > _ALONE[-1] else 1


def _lengths(longest: int) -> list[int]:
    steps = [*_ALONE, *range(_ALONE[-1] + _STEP, longest, _STEP)]
    return [*(step for step in steps if step < longest), longest]
