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
        act: called within stages whose names begin with `stage`.
        after: the advance that calls it, from 1; 0: the beginning of a stage; None: each advance.
        stage: by default all stages.
    """

    def __init__(
        self,
        act: Callable[[], object] = lambda: None,
        after: int | None = 1,
        *,
        stage: str = "",
    ) -> None:
        self.stages: list[tuple[str, int, str]] = []
        self.notes: list[str] = []
        self.figures: list[dict[str, float]] = []
        self.done = 0
        self._act, self._after, self._within, self._advances = act, after, stage, 0

    @property
    def name(self) -> str:
        """The name of the last stage."""
        return self.stages[-1][0] if self.stages else ""

    def stage(self, name: str, total: int, unit: str = "rows") -> None:
        self.stages.append((name, total, unit))
        self.done = 0
        if self._after == 0 and name.startswith(self._within):
            self._act()

    def advance(self, done: int, **figures: float) -> None:
        self.done += done
        self.figures.append(figures)
        if self.name.startswith(self._within):
            self._advances += 1
            if self._after in (None, self._advances):
                self._act()

    def note(self, message: str) -> None:
        self.notes.append(message)

    def has(self, pattern: str) -> bool:
        """Whether a note contains this regular expression."""
        return any(re.search(pattern, note) for note in self.notes)
