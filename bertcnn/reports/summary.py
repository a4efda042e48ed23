"""The report's first three sentences, for a manager."""

from __future__ import annotations

from bertcnn.evaluation import Automation, Evaluation, wilson
from bertcnn.wording import count, percent, visible

_LONGEST = 60  # characters of a label


def three_sentences(
    figures: Evaluation,
    found: Automation,
    *,
    multi_label: bool = False,
    knows_nothing: bool = False,
) -> tuple[str, str, str]:
    """How often the model is right, how much it answers automatically, and what to watch.

    Args:
        figures: of tickets that the model has not learned.
        found: the automatic answers.
        multi_label: a ticket may have several labels.
        knows_nothing: the figures do not show that the model has learned anything.
    """
    right = round(figures.accuracy * figures.rows)
    low, high = wilson(right, figures.rows)
    get = "all their labels and no other" if multi_label else "the right label"
    first = (
        f"{right:,} of {count(figures.rows, 'ticket')} that were kept aside get {get}; on similar"
        f" tickets expect {low:.0%} to {high:.0%}."
    )
    return first, _automatic(found), _to_watch(figures, knows_nothing=knows_nothing)


def _automatic(found: Automation) -> str:
    if not found.automatic:
        return "It answers no ticket automatically: a person decides on each one."
    return (
        f"It answers {percent(found.share)} of tickets without a person, and"
        f" {100 * found.right / found.automatic:.3g}% of these answers are right."
    )


def _to_watch(figures: Evaluation, *, knows_nothing: bool) -> str:
    if knows_nothing:
        return "Do not use it yet: these figures do not show that it has learned anything."
    support = {label.name: label.support for label in figures.labels}
    worst = next((pair for pair in figures.most_confused if support.get(pair.actual)), None)
    if worst is None:
        return "Nothing stands out; keep reading audits once it is in use."
    actual, predicted = (visible(name[:_LONGEST]) for name in (worst.actual, worst.predicted))
    return (
        f"Watch tickets about “{actual}”: {worst.count:,} of {support[worst.actual]:,} were called"
        f" “{predicted}”."
    )
