"""Reads JSON Lines and lists of objects; keys become columns, also those of nested objects."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bertcnn.errors import TableError
from bertcnn.tables.cells import MOST_COLUMNS, name_columns, unique_names, well_formed
from bertcnn.tables.delimited import MAX_CELL_CHARACTERS, Reject, Row, long_cell
from bertcnn.tables.dialect import find_encoding, sample_bytes
from bertcnn.tables.formats import FileKind
from bertcnn.tables.json_arrays import elements, find_place
from bertcnn.tables.lines import LONGEST_LINE, TextFile, undecodable
from bertcnn.tables.mixed_encoding import utf_8_remark
from bertcnn.values import plain_text

_DEEPEST = 8  # nesting levels with columns; deeper objects are cells of JSON
# most distinct keys of the nested objects at one path (an issue tracker has as many fields); with
# more, the keys are data
_WIDEST = 1000
_MOST_CELLS = 4_000_000  # of a file; in a larger and sparser one, rare keys are data
# a file is sparse if fewer than one cell in this many has a value
_SPARSE = 20
_MOST_FREQUENT = 100  # keys that have a column if one line in a thousand has them
_REST = "other_keys"


class JsonLinesSource:
    """Rows of JSON Lines, or of a list of objects.

    Columns are the keys in order of appearance; keys of nested objects are named "ticket.body".
    Keys beyond the 16,384th, and rare keys in a file of very many, share one cell of JSON,
    `other_keys`.
    """

    delimiter: str | None = None

    def __init__(
        self,
        path: Path,
        kind: FileKind,
        encoding: str | None,
        expected_columns: Sequence[str] | None = None,
    ) -> None:
        blocks = sample_bytes(path, kind.gzipped)
        found_encoding = find_encoding(path, kind, blocks, encoding)
        self.encoding: str | None = found_encoding
        self.remark = "" if encoding else utf_8_remark(str(path), blocks, found_encoding)
        is_mixed = bool(self.remark)
        self._open: Callable[[], TextFile] = lambda: TextFile(
            path, kind.gzipped, found_encoding, is_mixed=is_mixed
        )
        with self._open() as file:
            self._place = find_place(path, file, expected_columns or ())
        self._keys = _Keys()
        columns, widest, blank, read = 0, _WIDEST, True, 0
        with self._open() as lines:
            for _, line in self._records(lines):
                blank = blank and not line.strip()
                parsed = _json_object(line)
                if isinstance(parsed, str):
                    continue
                read += 1
                columns += self._keys.learn(parsed, widest)
                while columns > MOST_COLUMNS and widest:
                    widest //= 2
                    columns += self._keys.narrow(widest)
                if columns > MOST_COLUMNS - self._keys.has_rest:
                    columns += self._keys.forget(columns - MOST_COLUMNS + 1)
        no_rows = blank and expected_columns is not None
        if not columns and not no_rows:
            lack = "holds no line that is a JSON object with keys"
            if blank:
                lack = _lack(path, self._place is not None)
            raise TableError(
                f"{str(path)!r} {lack}",
                expected='lines such as {"text": "no signal", "label": "hardware"}',
                fix="export it as a list of objects, as JSON Lines, one object a line, or as .csv",
            )
        if columns * read > max(_MOST_CELLS, _SPARSE * self._keys.filled()):
            self._keys.keep_frequent(read)
        names = (
            list(expected_columns or ["text"])
            if no_rows
            else [well_formed(".".join(path)) for path in self._keys.paths()]
        )
        if self._keys.has_rest:
            warning = (
                f"{str(path)!r} has more different keys than a table can have columns:"
                f" {len(names):,} have one, "
            )
            self.remark += (
                f"{'; ' * is_mixed}{warning}all others are together in the column {_REST!r}"
            )
            names.append(_REST)
        self.header = unique_names(names)
        self.columns = name_columns(self.header)
        self._file = self._open()

    def _records(self, file: TextFile) -> Iterator[tuple[int, str]]:
        return enumerate(file, 1) if self._place is None else elements(file, self._place)

    def rows(self, reject: Reject) -> Iterator[Row]:
        """Every readable row with its first line number; calls `reject` for the others."""
        for number, line in self._records(self._file):
            if not line.strip():
                continue
            parsed = _json_object(line)
            if isinstance(parsed, str):
                reject(number, parsed, line)
                continue
            try:
                cells = self._cells(parsed, line)
            except ValueError as error:  # a nested number of thousands of digits
                reject(number, f"invalid JSON: {error}", line)
                continue
            if fault := long_cell(cells):
                reject(number, fault, line)
            else:
                yield number, cells

    def _cells(self, record: Mapping[str, Any], line: str) -> tuple[str, ...]:
        """The cells of a row: numbers with their spelling, lists and objects as JSON."""
        values = self._keys.cells(record)
        if any(isinstance(value, list | dict) for value in values):
            with_numbers = self._keys.cells(json.loads(line.lstrip("\ufeff")))
            values = [
                json.dumps(spelled, ensure_ascii=False) if isinstance(value, list | dict) else value
                for value, spelled in zip(values, with_numbers, strict=True)
            ]
        return tuple(well_formed(plain_text(value)) for value in values)

    def position(self) -> int:
        """Number of bytes read."""
        return self._file.position()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def _lack(path: Path, is_list: bool) -> str:
    if is_list:
        return "holds an empty list"
    return "holds blank lines only" if path.stat().st_size else "is empty"


class _Keys:
    """The distinct keys of the objects at one path, as a tree; the root stands for the lines.

    Nested objects with too many distinct keys, such as dates, are kept whole as a cell of JSON.

    Attributes:
        depth: how many keys lead here.
        below: the children by key, in order of appearance.
        is_cell: whether some values here are cells: values that are not objects, have no keys, or
            are kept whole.
        is_whole: whether objects are kept whole here.
        lines: number of lines with a value here.
        has_rest: whether the root has keys that are not in `below`.
    """

    __slots__ = ("below", "depth", "has_rest", "is_cell", "is_whole", "lines")

    def __init__(self, depth: int = 0) -> None:
        self.depth = depth
        self.below: dict[str, _Keys] = {}
        self.is_cell = False
        self.is_whole = depth > _DEEPEST
        self.lines = 0
        self.has_rest = False

    def learn(self, record: Mapping[str, Any], widest: int) -> int:
        """Adds the keys of one more object; returns how many cells each row gains (or loses)."""
        more = 0
        for key, value in record.items():
            child = self.below.get(key)
            if child is None:
                child = self.below[key] = _Keys(self.depth + 1)
            child.lines += 1
            if child.has_columns(value):
                more += child.learn(value, widest)
            elif not child.is_cell:
                child.is_cell = True
                more += 1
        return more + self._keep_whole() if self.depth and len(self.below) > widest else more

    def narrow(self, widest: int) -> int:
        """Keeps objects with more than `widest` distinct keys whole; returns like `learn`."""
        if self.depth and len(self.below) > widest:
            return self._keep_whole()
        return sum(child.narrow(widest) for child in self.below.values() if child.below)

    def forget(self, count: int) -> int:
        """Moves the last `count` keys to the rest, none if negative; returns like `learn`."""
        self.has_rest = self.has_rest or count > 0
        return sum(-self.below.popitem()[1].count() for _ in range(count))

    def filled(self) -> int:
        return self.lines * self.is_cell + sum(child.filled() for child in self.below.values())

    def keep_frequent(self, lines: int) -> None:
        """Merges the rare keys of `lines` lines into one cell: the nested object, or the rest."""
        for child in self.below.values():
            child.keep_frequent(lines)
        if self.depth:
            if self.below and self.count() * lines > _SPARSE * self.filled():
                self._keep_whole()
            return
        frequent = sorted(self.below, key=lambda key: -self.below[key].lines)[:_MOST_FREQUENT]
        kept = {key for key in frequent if 1000 * self.below[key].lines >= lines}
        rare = [
            key
            for key, child in self.below.items()
            if _SPARSE * child.lines < lines and key not in kept
        ]
        for key in rare:
            del self.below[key]
        self.has_rest = self.has_rest or bool(rare)

    def count(self) -> int:
        return self.is_cell + sum(child.count() for child in self.below.values())

    def has_columns(self, value: object) -> bool:
        return isinstance(value, dict) and bool(value) and not self.is_whole

    def paths(self) -> Iterator[tuple[str, ...]]:
        """The keys that lead to each cell of a row."""
        for key, child in self.below.items():
            if child.is_cell:
                yield (key,)
            yield from ((key, *path) for path in child.paths())

    def cells(self, record: Mapping[str, Any]) -> list[Any]:
        """The values of a line in the order of `paths`, then the rest."""
        values = list(self.values(record))
        if self.has_rest:
            values.append(
                {key: value for key, value in record.items() if key not in self.below} or None
            )
        return values

    def values(self, record: Mapping[str, Any]) -> Iterator[Any]:
        """The value of an object for each of `paths`, or None."""
        for key, child in self.below.items():
            value = record.get(key)
            has_columns = child.has_columns(value)
            if child.is_cell:
                yield None if has_columns else value
            if child.below:
                yield from child.values(value if has_columns else {})  # type: ignore[arg-type]

    def _keep_whole(self) -> int:
        before = self.count()
        self.below, self.is_cell, self.is_whole = {}, True, True
        return 1 - before


class _Pairs(dict[str, Any]):
    """A JSON object that rejects repeated keys."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        if len(self) < len(pairs):
            raise ValueError("a key that comes twice")


_DECODER = json.JSONDecoder(
    parse_int=str, parse_float=str, parse_constant=str, object_pairs_hook=_Pairs
)


def _json_object(line: str) -> dict[str, Any] | str:
    """The object on a line, its numbers as strings, or the reason why the line has none."""
    if len(line) > LONGEST_LINE:
        return (
            f"a line of more than {LONGEST_LINE:,} characters; a cell may have"
            f" {MAX_CELL_CHARACTERS:,}"
        )
    if undecodable(line):
        return "bytes that are not text in this encoding"
    try:
        value = _DECODER.decode(line.lstrip("\ufeff"))
    except json.JSONDecodeError as error:
        return f"invalid JSON: {error.msg} at character {error.colno}"
    except RecursionError:
        return "invalid JSON: nested too deeply"
    except ValueError as error:
        return f"invalid JSON: {error}"
    return (
        value if isinstance(value, dict) else f"JSON, but not an object: it is {_json_kind(value)}"
    )


def _json_kind(value: object) -> str:
    if value is None:
        return "null"
    return {list: "a list", bool: "true or false"}.get(type(value), "a single value")
