"""The row source for each table format."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from bertcnn.errors import TableError, one_line
from bertcnn.tables.cells import MOST_COLUMNS, name_columns
from bertcnn.tables.delimited import (
    MAX_CELL_CHARACTERS,
    BrokenRowError,
    Reject,
    Row,
    RowReader,
    long_cell,
)
from bertcnn.tables.dialect import find_encoding, sample_bytes
from bertcnn.tables.formats import FileKind
from bertcnn.tables.formulas import unescape_formula
from bertcnn.tables.header import find_start
from bertcnn.tables.json_lines import JsonLinesSource
from bertcnn.tables.lines import TextFile, undecodable
from bertcnn.tables.mixed_encoding import utf_8_remark
from bertcnn.tables.not_tables import check_is_table
from bertcnn.tables.worker import WorkerSource

__all__ = ["MAX_CELL_CHARACTERS", "Reject", "Row", "RowSource", "open_source"]

_LOOKED_AT = 64 * 1024  # bytes for recognising files that are not tables
_QUOTED = re.compile('"[^"]*"')
# line end of old Macintosh files, and of Excel's "CSV (Macintosh)"
_LONE_RETURN = re.compile("\r(?!\n)")


class RowSource(Protocol):
    """An open file of rows."""

    columns: tuple[str, ...]  # unique names, to choose by
    header: tuple[str, ...]  # the original names
    encoding: str | None
    delimiter: str | None
    # unread parts of the file; after the last row also remarks about the rows
    remark: str

    def rows(self, reject: Reject) -> Iterator[Row]:
        """Every readable row with its line, not padded; calls `reject` for the others."""

    def position(self) -> int:
        """Number of bytes read."""

    def close(self) -> None:
        """Close the file."""


def open_source(
    path: Path,
    kind: FileKind,
    delimiter: str | None,
    encoding: str | None,
    quote: str | None,
    *,
    as_written: bool = False,
    expected_columns: Sequence[str] | None = None,
) -> RowSource:
    """The source for an accepted file; an empty one gets the expected columns as its header."""
    if kind.format != "jsonl" and not path.stat().st_size:
        kind = FileKind("csv", gzipped=False)
    if kind.format in ("parquet", "xlsx"):
        return WorkerSource(path, kind.format, expected_columns or ())
    if kind.format == "jsonl":
        return JsonLinesSource(path, kind, encoding, expected_columns)
    return _DelimitedSource(path, kind, delimiter, encoding, quote, as_written, expected_columns)


class _DelimitedSource:
    def __init__(
        self,
        path: Path,
        kind: FileKind,
        delimiter: str | None,
        encoding: str | None,
        quote: str | None,
        as_written: bool,
        expected_columns: Sequence[str] | None,
    ) -> None:
        blocks = sample_bytes(path, kind.gzipped)
        requested, encoding = encoding, find_encoding(path, kind, blocks, encoding)
        mixed = "" if requested else utf_8_remark(str(path), blocks, encoding)
        sample, newline = _decoded_start(blocks[0], encoding)
        check_is_table(
            path, codecs.getincrementaldecoder(encoding)("replace").decode(blocks[0][:_LOOKED_AT])
        )
        start = find_start(sample, kind.format == "tsv", delimiter, quote, expected_columns or ())
        dialect, self.remark = start.dialect, "; ".join(filter(None, (mixed, start.remark)))
        self.encoding: str | None = encoding
        self.delimiter: str | None = dialect.delimiter
        self._file = TextFile(path, kind.gzipped, encoding, newline, is_mixed=bool(mixed))
        self._early: list[tuple[int, str, str]] = []
        self._reject: Reject = lambda line, reason, content: self._early.append(
            (line, reason, content)
        )
        self._reader = RowReader(
            self._file, dialect, lambda *rejected: self._reject(*rejected), as_written=as_written
        )
        try:
            self._reader.skip(start.above)
            self.header = self._header(path, expected_columns)
        except BaseException:
            self.close()
            raise
        self.columns = name_columns(
            map(unescape_formula, self.header) if as_written else self.header
        )

    def _header(self, path: Path, known: Sequence[str] | None) -> tuple[str, ...]:
        try:
            header = self._reader.header()
        except BrokenRowError as broken:
            raise TableError(
                f"the header of {str(path)!r} cannot be read: {broken}",
                expected="a first line of column names",
                fix="correct that line",
            ) from None
        if header is None:
            if known is not None:
                return tuple(known or ("text",))
            lack = "holds blank lines only" if self._file.position() else "is empty"
            raise TableError(
                f"{str(path)!r} {lack}",
                expected="a header and at least 1 row",
                fix="export the table again",
            )
        if any(map(undecodable, header)):
            raise TableError(
                f"the header of {str(path)!r} is not text in the encoding {self.encoding}",
                expected="the encoding the file was saved in",
                fix="save the table again as CSV in UTF-8",
            )
        if len(header) > MOST_COLUMNS or long_cell(header):
            raise TableError(
                f"the first line of {str(path)!r} is no header: {len(header):,} cells,"
                f" {one_line(header[0], 40)} ...",
                expected=f"at most {MOST_COLUMNS:,} column names",
                fix="put the names of the columns into the first line",
            )
        return header

    def rows(self, reject: Reject) -> Iterator[Row]:
        self._reject = reject
        return self._reader.rows(len(self.columns))

    def position(self) -> int:
        return self._file.position()

    def close(self) -> None:
        self._file.close()


def _decoded_start(block: bytes, encoding: str) -> tuple[str, str]:
    """The start of the file as text, up to its last line break, and its line end."""
    text = (
        codecs.getincrementaldecoder(encoding)("replace")
        .decode(block[: 1024**2])
        .removeprefix("\ufeff")
    )
    bare = _QUOTED.sub("", text)
    first, lone = re.search("[\r\n]", bare), len(_LONE_RETURN.findall(bare))
    newline = (
        "\r"
        if first and _LONE_RETURN.match(bare, first.start()) and lone > bare.count("\n")
        else "\n"
    )
    whole = text[: text.rfind(newline) + 1] or text
    return (whole.replace("\r", "\n") if newline == "\r" else whole), newline
