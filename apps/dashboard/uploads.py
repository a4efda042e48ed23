"""Uploaded files, in a folder that is removed when the session ends."""

from __future__ import annotations

import re
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pandas as pd
import streamlit as st

from bertcnn.errors import ColumnError, TableError
from bertcnn.storage import output_error
from bertcnn.tables import (
    MAX_CELL_CHARACTERS,
    Chunk,
    TableReader,
    guess_text_columns,
    open_table,
)

FORMATS = ["csv", "tsv", "jsonl", "ndjson", "json", "parquet", "xlsx", "gz"]
MOST_ROWS, MOST_COLUMNS = 1_000_000, 1000  # of an upload; more would block the browser too long
_PREVIEW_ROWS = 5
_LONGEST_CELL = 500  # characters shown; a cell of 40 MB would block the browser
_LONGEST_NAME, _LONGEST_BYTES = 80, 160  # of a name without its extensions
_LONGEST_EXTENSIONS = 40

_folders = weakref.WeakSet[tempfile.TemporaryDirectory[str]]()  # of all sessions


@dataclass(frozen=True)
class Upload:
    """An uploaded file on disk.

    Attributes:
        columns: its header.
        guessed: likely text columns.
        preview: its first rows, with long cells cut.
        remark: parts of the file that are not read, such as other sheets; usually empty.
    """

    path: Path
    columns: tuple[str, ...]
    guessed: tuple[str, ...]
    preview: pd.DataFrame
    remark: str = ""


@st.cache_resource(
    scope="session", show_spinner=False, on_release=tempfile.TemporaryDirectory.cleanup
)
def _session_folder() -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(prefix="bertcnn-dashboard-")
    _folders.add(folder)
    return folder


def session_folder() -> Path:
    """This session's folder."""
    return Path(_session_folder().name)


def remove_folders() -> None:
    """Remove the folders of all sessions, when the server ends."""
    for folder in list(_folders):
        folder.cleanup()


def save_in(folder: Path, name: str, content: IO[bytes]) -> Path:
    """Write an upload to a folder, under a safe name; OutputError if the disk is full."""
    path = folder / safe_name(name)
    try:
        with path.open("wb") as file:
            shutil.copyfileobj(content, file)
    except OSError as error:
        raise output_error(path, error) from None
    return path


def safe_name(name: str) -> str:
    """A file name that is safe in file systems and shells, with the extensions of `name`.

    Example:
        >>> safe_name("../my inbox (1).csv.gz"), safe_name(".csv")
        ('my inbox _1_.csv.gz', 'upload.csv')
    """
    last = re.split(r"[/\\]", name)[-1]
    stem, dot, extensions = (
        last.partition(".") if last.lower().endswith(".gz") else last.rpartition(".")
    )
    clean = (
        re.sub(r"[^\w \-.]", "_", stem)
        .strip(" .-")[:_LONGEST_NAME]
        .encode()[:_LONGEST_BYTES]
        .decode(errors="ignore")
    )
    return (
        f"{clean or 'upload'}{dot}{re.sub(r'[^A-Za-z0-9.]', '', extensions)[-_LONGEST_EXTENSIONS:]}"
    )


def look_into(path: Path, trained_on: Sequence[str], *, limited: bool = True) -> Upload:
    """Read the header and first rows of an upload or a file on the server.

    `trained_on` has the text columns of the model's training file. With `limited`, the whole file
    is read to enforce the limits of an upload.

    Raises:
        TableError: it cannot be read, or has too many rows or columns for a page.
    """
    with open_table(path, expected_columns=trained_on) as reader:
        if limited:
            _check_columns(path, reader.columns)
        sample, remark = reader.peek(), reader.remark
        if limited:
            _check_rows(path, reader)
    return Upload(
        path,
        sample.columns,
        guessed_text(sample, trained_on),
        _frame(sample.rows[:_PREVIEW_ROWS], sample.columns),
        remark,
    )


def guessed_text(sample: Chunk, trained_on: Sequence[str] = ()) -> tuple[str, ...]:
    """The text columns that a page offers: as in training, else those that look like text.

    Empty if no column does; then the user decides.
    """
    for columns in (trained_on, ()):
        try:
            return guess_text_columns(sample, trained_on=columns).text
        except ColumnError:
            continue
    return ()


def limits() -> str:
    """The limits of an upload, in one sentence."""
    size = st.get_option("server.maxUploadSize")
    return (
        f"At most {size} MB, {MOST_ROWS:,} rows, {MOST_COLUMNS:,} columns, and"
        f" {MAX_CELL_CHARACTERS:,} characters in a cell."
    )


def _check_columns(path: Path, columns: Sequence[str]) -> None:
    if len(columns) > MOST_COLUMNS:
        raise TableError(
            f"{str(path)!r} has {len(columns):,} columns",
            expected=f"at most {MOST_COLUMNS:,} on this page",
            fix="remove the ones that are not needed",
        )


def _check_rows(path: Path, reader: TableReader) -> None:
    rows = 0
    for chunk in reader.chunks():
        rows += len(chunk)
        if rows > MOST_ROWS:
            raise TableError(
                f"{str(path)!r} has more than {MOST_ROWS:,} rows",
                expected="at most as many on this page",
                fix="split the file",
            )


def _frame(rows: Sequence[tuple[str, ...]], columns: tuple[str, ...]) -> pd.DataFrame:
    return pd.DataFrame(
        [[_shown(cell) for cell in row] for row in rows], columns=list(columns), dtype=object
    )


def _shown(cell: str) -> str:
    """A cell for the browser: cut, and without lone surrogates, which JSON files may contain."""
    cut = cell if len(cell) <= _LONGEST_CELL else cell[: _LONGEST_CELL - 3] + "..."
    return cut.encode("utf-8", "replace").decode("utf-8")
