"""Making the next item of a series while the present one is worked on."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TypeVar

T = TypeVar("T")
_END = object()


def prefetch(items: Generator[T, None, None]) -> Generator[T, None, None]:
    """The same items in the same order, each made in a thread while its predecessor is in use.

    At most one is waiting. An error in the making is raised where the item would have come. Leaving
    early, by `break` or Ctrl-C, ends the thread and closes `items`, so that one series may be made
    ahead of another.

    Example:
        >>> list(prefetch(number**2 for number in range(4)))
        [0, 1, 4, 9]
    """
    with closing(items), ThreadPoolExecutor(1, thread_name_prefix="prefetch") as thread:
        coming = thread.submit(next, items, _END)
        while (item := coming.result()) is not _END:
            coming = thread.submit(next, items, _END)
            yield item  # type: ignore[misc]  # _END is gone
