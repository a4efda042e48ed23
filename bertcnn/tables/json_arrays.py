"""Streams the objects of JSON files that are not JSON Lines.

These are an array of objects, alone or inside an object such as {"data": [...]}, and objects over
several lines. The file is never decoded as a whole, so it may have any size.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertcnn.errors import TableError, one_line
from bertcnn.tables.column_names import find_names
from bertcnn.tables.lines import LONGEST_LINE, TextFile
from bertcnn.tables.not_tables import json_error, recognized, refusal

_SEEN = 1024**2  # characters to inspect
_LINES_SEEN = 200
_LONG = 3  # spaces in a value that may be a text
_ROWS = frozenset(  # names of lists of rows
    """data results result items rows records value values hits entries docs documents issues
    tickets cases conversations
    complaints""".split()  # noqa: SIM905
)
_NO_ROWS = frozenset(
    (
        "errors",
        "error",
        "warnings",
        "links",
        "fields",
        "columns",
        "schema",
        "facets",
        "aggregations",
    )
)
_TOKEN = re.compile(r'"(?:[^"\\\n]++|\\.)*+("?)|[\[\]{},]', re.DOTALL)
_REST_OF_STRING = re.compile(r'(?:[^"\\\n]++|\\.)*+', re.DOTALL)
_FOLLOWING = re.compile(r"\s*(.?)", re.DOTALL)
_SPACES = " \t\r\n\ufeff"


@dataclass(frozen=True)
class ElementsPlace:
    """The position of the objects in a JSON file: after `start` characters.

    `is_inside` means that they are in a list inside an object, so that they end with the list.
    """

    start: int
    is_inside: bool = False


def find_place(
    path: Path, file: TextFile, expected_columns: Sequence[str] = ()
) -> ElementsPlace | None:
    """The position of the objects of a freshly opened JSON file; None for JSON Lines.

    Raises:
        TableError: the file is not a table, such as an error message.
    """
    text, is_whole = _beginning(file)
    begin = len(text) - len(text.lstrip(_SPACES))
    lines = [line for line in text[begin:].split("\n", _LINES_SEEN)[:_LINES_SEEN] if line.strip()]
    if not lines:
        return None
    if text[begin] == "[":
        return ElementsPlace(begin) if text[begin + 1 :].lstrip()[:1] in ("{", "]", "") else None
    if text[begin] == "{":
        return _place_of_objects(path, text, begin, lines, is_whole, expected_columns)
    if problem := recognized(text):
        raise refusal(path, *problem)
    return None


def _place_of_objects(
    path: Path, text: str, begin: int, lines: Sequence[str], is_whole: bool, columns: Sequence[str]
) -> ElementsPlace | None:
    is_a_line = isinstance(_decoded(lines[0]), dict)
    if is_a_line and not (len(lines) == 1 and is_whole):
        return None
    only, end = _only_object(text, begin)
    is_in_one_line = only is None or "\n" not in text[begin:end]
    if (
        is_in_one_line
        and lines[0].rstrip()[-1] != "["
        and any(isinstance(_decoded(line), dict) for line in lines[1:] if line[0] == "{")
    ):
        return None  # the first line is broken
    if only is None and is_whole:
        return None
    if only is not None and text[end:].strip(_SPACES):  # more objects follow
        return ElementsPlace(begin)
    position = _list_inside(path, text, begin, only, columns)
    if position is None and only is not None:
        _check_row(path, only, columns)
    if position is None and is_a_line:
        return None
    return position or ElementsPlace(begin)


def elements(file: TextFile, place: ElementsPlace) -> Iterator[tuple[int, str]]:
    """Yields the first line number and text of each element; very long elements are cut."""
    scanner = _Scanner()
    skip = place.start
    for block in file.blocks():
        skipped, rest = block[:skip], block[skip:]
        skip -= len(skipped)
        scanner.line += skipped.count("\n")
        if rest:
            yield from scanner.found_in(rest, place.is_inside)
        if scanner.is_done:
            return
    yield from scanner.end()


class _Scanner:
    """Splits JSON at its brackets, commas and strings, without validating the parts."""

    def __init__(self) -> None:
        self.line = 1
        self.is_done = False
        self._parts: list[str] = []
        self._length = 0
        self._newlines = 0
        self._in_list = False
        self._depth = 0  # inside an element
        self._in_string = False
        self._rest = ""

    def found_in(self, block: str, is_inside: bool) -> Iterator[tuple[int, str]]:
        block, self._rest = self._rest + block, ""
        begin = position = 0
        while position < len(block):
            if self._in_string:
                position = self._end_of_string(block, position)
                continue
            token = _TOKEN.search(block, position)
            if token is None:
                break
            position = token.end()
            if token[0][0] == '"':
                if not token[1]:
                    self._in_string, position = True, token.start() + 1
                continue
            cut = self._cut(token)
            if cut is not None:
                yield from self._take(block[begin:cut])
                begin = position
                self.is_done = is_inside and not self._in_list
                if self.is_done:
                    return
        self._keep(block[begin : len(block) - len(self._rest)])

    def _cut(self, token: re.Match[str]) -> int | None:
        """The end of an element at a bracket or a comma, if there is one."""
        char = token[0]
        if char == ",":
            return None if self._depth else token.start()
        if char == "[" and not self._in_list and not self._depth:
            self._in_list = True
            return token.start()
        if char in "[{":
            self._depth += 1
            return None
        if self._depth:
            self._depth -= 1
            return None if self._depth else token.end()
        self._in_list = self._in_list and char != "]"
        return token.start() if char == "]" else None

    def end(self) -> Iterator[tuple[int, str]]:
        """An incomplete element at the end of the file."""
        yield from self._take(self._rest)

    def _end_of_string(self, block: str, position: int) -> int:
        rest = _REST_OF_STRING.match(block, position)
        end = position if rest is None else rest.end()
        # the next block completes the escape
        if end < len(block) and block[end] == "\\":
            self._rest = "\\"
            return len(block)
        if end < len(block):
            self._in_string = False
        return end + 1

    def _keep(self, text: str) -> None:
        self._newlines += text.count("\n")
        if self._length <= LONGEST_LINE:
            self._parts.append(text)
            self._length += len(text)

    def _take(self, text: str) -> Iterator[tuple[int, str]]:
        self._keep(text)
        whole = "".join(self._parts)
        item = whole.strip(_SPACES)
        if item:
            yield self.line + whole[: whole.index(item[0])].count("\n"), item[: LONGEST_LINE + 1]
        self.line += self._newlines
        self._parts, self._length, self._newlines = [], 0, 0


def _beginning(file: TextFile) -> tuple[str, bool]:
    text = ""
    for block in file.blocks():
        text += block
        if len(text) > _SEEN:
            return text[:_SEEN], False
    return text, True


def _decoded(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _only_object(text: str, begin: int) -> tuple[dict[str, Any] | None, int]:
    try:
        return json.JSONDecoder().raw_decode(text, begin)  # type: ignore[no-any-return]
    except (ValueError, RecursionError):
        return None, begin


def _list_inside(
    path: Path, text: str, begin: int, only: Mapping[str, Any] | None, columns: Sequence[str]
) -> ElementsPlace | None:
    """The position of the list of rows in an object, if any; raises TableError for several."""
    filled, empty = _lists_of_objects(text, begin)
    lists = [(key, start) for key, start in filled if key.casefold() not in _NO_ROWS]
    named = [(key, start) for key, start in lists or empty if key.casefold() in _ROWS]
    if only is not None and _is_row(only, columns, bool(named)):
        return None
    chosen = named or lists
    if len(chosen) > 1:
        names = ", ".join(one_line(key, 40) for key, _ in chosen[:6])
        raise TableError(
            f"{str(path)!r} holds several lists: {names}",
            expected="one list of objects",
            fix="export one of them alone",
        )
    return ElementsPlace(chosen[0][1], is_inside=True) if chosen else None


def _is_row(row: Mapping[str, Any], columns: Sequence[str], has_named: bool) -> bool:
    """Whether an object with a list of objects in it is itself a row."""
    if columns and find_names(columns, list(row)) is not None:
        return True
    return not has_named and any(
        isinstance(value, str) and value.count(" ") >= _LONG for value in row.values()
    )


def _lists_of_objects(text: str, begin: int) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """The last key and the start of each outer list of objects, and of each empty list."""
    starts: dict[str, list[tuple[str, int]]] = {"{": [], "]": []}
    depth, lists, key = 0, 0, ""
    for token in _TOKEN.finditer(text, begin):
        char = token[0][0]
        if lists and char in "[{]}":  # inside a list only its end matters
            lists += 1 if char in "[{" else -1
        elif char == "[":
            lists = 1
            if (following := _FOLLOWING.match(text, token.end())) is not None and following[
                1
            ] in starts:
                starts[following[1]].append((key, token.start()))
        elif char == '"' and not lists:
            following = _FOLLOWING.match(text, token.end())
            key = token[0][1:-1] if following is not None and following[1] == ":" else key
        elif char in "{}":
            depth += 1 if char == "{" else -1
            if not depth:
                break
    return starts["{"], starts["]"]


def _check_row(path: Path, only: Mapping[str, Any], columns: Sequence[str]) -> None:
    """Raises TableError if a file's only object is an error message, or a table by columns."""
    if error := json_error(only, columns):
        raise refusal(
            path, error, "export or download the table again, and look into the file first"
        )
    values = list(only.values())
    by_number = values and all(
        isinstance(value, dict) and value and all(key.isdigit() for key in value)
        for value in values
    )
    by_position = len(values) > 1 and all(
        isinstance(value, list) and len(value) == len(values[0]) > 1 for value in values
    )
    by_position = by_position and not any(
        isinstance(cell, list | dict) for value in values for cell in value
    )
    if by_number or by_position:
        raise refusal(
            path,
            "JSON column by column",
            'write a list of rows: in pandas, to_json(orient="records")',
        )
