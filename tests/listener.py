"""Progress objects that record what is reported, or act on it."""

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


class Acting(Listener):
    """Counts the beginnings of stages as well.

    Args:
        act: called without arguments.
        stage: the beginning of the names of stages.
        after: the number of reports before `act` is called; None calls it at every `advance`.
    """

    def __init__(self, act: Callable[[], object], stage: str = "", after: int | None = None):
        super().__init__(act, 0 if after is None else after + 1, stage=stage)
        self._always = after is None

    def stage(self, name: str, total: int, unit: str = "rows") -> None:
        super().stage(name, total, unit)
        if not self._always:
            self._count()

    def advance(self, done: int, **figures: float) -> None:
        super().advance(done, **figures)
        if self._always and self._act is not None:
            self._act()
