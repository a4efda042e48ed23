"""Errors of the library for people with only a browser: pages and boxes in place of commands."""

from __future__ import annotations

import re

_PAGES = {  # the beginning of a command, and the page that does the same
    "classify": "Try a text",
    "jobs": "Jobs",
    "models": "Models",
    "retrain": "Train",
    "review groups": "Train",
    "review": "Tickets",
    "score": "Tickets",
    "train": "Train",
}
_BOXES = {"text": "Text column", "label": "Label"}  # options that are boxes on the pages
_COMMAND = re.compile(
    rf"(?:\b(see|run|with) )?(`?)bertcnn ({'|'.join(_PAGES)})\b(?:(?!\.\s|\.$)[^`;])*\2"
)
_BOX = re.compile(rf"\bwith --({'|'.join(_BOXES)})\b")
_FORCE = re.compile(r", or [^,;.]*--force")
_ADVICE = "What to do: "
_NO_PAGE = "ask the person who runs this dashboard."


def on_page(message: str) -> str:
    """An error message that names pages and boxes, not commands and options.

    Advice with a command that no page has becomes a person to ask.

    Example:
        >>> on_page("no model; expected one. What to do: add one: bertcnn models add MODEL.")
        'no model; expected one. What to do: add one: see the page Models.'
        >>> on_page("no label. What to do: name it with --label.")
        'no label. What to do: name it in the box Label.'
    """
    message = _COMMAND.sub(_page, message)
    message = _BOX.sub(lambda found: f"in the box {_BOXES[found[1]]}", message)
    problem, advice, fix = _FORCE.sub("", message).partition(_ADVICE)
    return problem + advice + (_NO_PAGE if "bertcnn " in fix else fix)


def _page(found: re.Match[str]) -> str:
    return f"{'on' if found[1] == 'with' else 'see'} the page {_PAGES[found[3]]}"
