"""Checks for templates: unfilled placeholders and equal beginnings."""

from __future__ import annotations

import re
from collections import Counter

from bertcnn.doctor.dataset import LabelledDataset
from bertcnn.doctor.report import Example, Finding, named, shortened
from bertcnn.wording import count, percent

_FIELD = (
    "(?:[a-z]+[_ -])*(?:name|e[_-]?mail|phone|address|date|order|account|number|product|company"
    "|customer|user|agent|person|location|city|url|id|redacted)(?:[_ -][a-z]+)*[_ ]?[0-9]{0,3}"
)
# {name}, {{ name }}, ${name}; [NAME] and <first_name> with typical field names; %s, %(name)s
_PLACEHOLDER = re.compile(
    r"\$?\{\{?\s?[A-Za-z_][\w. -]{0,40}\s?\}?\}"
    rf"|\[(?=[A-Z0-9_ -]{{2,40}}\])(?i:{_FIELD})\]|<(?=[\w -]{{2,40}}>)(?i:{_FIELD})>"
    r"|(?<![\w%])%(?:\(\w{1,40}\)|\d\$)?[sd](?!\w)"
)
_MARKS = re.compile(r"[{\[<%]")
_FEWEST = 3  # texts with placeholders; fewer may be quotes from programs
_DIGITS = re.compile(r"\d+")
_BEGINNING, _SHORTEST = 40, 20  # characters compared, and fewest characters of a shorter text
_OFTEN, _OFTEN_SHARE = 10, 0.01  # fewest texts that begin alike, and their share of all texts
_MANY = 0.1  # share of texts with such a beginning
_EXAMPLES = 4


def check_placeholders(dataset: LabelledDataset) -> list[Finding]:
    """Unfilled placeholders such as {product}, {{name}}, ${x}, [NAME], <first_name> and %s.

    Names no rows, because the export has to be fixed.
    """
    counts: Counter[str] = Counter()
    first: dict[str, int] = {}
    texts = 0
    for row, text in enumerate(dataset.texts):
        marks = set(_PLACEHOLDER.findall(text)) if _MARKS.search(text) else ()
        texts += bool(marks)
        counts.update(marks)
        for mark in marks:
            first.setdefault(mark, row)
    if texts < _FEWEST:
        return []
    return [
        Finding(
            "placeholders",
            "look",
            f"{count(texts, 'text')} ({percent(texts / len(dataset.texts))}) with placeholders that"
            " were never filled in",
            "Such texts were made from templates. Export them with the real values, or take the"
            " placeholders out, here and before scoring.",
            examples=[
                Example(
                    dataset.lines[first[mark]],
                    f"{named(mark)}: {count(number, 'text')}",
                    shortened(dataset.texts[first[mark]], 100),
                )
                for mark, number in counts.most_common(_EXAMPLES)
            ],
            figures={"texts": texts, "placeholders": dict(counts.most_common(100))},
        )
    ]


def check_templates(dataset: LabelledDataset) -> list[Finding]:
    """Different texts with the same long beginning, ignoring digits and placeholders."""
    first: dict[str, int] = {}
    counts: Counter[str] = Counter()
    for text, row in dataset.first_rows.items():
        words = _PLACEHOLDER.sub(" ", text[: 4 * _BEGINNING])
        key = " ".join(_DIGITS.sub("0", words).casefold().split())[:_BEGINNING]
        if len(key) >= _SHORTEST:
            counts[key] += 1
            first.setdefault(key, row)
    least = max(_OFTEN, _OFTEN_SHARE * len(dataset.first_rows))
    often = [(key, number) for key, number in counts.most_common() if number >= least]
    texts = sum(number for _, number in often)
    if texts < _MANY * len(dataset.first_rows) or not often:
        return []
    return [
        Finding(
            "templates",
            "look",
            f"{count(texts, 'text')} ({percent(texts / len(dataset.first_rows))}) begin alike:"
            f" {count(len(often), 'beginning')}",
            "Such texts come from a form or a template, whose words teach little. Take them out,"
            " here and before scoring.",
            examples=[
                Example(
                    dataset.lines[first[key]],
                    count(number, "text"),
                    shortened(dataset.texts[first[key]], 100),
                )
                for key, number in often[:_EXAMPLES]
            ],
            figures={"texts": texts, "beginnings": len(often)},
        )
    ]
