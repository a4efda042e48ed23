"""How long work tells its progress; only the CLI and the dashboard show it."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receives the news of long-running work.

    One stage at a time: `stage` opens it, `advance` moves it, the next `stage` (or the end) closes
    it.
    """

    def stage(self, name: str, total: int, unit: str = "rows") -> None:
        """A new stage named `name` starts, of `total` `unit`s (0 when nobody can know)."""

    def advance(self, done: int, **figures: float) -> None:
        """`done` units of the stage are finished.

        `figures` are named values to show beside it, such as loss.
        """

    def note(self, message: str) -> None:
        """One finding in a sentence, kept on the screen."""


class Silent:
    """The default: nobody is listening."""

    def stage(self, name: str, total: int, unit: str = "rows") -> None:
        """Ignore it."""

    def advance(self, done: int, **figures: float) -> None:
        """Ignore it."""

    def note(self, message: str) -> None:
        """Ignore it."""
