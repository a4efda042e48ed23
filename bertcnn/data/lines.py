"""Bytes of a text file into lines of bounded length; what cannot be decoded is marked."""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from bertcnn.data.mixed_encoding import LineDecoder
from bertcnn.errors import TableError

LONGEST_LINE = 4_000_000  # characters; of a longer line only the start is kept
_BLOCK = 1024**2
_UNDECODABLE = re.compile("[\ud800-\udfff]")
_MARK = "\udcff"


class TextFile:
    r"""A text file, gzipped or not, as an iterator of lines without their "\n".

    Bytes that are not text in `encoding` become lone surrogates, which `undecodable` finds.

    Args:
        path: the file.
        gzipped: whether it is compressed.
        encoding: a text encoding of Python.
        newline: what ends a line, "\n" (a "\r" before it stays) or "\r".
        is_mixed: whether lines that are valid in UTF-8 are in UTF-8 all the same.
    """

    def __init__(self, path: Path, gzipped: bool, encoding: str, newline: str = "\n", *, is_mixed: bool = False) -> None:
        self._path = path
        self._file = path.open("rb")
        self._stream: IO[bytes] = gzip.GzipFile(fileobj=self._file) if gzipped else self._file  # type: ignore[assignment]
        self._encoding = encoding
        self._newline = newline
        self._is_mixed = is_mixed
        self._lines = self._split()

    def position(self) -> int:
        """How many bytes of the file have been read."""
        return 0 if self._file.closed else self._file.tell()

    def __iter__(self) -> Iterator[str]:
        return self._lines

    def blocks(self) -> Iterator[str]:
        """The text in pieces, in place of its lines."""
        return self._decoded()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
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
        errors = "surrogatepass" if re.match("utf[-_]?(16|32)", self._encoding, re.IGNORECASE) else "surrogateescape"
        decoder = LineDecoder(self._encoding, errors) if self._is_mixed else codecs.getincrementaldecoder(self._encoding)(errors)
        while True:
            block = read_block(self._stream, self._path, _BLOCK)
            try:
                text = decoder.decode(block, final=not block)
            except UnicodeDecodeError:  # some encodings cannot pass every wrong byte on
                text = block.decode(self._encoding, "replace").replace("\N{REPLACEMENT CHARACTER}", _MARK) or _MARK
                decoder.reset()
            if text:
                yield text
            if not block:
                return


def _bounded(parts: list[str]) -> str:
    """A line; of one that is too long a character more than may be, so that it is seen to be."""
    return ("".join(parts) if len(parts) > 1 else parts[0])[: LONGEST_LINE + 1]


def read_block(stream: IO[bytes], path: Path, size: int) -> bytes:
    """Up to `size` bytes of `stream`.

    Raises:
        TableError: if the disk or a damaged gzip file stops it.
    """
    try:
        return stream.read(size)
    except (EOFError, zlib.error, OSError) as error:
        raise TableError(
            f"{str(path)!r} is damaged or cut off ({error})", expected="a file that can be read to its end", fix="copy or export it again"
        ) from None


def undecodable(text: str) -> bool:
    """Whether `text` holds bytes that could not be decoded."""
    return not text.isascii() and _UNDECODABLE.search(text) is not None
