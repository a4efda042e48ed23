"""A job: a bertcnn command in its own process, with its state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bertcnn.errors import SettingsError, one_line
from bertcnn.review.jobs.progress import JobProgress
from bertcnn.review.people import Role

# and the required role; excluded are commands that take texts or that a kill could leave half done
COMMANDS: dict[str, Role] = {
    "check": "reviewer",
    "evaluate": "reviewer",
    "pretrain": "admin",
    "qa extract": "reviewer",
    "qa train": "admin",
    "recalibrate": "admin",
    "retrain": "admin",
    "review add": "reviewer",
    "review answer": "reviewer",
    "review export": "reviewer",
    "review start": "admin",
    "score": "reviewer",
    "train": "admin",
    "translate train": "admin",
    "tune": "admin",
}

JobState = Literal["waiting", "running", "done", "failed", "cancelled"]


@dataclass(frozen=True)
class Job:
    """A job's current state; times are seconds since 1970, UTC.

    Attributes:
        id: 12 hexadecimal digits.
        arguments: of the command `bertcnn`.
        folder: working directory of the command.
        actor: the person who started it.
        dead: it waits or runs without a process; see `restart_dead_jobs`.
        started_at: None before the first start.
        ended_at: None while it waits or runs.
        starts: number of starts of the command.
        exit_code: negative after a signal; None while it waits or runs.
        progress: of the current stage.
        message: one line on what the command has done, or why it has failed.
        host: the machine it runs on; None before.
        log: the command's standard error, a file on the host.
    """

    id: str
    arguments: tuple[str, ...]
    folder: str
    actor: str
    state: JobState
    dead: bool
    cancelled: bool
    created_at: float
    started_at: float | None
    ended_at: float | None
    starts: int
    exit_code: int | None
    message: str
    host: str | None
    pid: int | None
    log: Path
    progress: JobProgress = field(default_factory=JobProgress)

    @property
    def command(self) -> str:
        """The command without its options, such as "qa extract"."""
        return command_of(self.arguments) or self.arguments[0]


def command_of(arguments: Sequence[str]) -> str | None:
    """The command that the arguments run; None if it may not be a job.

    Example:
        >>> command_of(["qa", "extract", "model", "in.csv", "out.csv"])
        'qa extract'
        >>> command_of(["qa", "ask", "model"])
    """
    names = (" ".join(arguments[:words]) for words in (1, 2))
    return next((name for name in names if name in COMMANDS), None)


def checked_arguments(arguments: Sequence[str]) -> list[str]:
    """A job's validated arguments; SettingsError for a non-text or a forbidden command."""
    if isinstance(arguments, str) or not all(
        isinstance(argument, str) and "\0" not in argument for argument in arguments
    ):
        raise SettingsError(
            "arguments of a job that are not a list of texts",
            expected="texts without NUL characters, one for each word of the command",
            fix="give a list such as ['score', 'model', 'in.csv', 'out.csv']",
        )
    if command_of(arguments) is None:
        name = one_line(arguments[0]) if arguments else "no command"
        raise SettingsError(
            f"{name} as a job",
            expected=f"one of {', '.join(COMMANDS)}",
            fix="run other commands in a terminal",
        )
    return list(arguments)
