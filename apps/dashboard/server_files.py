"""The tables on the server that the dashboard may read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from below import places_below
from options import option

from bertcnn.errors import TableError, one_line
from bertcnn.storage import expanded
from bertcnn.tables import KNOWN_EXTENSIONS, kind_of, tables_in

MOST_FILES = 1000
_LEVELS = 2  # of subfolders


def files_roots() -> list[Path]:
    """The folders for files: --files or $BERTCNN_FILES; none by default."""
    folder = option("files")
    return [expanded(folder)] if folder else []


def server_files(roots: Sequence[Path]) -> list[Path]:
    """At most `MOST_FILES` tables, up to two levels below `roots`, not hidden or linked outside."""
    tables: list[Path] = []
    for root in roots:
        for path in tables_in(root, levels=_LEVELS):
            if any(places_below(str(path), [root])):
                tables.append(path)
            if len(tables) == MOST_FILES:
                return tables
    return tables


def server_folders(roots: Sequence[Path]) -> list[Path]:
    """The folders with tables, in `roots` and up to the same level below."""
    return sorted(
        {
            folder
            for root in roots
            for path in server_files([root])
            for folder in path.parents
            if folder == root or folder.is_relative_to(root)
        }
    )


def server_folder(given: str, roots: Sequence[Path]) -> Path:
    """A chosen folder with tables, with all links resolved; refused as in `server_file`.

    Raises:
        TableError: it is not such a folder, or has links to the outside.
    """
    if Path(given) in server_folders(roots):
        folder = Path(given).resolve()
        if all(any(places_below(str(path), roots)) for path in tables_in(folder)):
            return folder
    raise TableError(
        f"{one_line(given, 200)} is not a folder of the server",
        expected=f"one with tables in {' or '.join(map(str, roots))}, and no links to other places",
        fix="choose one from the list, or start the dashboard with -- --files FOLDER",
    )


def server_file(given: str, roots: Sequence[Path]) -> Path:
    """A table that a visitor has chosen, typed or put into the URL, with all links resolved.

    The path is absolute, or relative to the working folder or to one of `roots`, and must be below
    `roots` after all links are resolved. All other paths get the same refusal, whether they exist
    or not, and nothing outside `roots` is read.

    Raises:
        TableError: it is not such a file.
    """
    try:
        for path in places_below(given, roots):
            if kind_of(path) and path.is_file():
                return path.resolve()
    except (OSError, ValueError):  # a name that is too long or has a NUL
        pass
    if not roots:
        raise TableError(
            f"{one_line(given, 200)} on the server",
            expected="an upload, since this dashboard reads no files on the server",
            fix="upload it, or start the dashboard with -- --files FOLDER",
        )
    raise TableError(
        f"{one_line(given, 200)} is not a table of the server",
        expected=f"a file {KNOWN_EXTENSIONS} below {' or '.join(map(str, roots))}",
        fix="choose one from the list, or start the dashboard with -- --files FOLDER",
    )
