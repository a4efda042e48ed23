"""Pretraining batches, each determined by corpus, settings, seed, epoch and step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from bertcnn.data.packing import pack
from bertcnn.errors import SettingsError
from bertcnn.pretraining.corpus import Corpus
from bertcnn.pretraining.masking import Vocabulary, mask_tokens
from bertcnn.pretraining.pairs import Pairs, Sentences, draw_pairs
from bertcnn.pretraining.shuffle import Shuffle
from bertcnn.settings import PretrainingDataSettings

Part = Literal["training", "held_out"]

# number of documents shuffled, paired and packed together, each of at most 4,096 tokens
_WINDOW = 8192
_KEPT_WINDOWS, _KEPT_EPOCHS = 3, 2
_ORDER, _PAIRS, _MASKS = 1, 2, 3  # purposes of the random generators


@dataclass(frozen=True)
class EpochReport:
    """Counts of an epoch.

    Attributes:
        documents: documents of this split; one of more than 4,096 tokens counts once per part.
        rows: rows of T tokens.
        row_length: T.
        tokens: tokens in these rows, with [CLS] and [SEP], without padding.
        entries: pairs and single segments.
        pairs: pairs that count for next sentence prediction.
        random: pairs whose segment B comes from another document.
        alone: single segments, used for masked language modelling only.
        unpaired: pairs that do not count for next sentence prediction, since there was no other
            document to draw from.
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
        """The counts in sentences, for a log."""
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
    """Some documents, arranged in rows.

    Attributes:
        pairs: the pairs in the order of their rows.
        row_starts: int64 [rows + 1], index in `pairs` at which each row starts.
        documents: number of documents.
    """

    pairs: Pairs
    row_starts: np.ndarray
    documents: int


class PretrainingBatches:
    """The batches of a corpus.

    Every epoch uses all documents once, in a new order, with new pairs, rows and masks. Any batch
    can be requested at any time and is always the same, so an interrupted run resumes within an
    epoch. Documents are processed in windows of 8,192, so memory does not grow with the corpus.
    The first batch of an epoch takes longer, since the whole epoch is planned for it.

    A batch holds int32 `token_ids`, `segment_ids`, `padding_mask` [B, T]; `masked_positions`,
    `masked_labels` and float32 `masked_weights` [B, P]; `next_labels` (0: B follows A, 1: it does
    not; as in google-research/bert) and float32 `next_weights` [B]. With packing the last two are
    [B, K], and three int32 arrays are added: `document_ids` [B, T] (0 at padding, k at the tokens
    of the row's k-th document), `position_ids` [B, T] and `document_starts` [B, K] (position of
    each [CLS]). Unused entries are 0.

    Args:
        corpus: the documents.
        settings: lengths, shares, and the shape of a batch.
        seed: seed of every random choice.
        part: the training documents or the held-out ones. Training batches are always full; rows
            left over are dropped for this epoch. The last held-out batch is filled up with rows
            of one padding token, whose weights are 0.

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
        special = np.zeros(corpus.vocabulary_size, bool)
        special[list(corpus.special.all())] = True
        self._vocabulary = Vocabulary(
            corpus.special.mask,
            np.flatnonzero(~special).astype(np.int32),
            special,
            corpus.continues,
        )
        self._windows: dict[tuple[int, int], _Window] = {}
        self._epochs: dict[int, tuple[np.ndarray, EpochReport]] = {}
        rows = self.report(0).rows
        if part == "training" and rows < settings.batch_size:
            raise SettingsError(
                f"the training documents fill {rows:,} rows of {settings.sequence_length} tokens",
                expected=f"at least the {settings.batch_size:,} rows of one batch",
                fix="give more text, or a smaller batch or shorter rows",
            )

    def steps_per_epoch(self, epoch: int) -> int:
        """Number of batches in an epoch; it varies a little, since pairs and rows differ."""
        rows = self.report(epoch).rows
        return (
            max(1, rows // self.settings.batch_size)
            if self.part == "training"
            else -(-rows // self.settings.batch_size)
        )

    def report(self, epoch: int = 0) -> EpochReport:
        """Counts of an epoch."""
        return self._plan(epoch)[1]

    def efficiency(self, epoch: int = 0) -> float:
        """Share of an epoch's positions that are not padding."""
        return self.report(epoch).efficiency

    @staticmethod
    def real_tokens(batch: dict[str, np.ndarray]) -> int:
        """Number of tokens in a batch, without padding."""
        return int(batch["padding_mask"].sum())

    def batch(self, epoch: int, step: int) -> dict[str, np.ndarray]:
        """The batch of a step, counted from 0 in each epoch.

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
        first = step * self.settings.batch_size
        last = min(first + self.settings.batch_size, self.report(epoch).rows)
        pairs, rows = self._rows(epoch, first, last)
        batch = lay_out(pairs, rows, self.corpus, self.settings)
        # one visible token keeps the attention of filler rows defined
        batch["padding_mask"][last - first :, 0] = 1
        masked = mask_tokens(
            batch["token_ids"],
            self._vocabulary,
            self.settings,
            self._generator(epoch, _MASKS, step),
        )
        for name in masked.__dataclass_fields__:
            batch[name] = getattr(masked, name)
        return batch

    def _generator(self, epoch: int, purpose: int, place: int = 0) -> np.random.Generator:
        return np.random.default_rng([self._seed, epoch, purpose, place])

    def _plan(self, epoch: int) -> tuple[np.ndarray, EpochReport]:
        """Cumulative number of rows at the end of each of an epoch's windows, and its counts."""
        if epoch not in self._epochs:
            counts = [
                _count(self._window(epoch, place))
                for place in range(-(-len(self.corpus) // _WINDOW))
            ]
            totals = {name: sum(count[name] for count in counts) for name in counts[0]}
            report = EpochReport(row_length=self.settings.sequence_length, **totals)
            self._epochs[epoch] = np.cumsum([count["rows"] for count in counts]), report
            while len(self._epochs) > _KEPT_EPOCHS:
                self._epochs.pop(next(iter(self._epochs)), None)
        return self._epochs[epoch]

    def _window(self, epoch: int, place: int) -> _Window:
        window = self._windows.get((epoch, place))
        if window is None:
            window = self._windows[epoch, place] = self._draw_window(epoch, place)
            while len(self._windows) > _KEPT_WINDOWS:
                self._windows.pop(next(iter(self._windows)), None)
        return window

    def _draw_window(self, epoch: int, place: int) -> _Window:
        count = len(self.corpus)
        order = Shuffle(count, self._generator(epoch, _ORDER))
        drawn = order(np.arange(place * _WINDOW, min(count, (place + 1) * _WINDOW)))
        is_held_out = self.corpus.part_keys[drawn] < self._held_out_below
        documents = drawn[is_held_out if self.part == "held_out" else ~is_held_out]
        generator = self._generator(epoch, _PAIRS, place)
        pairs = draw_pairs(
            sentences_of(self.corpus, documents),
            self.corpus.tokens,
            self.corpus.continues,
            self.settings,
            generator,
        )
        if self.settings.pack:
            rows = pack(pairs.lengths, self.settings.sequence_length, self.settings.document_places)
        else:
            rows = np.arange(len(pairs))
        total = int(rows.max(initial=-1)) + 1
        rows = generator.permutation(total)[rows]
        by_row = np.argsort(rows, kind="stable")
        return _Window(
            pairs.take(by_row), np.searchsorted(rows[by_row], np.arange(total + 1)), len(documents)
        )

    def _rows(self, epoch: int, first: int, last: int) -> tuple[Pairs, np.ndarray]:
        """The pairs in an epoch's rows `first` to `last` - 1, each with its row minus `first`."""
        ends = self._plan(epoch)[0]
        parts: list[Pairs] = []
        rows: list[np.ndarray] = []
        for place in range(
            int(np.searchsorted(ends, first, side="right")),
            int(np.searchsorted(ends, last - 1, side="right")) + 1,
        ):
            window = self._window(epoch, place)
            before = int(ends[place]) - (len(window.row_starts) - 1)  # rows of earlier windows
            start, stop = max(first, before) - before, min(last, int(ends[place])) - before
            parts.append(
                window.pairs.take(np.arange(window.row_starts[start], window.row_starts[stop]))
            )
            rows.append(
                before
                - first
                + np.repeat(np.arange(start, stop), np.diff(window.row_starts[start : stop + 1]))
            )
        joined = Pairs(
            *(
                np.concatenate([getattr(part, name) for part in parts])
                for name in Pairs.__dataclass_fields__
            )
        )
        return joined, np.concatenate(rows)


def _count(window: _Window) -> dict[str, int]:
    pairs = window.pairs
    counted = pairs.next_weights > 0
    has_second = pairs.second_ends > pairs.second_starts
    return {
        "documents": window.documents,
        "rows": len(window.row_starts) - 1,
        "tokens": int(pairs.lengths.sum()),
        "entries": len(pairs),
        "pairs": int(counted.sum()),
        "random": int(pairs.next_labels[counted].sum()),
        "alone": int((~has_second).sum()),
        "unpaired": int((has_second & ~counted).sum()),
    }


def sentences_of(corpus: Corpus, documents: np.ndarray) -> Sentences:
    """The sentences of some documents.

    Args:
        corpus: the corpus that holds them.
        documents: int64 [n], their indices.
    """
    last = corpus.part_ends[documents]
    first = np.where(documents > 0, corpus.part_ends[documents - 1], 0)
    which, numbers = _ranges(first, last - first)
    ends = corpus.sentence_ends[numbers]
    starts = np.where(numbers > 0, corpus.sentence_ends[numbers - 1], 0)
    return Sentences(starts, ends, which, corpus.part_keys[documents])


def _ranges(starts: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Concatenated ranges: the index of each number's range, and the numbers themselves."""
    which = np.repeat(np.arange(len(starts)), lengths)
    return which, np.arange(len(which)) + (starts - (np.cumsum(lengths) - lengths))[which]


def lay_out(
    pairs: Pairs, rows: np.ndarray, corpus: Corpus, settings: PretrainingDataSettings
) -> dict[str, np.ndarray]:
    """Arrange pairs in padded rows, before masking.

    Each row is a sequence of `[CLS] A [SEP] B [SEP]` or `[CLS] A [SEP]`.

    Args:
        pairs: the pairs, in the order of their rows.
        rows: int64 [n], ascending, the row of each pair.
        corpus: the corpus that holds the tokens.
        settings: B, T and K.

    Returns:
        A batch as `PretrainingBatches` describes it, without its masked tokens.
    """
    shape = batch_size, length = settings.batch_size, settings.sequence_length
    lengths = pairs.lengths
    in_row = np.bincount(rows, minlength=batch_size)
    place = np.arange(len(pairs)) - (np.cumsum(in_row) - in_row)[rows]  # index within its row
    reached = np.cumsum(lengths)
    # position of each pair's [CLS] in its row
    starts = reached - lengths - (reached - lengths)[np.searchsorted(rows, rows)]
    flat = rows * length + starts
    first, second = pairs.first_ends - pairs.first_starts, pairs.second_ends - pairs.second_starts
    token_ids = np.full(batch_size * length, corpus.special.pad, np.int32)
    segment_ids, document_ids, position_ids = (
        np.zeros(batch_size * length, np.int32) for _ in range(3)
    )
    which, places = _ranges(flat, lengths)
    document_ids[places] = place[which] + 1
    position_ids[places] = places - flat[which]
    segment_ids[places] = position_ids[places] >= (first + 2)[which]
    token_ids[_ranges(flat + 1, first)[1]] = corpus.tokens[_ranges(pairs.first_starts, first)[1]]
    token_ids[_ranges(flat + 2 + first, second)[1]] = corpus.tokens[
        _ranges(pairs.second_starts, second)[1]
    ]
    token_ids[flat] = corpus.special.classify
    token_ids[flat + 1 + first] = corpus.special.separate
    token_ids[flat + lengths - 1] = corpus.special.separate
    padding_mask = (document_ids > 0).astype(np.int32)
    document_starts = np.zeros((batch_size, settings.document_places), np.int32)
    next_labels, next_weights = (
        np.zeros_like(document_starts),
        np.zeros_like(document_starts, np.float32),
    )
    document_starts[rows, place], next_labels[rows, place], next_weights[rows, place] = (
        starts,
        pairs.next_labels,
        pairs.next_weights,
    )
    batch = {"token_ids": token_ids, "segment_ids": segment_ids, "padding_mask": padding_mask}
    if not settings.pack:
        return {name: values.reshape(shape) for name, values in batch.items()} | {
            "next_labels": next_labels[:, 0],
            "next_weights": next_weights[:, 0],
        }
    batch |= {"document_ids": document_ids, "position_ids": position_ids}
    return {name: values.reshape(shape) for name, values in batch.items()} | {
        "document_starts": document_starts,
        "next_labels": next_labels,
        "next_weights": next_weights,
    }
