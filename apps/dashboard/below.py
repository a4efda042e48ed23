"""Checks of visitors' paths: only the dashboard's folders may be read."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from bertcnn.storage import expanded


def absolute(path: Path) -> str:
    """The absolute path, resolving `..` textually and following no links."""
    return os.path.abspath(path)  # noqa: PTH100 - Path has no such method


def places_below(given: str, roots: Sequence[Path], listed: Collection[str] = ()) -> Iterator[Path]:
    """The places below `roots` that a visitor's path can mean, whether they exist or not.

    Nothing outside `roots` is read, so a refusal does not reveal what exists there.

    Args:
        given: an absolute path, or one relative to the working folder or to one of `roots`.
        roots: folders.
        listed: absolute paths that may be links to the outside, because the dashboard's operator
            put them there. All others must be below `roots` after their links are resolved.

    Raises:
        OSError, ValueError: the path is too long, or has a NUL.
    """
    tops = [top for root in roots for top in (absolute(root), os.path.realpath(root))]
    for start in (Path(), *roots):
        path = absolute(start / expanded(given))
        if any(Path(path).is_relative_to(top) for top in tops) and (
            path in listed
            or any(
                Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))
                for root in roots
            )
        ):
            yield Path(path)
