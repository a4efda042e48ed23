"""One row source for each table format: rows of text cells, unreadable rows reported."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from bertcnn.data.cells import MOST_COLUMNS, name_columns
from bertcnn.data.delimited import MAX_CELL_CHARACTERS, BrokenRowError, Reject, Row, RowReader, long_cell
from bertcnn.data.dialect import find_encoding, sample_bytes, sniff
from bertcnn.data.formats import FileKind
from bertcnn.data.json_lines import JsonLinesSource
from bertcnn.data.lines import TextFile, undecodable
from bertcnn.data.worker import WorkerSource
from bertcnn.errors import TableError, one_line

__all__ = ["MAX_CELL_CHARACTERS", "Reject", "Row", "RowSource", "open_source"]

_QUOTED = re.compile('"[^"]*"')
_LONE_RETURN = re.compile("\r(?!\n)")  # ends lines in files from old Macintoshes, and in what Excel calls "CSV (Macintosh)"


class RowSource(Protocol):
    """An open file of rows."""

    columns: tuple[str, ...]
    encoding: str | None
    delimiter: str | None
    remark: str  # which part of the file is not read, if so; after the last row also what the rows have shown

    def rows(self, reject: Reject) -> Iterator[Row]:
        """Every row that can be read, with its line; `reject` hears of the others."""

    def position(self) -> int:
        """Bytes of the file done."""

    def close(self) -> None:
        """Let go of the file."""


def open_source(path: Path, kind: FileKind, delimiter: str | None, encoding: str | None, quote: str | None) -> RowSource:
    """The source for a file that `formats.check_input` has let pass."""
    if kind.format in ("parquet", "xlsx"):
        return WorkerSource(path, kind.format)
    if kind.format == "jsonl":
        return JsonLinesSource(path, kind, encoding)
    return _DelimitedSource(path, kind, delimiter, encoding, quote)


class _DelimitedSource:
    """CSV and TSV."""

    remark: str = ""

    def __init__(self, path: Path, kind: FileKind, delimiter: str | None, encoding: str | None, quote: str | None) -> None:
        blocks = sample_bytes(path, kind.gzipped)
        encoding = find_encoding(path, kind, blocks, encoding)
        sample, newline = _decoded_start(blocks[0], encoding)
        dialect = sniff(sample, kind.format == "tsv", delimiter, quote)
        self.encoding: str | None = encoding
        self.delimiter: str | None = dialect.delimiter
        self._file = TextFile(path, kind.gzipped, encoding, newline)
        self._early: list[tuple[int, str, str]] = []
        self._reject: Reject = lambda line, reason, content: self._early.append((line, reason, content))
        self._reader = RowReader(self._file, dialect, lambda *found: self._reject(*found))
        try:
            self.columns = self._header(path)
        except BaseException:
            self.close()
            raise

    def _header(self, path: Path) -> tuple[str, ...]:
        try:
            header = self._reader.header()
        except BrokenRowError as broken:
            raise TableError(
                f"the header of {str(path)!r} cannot be read: {broken}", expected="a first line of column names", fix="correct that line"
            ) from None
        if header is None:
            raise TableError(f"{str(path)!r} holds blank lines only", expected="a header and at least 1 row", fix="export it again")
        if any(map(undecodable, header)):
            raise TableError(
                f"the header of {str(path)!r} is not text in the encoding {self.encoding}",
                expected="the encoding the file was saved in",
                fix="save the table again as CSV in UTF-8",
            )
        if len(header) > MOST_COLUMNS or long_cell(header):
            raise TableError(
                f"the first line of {str(path)!r} is no header: {len(header):,} cells, {one_line(header[0], 40)} ...",
                expected=f"at most {MOST_COLUMNS:,} column names",
                fix="put the names of the columns into the first line",
            )
        return name_columns(header)

    def rows(self, reject: Reject) -> Iterator[Row]:
        self._reject = reject
        return self._reader.rows(len(self.columns))

    def position(self) -> int:
        return self._file.position()

    def close(self) -> None:
        self._file.close()


def _decoded_start(block: bytes, encoding: str) -> tuple[str, str]:
    """The start of the file as text, up to its last line break, and what its lines end with."""
    text = codecs.getincrementaldecoder(encoding)("replace").decode(block[: 1024**2]).removeprefix("\ufeff")
    bare = _QUOTED.sub("", text)
    first, lone = re.search("[\r\n]", bare), len(_LONE_RETURN.findall(bare))
    newline = "\r" if first and _LONE_RETURN.match(bare, first.start()) and lone > bare.count("\n") else "\n"
    whole = text[: text.rfind(newline) + 1] or text
    return (whole.replace("\r", "\n") if newline == "\r" else whole), newline
