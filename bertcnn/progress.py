"""The progress callback of long-running work; only the CLI and the dashboard display it."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receives the progress of long-running work.

    Stages follow one another: `stage` starts one, `advance` reports its progress, and the next
    `stage` or the end of the work finishes it.
    """

    def stage(self, name: str, total: int, unit: str = "rows") -> None:
        """Start stage `name` with `total` `unit`s (0 if the total is unknown)."""

    def advance(self, done: int, **figures: float) -> None:
        """Report `done` more units; `figures` are values to show, such as the loss."""

    def note(self, message: str) -> None:
        """Show one sentence that stays on the screen."""


class Silent:
    """The default: shows nothing."""

    def stage(self, name: str, total: int, unit: str = "rows") -> None:
        """Do nothing."""

    def advance(self, done: int, **figures: float) -> None:
        """Do nothing."""

    def note(self, message: str) -> None:
        """Do nothing."""
