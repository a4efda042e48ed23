"""Computes the next item of a generator in a thread."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TypeVar

T = TypeVar("T")
_END = object()


def prefetch(items: Generator[T, None, None]) -> Generator[T, None, None]:
    """The same items, each computed in a thread while the previous one is in use.

    At most one item waits. An error is raised where its item would have come. `break` or Ctrl-C
    ends the thread and closes `items`.

    Example:
        >>> list(prefetch(number**2 for number in range(4)))
        [0, 1, 4, 9]
    """
    with closing(items), ThreadPoolExecutor(1, thread_name_prefix="prefetch") as thread:
        coming = thread.submit(next, items, _END)
        while (item := coming.result()) is not _END:
            coming = thread.submit(next, items, _END)
            yield item  # type: ignore[misc]  # _END is gone
