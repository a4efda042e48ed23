"""Writes unreadable rows to a .csv file next to the output."""

from __future__ import annotations

import math
from collections import deque
from pathlib import Path
from types import TracebackType

from bertcnn.errors import OutputError
from bertcnn.storage import companion
from bertcnn.tables.writing import TableWriter, check_output, clean_leftovers, explained

_COLUMNS = ("line", "reason", "content_start")
_CONTENT_CHARACTERS = 100_000  # of a row; Python's csv module rejects cells of more than 131,072
_HELD_CHARACTERS = 16 * 1024**2


class RejectsFile:
    """The list of rejected rows, created only if there are any; discarded if `path` is None."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._writer: TableWriter | None = None
        self._held: deque[tuple[int, str, str]] = deque()
        self._characters = 0

    def hold(self, line: int, reason: str, content: str) -> None:
        """Delays a row, since an earlier row may still be rejected and must come first."""
        if self._path is None:
            return
        if self._characters > _HELD_CHARACTERS:
            self.write(line, reason, content)
        else:
            self._held.append((line, reason, content[:_CONTENT_CHARACTERS]))
            self._characters += len(self._held[-1][2]) + len(reason)

    def release(self, before: float = math.inf) -> None:
        """Writes the delayed rows of lines before `before`."""
        while self._held and self._held[0][0] < before:
            self.write(*self._held.popleft())

    def write(self, line: int, reason: str, content: str) -> None:
        """Adds a row: the line it starts at, the reason, and its original text."""
        if self._path is None:
            return
        if self._writer is None:
            self._writer = TableWriter(self._path, _COLUMNS, overwrite=True).__enter__()
        text = content[:_CONTENT_CHARACTERS].encode("utf-8", "backslashreplace").decode()
        self._writer.write([(str(line), reason, text[:_CONTENT_CHARACTERS])])

    def close(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        *,
        is_whole: bool,
    ) -> None:
        """Puts the list in place, or removes an earlier one if no row was rejected."""
        if error is None:
            self.release()
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.__exit__(kind, error, trace)
        elif error is None and self._path is not None and is_whole:
            with explained(self._path):
                self._path.unlink(missing_ok=True)


def check_rejects(path: Path) -> None:
    """Raises OutputError if the list cannot be written or would replace another file."""
    check_output(path, overwrite=True)
    clean_leftovers(path)
    if path.exists():
        with path.open("rb") as file:
            if file.readline(200).strip() != ",".join(_COLUMNS).encode():
                raise OutputError(
                    f"{str(path)!r}, where rows that cannot be read would go, is another file",
                    expected="a name that is free, or an earlier list of such rows",
                    fix="move it away, or choose another name for the output",
                )


def rejects_of(target: Path) -> Path:
    """The path of the rejected rows for the output `target`, a scored file or a model."""
    return companion(target, ".rejects.csv")
