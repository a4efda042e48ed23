"""Parses cells with a list, as JSON, Python, NumPy, PostgreSQL or Label Studio write it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from bertcnn.values import plain_text

_DEEPEST = 8
# keys of objects that hold one or several labels
_HOLDERS = ("choices", "labels", "label", "name", "value")
_ENDS = {"[": "]", "(": ")", "{": "}"}
_QUOTED = r"'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\""
_ITEM = re.compile(
    rf"{_QUOTED}|(?<![\w.])(?:-?[0-9]+(?:\.[0-9]+)?|None|nan|True|False)(?![\w.])", re.DOTALL
)
_ITEMS = re.compile(rf"(?:{_ITEM.pattern}|[, \t\r\n])*+", re.DOTALL)
_BARE_ITEM = re.compile(r'"(?:[^"\\]|\\.)*+"|[^,"]+', re.DOTALL)
_BARE_ITEMS = re.compile(rf"(?:{_BARE_ITEM.pattern}|,)*+", re.DOTALL)
# an object in Python's notation
_HELD = re.compile(rf"\{{\s*'(?:{'|'.join(_HOLDERS)})'\s*:\s*(\[[^{{}}]*\])\s*\}}")
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL)
_NOTHING = ("", "None", "nan", "NULL")  # if not quoted


def list_in_cell(cell: str) -> list[str] | None:
    """The strings of a list of quoted items; None if the cell is not such a list.

    Example:
        >>> cells = ('["a", "b"]', "['a', 'b']", "['a' 'b']", "('a',)", '{"choices": ["a", "b"]}')
        >>> for cell in (*cells, "[a]"):
        ...     print(list_in_cell(cell))
        ['a', 'b']
        ['a', 'b']
        ['a', 'b']
        ['a']
        ['a', 'b']
        None
    """
    cell = cell.strip()
    if not _bracketed(cell):
        return None
    try:
        return _texts(json.loads(cell))
    except (ValueError, RecursionError):
        return _literal(cell)


def bare_list_in_cell(cell: str) -> list[str] | None:
    """Like `list_in_cell`, but also accepts unquoted items.

    Example:
        >>> bare_list_in_cell('{billing,"lost card"}'), bare_list_in_cell("billing")
        (['billing', 'lost card'], None)
    """
    items = list_in_cell(cell)
    cell = cell.strip()
    if items is not None or not _bracketed(cell) or cell[0] == "(":
        return items
    inner = cell[1:-1]
    if any(character in inner for character in "[]{}:") or not _BARE_ITEMS.fullmatch(inner):
        return None
    return _unquoted(item.strip() for item in _BARE_ITEM.findall(inner))


def _bracketed(cell: str) -> bool:
    return len(cell) > 1 and _ENDS.get(cell[0]) == cell[-1]


def _texts(value: object, depth: int = 0) -> list[str] | None:
    """The strings in a JSON value; None if it contains anything that is not a label."""
    if depth > _DEEPEST:
        return None
    if isinstance(value, dict):
        holder = next((name for name in _HOLDERS if name in value), None)
        return [] if not value else None if holder is None else _texts(value[holder], depth + 1)
    if isinstance(value, list):
        lists = [_texts(item, depth + 1) for item in value]
        return None if None in lists else [text for texts in lists for text in texts or []]
    return [text] if (text := plain_text(value)) else []


def _literal(cell: str) -> list[str] | None:
    """The strings of a list in Python's or NumPy's notation; None for anything else."""
    inner = cell[1:-1]
    if not _ITEMS.fullmatch(inner) or (cell[0] == "(" and inner.strip() and "," not in inner):
        held = _HELD.fullmatch(cell)
        return None if held is None else list_in_cell(held[1])
    return _unquoted(_ITEM.findall(inner))


def _unquoted(items: Iterable[str]) -> list[str]:
    texts = []
    for item in items:
        if len(item) > 1 and item[0] in "'\"" and item[-1] == item[0]:
            texts.append(_ESCAPE.sub(_unescaped, item[1:-1]))
        elif item not in _NOTHING:
            texts.append(item)
    return texts


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    if len(code) > 1:
        return chr(int(code[1:], 16))
    return " " if code in "nrt" else code
