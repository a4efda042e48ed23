"""The journal keeps a scoring run's answers on disk until the output is complete.

Format, numbers in little-endian: `bertcnn journal` and a line feed, then records. A record is the
length of its payload (uint32), the CRC-32 of that length and the payload (uint32), and the payload.
The first record is the header, a JSON object with `schema_version`. Each later one is a `Frame`,
the answers to a chunk of rows. A process may be killed while writing, so the first record with a
wrong checksum and everything after it is ignored. The journal contains digests of the input's
texts, not the texts.
"""

from __future__ import annotations

import json
import math
import os
import stat
import struct
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self

import numpy as np

from bertcnn.errors import OutputError, one_line
from bertcnn.inference import Answers, no_reasons
from bertcnn.settings import DECISIONS, PHRASES, REASONS
from bertcnn.storage import companion, try_lock
from bertcnn.tables import explained

SCHEMA_VERSION: Final = 1
DIGEST_BYTES: Final = 16

_MAGIC = b"bertcnn journal\n"
_RECORD = struct.Struct("<II")  # length of the payload, checksum
_FRAME = struct.Struct(f"<II{DIGEST_BYTES}s")  # rows, distinct texts, digest
# of the columns of `Answers`, 4 bytes per number
_DTYPES = ("<i4", "<f4", "<i4", "<i4", "<f4", "<i4")
_EDGE = 1 << 20  # bytes at the start and end of the input that its digest covers
# a power cut loses at most the answers of this period; a killed process loses none
_SECONDS_BETWEEN_SYNCS = 10.0
_WORDS = {
    "input_bytes": "the input's size in bytes",
    "input_modified_ns": "the time of the input's last change",
    "input_digest": "the input's content",
    "model": "the model",
    "engine": "the engine",
    "software": "the version of bertcnn",
    "text_columns": "the text columns",
    "auto_precision": "--auto-precision",
    "probabilities": "--probabilities",
    "reasons": "--reasons",
    "raw": "--raw",
    "labels": "the number of labels",
    "chunk_rows": "the rows of a chunk",
    "target": "the output's name",
    "settings": "the settings",
}


@dataclass(frozen=True)
class InputState:
    """Identifies an input, independently of its path.

    Attributes:
        input_modified_ns: time of the last change, nanoseconds since 1970.
        input_digest: of the first and last MiB.
    """

    input_bytes: int
    input_modified_ns: int
    input_digest: str

    @classmethod
    def of(cls, path: Path) -> InputState:
        """The current state of a file."""
        with path.open("rb") as stream:
            status = os.fstat(stream.fileno())
            digest = blake2b(stream.read(_EDGE), digest_size=DIGEST_BYTES)
            stream.seek(max(_EDGE, status.st_size - _EDGE))
            digest.update(stream.read(_EDGE))
        return cls(status.st_size, status.st_mtime_ns, digest.hexdigest())

    def is_that_of(self, path: Path) -> bool:
        """Whether the file still has this size and time."""
        try:
            status = path.stat()
        except OSError:
            return False
        return (status.st_size, status.st_mtime_ns) == (self.input_bytes, self.input_modified_ns)


@dataclass(frozen=True)
class RunHeader(InputState):
    """Everything that a journal's answers depend on; if any value differs, a run starts over.

    Attributes:
        model: id of the loaded model.
        software: version of bertcnn.
        raw: whether formulas stay unquoted.
        chunk_rows: most rows of a chunk.
        target: the output's file name.
    """

    model: str
    engine: str
    software: str
    text_columns: tuple[str, ...]
    raw: bool
    chunk_rows: int
    target: str

    def to_json(self) -> dict[str, Any]:
        """The header as stored in the journal."""
        return {
            "schema_version": SCHEMA_VERSION,
            **asdict(self),
            "text_columns": list(self.text_columns),
        }


@dataclass(frozen=True)
class JournalHeader(RunHeader):
    """Everything that a classifier's answers depend on.

    Attributes:
        auto_precision: required precision of automatic answers.
        probabilities: whether all probabilities are stored.
        reasons: whether reasons are stored.
    """

    auto_precision: str
    probabilities: bool
    reasons: bool
    labels: int


class Record(Protocol):
    """A chunk of rows with its answers, as stored in a journal."""

    @property
    def rows(self) -> int:
        """The number of rows."""

    @property
    def digest(self) -> bytes:
        """The digest of the rows' texts, in order."""

    def to_bytes(self) -> bytes:
        """The record's payload."""


Parse = Callable[[bytes, Mapping[str, Any]], Any]  # payload and header to a `Record`


@dataclass(frozen=True, eq=False)
class Frame:
    """One chunk of rows with its answers.

    Attributes:
        digest: of the rows' texts, in order.
        answers: to the distinct texts, in order of appearance.
    """

    rows: int
    digest: bytes
    answers: Answers

    def to_bytes(self) -> bytes:
        """The record's payload."""
        columns = zip(self.answers.columns, _DTYPES, strict=True)
        return _FRAME.pack(self.rows, len(self.answers), self.digest) + b"".join(
            column.astype(dtype).tobytes() for column, dtype in columns
        )

    @classmethod
    def from_bytes(cls, payload: bytes, labels: int, probabilities: bool) -> Frame | None:
        """Parse a payload from `to_bytes`; None if it is invalid.

        `labels` is the number of possible labels of an answer.
        """
        if len(payload) < _FRAME.size:
            return None
        rows, texts, digest = _FRAME.unpack_from(payload)
        # older frames lack the last column
        shapes = (texts,), (texts,), (texts,), (texts, PHRASES, 2), (texts, labels * probabilities)
        sizes = [math.prod(shape) for shape in (*shapes, (texts, 2))]
        missing = len(payload) == _FRAME.size + 4 * sum(sizes[:-1])
        if (len(payload) != _FRAME.size + 4 * sum(sizes) and not missing) or not 0 < texts <= rows:
            return None
        columns, begin = [], _FRAME.size
        for dtype, shape, size in zip(_DTYPES, (*shapes, (texts, 2)), sizes, strict=True):
            if begin < len(payload) or not size:
                columns.append(np.frombuffer(payload, dtype, size, begin).reshape(shape))
            begin += 4 * size
        answers = Answers(*columns, *([no_reasons(texts)] if missing else []))
        if (
            answers.labels.min() < -1
            or answers.labels.max() >= labels
            or answers.decisions.min() < 0
            or answers.decisions.max() >= len(DECISIONS)
            or answers.reasons.min() < -1
            or answers.reasons[:, 0].min() < 0
            or answers.reasons[:, 0].max() >= len(REASONS)
            or answers.reasons[:, 1].max() >= labels
        ):
            return None
        return cls(rows, digest, answers)


def _frame_of(payload: bytes, header: Mapping[str, Any]) -> Frame | None:
    if "labels" not in header:  # of another kind of run
        return None
    return Frame.from_bytes(payload, header["labels"], header["probabilities"])


class OtherTextsError(Exception):
    """The input has changed, although size, time and both ends are the same."""


class Journal:
    """The journal of one output, locked while open.

    The file is `.scored.csv.journal` next to `scored.csv`. First `begin` stores what the answers
    depend on, and drops answers that depend on anything else. Then `take` returns the stored
    answers chunk by chunk; once it returns None, `append` adds new ones. At the end of the `with`
    block a journal with answers is kept, unless `remove` was called.

    `restart` discards the answers of an interrupted run. `parse` parses a record, by default as a
    `Frame`. `name` is for messages.

    Attributes:
        rows: rows with stored answers.

    Raises:
        OutputError: the journal is locked by another run, not a journal, or not writable.
    """

    def __init__(
        self, output: Path, *, restart: bool = False, parse: Parse = _frame_of, name: str = ""
    ) -> None:
        self._output, self._parse = output.resolve(), parse
        self._name = name or repr(str(self._output))
        self._path = companion(self._output.with_name(f".{self._output.name}"), ".journal")
        self.rows = 0
        self._taken = 0  # rows
        self._header: dict[str, Any] = {}
        self._dropped = ""
        self._synced = time.monotonic()
        with explained(self._path):
            self._file = self._open_locked()
            try:
                self._read_start(restart)
            except BaseException:
                self._file.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file.closed:
            return
        if self.rows:
            # the answers are with the operating system, and a full disk was already reported
            with suppress(OSError):
                os.fsync(self._file.fileno())
            self._file.close()
        else:
            self.remove()

    # === The run ===

    def begin(self, header: RunHeader) -> str:
        """Store what this run's answers depend on; returns why old answers were dropped, or ""."""
        new_header = json.loads(json.dumps(header.to_json()))
        dropped = self._dropped
        if self.rows:
            changes = [
                _change(name, self._header.get(name), new_header.get(name))
                for name in _WORDS
                if self._header.get(name) != new_header.get(name)
            ]
            if not changes:
                return ""
            dropped = (
                f"an interrupted run has answered {self.rows:,} rows, but since then"
                f" {'; '.join(changes)}: starting over"
            )
        self._header, self.rows = new_header, 0
        with explained(self._output):
            self._file.truncate(0)
            self._file.seek(0)
            self._write(_MAGIC + _record(json.dumps(new_header).encode()))
            os.fsync(self._file.fileno())
        return dropped

    def take(self, rows: int, digest: bytes) -> Any:  # noqa: ANN401 - what `parse` gives
        """The stored answers to the next chunk; None once all have been taken.

        `digest` is of the texts of the chunk's `rows`.

        Raises:
            OtherTextsError: the stored answers are for other texts, and have been dropped.
        """
        if self._taken >= self.rows:
            return None
        with explained(self._path):
            frame = self._read_frame()
            if frame is None or (frame.rows, frame.digest) != (rows, digest):
                self._file.truncate(0)
                self.rows = self._taken = 0
                raise OtherTextsError
        self._taken += rows
        return frame

    def append(self, frame: Record) -> None:
        """Store the answers to the next chunk.

        Raises:
            OutputError: the disk is full.
        """
        with explained(self._output):
            self._file.seek(0, os.SEEK_END)
            self._write(_record(frame.to_bytes()))
            if time.monotonic() - self._synced > _SECONDS_BETWEEN_SYNCS:
                os.fsync(self._file.fileno())
                self._synced = time.monotonic()
        self.rows += frame.rows
        self._taken = self.rows

    def remove(self) -> None:
        """Delete the journal: its answers are in the output, or no longer useful."""
        if self._file.closed:
            return
        if os.name == "nt":  # an open file cannot be deleted, and there is no lock
            self._file.close()
        with suppress(OSError):
            self._path.unlink(missing_ok=True)
        self._file.close()  # also releases the lock
        self.rows = 0

    # === The file ===

    def _open_locked(self) -> FileIO:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
        while True:
            file = FileIO(os.open(self._path, flags, 0o600), "r+")
            # reading a pipe could block for ever
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                file.close()
                raise self._stranger()
            if not try_lock(file.fileno()):
                file.close()
                raise OutputError(
                    f"another run is writing {self._name}",
                    expected="one run at a time for each output",
                    fix="wait until it has ended, or choose another name for the output",
                    passes=True,
                )
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), self._path.stat()):
                    return file
            file.close()  # a run that had it open has ended and deleted it

    def _read_start(self, restart: bool) -> None:
        """Read the header, count the stored rows, and cut off an incomplete end."""
        magic = self._file.read(len(_MAGIC))
        if not _MAGIC.startswith(magic):
            raise self._stranger()
        header = None if restart else self._read_record()
        self._header = {} if header is None else json.loads(header)
        if "labels" in self._header:  # older headers do not have reasons
            self._header.setdefault("reasons", False)
        version = self._header.get("schema_version")
        if version != SCHEMA_VERSION:
            if header is not None:
                self._dropped = (
                    "an interrupted run was started by another version of bertcnn (journal format"
                    f" {version}): starting over"
                )
            self._file.truncate(0)
            return
        first = end = self._file.tell()
        for frame in self._frames():
            self.rows += frame.rows
            end = self._file.tell()
        self._file.truncate(end)
        self._file.seek(first)

    def _stranger(self) -> OutputError:
        return OutputError(
            f"the hidden file {str(self._path)!r} is not one of bertcnn's",
            expected="this name to be free for the answers of the run",
            fix="move that file away",
        )

    def _frames(self) -> Iterator[Record]:
        while (frame := self._read_frame()) is not None:
            yield frame

    def _read_frame(self) -> Any:  # noqa: ANN401 - what `parse` gives
        payload = self._read_record()
        return None if payload is None else self._parse(payload, self._header)

    def _read_record(self) -> bytes | None:
        start = self._file.read(_RECORD.size)
        if len(start) < _RECORD.size:
            return None
        length, checksum = _RECORD.unpack(start)
        # before memory is allocated
        if length > os.fstat(self._file.fileno()).st_size - self._file.tell():
            return None
        payload = self._file.read(length)
        return payload if _checksum(payload) == checksum else None

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while len(rest):
            rest = rest[os.write(self._file.fileno(), rest) :]


def _record(payload: bytes) -> bytes:
    return _RECORD.pack(len(payload), _checksum(payload)) + payload


def _checksum(payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(len(payload).to_bytes(4, "little")))


def _change(name: str, old: object, new: object) -> str:
    """One difference between two runs, for a message."""
    return f"{_WORDS[name]} changed ({_shown(name, old)}, now {_shown(name, new)})"


def _shown(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if name == "input_modified_ns" and isinstance(value, int):
        return datetime.fromtimestamp(value / 1e9, UTC).isoformat(sep=" ", timespec="milliseconds")
    if isinstance(value, list):
        return one_line(", ".join(map(str, value)), 60)
    if isinstance(value, str):
        return one_line(value[:12] if name in ("model", "input_digest") else value, 60)
    return f"{value:,}" if isinstance(value, int) else str(value)
