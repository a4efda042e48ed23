"""Several documents in one row: which ones go together so that hardly a token of a row is padding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def pack(lengths: Sequence[int] | np.ndarray, capacity: int, most: int) -> np.ndarray:
    """The row of each item, by best-fit decreasing: longest first, each into the fullest row that still has room for it.

    (Johnson 1974 for the bound: at most 11/9 of the fewest rows, plus one; Krell et al. 2021, "Efficient Sequence Packing without
    Cross-contamination", for BERT.) Linear in the number of items but for sorting.

    Args:
        lengths: int [n], tokens of each item, at most `capacity`.
        capacity: T, tokens of a row.
        most: K, items of a row at most.

    Returns:
        int64 [n], the row of each item; rows are numbered without gaps.

    Example:
        >>> pack([5, 3, 4, 3, 1], capacity=8, most=4)
        array([0, 0, 1, 1, 1])
    """
    lengths = np.asarray(lengths, np.int64)
    rows = np.empty(len(lengths), np.int64)
    held: list[int] = []  # items of each row
    with_room: list[list[int]] = [[] for _ in range(capacity + 1)]  # rows, by the tokens they still have room for
    rooms = 0  # bit r is set if a row has room for r tokens
    for item in np.argsort(-lengths, kind="stable").tolist():
        length = int(lengths[item])
        fitting = rooms >> length
        if fitting:
            room = length + (fitting & -fitting).bit_length() - 1
            row = with_room[room].pop()
            if not with_room[room]:
                rooms &= ~(1 << room)
        else:
            room, row = capacity, len(held)
            held.append(0)
        rows[item] = row
        held[row] += 1
        room -= length
        if room and held[row] < most:
            with_room[room].append(row)
            rooms |= 1 << room
    return rows
