"""The reasons for decisions, as text for the reader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bertcnn.errors import one_line
from bertcnn.settings import DECISIONS, REASONS

_WORDS: Final = {
    "": "",
    "empty": "there is no text",
    "certain": "certain enough",
    "uncertain": "not certain enough",
    "no_label": "no label is probable enough",
    "language": "in another language than the training texts",
    "directions": "its scores resemble those of no label",
    "places": "its meaning is far from that of known texts",
    "probability": "no label stands out",
    "words": "its words differ from the words of the label",
    "background": "it reads like messages about other matters",
}
_OUTSIDE: Final = DECISIONS.index("review:out_of_scope")
_STRANGE: Final = REASONS.index("directions")
_ABOUT_THE_TEXT: Final = (0, REASONS.index("empty"), REASONS.index("language"))


def describe_reason(decision: int, reasons: Sequence[int], labels: Sequence[str]) -> str:
    """The reason for one decision.

    `decision` is an index into `DECISIONS`. `reasons` are an index into `REASONS`, and the label
    with the nearest training texts (-1 if unknown).

    Example:
        >>> describe_reason(2, (10, 0), ["billing", "wifi"])
        "unlike known texts: it reads like messages about other matters; nearest: 'billing'"
    """
    reason, nearest = reasons
    words = _WORDS[REASONS[reason]]
    if reason >= _STRANGE:
        words = f"{'unlike' if decision == _OUTSIDE else 'almost unlike'} known texts: {words}"
    if nearest < 0 or reason in _ABOUT_THE_TEXT:
        return words
    return f"{words}; nearest: {one_line(labels[nearest])}"
