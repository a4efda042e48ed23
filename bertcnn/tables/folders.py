"""Finds the tables in a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from bertcnn.tables.formats import kind_of


def tables_in(
    folder: Path, *, levels: int | None = None, without: Path | None = None
) -> Iterator[Path]:
    """The tables in a folder, sorted by name, then the tables in its subfolders.

    Hidden files and folders, links to folders, unreadable folders, and the resolved path `without`
    are skipped. By default all `levels` of subfolders are searched.
    """
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    shown = [Path(entry.path) for entry in entries if not entry.name.startswith(".")]
    yield from (path for path in shown if path.is_file() and kind_of(path))
    if levels == 0:
        return
    for path in shown:
        if path.is_dir() and not path.is_symlink() and path.resolve() != without:
            deeper = None if levels is None else levels - 1
            yield from tables_in(path, levels=deeper, without=without)
