"""A Progress that records what it is told."""

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
