"""A scored file in pages: counts and filters rows without loading all of them."""

from __future__ import annotations

import re
import secrets
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.compute
import pyarrow.parquet

from bertcnn.data import split_cell
from bertcnn.errors import TableError
from bertcnn.progress import Progress, Silent
from bertcnn.storage import output_error
from bertcnn.tables import Chunk, guess_text_columns, open_table

OURS = ("predicted_label", "confidence", "decision", "because")
_DAY = re.compile(r"\d{4}-\d\d-\d\d(?!\d)")
_DAY_CHARACTERS = 10
_ROWS_OF_GROUP = 8192


@dataclass(frozen=True)
class Wanted:
    """Filters for rows; empty values do not filter.

    Attributes:
        labels: predicted labels, "" for none; a row with any of them matches.
        decisions: such as "review:ambiguous".
        first_day: earliest ISO date.
        last_day: latest ISO date.
    """

    labels: Collection[str] = ()
    decisions: Collection[str] = ()
    first_day: str = ""
    last_day: str = ""


class ScoredRows:
    """The rows of a scored file; see `index_scored`.

    Attributes:
        columns: names, in the order of the file.
        ours: the columns with label, confidence, decision and phrases.
        time: the column with ISO times; None if there is none.
        separator: between labels if a row may have several; otherwise None.
    """

    def __init__(self, index: Path, separator: str | None) -> None:
        self._file = pyarrow.parquet.ParquetFile(index)
        self.columns = tuple(self._file.schema_arrow.names)
        stored = self._file.schema_arrow.metadata or {}
        self.time = stored.get(b"time", b"").decode() or None
        self.ours = answer_columns(self.columns)
        self.separator = separator
        metadata = self._file.metadata
        sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        self._starts = np.cumsum([0, *sizes])  # the first row of each group

    def __len__(self) -> int:
        return int(self._file.metadata.num_rows)

    def counts(self) -> Counter[tuple[str, str]]:
        """The number of rows for each pair of label cell and decision."""
        label, _, decision, _ = self.ours
        counts: Counter[tuple[str, str]] = Counter()
        for batch in self._batches([label, decision]):
            pairs = pyarrow.Table.from_arrays(
                [batch.column(label), batch.column(decision)], names=["label", "decision"]
            )
            sizes = pairs.group_by(["label", "decision"], use_threads=False)
            for one in sizes.aggregate([([], "count_all")]).to_pylist():
                counts[one["label"], one["decision"]] += one["count_all"]
        return counts

    def days(self) -> tuple[str, str] | None:
        """The first and last day of the rows; None without a time column."""
        if self.time is None:
            return None
        ends = [
            pyarrow.compute.min_max(days)
            for batch in self._batches([self.time])
            if len(days := _with_a_day(_days(batch.column(self.time))))
        ]
        if not ends:
            return None
        return min(one["min"].as_py() for one in ends), max(one["max"].as_py() for one in ends)

    def matching(self, wanted: Wanted) -> np.ndarray:
        """The indices of matching rows, ascending, int64 [matches]."""
        label, _, decision, _ = self.ours
        columns = [label, decision, *([self.time] if self.time else [])]
        matches, first = [], 0
        for batch in self._batches(columns):
            mask = np.ones(len(batch), bool)
            if wanted.labels:
                mask &= self._has_label(batch.column(label), wanted.labels)
            if wanted.decisions:
                mask &= _is_in(batch.column(decision), wanted.decisions)
            if self.time and (wanted.first_day or wanted.last_day):
                days = _days(batch.column(self.time))
                inside = pyarrow.compute.and_(
                    pyarrow.compute.greater_equal(days, wanted.first_day),
                    pyarrow.compute.less_equal(days, wanted.last_day or "9999"),
                )
                mask &= inside.to_numpy(zero_copy_only=False)
            matches.append(first + np.flatnonzero(mask))
            first += len(batch)
        return np.concatenate([np.zeros(0, np.int64), *matches])

    def rows(self, places: np.ndarray) -> list[tuple[str, ...]]:
        """The rows with these ascending indices."""
        rows: list[tuple[str, ...]] = []
        groups = np.searchsorted(self._starts, places, side="right") - 1
        for group in np.unique(groups).tolist():
            inside = places[groups == group] - self._starts[group]
            table = self._file.read_row_group(group, use_threads=False).take(inside)
            rows += zip(*(column.to_pylist() for column in table.columns), strict=True)
        return rows

    def _batches(self, columns: Sequence[str]) -> Iterator[pyarrow.RecordBatch]:
        return self._file.iter_batches(
            _ROWS_OF_GROUP, columns=list(dict.fromkeys(columns)), use_threads=False
        )

    def _has_label(self, cells: pyarrow.Array, labels: Collection[str]) -> np.ndarray:
        if self.separator is None:
            return _is_in(cells, labels)
        several = [
            cell
            for cell in cells.unique().to_pylist()
            if not set(split_cell(cell, self.separator) if cell else [""]).isdisjoint(labels)
        ]
        return _is_in(cells, several)


def index_scored(
    scored: Path, index: Path, *, separator: str | None = None, progress: Progress | None = None
) -> ScoredRows:
    """Convert a scored file to Parquet for fast paging.

    An existing `index` is used as it is. `separator` stands between several labels of a row.

    Raises:
        TableError: the file is unreadable or was not scored.
        OutputError: the index is not writable.
    """
    if not index.exists():
        # a unique name, because others may index the same file at the same time
        unfinished = index.with_suffix(f".{secrets.token_hex(4)}.part")
        try:
            _write(scored, unfinished, progress or Silent())
            unfinished.replace(index)
        except OSError as error:
            raise output_error(index, error) from None
        finally:
            unfinished.unlink(missing_ok=True)
    return ScoredRows(index, separator)


def answer_columns(columns: Sequence[str]) -> tuple[str, str, str, str]:
    """Our columns of a scored file: label, confidence, decision and phrases.

    They follow the input's columns, which may use the same names.

    Raises:
        TableError: the columns are missing.

    Example:
        >>> answer_columns(["decision", "predicted_label", "confidence", "bertcnn_decision",
        ...                 "because"])
        ('predicted_label', 'confidence', 'bertcnn_decision', 'because')
    """
    matches = []
    for base_name in OURS:
        names = [name for name in columns if re.fullmatch(f"(bertcnn_)*{base_name}", name)]
        if not names:
            raise TableError(
                f"no column {base_name}",
                expected="a file that was scored",
                fix="score it first: bertcnn score",
            )
        matches.append(names[-1])
    label, confidence, decision, phrases = matches
    return label, confidence, decision, phrases


def _write(scored: Path, index: Path, progress: Progress) -> None:
    progress.stage("reading the scored rows", 0, "rows")
    with open_table(scored) as reader:
        label, *_ = answer_columns(reader.columns)
        time = _time_column(reader.peek(), label)
        schema = pyarrow.schema([(name, pyarrow.string()) for name in reader.columns])
        schema = schema.with_metadata({"time": time or ""})
        with pyarrow.parquet.ParquetWriter(index, schema, compression="zstd") as writer:
            for chunk in reader.chunks(_ROWS_OF_GROUP):
                cells = zip(*chunk.rows, strict=True)
                arrays = [pyarrow.array(map(_sound, column), pyarrow.string()) for column in cells]
                batch = pyarrow.Table.from_arrays(arrays, schema=schema)
                writer.write_table(batch, row_group_size=_ROWS_OF_GROUP)
                progress.advance(len(chunk))


def _time_column(sample: Chunk, label: str) -> str | None:
    """The time column, if its cells begin with an ISO date; `label` is excluded."""
    name = guess_text_columns(sample, text=[label]).time
    cells = [] if name is None else [cell for cell in sample.column(name) if cell.strip()]
    return name if cells and all(_DAY.match(cell) for cell in cells) else None


def _sound(cell: str) -> str:
    """A cell without lone surrogates, which Parquet does not support."""
    return cell.encode("utf-8", "replace").decode("utf-8")


def _days(cells: pyarrow.Array) -> pyarrow.Array:
    return pyarrow.compute.utf8_slice_codeunits(cells, 0, _DAY_CHARACTERS)


def _with_a_day(days: pyarrow.Array) -> pyarrow.Array:
    return days.filter(pyarrow.compute.match_substring_regex(days, r"^\d{4}-\d\d-\d\d$"))


def _is_in(cells: pyarrow.Array, values: Collection[str]) -> np.ndarray:
    value_set = pyarrow.array(list(values), pyarrow.string())
    return pyarrow.compute.is_in(cells, value_set).to_numpy(zero_copy_only=False)
