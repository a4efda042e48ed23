"""Parses the plain progress lines of bertcnn's commands."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

_STAGE = re.compile(r"(\S.*?)(?: \.\.\.|: [\d,.]+ [A-Za-z]+(?: [A-Za-z]+)*)")
_FIGURE = r"(?:[A-Za-z][\w -]* (?:-?[\d.]+|nan|-?inf)|[\d,]+ \w+/s)"
_SHARE = re.compile(rf"  (\d{{1,3}})%(?:, {_FIGURE})*?(?:, about (.+) left of this stage)?")
_DONE = re.compile(rf"  done in \d+ (?:s|min|h)(?: \d+ (?:s|min))?(?:, {_FIGURE})*")
_RESULT = "Done: "
_MESSAGE = re.compile(r"(?:bertcnn|Error): (.*)")


@dataclass(frozen=True)
class JobProgress:
    """Progress of a command.

    Attributes:
        stage: such as "scoring"; empty before the first stage.
        share: done share of the stage, 0 to 1; None if unknown.
        left: time left of the stage, such as "1 min 15 s"; empty if unknown.
    """

    stage: str = ""
    share: float | None = None
    left: str = ""


def read_progress(line: str, before: JobProgress) -> JobProgress:
    """The progress after one more log line; other lines leave it unchanged.

    Example:
        >>> read_progress("scoring: 12.3 MB", JobProgress())
        JobProgress(stage='scoring', share=None, left='')
        >>> line = "  41%, 812 rows/s, about 1 min 15 s left of this stage"
        >>> read_progress(line, JobProgress("scoring"))
        JobProgress(stage='scoring', share=0.41, left='1 min 15 s')
        >>> read_progress("  done in 4 s", JobProgress("scoring", 0.98))
        JobProgress(stage='scoring', share=1.0, left='')
    """
    if stage := _STAGE.fullmatch(line):
        return JobProgress(stage[1])
    if share := _SHARE.fullmatch(line):
        return replace(before, share=int(share[1]) / 100, left=share[2] or "")
    if _DONE.fullmatch(line):
        return replace(before, share=1.0, left="")
    return before


def last_message(text: str) -> str:
    r"""The last error message in a command's log; empty if there is none.

    Example:
        >>> last_message("reading: 4 rows\nbertcnn: in.csv is empty\n")
        'in.csv is empty'
    """
    matches = (_MESSAGE.fullmatch(line) for line in reversed(text.splitlines()))
    return next((message[1] for message in matches if message), "")


def results(text: str) -> str:
    r"""The results that a command reports, in one line; empty if it reports none.

    Example:
        >>> results("reading ...\nDone: 3 tickets added.\nNext: bertcnn review stats\n")
        '3 tickets added.'
    """
    said = [line for line in text.splitlines() if line.startswith(_RESULT)]
    return " ".join(line.removeprefix(_RESULT) for line in said)
