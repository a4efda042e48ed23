"""Padded batches of token ids: the only padding code of the package.

`lengths` are the tokens of each row, int [rows].
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeVar

import numpy as np

from bertcnn.text import segments_of

_STEP = 4  # lengths are rounded up to a multiple of this many tokens
# Tokens in a full batch of a compiled engine, in order of preference; their divisors are the padded
# lengths.
_FULL = (480, 512, 384, 448, 320)
# Lengths are multiples of 16, plus the shorter ones that cost the least.
_STEP_OF_ATTENTION = 16
_SHORTER = (8, 10, 12, 20, 24, 40)
MANY = 8  # with this many batches, filling up the last ones is cheaper than new shapes
_MOST_PADDED = 4 / 3  # a row is padded to at most this multiple of its length to fill a batch
_LONG_STEP = 128  # between lengths over 512
T = TypeVar("T")
_END = object()


@dataclass(frozen=True)
class BatchPlan:
    """The rows of a batch and its padded length.

    Attributes:
        rows: int64 [b], positions in the caller's list.
        length: T, tokens each row is padded to.
        size: B, rows of the padded batch; the last B - b rows are empty fillers.
    """

    rows: np.ndarray
    length: int
    size: int

    @property
    def slots(self) -> np.ndarray:
        """The caller's position of each row, int64 [B]; -1 for fillers."""
        return np.concatenate([self.rows, np.full(self.size - len(self.rows), -1, np.int64)])


@dataclass(frozen=True)
class Batch:
    """Padded input of the network.

    Attributes:
        rows: int64 [b], positions in the caller's list; the last B - b rows are fillers.
        token_ids: int32 [B, T].
        segment_ids: int32 [B, T], see `segments_of`.
        padding_mask: int32 [B, T], 1 at tokens and 0 at padding.
    """

    rows: np.ndarray
    token_ids: np.ndarray
    segment_ids: np.ndarray
    padding_mask: np.ndarray

    def inputs(self) -> dict[str, np.ndarray]:
        """The network's inputs by name."""
        return {
            "token_ids": self.token_ids,
            "segment_ids": self.segment_ids,
            "padding_mask": self.padding_mask,
        }


def pad(token_ids: Sequence[np.ndarray], plan: BatchPlan, pad_id: int = 0) -> Batch:
    """Pads the rows of `plan` into one batch.

    Filler rows have one unmasked padding token, so that attention is defined; ignore their output.
    """
    texts = [token_ids[row] for row in plan.rows.tolist()]
    lengths = np.zeros((plan.size, 1), np.int64)
    lengths[: len(texts), 0] = [len(ids) for ids in texts]
    inside = np.arange(plan.length) < lengths
    padded = np.full(inside.shape, pad_id, np.int32)
    segments = np.zeros(inside.shape, np.int32)
    padded[inside] = np.concatenate([np.empty(0, np.int32), *texts])
    segments[inside] = segments_of(texts)
    mask = inside.astype(np.int32)
    mask[len(plan.rows) :, 0] = 1
    return Batch(plan.rows, padded, segments, mask)


def choose_lengths(lengths: np.ndarray, most: int = 6) -> tuple[int, ...]:
    """The padded lengths, at most `most`, that minimise padding for rows of these `lengths`.

    XLA compiles a program for each length, so few are wanted. Dynamic programming over the lengths,
    rounded up to a multiple of 4, finds the optimum. The last length is the longest row, because
    the encoder may have no more positions. There must be at least one row.

    Example:
        >>> choose_lengths(np.array([5, 6, 7, 30, 31, 120]), most=2)
        (32, 120)
    """
    longest = int(np.max(lengths))
    rounded = np.minimum(-(-np.asarray(lengths, np.int64) // _STEP) * _STEP, longest)
    edges, counts = np.unique(rounded, return_counts=True)
    rows_up_to = np.concatenate([[0], np.cumsum(counts)])
    # cost[k, j]: fewest padded tokens for the rows of the first j edges, in k + 1 groups
    most = min(most, len(edges))
    cost = np.full((most, len(edges) + 1), np.inf)
    cut = np.zeros((most, len(edges) + 1), np.int64)
    cost[:, 0] = 0
    for groups in range(most):
        for end in range(1, len(edges) + 1):
            group_cost = (rows_up_to[end] - rows_up_to[:end]) * edges[end - 1]
            before = (
                cost[groups - 1, :end] if groups else np.where(np.arange(end) == 0, 0.0, np.inf)
            )
            total = before + group_cost
            cut[groups, end] = np.argmin(total)
            cost[groups, end] = total[cut[groups, end]]
    chosen, end = [], len(edges)
    for groups in range(most - 1, -1, -1):
        if end == 0:
            break
        chosen.append(int(edges[end - 1]))
        end = cut[groups, end]
    return tuple(sorted(chosen))


def plan_training(
    lengths: np.ndarray,
    padded_lengths: Sequence[int],
    batch_size: int,
    generator: np.random.Generator,
) -> list[BatchPlan]:
    """One epoch of random batches of similar length; at most one batch is not full.

    Leftover rows move to the next longer padded length, so shapes stay static with few fillers.
    `padded_lengths` are ascending, and the last one is at least the longest row.
    """
    order = generator.permutation(len(lengths))
    bucket = np.searchsorted(padded_lengths, lengths[order])
    plans, carried = [], order[:0]
    for index, length in enumerate(padded_lengths):
        rows = np.concatenate([carried, order[bucket == index]])
        full = len(rows) // batch_size * batch_size
        plans += [
            BatchPlan(part, length, batch_size) for part in rows[:full].reshape(-1, batch_size)
        ]
        carried = rows[full:]
    if len(carried):
        plans.append(BatchPlan(carried, padded_lengths[-1], batch_size))
    return [plans[index] for index in generator.permutation(len(plans))]


def plan_scoring(
    lengths: np.ndarray, token_budget: int = 2048, padded_lengths: Sequence[int] | None = None
) -> list[BatchPlan]:
    """Batches of rows sorted by length, at most `token_budget` padded tokens (or one row) each.

    By default a batch is as long as its longest row, without fillers. With `padded_lengths`, only
    these lengths with a fixed number of rows each are used, so a compiled engine sees few shapes.
    """
    order = np.argsort(lengths, kind="stable")
    ordered = lengths[order]
    plans: list[BatchPlan] = []
    start = 0
    while start < len(order):
        if padded_lengths is None:
            next_rows = ordered[start : start + token_budget]  # each row has at least one token
            reach = next_rows * np.arange(1, len(next_rows) + 1)
            rows = max(1, int(np.searchsorted(reach, token_budget, side="right")))
            part = order[start : start + rows]
            plans.append(BatchPlan(part, int(lengths[part[-1]]), len(part)))
        else:
            length = padded_lengths[int(np.searchsorted(padded_lengths, ordered[start]))]
            rows = max(1, token_budget // length)
            fits = int(np.searchsorted(ordered, length, side="right")) - start
            part = order[start : start + min(rows, fits)]
            plans.append(BatchPlan(part, length, rows))
        start += len(part)
    return plans


def plan_full(
    lengths: np.ndarray, token_budget: int, padded_lengths: Sequence[int]
) -> list[BatchPlan]:
    """Few full batches, for a device that takes as long for a batch with fillers as for a full one.

    The longest rows come first and shorter rows fill up their batches, so only the last batch can
    have fillers. A batch has at most `token_budget` padded tokens, or one row. `padded_lengths` are
    ascending, and the last one is at least the longest row.

    Example:
        >>> plans = plan_full(np.array([3, 9, 2, 4]), token_budget=32, padded_lengths=(4, 16))
        >>> [(plan.rows.tolist(), plan.length, plan.size) for plan in plans]
        [([1, 3], 16, 2), ([0, 2], 4, 8)]
    """
    order = np.argsort(-lengths, kind="stable")
    plans: list[BatchPlan] = []
    start = 0
    while start < len(order):
        length = padded_lengths[int(np.searchsorted(padded_lengths, lengths[order[start]]))]
        rows = max(1, token_budget // length)
        plans.append(BatchPlan(order[start : start + rows], length, rows))
        start += rows
    return plans


def plan_compiled(lengths: np.ndarray, longest: int | None = None) -> list[BatchPlan]:
    """Batches of about 500 tokens (mostly 480) for a compiled engine, one text a row.

    For every new number of tokens, each stream of the engine builds kernels, which takes longer
    than computing two batches. So padded lengths are divisors of a few numbers, and batches are
    full. The lengths are the multiples of 16, where CPU attention is fastest, and a few between
    them, where these engines compute attention for several rows together. No row is padded beyond
    `longest`, by default the longest row.

    Leftover rows of one length move up to the next unless it is much longer. Otherwise empty rows
    fill their batch if there are many batches. A single text is also padded to a multiple of 16: a
    change of the number of tokens, even to one seen before, costs half as much as the prediction.
    """
    if not len(lengths):
        return []
    longest = int(max(lengths)) if longest is None else longest
    if len(lengths) == 1 and lengths[0] <= max(_FULL):
        return [
            BatchPlan(
                np.zeros(1, int),
                min(-(-int(lengths[0]) // _STEP_OF_ATTENTION) * _STEP_OF_ATTENTION, longest),
                1,
            )
        ]
    sizes = _full_batches(longest)
    steps = np.array(list(sizes))
    order = np.argsort(lengths, kind="stable")
    # the index in `steps` of each row's padded length, ascending
    reached = np.searchsorted(steps, lengths[order])
    plans: list[BatchPlan] = []
    start = 0
    while start < len(order):
        step = int(reached[start])
        while (
            needed := int(reached[min(start + sizes[steps[step]], len(order)) - 1])
        ) > step:  # too few rows of this length
            step += 1
        rows = order[start : start + sizes[steps[step]]]
        # the next rows are much longer: a batch that is not full is cheaper
        if steps[step] > _MOST_PADDED * steps[needed]:
            step, rows = needed, order[start : np.searchsorted(reached, needed, side="right")]
        plans.append(BatchPlan(rows, int(steps[step]), len(rows)))
        start += len(rows)
    return (
        plans if len(plans) < MANY else [replace(plan, size=sizes[plan.length]) for plan in plans]
    )


@cache
def _full_batches(longest: int) -> dict[int, int]:
    """The padded lengths, ascending, and the rows in a full batch of each."""
    lengths = [
        length
        for length in (*_SHORTER, *range(_STEP_OF_ATTENTION, max(_FULL) + 1, _STEP_OF_ATTENTION))
        if length <= longest
    ]
    sizes = {
        length: full // length
        for full in reversed(_FULL)
        for length in lengths
        if full % length == 0
    }
    beyond = range(max(_FULL) + _LONG_STEP, longest, _LONG_STEP)
    return dict(
        sorted(
            {longest: max(1, max(_FULL) // longest), **dict.fromkeys(beyond, 1), **sizes}.items()
        )
    )


def prefetch(items: Generator[T, None, None]) -> Generator[T, None, None]:
    """The same items, each computed in a thread while the previous one is in use.

    At most one item waits. An error is raised where its item would have come. `break` or Ctrl-C
    ends the thread and closes `items`.

    Example:
        >>> list(prefetch(number**2 for number in range(4)))
        [0, 1, 4, 9]
    """
    with closing(items), ThreadPoolExecutor(1, thread_name_prefix="prefetch") as thread:
        coming = thread.submit(next, items, _END)
        while (item := coming.result()) is not _END:
            coming = thread.submit(next, items, _END)
            yield item  # type: ignore[misc]  # _END is gone
