"""Writes tables atomically: CSV, TSV, JSONL, Parquet and Excel."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from bertcnn.errors import OutputError
from bertcnn.storage import (
    DISK_FULL,
    NAME_CHARACTERS,
    check_outside_models,
    check_regular,
    give_name,
    output_error,
    sync_folder,
    try_lock,
)
from bertcnn.tables.cells import unique_names, well_formed
from bertcnn.tables.formats import DELIMITED, OUTPUT_EXTENSIONS, output_kind
from bertcnn.tables.formulas import escape_formula, unescape_formula
from bertcnn.tables.sinks import Sink, open_sink

__all__ = [
    "TableWriter",
    "check_output",
    "clean_leftovers",
    "escape_formula",
    "explained",
    "unescape_formula",
]

_SCRATCH = ".d"


def check_output(path: str | Path, overwrite: bool = False) -> None:
    """Checks, before any work, that a table can be written to `path`.

    Raises:
        OutputError: the extension is unknown, the folder is missing or cannot be written, or the
            path is taken.
    """
    path = Path(path)
    if output_kind(path) is None:
        raise OutputError(
            f"the output {str(path)!r} has the extension {''.join(path.suffixes[-2:]) or '(none)'}",
            expected=OUTPUT_EXTENSIONS,
            fix="choose a name with one of these",
        )
    try:
        check_outside_models(path)
        _check_place(path, overwrite)
        with tempfile.TemporaryFile(dir=path.resolve().parent, prefix=".bertcnn-"):
            pass
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
            raise output_error(path, error) from None
        raise OutputError(
            f"nothing can be written to the folder {str(path.parent)!r}"
            f" ({getattr(error, 'strerror', None) or error})",
            expected="a folder with write permission and free space",
            fix="choose another folder, or ask for write permission",
        ) from None


def _check_place(path: Path, overwrite: bool) -> None:
    if path.is_dir():
        raise OutputError(
            f"the output {str(path)!r} is a folder",
            expected="the name of a file",
            fix="name a file in it",
        )
    check_regular(path)
    if path.exists() and not overwrite:
        raise OutputError(
            f"the output {str(path)!r} exists",
            expected="a name that is free",
            fix="choose another name, or overwrite it with --force",
        )
    folder = path.resolve().parent
    if not folder.is_dir():
        raise OutputError(
            f"there is no folder {str(folder)!r}",
            expected="an existing folder to write to",
            fix="create it first",
        )


class TableWriter:
    """Writes a table of text cells atomically, in the format of the extension.

    Rows go to a hidden temporary file next to `path`. It is synced and renamed at the end of the
    `with` block; any exception, also Ctrl-C, removes it. The next write to the same path removes
    temporary files of killed processes.

    Args:
        path: .csv, .tsv, .jsonl or .ndjson (each also with .gz), .parquet or .xlsx.
        columns: the header. In JSON Lines and Parquet, a repeated name gets a number ("text_2").
        raw: write cells unchanged. By default, cells of CSV and TSV that a spreadsheet would run as
            a formula get a leading quote, which reading removes.
        overwrite: replace an existing file.

    Attributes:
        rows_written: rows so far, without the header.

    Raises:
        OutputError: from the constructor as in `check_output`; later if the disk is full or a
            format's limits are exceeded.

    Example:
        >>> path = Path(tempfile.mkdtemp()) / "out.csv"
        >>> with TableWriter(path, ["text", "label"]) as writer:
        ...     writer.write([("no signal", "hardware"), ("=1+1", "billing")])
        >>> print(path.read_text(), end="")
        text,label
        no signal,hardware
        '=1+1,billing
    """

    def __init__(
        self,
        path: str | Path,
        columns: Sequence[str],
        *,
        raw: bool = False,
        overwrite: bool = False,
    ) -> None:
        check_output(path, overwrite)
        self._path = Path(path).resolve()
        self._columns = tuple(columns)
        self._escapes, self._overwrite = not raw, overwrite
        self._file: _AtomicFile | None = None
        self._sink: Sink | None = None
        self._finished = False
        self.rows_written = 0

    def __enter__(self) -> Self:
        kind = output_kind(self._path)
        if kind is None:  # a link with a valid extension to a file with another
            raise OutputError(
                f"the output links to {str(self._path)!r}",
                expected=OUTPUT_EXTENSIONS,
                fix="name that file itself",
            )
        self._escapes = self._escapes and kind.format in DELIMITED
        columns = (
            unique_names(self._columns) if kind.format in ("jsonl", "parquet") else self._columns
        )
        clean_leftovers(self._path)
        with explained(self._path):
            self._file = _AtomicFile(self._path)
            try:
                self._sink = open_sink(
                    kind.format,
                    kind.gzipped,
                    self._file.stream,
                    self._prepared(columns),
                    self._file.scratch,
                )
            except BaseException:
                self._file.discard()
                raise
        return self

    def write(self, rows: Iterable[Sequence[str]]) -> None:
        """Appends rows with one text cell per column."""
        if self._sink is None or self._finished:
            raise ValueError("TableWriter.write outside of its `with` block, or after `finish`")
        with explained(self._path):
            self._sink.write(self._checked(rows))

    def finish(self) -> None:
        """Completes and syncs the temporary file; the end of the `with` block renames it."""
        if self._sink is None or self._file is None or self._finished:
            return
        with explained(self._path):
            self._sink.finish()
            self._file.flush()
        self._finished = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        sink, file = self._sink, self._file
        if sink is None or file is None:
            return
        try:
            if error is None:
                self.finish()
                with explained(self._path):
                    file.commit(overwrite=self._overwrite)
        finally:  # after a commit, nothing is left to discard
            self._sink = self._file = None
            sink.abandon()
            file.discard()

    def _checked(self, rows: Iterable[Sequence[str]]) -> Iterator[Sequence[str]]:
        width = len(self._columns)
        for row in rows:
            if len(row) != width:
                raise ValueError(
                    f"row {self.rows_written + 1} has {len(row)} cells, the table has {width}"
                    " columns"
                )
            self.rows_written += 1
            yield self._prepared(row)

    def _prepared(self, row: Sequence[str]) -> Sequence[str]:
        cells = [escape_formula(cell) for cell in row] if self._escapes else row
        try:
            "".join(cells).encode()
        except UnicodeEncodeError:  # lone surrogates, which no format can hold
            cells = [well_formed(cell) for cell in cells]
        return cells


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Converts an OSError while writing `path` into an `OutputError`."""
    try:
        yield
    except OSError as error:
        if error.errno in DISK_FULL:
            raise OutputError(
                f"the disk is full: {str(path)!r} could not be written ({error.strerror})",
                expected="enough free space for the whole file",
                fix=(
                    "free some space or write to another disk, then run it again; nothing was"
                    " changed"
                ),
                passes=True,
            ) from error
        if error.errno == errno.ENAMETOOLONG:
            raise output_error(path, error) from error
        raise OutputError(
            f"{str(path)!r} could not be written ({error.strerror or error})",
            expected="a place that takes the file",
            fix="choose another folder",
        ) from error


class _AtomicFile:
    """A temporary file next to `path` that replaces it when committed.

    Its lock shows `clean_leftovers` that its process is alive. `scratch` is the path of a folder
    for temporary data, removed afterwards.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # created with the mode of a new file (umask); private until it is complete
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        while True:
            self._temporary = path.with_name(
                f".{path.name[:NAME_CHARACTERS]}.{os.getpid()}-{os.urandom(4).hex()}.tmp"
            )
            descriptor = os.open(self._temporary, flags, 0o666)
            if try_lock(descriptor) and self._temporary.exists():
                break
            os.close(descriptor)  # a cleanup found it before it was locked
        self._mode = os.fstat(descriptor).st_mode & 0o777
        self.stream: IO[bytes] = os.fdopen(descriptor, "w+b")
        self._temporary.chmod(0o600)
        self.scratch = self._temporary.with_name(self._temporary.name + _SCRATCH)

    def flush(self) -> None:
        self.stream.flush()
        os.fsync(self.stream.fileno())

    def commit(self, *, overwrite: bool) -> None:
        """Renames the flushed file; see `give_name`."""
        mode = self._path.stat().st_mode & 0o777 if self._path.exists() else self._mode
        self._temporary.chmod(mode)
        # Windows cannot rename an open file; elsewhere it stays locked until it is renamed
        if os.name == "nt":
            self.stream.close()
        give_name(self._temporary, self._path, overwrite=overwrite)
        self.stream.close()
        sync_folder(self._path.parent)

    def discard(self) -> None:
        shutil.rmtree(self.scratch, ignore_errors=True)
        if os.name == "nt":
            self._close()
        self._temporary.unlink(missing_ok=True)
        self._close()

    def _close(self) -> None:
        with suppress(OSError):  # a full disk fails again on closing
            self.stream.close()


def clean_leftovers(path: str | Path) -> None:
    """Removes the temporary files of killed processes next to the table `path`."""
    path = Path(path).resolve()
    name = re.escape(path.name[:NAME_CHARACTERS])
    temporary_file = re.compile(
        rf"\.{name}\.(?P<process>\d+)-[0-9a-f]{{8}}\.tmp(?P<scratch>{re.escape(_SCRATCH)})?"
    )
    with suppress(OSError), os.scandir(path.parent) as entries:
        # a file comes before its folder
        for match in map(temporary_file.fullmatch, sorted(entry.name for entry in entries)):
            if match is None:
                continue
            leftover = path.with_name(match[0])
            if not match["scratch"]:
                _remove_if_abandoned(leftover, int(match["process"]))
            elif not path.with_name(match[0].removesuffix(_SCRATCH)).exists():
                shutil.rmtree(leftover, ignore_errors=True)


def _remove_if_abandoned(temporary: Path, process: int) -> None:
    with suppress(
        OSError
        # removed meanwhile, another user's, or open on Windows
    ):
        if os.name == "nt":
            temporary.unlink()
            return
        handle = os.open(temporary, os.O_RDWR | os.O_NOFOLLOW)
        try:
            if try_lock(handle) and (_locks_hold(temporary) or not _is_running(process)):
                temporary.unlink()
        finally:
            os.close(handle)


def _locks_hold(locked: Path) -> bool:
    """Whether this file system enforces locks: our own lock must exclude us."""
    handle = os.open(locked, os.O_RDWR | os.O_NOFOLLOW)
    try:
        return not try_lock(handle)
    finally:
        os.close(handle)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
