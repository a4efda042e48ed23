"""Finds columns by name regardless of case, spaces and composed accents."""

from __future__ import annotations

from collections.abc import Sequence

from bertcnn.values import folded


def find_name(name: str, columns: Sequence[str]) -> str | None:
    """The column called `name`, or the only one that differs just in case, spaces, "_" or "-".

    Example:
        >>> find_name("subject", ("id", "Subject")), find_name("text", ("Text", "TEXT"))
        ('Subject', None)
        >>> find_name("text", ("text", "TEXT"))
        'text'
    """
    if name in columns:
        return name
    key = folded(name)
    alike = [column for column in columns if key and folded(column) == key]
    return alike[0] if len(alike) == 1 else None


def find_names(names: Sequence[str], columns: Sequence[str]) -> tuple[str, ...] | None:
    """The columns with these names, or None if one is missing."""
    matches = [find_name(name, columns) for name in names]
    return None if None in matches else tuple(name for name in matches if name is not None)
