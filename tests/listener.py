"""Progress objects that record what is reported, or act on it."""

from collections.abc import Callable

from bertcnn.progress import Silent


class Listener(Silent):
    """Records stages, notes, figures, and the number done since the last stage."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, int, str]] = []
        self.notes: list[str] = []
        self.figures: list[dict[str, float]] = []
        self.done = 0

    def stage(self, name: str, total: int, unit: str = "rows") -> None:
        self.stages.append((name, total, unit))
        self.done = 0

    def advance(self, done: int, **figures: float) -> None:
        self.done += done
        self.figures.append(figures)

    def note(self, message: str) -> None:
        self.notes.append(message)


class Acting(Listener):
    """Calls `act` at one report, or at each, of the stages whose names begin with `stage`.

    Args:
        act: called without arguments.
        after: the number of reports before it is called; None for every `advance`.
    """

    def __init__(self, act: Callable[[], object], stage: str = "", after: int | None = None):
        super().__init__()
        self._act, self._stage, self._left = act, stage, after

    @property
    def name(self) -> str:
        """The name of the latest stage."""
        return self.stages[-1][0] if self.stages else ""

    def stage(self, name: str, total: int, unit: str = "rows") -> None:
        super().stage(name, total, unit)
        if self._left is not None:
            self._count()

    def advance(self, done: int, **figures: float) -> None:
        super().advance(done, **figures)
        if self._left is None:
            self._act()
        else:
            self._count()

    def _count(self) -> None:
        if self.name.startswith(self._stage):
            self._left -= 1
            if self._left == -1:
                self._act()


def interrupt() -> None:
    """What a user's Ctrl-C raises."""
    raise KeyboardInterrupt
