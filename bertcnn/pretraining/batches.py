"""Pretraining batches, each determined by corpus, settings, seed, epoch and step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from bertcnn.data import pack, splitmix64
from bertcnn.errors import SettingsError
from bertcnn.pretraining.corpus import Corpus
from bertcnn.pretraining.masking import Vocabulary, mask_tokens
from bertcnn.pretraining.pairs import Sentences, draw_pairs, pair_lengths, ranges
from bertcnn.settings import PretrainingDataSettings

Part = Literal["training", "held_out"]

# documents shuffled, paired and packed together, each of at most 4,096 tokens
_WINDOW = 8192
_KEPT_WINDOWS, _KEPT_EPOCHS = 3, 2
_MASKED_TOGETHER = 8  # rows per random generator, so that masks do not depend on `own`
_ORDER, _PAIRS, _MASKS = 1, 2, 3
_ROUNDS = 6


class Shuffle:
    """A permutation of 0 .. size - 1.

    A Feistel network over the next power of 4, repeated until the result is below `size` (Black
    and Rogaway 2002); the generator draws the keys of its rounds.

    Example:
        >>> order = Shuffle(5, np.random.default_rng(1))
        >>> sorted(order(np.arange(5)).tolist())
        [0, 1, 2, 3, 4]
    """

    def __init__(self, size: int, generator: np.random.Generator) -> None:
        self._size = size
        self._bits = np.uint64(max(1, -(-max(1, size - 1).bit_length() // 2)))
        self._keys = generator.integers(0, 1 << 63, _ROUNDS, dtype=np.uint64)

    def __call__(self, places: np.ndarray) -> np.ndarray:
        """The elements at these places of the permutation; both int64 [n], below `size`."""
        elements = self._network(places.astype(np.uint64))
        while len(outside := np.flatnonzero(elements >= self._size)):
            elements[outside] = self._network(elements[outside])
        return elements.astype(np.int64)

    def _network(self, values: np.ndarray) -> np.ndarray:
        low_bits = (np.uint64(1) << self._bits) - np.uint64(1)
        left, right = values >> self._bits, values & low_bits
        for key in self._keys:
            left, right = right, left ^ (splitmix64(right + key) & low_bits)
        return (left << self._bits) | right


@dataclass(frozen=True)
class EpochReport:
    """Counts of an epoch.

    Attributes:
        row_length: T.
        tokens: with [CLS] and [SEP], without padding.
        entries: pairs and single segments.
        pairs: pairs with a next-sentence label.
        random: pairs whose segment B comes from another document.
        alone: single segments, used for masked language modelling only.
        unpaired: pairs without a next-sentence label, since there was no other document.
    """

    documents: int
    rows: int
    row_length: int
    tokens: int
    entries: int
    pairs: int
    random: int
    alone: int
    unpaired: int

    @property
    def efficiency(self) -> float:
        """Share of the rows' positions that are not padding."""
        return self.tokens / max(1, self.rows * self.row_length)

    def lines(self) -> list[str]:
        """The counts as log messages."""
        lines = [
            f"{self.documents:,} documents in {self.rows:,} rows of {self.row_length} tokens,"
            f" {1 - self.efficiency:.1%} padding"
        ]
        if self.pairs:
            lines.append(
                f"{self.pairs:,} pairs for next sentence prediction, {self.random:,} of them from"
                " two documents"
            )
        if self.alone and self.pairs:
            lines.append(
                f"{self.alone:,} of {self.entries:,} segments have no partner and count for masked"
                " words only"
            )
        elif self.alone:
            lines.append("no next sentence prediction: no segment has a partner")
        if self.unpaired:
            lines.append(
                f"{self.unpaired:,} pairs do not count for next sentence prediction: there is no"
                " other document to draw a segment from"
            )
        return lines


@dataclass(frozen=True)
class _Window:
    """Documents in rows: `PAIR` [n] in row order, and the start of each row, int64 [rows + 1]."""

    pairs: np.ndarray
    row_starts: np.ndarray
    documents: int


class PretrainingBatches:
    """The batches of a corpus.

    Every epoch uses all documents once, with new order, pairs, rows and masks. Any batch can be
    requested at any time and is always the same, so an interrupted run resumes within an epoch.
    Documents are processed in windows of 8,192, so memory does not grow with the corpus. The first
    batch of an epoch takes longer, since it plans the epoch.
    A batch holds int32 `token_ids`, `segment_ids`, `padding_mask` [B, T]; `masked_positions`,
    `masked_labels` and float32 `masked_weights` [B, P]; `next_labels` (0: B follows A, 1: it does
    not; as in google-research/bert) and float32 `next_weights` [B]. With packing the last two are
    [B, K], and three int32 arrays are added: `document_ids` [B, T] (0 at padding, k at the tokens
    of the row's k-th document), `position_ids` [B, T] and `document_starts` [B, K] (position of
    each [CLS]). Unused entries are 0.

    Args:
        settings: lengths, shares, and the shape of a batch.
        part: the training or the held-out documents. Training batches are always full; leftover
            rows are dropped. The last held-out batch is filled up with rows of weight 0.

    Raises:
        SettingsError: the training documents do not fill a batch.

    Example:
        corpus = open_corpus(["tickets.csv"], tokenizer)
        batches = PretrainingBatches(corpus, PretrainingDataSettings(), seed=0)
        batch = batches.batch(epoch=0, step=0)
    """

    def __init__(
        self,
        corpus: Corpus,
        settings: PretrainingDataSettings,
        *,
        seed: int = 0,
        part: Part = "training",
    ) -> None:
        self.corpus, self.settings, self.part = corpus, settings, part
        self._seed = seed
        self._held_out_below = int(settings.held_out * 2.0**64)
        special = np.isin(np.arange(corpus.vocabulary_size), corpus.special)
        self._vocabulary = Vocabulary(corpus.special.mask, special, corpus.continues)
        self._window = lru_cache(_KEPT_WINDOWS)(self._draw_window)
        self._plan = lru_cache(_KEPT_EPOCHS)(self._planned)
        rows = self.report(0).rows
        if part == "training" and rows < settings.batch_size:
            raise SettingsError(
                f"the training documents fill {rows:,} rows of {settings.sequence_length} tokens",
                expected=f"at least the {settings.batch_size:,} rows of one batch",
                fix="give more text, or a smaller batch or shorter rows",
            )

    def steps_per_epoch(self, epoch: int) -> int:
        """Number of batches in an epoch; it varies a little from epoch to epoch."""
        batches, left_over = divmod(self.report(epoch).rows, self.settings.batch_size)
        return max(1, batches) if self.part == "training" else batches + bool(left_over)

    def report(self, epoch: int = 0) -> EpochReport:
        """Counts of an epoch."""
        return self._plan(epoch)[1]

    def tokens(self, epoch: int, step: int) -> int:
        """Number of tokens in a training batch, without padding."""
        size = self.settings.batch_size
        pairs, _ = self._rows(epoch, step * size, (step + 1) * size)
        return int(pair_lengths(pairs).sum())

    def batch(self, epoch: int, step: int, own: range | None = None) -> dict[str, np.ndarray]:
        """The batch of a step; epochs and steps count from 0.

        With `own`, only these rows are returned, and only these and a few neighbours are read.

        Raises:
            SettingsError: `step` is outside the epoch.
        """
        steps = self.steps_per_epoch(epoch)
        if not 0 <= step < steps:
            raise SettingsError(
                f"step {step} of epoch {epoch}",
                expected=f"one of its {steps} steps, counted from 0",
                fix="use steps_per_epoch for the number of steps",
            )
        size = self.settings.batch_size
        own = range(size) if own is None else own
        begin, end = own.start // _MASKED_TOGETHER * _MASKED_TOGETHER, own.stop
        end = min(size, -(-end // _MASKED_TOGETHER) * _MASKED_TOGETHER)
        first = step * size + begin
        last = min(step * size + end, self.report(epoch).rows)
        pairs, rows = self._rows(epoch, first, last)
        batch = _lay_out(pairs, rows, end - begin, self.corpus, self.settings)
        # one visible token keeps the attention of filler rows defined
        batch["padding_mask"][last - first :, 0] = 1
        masked = [
            mask_tokens(
                batch["token_ids"][block : block + _MASKED_TOGETHER],
                self._vocabulary,
                self.settings,
                self._generator(epoch, _MASKS, first + block),
            )._asdict()
            for block in range(0, end - begin, _MASKED_TOGETHER)
        ]
        batch |= {name: np.concatenate([one[name] for one in masked]) for name in masked[0]}
        return {name: values[own.start - begin :][: len(own)] for name, values in batch.items()}

    def _generator(self, epoch: int, purpose: int, index: int = 0) -> np.random.Generator:
        return np.random.default_rng([self._seed, epoch, purpose, index])

    def _planned(self, epoch: int) -> tuple[np.ndarray, EpochReport]:
        windows = range(-(-len(self.corpus) // _WINDOW))
        counts = [_count(self._window(epoch, number)) for number in windows]
        totals = {name: sum(count[name] for count in counts) for name in counts[0]}
        report = EpochReport(row_length=self.settings.sequence_length, **totals)
        return np.cumsum([count["rows"] for count in counts]), report

    def _draw_window(self, epoch: int, number: int) -> _Window:
        count = len(self.corpus)
        order = Shuffle(count, self._generator(epoch, _ORDER))
        drawn = order(np.arange(number * _WINDOW, min(count, (number + 1) * _WINDOW)))
        is_held_out = self.corpus.part_keys[drawn] < self._held_out_below
        documents = drawn[is_held_out if self.part == "held_out" else ~is_held_out]
        generator = self._generator(epoch, _PAIRS, number)
        pairs = draw_pairs(
            sentences_of(self.corpus, documents),
            self.corpus.tokens,
            self.corpus.continues,
            self.settings,
            generator,
        )
        settings, rows = self.settings, np.arange(len(pairs))
        if settings.pack:
            rows = pack(pair_lengths(pairs), settings.sequence_length, settings.document_places)
        total = int(rows.max(initial=-1)) + 1
        rows = generator.permutation(total)[rows]
        by_row = np.argsort(rows, kind="stable")
        row_starts = np.searchsorted(rows[by_row], np.arange(total + 1))
        return _Window(pairs[by_row], row_starts, len(documents))

    def _rows(self, epoch: int, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """The pairs in rows `first` to `last` - 1 of an epoch, each with its row minus `first`."""
        ends = self._plan(epoch)[0]
        begin, end = np.searchsorted(ends, [first, last - 1], side="right").tolist()
        pairs, rows = [], []
        for number in range(begin, end + 1):
            window = self._window(epoch, number)
            before = int(ends[number]) - (len(window.row_starts) - 1)
            start, stop = max(first, before) - before, min(last, int(ends[number])) - before
            pairs.append(window.pairs[window.row_starts[start] : window.row_starts[stop]])
            in_rows = np.diff(window.row_starts[start : stop + 1])
            rows.append(before - first + np.repeat(np.arange(start, stop), in_rows))
        return np.concatenate(pairs), np.concatenate(rows)


def _count(window: _Window) -> dict[str, int]:
    pairs = window.pairs
    counted = pairs["next_weight"] > 0
    has_second = pairs["second_end"] > pairs["second_start"]
    return {
        "documents": window.documents,
        "rows": len(window.row_starts) - 1,
        "tokens": int(pair_lengths(pairs).sum()),
        "entries": len(pairs),
        "pairs": int(counted.sum()),
        "random": int(pairs["next_label"][counted].sum()),
        "alone": int((~has_second).sum()),
        "unpaired": int((has_second & ~counted).sum()),
    }


def sentences_of(corpus: Corpus, documents: np.ndarray) -> Sentences:
    """The sentences of some documents, int64 [n]."""
    last = corpus.part_ends[documents]
    first = np.where(documents > 0, corpus.part_ends[documents - 1], 0)
    which, numbers = ranges(first, last - first)
    ends = corpus.sentence_ends[numbers]
    starts = np.where(numbers > 0, corpus.sentence_ends[numbers - 1], 0)
    return Sentences(starts, ends, which, corpus.part_keys[documents])


def _lay_out(
    pairs: np.ndarray,
    rows: np.ndarray,
    size: int,
    corpus: Corpus,
    settings: PretrainingDataSettings,
) -> dict[str, np.ndarray]:
    """Pairs in padded rows `[CLS] A [SEP] B [SEP] [CLS] A [SEP] ...`, before masking.

    `rows` int64 [n], ascending, are the rows of the pairs; there are `size` rows.
    """
    shape = size, length = size, settings.sequence_length
    lengths = pair_lengths(pairs)
    slots = ranges(np.zeros(size, int), np.bincount(rows, minlength=size))[1]  # within its row
    before = np.cumsum(lengths) - lengths
    starts = before - before[np.searchsorted(rows, rows)]  # position of each [CLS] in its row
    flat = rows * length + starts
    first, second = (pairs[f"{one}_end"] - pairs[f"{one}_start"] for one in ("first", "second"))
    token_ids = np.full(size * length, corpus.special.pad, np.int32)
    segment_ids, document_ids, position_ids = np.zeros((3, size * length), np.int32)
    which, positions = ranges(flat, lengths)
    document_ids[positions] = slots[which] + 1
    position_ids[positions] = positions - flat[which]
    segment_ids[positions] = position_ids[positions] >= (first + 2)[which]
    for target, source, sizes in (
        (flat + 1, pairs["first_start"], first),
        (flat + 2 + first, pairs["second_start"], second),
    ):
        token_ids[ranges(target, sizes)[1]] = corpus.tokens[ranges(source, sizes)[1]]
    token_ids[flat] = corpus.special.classify
    token_ids[flat + 1 + first] = corpus.special.separate
    token_ids[flat + lengths - 1] = corpus.special.separate
    of_tokens = {
        "token_ids": token_ids,
        "segment_ids": segment_ids,
        "padding_mask": (document_ids > 0).astype(np.int32),
    }
    if settings.pack:
        of_tokens |= {"document_ids": document_ids, "position_ids": position_ids}
    of_documents = {
        "document_starts": np.zeros((size, settings.document_places), np.int32),
        "next_labels": np.zeros((size, settings.document_places), np.int32),
        "next_weights": np.zeros((size, settings.document_places), np.float32),
    }
    for values, own in zip(
        of_documents.values(), (starts, pairs["next_label"], pairs["next_weight"]), strict=True
    ):
        values[rows, slots] = own
    if not settings.pack:
        del of_documents["document_starts"]
        of_documents = {name: values[:, 0] for name, values in of_documents.items()}
    return {name: values.reshape(shape) for name, values in of_tokens.items()} | of_documents
