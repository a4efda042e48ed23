"""A Progress that records all reports, and may act while work goes on."""

import re
from collections.abc import Callable

from bertcnn.progress import Silent


def interrupt() -> None:
    """Do what Ctrl-C does."""
    raise KeyboardInterrupt


class Listener(Silent):
    """Records stages, notes, figures, and the number done since the last stage.

    Args:
        act: called once, at the `after`-th advance within stages whose names begin with `stage`.
        after: counted from 1.
        stage: by default all stages.
    """

    def __init__(
        self, act: Callable[[], object] | None = None, after: int = 1, *, stage: str = ""
    ) -> None:
        self.stages: list[tuple[str, int, str]] = []
        self.notes: list[str] = []
        self.figures: list[dict[str, float]] = []
        self.done = 0
        self._act, self._left, self._within = act, after, stage

    @property
    def name(self) -> str:
        """The name of the last stage."""
        return self.stages[-1][0] if self.stages else ""

    def stage(self, name: str, total: int, unit: str = "rows") -> None:
        self.stages.append((name, total, unit))
        self.done = 0

    def advance(self, done: int, **figures: float) -> None:
        self.done += done
        self.figures.append(figures)
        self._count()

    def note(self, message: str) -> None:
        self.notes.append(message)

    def has(self, pattern: str) -> bool:
        """Whether a note contains this regular expression."""
        return any(re.search(pattern, note) for note in self.notes)

    def _count(self) -> None:
        if self._act is None or not self.name.startswith(self._within):
            return
        self._left -= 1
        if self._left == 0:
            self._act()
