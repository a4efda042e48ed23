"""Reads the rows of an Excel sheet, in a worker process (see `bertcnn.tables.worker`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from bertcnn.errors import TableError, one_line
from bertcnn.tables.cells import MOST_COLUMNS, name_columns
from bertcnn.tables.delimited import Reject, Row, as_line, long_cell
from bertcnn.tables.excel_blanks import blanks_remark
from bertcnn.tables.formats import unreadable
from bertcnn.tables.header import below_header, skipped_remark
from bertcnn.tables.misnamed import describe_archive
from bertcnn.values import plain_text

# unnamed columns right of the last named one that are read; more of them mean a stray cell
_MOST_NAMELESS = 100
_MOST_MERGED = 100_000  # merged ranges to examine
_MOST_OTHERS = 10  # unread sheets in the remark


class ExcelSource:
    """The first sheet of an Excel workbook that is neither hidden nor empty, held in memory.

    `remark` names the parts of the workbook that are not read.
    """

    def __init__(self, path: Path, expected_columns: Sequence[str] = ()) -> None:
        import python_calamine

        self._path = path
        try:
            sheet, self._place, unread = _first_sheet(python_calamine.load_workbook(str(path)))
        except (python_calamine.CalamineError, OSError, ValueError) as error:
            content = describe_archive(path)
            if content in (None, "an Excel workbook"):
                raise unreadable(path, "Excel", error) from None
            raise TableError(
                f"{str(path)!r} is not an Excel workbook: it seems to be {content}",
                expected="an Excel workbook with the extension .xlsx",
                fix="open it in Excel or LibreOffice and save it as .xlsx or .csv",
            ) from None
        self._sheet = sheet
        self._rows: Iterator[tuple[int, Any]] = iter(())
        if sheet is None and expected_columns:
            self.header, self.remark, self.total = tuple(expected_columns), "", 0
            return
        if sheet is None:
            raise TableError(
                f"{str(path)!r} has no visible sheet with any cell filled in",
                expected="a header and at least 1 row",
                fix="save the workbook again with the table in its first sheet",
            )
        rows = enumerate(sheet.iter_rows(), 1)
        self.total = sheet.total_height
        remarks = []
        if unread:
            remarks.append(
                f"only the sheet {one_line(sheet.name, 40)} of {str(path)!r} is read; other sheets:"
                f" {_listed(unread)}"
            )
        first, above = below_header(rows, expected_columns)
        if above:
            remarks.append(skipped_remark(above))
        self._header_row, self._rows = first[0][0] - 1, chain(first[1:], rows)  # counted from 0
        header = list(map(plain_text, first[0][1]))
        named = max(position for position, name in enumerate(header, 1) if name)
        self._width = named if len(header) - named > _MOST_NAMELESS else len(header)
        if self._width < len(header):
            remarks.append(
                f"{len(header) - named:,} columns without a name right of"
                f" {one_line(header[named - 1], 40)} in {str(path)!r} are not read"
            )
        if self._width > MOST_COLUMNS:
            raise TableError(
                f"{str(path)!r} has {self._width:,} columns",
                expected=f"at most {MOST_COLUMNS:,}",
                fix="export it again",
            )
        self.remark = "; ".join(remarks)
        self.header = tuple(header[: self._width])
        self._blank = [0] * self._width  # blank cells in each column
        self._count = 0

    def rows(self, reject: Reject) -> Iterator[Row]:
        """Every readable row with its number; calls `reject` for the others."""
        for number, values in self._rows:
            row = tuple(map(plain_text, values[: self._width]))
            if "" in row:
                if not any(row):
                    continue
                for column, cell in enumerate(row):
                    if not cell:
                        self._blank[column] += 1
            self._count += 1
            fault = long_cell(row)
            if fault:
                reject(number, fault, as_line(row))
            else:
                yield number, row

    def closing_remark(self) -> str:
        """The reason for blank cells, if the file shows one."""
        if self._sheet is None:
            return ""
        below = [
            (first, last)
            for first, last in (self._sheet.merged_cell_ranges or ())[:_MOST_MERGED]
            if first[0] > self._header_row
        ]
        return blanks_remark(
            self._path, self._place, name_columns(self.header), self._blank, self._count, below
        )


def _first_sheet(workbook: Any) -> tuple[Any, int, list[str]]:  # noqa: ANN401 - the library's types
    """The first visible sheet with text, its position, and descriptions of the others."""
    import python_calamine

    first, first_index, unread = None, 0, list[str]()
    seen = python_calamine.SheetVisibleEnum.Visible, python_calamine.SheetTypeEnum.WorkSheet
    for index, metadata in enumerate(workbook.sheets_metadata):
        if (metadata.visible, metadata.typ) != seen or len(unread) > _MOST_OTHERS:
            continue
        sheet = workbook.get_sheet_by_index(index)
        if not any(map(_has_text, sheet.iter_rows())):
            continue
        if first is None:
            first, first_index = sheet, index
        else:
            unread.append(f"{one_line(sheet.name, 40)} ({sheet.height:,} rows)")
    return first, first_index, unread


def _listed(sheets: list[str]) -> str:
    return ", ".join(sheets[:_MOST_OTHERS]) + " and more" * (len(sheets) > _MOST_OTHERS)


def _has_text(row: Iterable[object]) -> bool:
    return any(map(plain_text, row))
