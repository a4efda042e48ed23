"""Packs several texts into one row, so that few tokens are padding.

`lengths` are the tokens of each text, int [texts].
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np

from bertcnn.data.batches import MANY, plan_compiled
from bertcnn.data.cutting_stock import best_patterns
from bertcnn.text import segments_of

NUMBERS = "document_numbers"
POSITION_SEGMENTS = "position_segment_ids"
# inputs of a compiled engine
PACKED = ("token_ids", "document_ids", POSITION_SEGMENTS, NUMBERS)
# With texts of over 256 tokens, texts of up to 128 get rows of their own, where attention is
# cheaper.
_SHORT = 128
_LONG = 256
# Batches are multiples of the rows with about this many tokens, which are computed at a time.
_PART_TOKENS = 1024
_MOST_TEXTS = 32
# tokens of shared rows in a compiled engine, and of its batches
_ROWS = (32, 64, 128)
_BATCH_TOKENS = 512
# From this many batches on, empty rows in the last batch cost less than kernels for fewer rows.
# With fewer batches, its tokens are a multiple of this number, so last batches of all lengths share
# kernels.
_VERY_MANY, _LEAST_TOKENS = 4 * MANY, 128
_SOME, _FEW_TOKENS = 2, 1 / 4  # batches in all, and a share of their tokens
# Below this mean length in tokens, 8 texts share a row instead of 4: each slot costs, filled or
# not.
_VERY_SHORT = 11
_FEW_TEXTS, _MANY_TEXTS = 4, 8
_MADE_TOGETHER = 16
_ROUNDING = 1e-6
# Packing fuller or longer rows better takes as long as it saves.
_WELL_FILLED = 0.98  # share of the tokens of rows
_TIGHTLY = 64  # tokens of a row


def pack(lengths: Sequence[int] | np.ndarray, capacity: int, most: int) -> np.ndarray:
    """The row of each item, int64 [n], by best-fit decreasing; rows are numbered without gaps.

    Items go longest first, each into the fullest row with room for it. The result has at most 11/9
    of the fewest rows, plus one (Johnson 1974; for BERT: Krell et al. 2021, "Efficient Sequence
    Packing without Cross-contamination"). Apart from sorting, the time is linear in the number of
    items.

    Args:
        lengths: int [n], tokens of each item, at most `capacity`.
        capacity: T, tokens of a row.
        most: K, the maximum number of items in a row.

    Example:
        >>> pack([5, 3, 4, 3, 1], capacity=8, most=4)
        array([0, 0, 1, 1, 1])
    """
    lengths = np.asarray(lengths, np.int64)
    rows = np.empty(len(lengths), np.int64)
    held: list[int] = []
    with_room: list[list[int]] = [[] for _ in range(capacity + 1)]  # rows, by their free tokens
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
    """Like `pack`, with close to the fewest possible rows: best patterns first, then `pack`.

    For Banking77 it uses 2.5% fewer rows of 32 tokens and takes twice the time.
    """
    patterns, times = best_patterns(np.bincount(lengths, minlength=capacity + 1), capacity, most)
    whole = np.floor(times + _ROUNDING).astype(np.int64)  # rows of each pattern
    pattern, size = np.nonzero(patterns)
    copies = patterns[pattern, size]
    pattern = np.repeat(pattern, copies)
    size = np.repeat(size, copies)
    repeats = whole[pattern]
    slot_size = np.repeat(size, repeats)
    slot_row = np.repeat((np.cumsum(whole) - whole)[pattern], repeats)
    slot_row += np.arange(len(slot_row)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    by_size, items = np.argsort(slot_size, kind="stable"), np.argsort(lengths, kind="stable")
    slot_size, slot_row = slot_size[by_size], slot_row[by_size]
    nth = np.arange(len(slot_size)) - np.searchsorted(slot_size, slot_size)  # of its size
    rows = np.full(len(lengths), -1, np.int64)
    rows[items[np.searchsorted(lengths[items], slot_size) + nth]] = slot_row
    left = np.flatnonzero(rows < 0)
    rows[left] = whole.sum() + pack(lengths[left], capacity, most)
    return rows


@dataclass(frozen=True)
class PackedPlan:
    """The texts in the rows of a batch, and T, the `length` of a row in tokens.

    `slots` are the caller's positions of the texts in each row, in order, int64 [B, K]; -1 for
    none.
    """

    slots: np.ndarray
    length: int

    def trimmed(self, step: int) -> PackedPlan:
        """Drops empty rows after the first multiple of `step` that holds all texts."""
        held = int((self.slots >= 0).any(axis=1).sum())
        return PackedPlan(self.slots[: -(-held // step) * step], self.length)


def places(
    plan: PackedPlan, lengths: Mapping[int, int] | np.ndarray
) -> Iterator[tuple[int, int, int, slice]]:
    """Yields the caller's position, row, number in the row (from 1) and tokens of each text."""
    for row, slots in enumerate(plan.slots):
        end = 0
        for number, text in enumerate(slots[slots >= 0].tolist(), start=1):
            start, end = end, end + int(lengths[text])
            yield text, row, number, slice(start, end)


def lay_out(
    token_ids: Sequence[np.ndarray], plan: PackedPlan, pad_id: int = 0
) -> dict[str, np.ndarray]:
    """The texts of `plan` as a batch: token, segment, document and position ids, int32 [B, T]."""
    filled_slots = plan.slots >= 0
    texts = [token_ids[text] for text in plan.slots[filled_slots].tolist()]
    rows, slot = np.nonzero(filled_slots)
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    # no gaps between the texts of a row
    inside = np.arange(plan.length) < np.bincount(rows, lengths, len(plan.slots))[:, None]

    def filled(values: np.ndarray, elsewhere: int = 0) -> np.ndarray:
        array = np.full(inside.shape, elsewhere, np.int32)
        array[inside] = values
        return array

    return {
        "token_ids": filled(np.concatenate([np.empty(0, np.int32), *texts]), pad_id),
        "segment_ids": filled(segments_of(texts)),
        "document_ids": filled(np.repeat(slot + 1, lengths)),
        "position_ids": filled(
            np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        ),
    }


def plan_packed(
    lengths: np.ndarray, longest: int | None = None, most: int | None = None
) -> list[PackedPlan]:
    """Batches for a compiled engine: short texts share a row, mostly 512 tokens a batch.

    The engine builds kernels for every new shape, and changing shapes also costs time. So rows have
    32, 64 or 128 tokens, as few as the longest text needs, and shorter texts fill them up. Longer
    texts have their own rows (see `plan_compiled`), since attention would cost more than padding.
    With few batches, the last batch of each length is smaller. By default `longest` is the longest
    text, and `most`, the maximum texts of a row, is the best for these lengths.
    """
    lengths = np.asarray(lengths, np.int64)
    alone = lengths > _ROWS[-1] if len(lengths) > 1 else np.ones(len(lengths), bool)
    long, left = np.flatnonzero(alone), np.flatnonzero(~alone)
    numbers = np.append(long, -1)  # by slot; slot -1 selects the last
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
        needed = packed.longest > below  # shorter rows would do for the others
        if (
            many
            and capacity <= _TIGHTLY
            and packed.tokens[needed].sum() < _WELL_FILLED * capacity * needed.sum()
        ):
            packed = _Rows(pack_tightly(lengths[left], capacity, most), lengths[left])
            needed = packed.longest > below
        size = _BATCH_TOKENS // capacity
        if many:  # free rows in the last batch go to the fullest of the others
            spare = np.where(needed, -1, packed.tokens)
            needed[
                np.argsort(-spare, kind="stable")[: min(-needed.sum() % size, (~needed).sum())]
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
    """The lengths of shared rows; without the shortest if these rows would hardly fill a batch."""
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
    """Texts by their rows, int64 [rows, most], in their order, -1 for none; omits empty rows."""
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
    """A batch as the compiled graphs take it.

    Returns:
        int32 arrays: `token_ids` [B, T]; `document_ids` [B, T], the number of a token's text in its
        row, 1 to K, or 0 for padding; `position_segment_ids` [B, T], twice the position in the
        text, plus its segment, 0 or 1; `document_numbers` [K], 1 to K.
    """
    batch = lay_out(token_ids, plan, pad_id)
    batch[POSITION_SEGMENTS] = 2 * batch["position_ids"] + batch["segment_ids"]
    batch[NUMBERS] = np.arange(1, plan.slots.shape[1] + 1, dtype=np.int32)
    return {name: batch[name] for name in PACKED}


def position_segments(tensors: Mapping[str, np.ndarray]) -> np.ndarray:
    """Sums of position and segment embeddings, [2 P, D], in the order of `position_segment_ids`.

    `tensors` are an encoder's weights by name, with one segment or more.
    """
    segments = tensors["embeddings/segments"][[0, min(1, len(tensors["embeddings/segments"]) - 1)]]
    sums = tensors["embeddings/positions"][:, None] + segments
    return np.asarray(sums.reshape(-1, sums.shape[-1]))


def packed_batches(
    token_ids: Sequence[np.ndarray], plans: Sequence[PackedPlan], pad_id: int
) -> Iterator[dict[str, np.ndarray]]:
    """Yields `packed_inputs` of each plan; builds consecutive plans of one shape together."""
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
    """Training batches of packed texts, in at most two shapes for XLA to compile.

    Batches have a fixed number of full rows and `batch_size` texts on average. Rows are as long as
    the longest text. If that is long, short texts have shorter rows, and their leftovers join the
    long rows.

    Args:
        lengths: int [texts], tokens of each training text, at least one.
        batch_size: texts of a batch, on average.
        longest: tokens of the longest text for `in_order`, if longer than these.

    Attributes:
        documents: K, the maximum number of texts in a row.
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
        """Every text once, in random rows; the number and shapes of batches never change."""
        order = generator.permutation(len(self._lengths))
        group = np.searchsorted(self._capacities, self._lengths[order])
        plans, carried = [], order[:0]
        for index, length in enumerate(self._capacities):
            texts = np.concatenate([carried, order[group == index]])
            rows = self._rows(self._lengths[texts], texts, length)
            size = _rows_of_a_batch(len(rows), len(texts), self._batch_size, length)
            last = index == len(self._capacities) - 1
            full = len(rows) if last else len(rows) // size * size
            carried = rows[full:][rows[full:] >= 0]  # from the last, least full rows
            plans += _batches(generator.permutation(rows[:full]), size, length)
        return [plans[index] for index in generator.permutation(len(plans))]

    def in_order(self, lengths: np.ndarray) -> list[PackedPlan]:
        """Batches of other texts of at most `longest` tokens, each once, in rows of that length."""
        rows = self._rows(np.asarray(lengths, np.int64), np.arange(len(lengths)), self._longest)
        return _batches(rows, max(1, _PART_TOKENS // self._longest), self._longest)

    def _rows(self, lengths: np.ndarray, texts: np.ndarray, capacity: int) -> np.ndarray:
        return _in_rows(pack(lengths, capacity, self.documents), texts, self.documents)


def _rows_of_a_batch(rows: int, texts: int, batch_size: int, length: int) -> int:
    """The rows that hold `batch_size` texts: few, or a multiple of those computed at a time."""
    if not rows:
        return 1
    ideal, part = rows * batch_size / texts, max(1, _PART_TOKENS // length)
    return min(rows, max(1, round(ideal)) if ideal <= part else round(ideal / part) * part)


def _batches(rows: np.ndarray, size: int, length: int) -> list[PackedPlan]:
    missing = -len(rows) % size
    filled = np.concatenate([rows, np.full((missing, rows.shape[1]), -1, np.int64)])
    return [
        PackedPlan(filled[start : start + size], length) for start in range(0, len(filled), size)
    ]
