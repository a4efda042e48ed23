"""Reads labelled files: the texts and labels of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from bertcnn.data import (
    AUTO,
    LabelSet,
    check_labels,
    labels_of_sets,
    rarest,
    read_label_column,
    split_validation,
)
from bertcnn.progress import Progress, Silent
from bertcnn.tables.columns import ColumnChoice, guess_columns, join_texts
from bertcnn.tables.formats import DELIMITED
from bertcnn.tables.formulas import unescape_formula
from bertcnn.tables.slices import slice_columns
from bertcnn.tables.tables import Table, column_position, open_table
from bertcnn.text import is_blank


@dataclass(frozen=True)
class LabelledTable:
    """A file's rows with their texts and labels.

    Attributes:
        texts: one a row, "" where it is blank.
        cells: the label column, "" where it is blank; empty without such a column.
        sets: the labels of each row, sorted and unique; empty until they are split.
        separator: between the labels of a row; None if each row has at most one.
        slices: values of each row by column name, such as channel or month, for reports.
    """

    table: Table
    columns: ColumnChoice
    texts: list[str]
    cells: list[str]
    sets: list[LabelSet] = field(default_factory=list)
    separator: str | None = None
    slices: Mapping[str, list[str]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def labels(self) -> list[str] | list[LabelSet]:
        """The labels for `BertCNNClassifier.fit`: a string a row, "" for none, or a set a row."""
        return labels_of_sets(self.sets, self.separator)

    def with_labels(self, multi_label: str, progress: Progress) -> LabelledTable:
        """Splits the labels and unifies their spelling; see `read_labelled`.

        Raises:
            SettingsError: the separator is blank, or occurs in no cell.
        """
        column = read_label_column(self.cells, multi_label)
        for remark in column.remarks:
            progress.note(remark)
        return replace(self, sets=column.sets, separator=column.separator)

    def part(self, rows: Sequence[int] | np.ndarray) -> LabelledTable:
        """Some of the rows, in this order."""
        table = self.table
        return replace(
            self,
            table=replace(
                table,
                rows=[table.rows[row] for row in rows],
                line_numbers=[table.line_numbers[row] for row in rows],
            ),
            texts=[self.texts[row] for row in rows],
            cells=[self.cells[row] for row in rows],
            sets=[self.sets[row] for row in rows],
            slices={name: [values[row] for row in rows] for name, values in self.slices.items()},
        )

    def split(self, share: float) -> tuple[LabelledTable, LabelledTable]:
        """Splits off about `share` of the rows for evaluation; see `split_validation`.

        Rows without a label are in the first part, rows without a text in neither.

        Raises:
            LabelError: fewer than two labels, or a label with a single row.
        """
        written = [row for row, text in enumerate(self.texts) if text]
        usable = [row for row in written if self.sets[row]]
        sets = [self.sets[row] for row in usable]
        check_labels([name for names in sets for name in names])
        kept, held_out = split_validation([self.texts[row] for row in usable], rarest(sets), share)
        unlabelled = [row for row in written if not self.sets[row]]
        return (
            self.part([*(usable[row] for row in kept), *unlabelled]),
            self.part([usable[row] for row in held_out]),
        )


def read_labelled(
    data: str | Path,
    *,
    text: str | Sequence[str] | None = None,
    label: str | None = None,
    multi_label: str = AUTO,
    rejects: Path | None = None,
    progress: Progress | None = None,
) -> LabelledTable:
    r"""Reads a labelled file as a whole.

    Args:
        data: .csv, .tsv, .jsonl (each also .gz), .parquet or .xlsx, with a text and a label in each
            row; either may be blank.
        text: the text column or columns; guessed by default.
        label: the label column; guessed by default.
        multi_label: the separator of a row's labels, such as ","; "auto" detects ; and | and lists,
            "no" takes each cell as one label.
        rejects: a .csv file for unreadable rows, created only if there are any.
        progress: receives notes on the chosen columns, unreadable rows, and changes to the labels.

    Raises:
        TableError: the file cannot be read, or has no rows.
        ColumnError: a named column is missing, or none looks like text or labels.
        SettingsError: `multi_label` is a separator that occurs in no cell.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "tickets.csv"
        >>> _ = path.write_text("text,label\nno signal,network\nmy bill,billing; network\n,\n")
        >>> tickets = read_labelled(path, multi_label=";")
        >>> tickets.texts, tickets.labels
        (['no signal', 'my bill', ''], [('network',), ('billing', 'network'), ()])
    """
    progress = progress or Silent()
    choose = partial(guess_columns, text=text, label=label)
    read = read_columns(data, choose, rejects=rejects, progress=progress)
    note_left_out(read.table, rejects, progress)
    return replace(
        read.with_labels(multi_label, progress), slices=slice_columns(read.table, read.columns)
    )


def read_columns(
    data: str | Path,
    choose: Callable[[Table], ColumnChoice],
    *,
    rejects: Path | None = None,
    expected_columns: Sequence[str] = (),
    as_written: bool = False,
    most: int | None = None,
    reading: Progress | None = None,
    progress: Progress,
) -> LabelledTable:
    """Reads a file as a whole, with labels that are not split yet.

    Args:
        data: the file.
        choose: chooses the columns of a table; columns with a reason are reported.
        rejects: as in `read_labelled`; a missing folder is created.
        expected_columns: see `open_table`.
        as_written: whether the table keeps the quotes of `escape_formula`; texts and labels do not.
        most: rows to keep in memory; see `TableReader.whole`.
        reading: reports how much of the file is read; none by default.
        progress: receives notes on the chosen columns and on unread parts of the file.

    Raises:
        TableError: the file cannot be read, or has no rows.
        ColumnError: `choose` rejects the columns.
    """

    def read(required: Sequence[str] = ()) -> Table:
        is_there = rejects is None or rejects.parent.is_dir()
        rejects_path = rejects if is_there else None
        table = _read_whole(
            data, rejects_path, expected_columns, required, as_written, reading, most
        )
        if rejects is None or is_there or not table.rejected:
            return table
        rejects.parent.mkdir(parents=True, exist_ok=True)  # only needed if there are rejected rows
        return _read_whole(data, rejects, expected_columns, required, as_written, reading, most)

    table = read()
    if table.remark:
        progress.note(table.remark)
    columns = choose(table)
    if table.is_cut(columns.text):  # rows that end before their text are rejected
        table = read(columns.text)
    for role in ("text", "label"):
        if role in columns.reasons:
            progress.note(f"{role}: {columns.reasons[role]}")
    plain = unescape_formula if as_written and table.format in DELIMITED else str
    indices = [column_position(name, table.columns) for name in columns.text]
    texts = [join_texts(plain(row[index]) for index in indices) for row in table.rows]
    cells = [] if columns.label is None else [plain(cell) for cell in table.column(columns.label)]
    return LabelledTable(table, columns, _without_blanks(texts), _without_blanks(cells))


def note_left_out(table: Table, rejects: Path | None, progress: Progress) -> None:
    """Reports how many rows are short or unreadable, and where the unreadable rows are."""
    if table.rejected:
        where = f"; they and the reasons are in {rejects}" if rejects else ""
        progress.note(
            f"{table.rejected} of {len(table) + table.rejected} rows of {str(table.path)!r} could"
            f" not be read{where}"
        )
    if table.padded:
        progress.note(
            f"{table.padded} of {len(table)} rows of {str(table.path)!r} lack their last cells,"
            " which are blank"
        )


def _read_whole(
    data: str | Path,
    rejects: Path | None,
    expected: Sequence[str],
    required: Sequence[str],
    as_written: bool,
    reading: Progress | None,
    most: int | None,
) -> Table:
    with open_table(
        data, rejects=rejects, as_written=as_written, expected_columns=expected or None
    ) as reader:
        reader.require(required)
        return reader.whole(reading, most)


def _without_blanks(texts: list[str]) -> list[str]:
    return ["" if is_blank(text) else text for text in texts]
