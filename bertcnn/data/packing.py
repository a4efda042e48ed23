"""Several texts in one row, so that hardly a token of it is padding."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np

from bertcnn.data.batches import MANY, plan_compiled
from bertcnn.data.cutting_stock import best_patterns

NUMBERS = "document_numbers"
PACKED = ("token_ids", "document_ids", "position_ids", NUMBERS)  # what a compiled engine is given
# where texts of over 256 tokens occur, those of up to 128 get rows of their own, in which attention
# costs less
_SHORT = 128
_LONG = 256
# batches are multiples of the rows that have about so many tokens, which are computed at a time
_PART_TOKENS = 1024
_MOST_TEXTS = 32  # of a row
# tokens of a compiled engine's rows, which texts share, and of its batches
_ROWS = (32, 64, 128)
_BATCH_TOKENS = 512
# with so many batches, empty rows in the last one cost less than kernels for fewer rows; else it
# has a multiple of so many tokens: last batches of all lengths then have kernels in common
_VERY_MANY, _LEAST_TOKENS = 4 * MANY, 128
_SOME, _FEW_TOKENS = 2, 1 / 4  # batches in all, and a share of their tokens
# tokens of an average text, below which 8 share a row instead of 4: each place costs, filled or not
_VERY_SHORT = 11
_FEW_TEXTS, _MANY_TEXTS = 4, 8
_MADE_TOGETHER = 16  # batches
_ROUNDING = 1e-6  # of rows
# filling fuller or longer rows better takes as long as it saves
_WELL_FILLED = 0.98  # of the tokens of rows
_TIGHTLY = 64  # tokens of a row


def pack(lengths: Sequence[int] | np.ndarray, capacity: int, most: int) -> np.ndarray:
    """The row of each item, by best-fit decreasing.

    Longest first, each into the fullest row that still has room for it. (Johnson 1974 for the
    bound: at most 11/9 of the fewest rows, plus one; Krell et al. 2021, "Efficient Sequence Packing
    without Cross-contamination", for BERT.) Linear in the number of items but for sorting.

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
    with_room: list[list[int]] = [
        [] for _ in range(capacity + 1)
    ]  # rows, by the tokens they still have room for
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


def pack_tightly(lengths: np.ndarray, capacity: int, most: int) -> np.ndarray:
    """As `pack`, in hardly a row more than the fewest possible.

    In 2.5% fewer rows of 32 for Banking77, and twice the time.
    It makes whole rows of the patterns that fill rows best, and leaves what is left over to `pack`.
    """
    patterns, times = best_patterns(np.bincount(lengths, minlength=capacity + 1), capacity, most)
    whole = np.floor(times + _ROUNDING).astype(np.int64)  # rows of each pattern
    pattern, size = np.nonzero(patterns)
    copies = patterns[pattern, size]
    # of each item of each pattern
    pattern = np.repeat(pattern, copies)
    size = np.repeat(size, copies)
    repeats = whole[pattern]
    place_size = np.repeat(size, repeats)
    place_row = np.repeat((np.cumsum(whole) - whole)[pattern], repeats)
    place_row += np.arange(len(place_row)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    by_size, items = np.argsort(place_size, kind="stable"), np.argsort(lengths, kind="stable")
    place_size, place_row = place_size[by_size], place_row[by_size]
    nth = np.arange(len(place_size)) - np.searchsorted(place_size, place_size)  # of its size
    rows = np.full(len(lengths), -1, np.int64)
    rows[items[np.searchsorted(lengths[items], place_size) + nth]] = place_row
    left = np.flatnonzero(rows < 0)
    rows[left] = whole.sum() + pack(lengths[left], capacity, most)
    return rows


@dataclass(frozen=True)
class PackedPlan:
    """Which texts share the rows of a batch.

    Attributes:
        slots: int64 [B, K], positions in the caller's list of the texts in each row, in their
            order; -1 where there is none.
        length: T, tokens of every row.
    """

    slots: np.ndarray
    length: int

    def trimmed(self, step: int) -> PackedPlan:
        """The same without empty rows behind the first multiple of `step` that holds all texts."""
        held = int((self.slots >= 0).any(axis=1).sum())
        return PackedPlan(self.slots[: -(-held // step) * step], self.length)


def places(
    plan: PackedPlan, lengths: Mapping[int, int] | np.ndarray
) -> Iterator[tuple[int, int, int, slice]]:
    """Where each text of a batch stands.

    Its position in the caller's list, its row, its number in the row from 1, and its tokens there.
    """
    for row, slots in enumerate(plan.slots):
        end = 0
        for number, text in enumerate(slots[slots >= 0].tolist(), start=1):
            start, end = end, end + int(lengths[text])
            yield text, row, number, slice(start, end)


def lay_out(
    token_ids: Sequence[np.ndarray], plan: PackedPlan, pad_id: int = 0
) -> dict[str, np.ndarray]:
    """The texts of `plan` as a batch of a packed encoder.

    Token, segment, document and position ids, each int32 [B, T].
    """
    there = plan.slots >= 0
    texts = [token_ids[text] for text in plan.slots[there].tolist()]
    rows, place = np.nonzero(there)
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    # a row's texts leave no gap
    inside = np.arange(plan.length) < np.bincount(rows, lengths, len(plan.slots))[:, None]

    def filled(values: np.ndarray, elsewhere: int = 0) -> np.ndarray:
        """An array of the batch with these values at its tokens."""
        array = np.full(inside.shape, elsewhere, np.int32)
        array[inside] = values
        return array

    return {
        "token_ids": filled(np.concatenate([np.empty(0, np.int32), *texts]), pad_id),
        "segment_ids": np.zeros(inside.shape, np.int32),
        "document_ids": filled(np.repeat(place + 1, lengths)),
        "position_ids": filled(
            np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        ),
    }


def plan_packed(
    lengths: np.ndarray, longest: int | None = None, most: int | None = None
) -> list[PackedPlan]:
    """Texts in batches for a compiled engine: short ones share a row, mostly 512 tokens a batch.

    A compiled engine makes new kernels for every shape that it has not met yet, and going over to
    another one costs it time as well. So rows have 32, 64 or 128 tokens, each as many as its
    longest text needs, and shorter texts fill it up. Longer texts have rows of their own, as
    `plan_compiled` says, since attention would cost them more than padding does. With few batches
    the last one of each length is smaller.

    Args:
        lengths: int [texts], tokens of each text.
        longest: tokens that the encoder has positions for; by default the longest of these.
        most: texts of a row at most; by default as many as are best for these.
    """
    lengths = np.asarray(lengths, np.int64)
    alone = lengths > _ROWS[-1] if len(lengths) > 1 else np.ones(len(lengths), bool)
    long, left = np.flatnonzero(alone), np.flatnonzero(~alone)
    numbers = np.append(long, -1)  # by their places, of which -1 is the last
    long_plans = [
        PackedPlan(numbers[plan.slots][:, None], plan.length)
        for plan in plan_compiled(lengths[long], longest)
    ]
    plans: list[PackedPlan] = []
    shortest = lengths[lengths <= _ROWS[0]]
    if most is None:
        most = _MANY_TEXTS if len(shortest) and shortest.mean() < _VERY_SHORT else _FEW_TEXTS
    many = lengths[left].sum() >= MANY * _BATCH_TOKENS
    for below, capacity in reversed(list(pairwise((0, *_row_lengths(lengths, most))))):
        if not (lengths[left] > below).any():
            continue
        packed = _Rows(pack(lengths[left], capacity, most), lengths[left])
        needed = packed.longest > below  # the other rows would do with fewer tokens
        if (
            many
            and capacity <= _TIGHTLY
            and packed.tokens[needed].sum() < _WELL_FILLED * capacity * needed.sum()
        ):
            packed = _Rows(pack_tightly(lengths[left], capacity, most), lengths[left])
            needed = packed.longest > below
        size = _BATCH_TOKENS // capacity
        if many:  # room that the last batch has goes to the fullest of the others
            others = np.where(needed, -1, packed.tokens)
            needed[
                np.argsort(-others, kind="stable")[: min(-needed.sum() % size, (~needed).sum())]
            ] = True
        taken = needed[packed.row_of]
        plans += _batches(_in_rows(packed.row_of[taken], left[taken], most), size, capacity)
        left = left[~taken]
    batches = len(long_plans) + len(plans)
    if batches < MANY:
        return [plan.trimmed(1) for plan in (*long_plans, *plans)]
    if batches < _VERY_MANY:
        plans = [plan.trimmed(_LEAST_TOKENS // plan.length) for plan in plans]
    return long_plans + plans


def _row_lengths(lengths: np.ndarray, most: int) -> tuple[int, ...]:
    """The tokens of rows that up to `most` texts share.

    Where few tokens are in texts for the shortest rows, there is hardly a full batch of these rows.
    Such texts then fill what is left of longer rows, and some of these alone.
    """
    total, shortest = lengths.sum(), lengths[lengths <= _ROWS[0]]
    few = total >= _SOME * _BATCH_TOKENS and shortest.sum() < _FEW_TOKENS * total
    return _ROWS[1:] if few and most * shortest.sum() >= _ROWS[1] * len(shortest) else _ROWS


class _Rows:
    """Each text's row, int64 [texts]; each row's tokens and longest text, int64 [rows]."""

    def __init__(self, row_of: np.ndarray, lengths: np.ndarray) -> None:
        self.row_of = row_of
        self.tokens = np.bincount(row_of, lengths).astype(np.int64)
        self.longest = np.zeros(len(self.tokens), np.int64)
        np.maximum.at(self.longest, row_of, lengths)


def _in_rows(row_of: np.ndarray, texts: np.ndarray, most: int) -> np.ndarray:
    """Texts by their rows, int64 [rows, most], in their order; -1 where there is none.

    Rows without a text are left out.
    """
    order = np.argsort(row_of, kind="stable")
    numbers, first, counts = np.unique(row_of[order], return_index=True, return_counts=True)
    rows = np.full((len(numbers), most), -1, np.int64)
    rows[
        np.repeat(np.arange(len(numbers)), counts), np.arange(len(order)) - np.repeat(first, counts)
    ] = texts[order]
    return rows


def packed_inputs(
    token_ids: Sequence[np.ndarray], plan: PackedPlan, pad_id: int
) -> dict[str, np.ndarray]:
    """A batch as the graphs take it.

    Returns:
        int32 arrays: `token_ids` [B, T]; `document_ids` [B, T], which of its row's texts a token is
        of, 1 to K, and 0 for padding; `position_ids` [B, T], its place in its text;
        `document_numbers` [K], 1 to K.
    """
    batch = lay_out(token_ids, plan, pad_id)
    batch[NUMBERS] = np.arange(1, plan.slots.shape[1] + 1, dtype=np.int32)
    return {name: batch[name] for name in PACKED}


def packed_batches(
    token_ids: Sequence[np.ndarray], plans: Sequence[PackedPlan], pad_id: int
) -> Iterator[dict[str, np.ndarray]]:
    """`packed_inputs` of each plan, in order.

    Of plans of the same shape that follow each other, many at a time are made together.
    """
    for (shape, length), alike in groupby(plans, lambda plan: (plan.slots.shape, plan.length)):
        slots = [plan.slots for plan in alike]
        for start in range(0, len(slots), _MADE_TOGETHER):
            together = PackedPlan(np.concatenate(slots[start : start + _MADE_TOGETHER]), length)
            made = packed_inputs(token_ids, together, pad_id)
            for row in range(0, len(together.slots), shape[0]):
                yield {
                    name: values if name == NUMBERS else values[row : row + shape[0]]
                    for name, values in made.items()
                }


class Packing:
    """Batches for texts of given lengths, in at most two shapes for XLA to compile.

    A batch is a number of full rows, such that `batch_size` texts are in one on average. Rows are
    as long as the longest text; if that is long, short texts have shorter rows of their own, and
    those of them that are left over join the long ones.

    Args:
        lengths: int [texts], tokens of each text to learn from, at least one.
        batch_size: texts of a batch, on average.
        longest: tokens of the longest text that `in_order` will be given, if it is none of these.

    Attributes:
        documents: K, texts of a row at most.
        shapes: rows B and tokens T of the batches.
        steps: batches of an epoch.

    Example:
        >>> packing = Packing(np.array([64] + [16] * 636), batch_size=32)
        >>> packing.shapes, packing.steps
        (((8, 64),), 20)
    """

    def __init__(self, lengths: np.ndarray, batch_size: int, longest: int = 0) -> None:
        self._lengths = np.asarray(lengths, np.int64)
        most = int(self._lengths.max())
        self._longest = max(longest, most)
        self._capacities = (
            (_SHORT, most) if most > _LONG and self._lengths.min() <= _SHORT else (most,)
        )
        short = self._lengths[self._lengths <= self._capacities[0]]
        self.documents = min(_MOST_TEXTS, math.ceil(1.5 * self._capacities[0] / short.mean()))
        self._batch_size = batch_size
        plans = self.epoch(np.random.default_rng(0))
        self.steps = len(plans)
        self.shapes = tuple(
            sorted({(len(plan.slots), plan.length) for plan in plans}, key=lambda shape: shape[1])
        )

    def epoch(self, generator: np.random.Generator) -> list[PackedPlan]:
        """Every text once, in random company; as many batches each time, of the same shapes.

        Args:
            generator: the source of this epoch's order.
        """
        order = generator.permutation(len(self._lengths))
        group = np.searchsorted(self._capacities, self._lengths[order])
        plans, carried = [], order[:0]
        for index, length in enumerate(self._capacities):
            texts = np.concatenate([carried, order[group == index]])
            rows = self._rows(self._lengths[texts], texts, length)
            size = _rows_of_a_batch(len(rows), len(texts), self._batch_size, length)
            last = index == len(self._capacities) - 1
            full = len(rows) if last else len(rows) // size * size
            carried = rows[full:][
                rows[full:] >= 0
            ]  # from the rows begun last, which are the least full
            plans += _batches(generator.permutation(rows[:full]), size, length)
        return [plans[index] for index in generator.permutation(len(plans))]

    def in_order(self, lengths: np.ndarray) -> list[PackedPlan]:
        """Other texts of at most `longest` tokens, each once, in batches of rows of that length."""
        rows = self._rows(np.asarray(lengths, np.int64), np.arange(len(lengths)), self._longest)
        return _batches(rows, max(1, _PART_TOKENS // self._longest), self._longest)

    def _rows(self, lengths: np.ndarray, texts: np.ndarray, capacity: int) -> np.ndarray:
        """The texts in rows, int64 [rows, K]; -1 where there is none."""
        return _in_rows(pack(lengths, capacity, self.documents), texts, self.documents)


def _rows_of_a_batch(rows: int, texts: int, batch_size: int, length: int) -> int:
    """How many rows hold `batch_size` texts on average.

    A multiple of the rows that are computed at a time, or fewer than those.
    """
    if not rows:
        return 1
    wanted, part = rows * batch_size / texts, max(1, _PART_TOKENS // length)
    return min(rows, max(1, round(wanted)) if wanted <= part else round(wanted / part) * part)


def _batches(rows: np.ndarray, size: int, length: int) -> list[PackedPlan]:
    """Rows in batches of `size`, the last one filled up with empty rows."""
    missing = -len(rows) % size
    filled = np.concatenate([rows, np.full((missing, rows.shape[1]), -1, np.int64)])
    return [
        PackedPlan(filled[start : start + size], length) for start in range(0, len(filled), size)
    ]
