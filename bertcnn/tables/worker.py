"""Reads Excel and Parquet files in a worker process with limits on memory and computing time.

The libraries are native code, and a file of a few kilobytes can make them allocate any amount of
memory: a cell at the end of the sheet, a page that decompresses to gigabytes, one long string in
every row. A failed allocation there aborts the whole process, so no check in Python helps. The
kernel enforces the worker's limits. Where it has none (Windows, partly macOS), an abort still ends
the worker only.

`ProcessPoolExecutor` cannot replace this: it does not report a child's signal or exit code, which
show whether memory or time ran out; it does not end a hanging child; and it returns one result
instead of a stream of batches.
"""

from __future__ import annotations

import marshal
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NoReturn, Protocol

from bertcnn.errors import MissingPackageError, TableError, explain_missing_packages
from bertcnn.tables.cells import name_columns
from bertcnn.tables.delimited import Reject, Row
from bertcnn.wording import memory_size

_PROGRAM = "from bertcnn.tables.worker import serve; serve()"
# bytes, and how many more for each byte of the file; large honest files need most of them
_MEMORY, _MEMORY_PER_BYTE = 350_000_000, 10
# seconds of computing, plus one for this many bytes of the file; honest files need a tenth
_SECONDS, _BYTES_PER_SECOND = 6, 500_000
_LIBRARIES = 512 * 1024**2  # address space that the libraries themselves take
_BATCH_ROWS, _BATCH_CHARACTERS = 1024, 1_000_000
_NO_MEMORY = 3  # exit code
# a worker hangs if it neither sends a message nor computes for this many seconds
_ASLEEP = 8
_LENGTH = 8  # bytes before each message
_HEADER, _ROWS, _END, _REFUSED = "header", "rows", "end", "refused"


class BinarySource(Protocol):
    """An open Excel or Parquet file, in the worker."""

    header: tuple[str, ...]
    remark: str
    total: int  # number of rows according to the file

    def rows(self, reject: Reject) -> Iterator[Row]:
        """Every readable row with its number; calls `reject` for the others."""

    def closing_remark(self) -> str:
        """A remark about the rows; mostly empty."""


class WorkerSource:
    """Rows of an Excel or Parquet file, from a worker process.

    Raises:
        TableError: the file cannot be read within the limits.
    """

    encoding: str | None = None
    delimiter: str | None = None

    def __init__(self, path: Path, format_name: str, expected_columns: Sequence[str] = ()) -> None:
        self._path, self._format, self._size, self._done = path, format_name, path.stat().st_size, 0
        self._memory = _MEMORY + _MEMORY_PER_BYTE * self._size
        self._seconds = _SECONDS + self._size // _BYTES_PER_SECOND
        self._process = self._start(format_name, expected_columns)
        self._waiting, self._closed = threading.Event(), threading.Event()
        threading.Thread(target=self._watch, name="bertcnn-worker-watch", daemon=True).start()
        try:
            _, self.header, self.remark, self._total = self._receive()
        except BaseException:
            self.close()
            raise
        self.columns = name_columns(self.header)

    def rows(self, reject: Reject) -> Iterator[Row]:
        """Every readable row with its number; calls `reject` for the others."""
        while (message := self._receive())[0] != _END:
            _, numbers, rows, rejects = message
            for rejected in rejects:
                reject(*rejected)
            for number, row in zip(numbers, rows, strict=True):
                self._done = number
                yield number, row
        self.remark = "; ".join(filter(None, (self.remark, message[1])))

    def position(self) -> int:
        """The approximate number of bytes read."""
        return self._size * self._done // max(1, self._total)

    def close(self) -> None:
        """Ends the worker."""
        self._closed.set()
        self._process.kill()
        self._process.wait()
        self._stream.close()

    def _start(self, format_name: str, columns: Sequence[str]) -> subprocess.Popen[bytes]:
        folders = os.pathsep.join(folder or str(Path.cwd()) for folder in sys.path)
        try:
            return subprocess.Popen(
                [
                    *(
                        sys.executable,
                        "-P",
                        "-c",
                        _PROGRAM,
                        str(self._path),
                        format_name,
                        str(self._memory),
                        str(self._seconds),
                    ),
                    *(name.replace("\0", "") for name in columns),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": folders, "ARROW_DEFAULT_MEMORY_POOL": "system"},
            )
        except OSError as error:
            raise TableError(
                f"no process can be started to read {str(self._path)!r} ({error.strerror})",
                expected="room for one more process",
                fix="end other programs, or save the table as .csv",
            ) from None

    @property
    def _stream(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout

    def _receive(self) -> Any:  # noqa: ANN401 - a tuple, by its first element
        """The worker's next message; raises TableError if it has rejected the file or ended."""
        self._waiting.set()
        length = self._stream.read(_LENGTH)
        content = self._stream.read(int.from_bytes(length)) if len(length) == _LENGTH else b""
        self._waiting.clear()
        if not content or len(content) < int.from_bytes(length):
            self._explain(self._process.wait())
        message = marshal.loads(content)
        if message[0] == _REFUSED:
            raise TableError(message[1], expected=message[2], fix=message[3])
        return message

    def _watch(self) -> None:
        """Ends a sleeping worker: after a failed allocation, native code can wait forever."""
        idle, before = 0, ""
        while not self._closed.wait(1.0):
            used = _computed(self._process.pid)
            idle = idle + 1 if used and used == before and self._waiting.is_set() else 0
            before = used
            if idle >= _ASLEEP:
                self._process.kill()
                return

    def _explain(self, code: int) -> NoReturn:
        name = f"{str(self._path)!r}, {memory_size(self._size)}, cannot be read"
        advice = (
            "delete what lies far from the table"
            if self._format == "xlsx"
            else "check where it comes from"
        )
        save_again = f"{advice}, or save the table as .csv"
        # not every system has each signal, and some signals have no name
        ended_by = next((one.name for one in signal.Signals if one == -code), "")
        if ended_by == "SIGXCPU":
            raise TableError(
                f"{name} within {self._seconds:,} s",
                expected="a table that is as large as its file",
                fix=save_again,
            )
        if code == _NO_MEMORY or ended_by in ("SIGABRT", "SIGKILL"):
            raise TableError(
                f"{name} within {memory_size(self._memory)} of memory",
                expected="a table that is as large as its file",
                fix=save_again,
            )
        ended = f"was ended by {ended_by}" if ended_by else f"ended with code {code}"
        raise TableError(
            f"{name} (its reader {ended})",
            expected="a complete file",
            fix="export it again, or as .csv",
        )


def _computed(process: int) -> str:
    """The computing time of a process; "" if unknown."""
    import psutil  # only where a worker takes long

    try:
        return str(psutil.Process(process).cpu_times()[:2])
    except psutil.Error:
        return ""


# === In the worker ===


def serve() -> None:
    """Reads the file named on the command line, and writes its rows to standard output."""
    path, format_name, memory, seconds, *columns = sys.argv[1:]
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):  # the parent process decides
        if hasattr(signal, name):  # Windows lacks the last one
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # for the output of libraries
    try:
        _limit(int(memory), int(seconds))
        with explain_missing_packages():
            _write_table(Path(path), format_name, columns, output)
        output.flush()
    except (TableError, MissingPackageError) as error:
        _write(output, _REFUSED, error.given, error.expected, error.fix)
        output.flush()
    except BrokenPipeError:
        os._exit(0)  # the parent has closed the pipe
    except MemoryError:
        os._exit(_NO_MEMORY)


def _limit(memory: int, seconds: int) -> None:
    """Sets the limits of this process; never raises existing ones."""
    if sys.platform == "win32":
        return
    import resource

    limits = {
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_CPU: (seconds, seconds + 5),
        resource.RLIMIT_DATA: (memory, memory),
        resource.RLIMIT_AS: (memory + _LIBRARIES, memory + _LIBRARIES),
    }
    for kind, requested in limits.items():
        current = [
            limit if limit != resource.RLIM_INFINITY else sys.maxsize
            for limit in resource.getrlimit(kind)
        ]
        with suppress(ValueError, OSError):  # not every system has each limit
            resource.setrlimit(kind, (min(requested[0], *current), min(requested[1], current[1])))


def _write_table(path: Path, format_name: str, columns: Sequence[str], output: IO[bytes]) -> None:
    from bertcnn.tables.excel import ExcelSource
    from bertcnn.tables.parquet import ParquetSource

    source: BinarySource = (
        ExcelSource(path, columns) if format_name == "xlsx" else ParquetSource(path)
    )
    _write(output, _HEADER, source.header, source.remark, source.total)
    output.flush()
    batch = _Batch(output)
    for number, row in source.rows(batch.reject):
        batch.add(number, row)
    batch.write()
    _write(output, _END, source.closing_remark())


class _Batch:
    def __init__(self, output: IO[bytes]) -> None:
        self._output = output
        self._clear()

    def _clear(self) -> None:
        self._numbers: list[int] = []
        self._rows: list[tuple[str, ...]] = []
        self._rejects: list[tuple[int, str, str]] = []
        self._characters = 0

    def add(self, number: int, row: tuple[str, ...]) -> None:
        self._numbers.append(number)
        self._rows.append(row)
        self._characters += sum(map(len, row))
        if len(self._rows) >= _BATCH_ROWS or self._characters >= _BATCH_CHARACTERS:
            self.write()

    def reject(self, number: int, reason: str, content: str) -> None:
        self._rejects.append((number, reason, content))
        self._characters += len(content)
        if len(self._rejects) >= _BATCH_ROWS or self._characters >= _BATCH_CHARACTERS:
            self.write()

    def write(self) -> None:
        _write(self._output, _ROWS, self._numbers, self._rows, self._rejects)
        self._clear()


def _write(output: IO[bytes], *message: Any) -> None:  # noqa: ANN401 - lists, tuples, texts and numbers
    # version 2 does not track repeated objects, and is faster
    content = marshal.dumps(message, 2)
    output.write(len(content).to_bytes(_LENGTH))
    output.write(content)
