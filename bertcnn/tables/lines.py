"""Decodes a text file into lines of bounded length, and marks undecodable bytes."""

from __future__ import annotations

import codecs
import io
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from bertcnn.errors import TableError
from bertcnn.tables.mixed_encoding import LineDecoder
from bertcnn.wording import memory_size

LONGEST_LINE = 4_000_000  # characters; longer lines are cut
_BLOCK = 1024**2
# Limit for unpacked bytes: this many, plus a number for each packed byte; text needs up to 20.
_UNPACKED = 32 * 1024**2
_UNPACKED_PER_BYTE = 150
_PACKED_BLOCK, _GZIP = 8 * 1024, 31  # bytes, and zlib's number for gzip with a header
_UNDECODABLE = re.compile("[\ud800-\udfff]")
_MARK = "\udcff"


class TextFile:
    r"""A text file, gzipped or not, as an iterator of lines without their "\n".

    Bytes that are not valid in `encoding` become lone surrogates, which `undecodable` finds.
    `newline` is "\n" (a "\r" before it stays) or "\r". With `is_mixed`, lines of valid UTF-8 are
    decoded as UTF-8.
    """

    def __init__(
        self,
        path: Path,
        gzipped: bool,
        encoding: str,
        newline: str = "\n",
        *,
        is_mixed: bool = False,
    ) -> None:
        self._path = path
        self._file: IO[bytes] = path.open("rb")
        self._stream = unpacked(self._file, path) if gzipped else self._file
        self._encoding = encoding
        self._newline = newline
        self._is_mixed = is_mixed
        self._lines = self._split()

    def position(self) -> int:
        """Number of bytes read."""
        return 0 if self._file.closed else self._file.tell()

    def __iter__(self) -> Iterator[str]:
        return self._lines

    def blocks(self) -> Iterator[str]:
        """The text in blocks instead of lines."""
        return self._decoded()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._stream.close()
        self._file.close()

    def _split(self) -> Iterator[str]:
        kept: list[str] = []  # the start of a line whose end has not been read
        length = 0
        for text in self._decoded():
            *complete, rest = text.split(self._newline)
            for part in complete:
                if length <= LONGEST_LINE:
                    kept.append(part)
                yield _bounded(kept)
                kept, length = [], 0
            if rest and length <= LONGEST_LINE:
                kept.append(rest)
                length += len(rest)
        if kept:
            yield _bounded(kept)

    def _decoded(self) -> Iterator[str]:
        errors = (
            "surrogatepass"
            if re.match("utf[-_]?(16|32)", self._encoding, re.IGNORECASE)
            else "surrogateescape"
        )
        decoder = (
            LineDecoder(self._encoding, errors)
            if self._is_mixed
            else codecs.getincrementaldecoder(self._encoding)(errors)
        )
        while True:
            block = read_block(self._stream, self._path, _BLOCK)
            try:
                text = decoder.decode(block, final=not block)
            except UnicodeDecodeError:  # some encodings cannot pass on every invalid byte
                text = (
                    block.decode(self._encoding, "replace").replace(
                        "\N{REPLACEMENT CHARACTER}", _MARK
                    )
                    or _MARK
                )
                decoder.reset()
            if text:
                yield text
            if not block:
                return


def _bounded(parts: list[str]) -> str:
    """A line; if too long, it is cut one character after the limit, to be recognisable."""
    return ("".join(parts) if len(parts) > 1 else parts[0])[: LONGEST_LINE + 1]


def unpacked(file: IO[bytes], path: Path) -> IO[bytes]:
    """An open gzip file as a stream; raises TableError if it expands to many times its size."""
    return io.BufferedReader(_Unpacked(file, path), _BLOCK)


class _Unpacked(io.RawIOBase):
    """A gzip stream of limited size; Python's needs 8 times as long for a million empty members."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file, self._path = file, path
        self._member: Any = zlib.decompressobj(_GZIP)
        self._most = _UNPACKED + _UNPACKED_PER_BYTE * path.stat().st_size
        self._read = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - whatever can be written into
        text = b""
        while not text:
            if self._member.eof:
                packed = self._member.unused_data.lstrip(b"\0")  # zeros may follow, as on a tape
                while not packed and (block := self._file.read(_PACKED_BLOCK)):
                    packed = block.lstrip(b"\0")
                if not packed:
                    return 0
                self._member = zlib.decompressobj(_GZIP)
            else:
                packed = self._member.unconsumed_tail or self._file.read(_PACKED_BLOCK)
                if not packed:
                    raise EOFError("it ends in the middle")
            text = self._member.decompress(packed, len(buffer))
        buffer[: len(text)] = text
        self._read += len(text)
        if self._read > self._most:
            raise swollen(self._path)
        return len(text)


def swollen(path: Path) -> TableError:
    """The error for a file with far more content than tables of its size have."""
    return TableError(
        f"{str(path)!r}, {memory_size(path.stat().st_size)}, holds many times what a table of its"
        " size can",
        expected="a table that is as large as its file",
        fix="check where it comes from; if it is right, save it as .csv",
    )


def read_block(stream: IO[bytes], path: Path, size: int) -> bytes:
    """Up to `size` bytes of `stream`.

    Raises:
        TableError: the disk fails or the gzip file is damaged.
    """
    try:
        return stream.read(size)
    except (EOFError, zlib.error, OSError) as error:
        raise TableError(
            f"{str(path)!r} is damaged or cut off ({error})",
            expected="a file that can be read to its end",
            fix="copy or export it again",
        ) from None


def undecodable(text: str) -> bool:
    """Whether `text` contains bytes that could not be decoded."""
    return not text.isascii() and _UNDECODABLE.search(text) is not None
