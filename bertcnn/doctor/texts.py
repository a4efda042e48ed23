"""Checks of texts: blank, damaged, duplicate, nearly equal, or too long."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from bertcnn.doctor.dataset import LabelledDataset
from bertcnn.doctor.report import Example, Finding, examples_of, named, shortened
from bertcnn.text import language_of
from bertcnn.wording import count, percent

# U+FFFD, and UTF-8 that was decoded as Windows-1252 or Latin-1
_SECOND = (  # second of two bytes, as characters
    "\u0080-\u00bf\u0192\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u2013-\u203a\u20ac\u2122"
)
_BROKEN = re.compile(f"\ufffd|[\u00c2\u00c3][{_SECOND}]|\u00e2\u20ac")
_MARKUP = re.compile(
    r"</[a-z][a-z0-9]*\s*>|<(?:a|br|div|font|hr|img|li|p|span|table|td|tr)\b[^<>]*>|&(?:amp|apos|gt|lt|nbsp|quot|#\d{1,6});",
    re.IGNORECASE,
)
_EXAMPLES = 4
_ENCODERS = "en"  # the language of the default encoder
_FEWEST_FOREIGN = 10  # foreign texts needed to report another main language


def check_blank(dataset: LabelledDataset) -> list[Finding]:
    """Rows without a text."""
    rows = {row: "empty text" for row, text in enumerate(dataset.texts) if not text}
    if not rows:
        return []
    return [
        Finding(
            "empty_texts",
            "look",
            f"{count(len(rows), 'row')} ({percent(len(rows) / len(dataset.texts))}) without a text",
            "Training leaves them out. If the text is in another column, name it with --text.",
            rows,
            [Example(dataset.lines[row], says) for row, says in list(rows.items())[:_EXAMPLES]],
        )
    ]


def check_characters(dataset: LabelledDataset) -> list[Finding]:
    """Texts with a damaged encoding."""
    rows = {
        row: f"broken characters ({match[0]!r})"
        for row, text in enumerate(dataset.texts)
        if not text.isascii() and (match := _BROKEN.search(text))
    }
    if not rows:
        return []
    return [
        Finding(
            "broken_characters",
            "look",
            f"{count(len(rows), 'text')} with characters that a wrong encoding has broken",
            "Export the file again as UTF-8; what is broken here was broken before.",
            rows,
            examples_of(rows, dataset.lines, dataset.texts),
        )
    ]


def check_markup(dataset: LabelledDataset) -> list[Finding]:
    """Texts with HTML; names no rows, because the export has to be fixed."""
    marks = {
        row: mark[0] for row, text in enumerate(dataset.texts) if (mark := _MARKUP.search(text))
    }
    if not marks:
        return []
    return [
        Finding(
            "markup",
            "look",
            f"{count(len(marks), 'text')} ({percent(len(marks) / len(dataset.texts))}) with HTML"
            " markup",
            "Tags are read as words, and named as reasons. Export plain text, or strip them with an"
            " HTML parser, here and before scoring.",
            examples=examples_of(
                {row: named(mark) for row, mark in marks.items()}, dataset.lines, dataset.texts
            ),
            figures={"texts": len(marks)},
        )
    ]


def check_duplicates(
    dataset: LabelledDataset, labels: Sequence[str] | None
) -> tuple[list[Finding], dict[int, str]]:
    """Duplicate texts, separately for conflicting labels, and the majority label if there is one.

    `labels` has one label per row in a single spelling, "" if missing.
    """
    groups: dict[str, list[int]] = defaultdict(list)
    for row, text in enumerate(dataset.texts):
        if text:
            groups[text.strip()].append(row)
    repeated = [rows for rows in groups.values() if len(rows) > 1]
    findings = [] if labels is None else _conflicts(dataset, repeated, labels)
    suggestions: dict[int, str] = {}
    if labels is not None:
        for rows in repeated:
            first, *rest = Counter(labels[row] for row in rows if labels[row]).most_common(2) or [
                ("", 0)
            ]
            if rest and first[1] > rest[0][1]:
                suggestions |= {row: first[0] for row in rows if labels[row] not in ("", first[0])}
    if repeated:
        again = {
            row: f"same text as line {dataset.lines[rows[0]]}"
            for rows in repeated
            for row in rows[1:]
        }
        most = sorted(repeated, key=lambda rows: (-len(rows), rows[0]))[:_EXAMPLES]
        findings.append(
            Finding(
                "duplicate_texts",
                "look",
                f"{count(len(again), 'row')} ({percent(len(again) / len(dataset.texts))}) repeat a"
                " text of another row",
                "Training and this check keep equal texts on one side of every split. Remove them"
                " if they are exports of one ticket.",
                dict(sorted(again.items())),
                [
                    Example(
                        dataset.lines[rows[0]],
                        f"{len(rows)} times",
                        shortened(dataset.texts[rows[0]]),
                    )
                    for rows in most
                ],
                {"texts": len(repeated)},
            )
        )
    return findings, suggestions


def _conflicts(
    dataset: LabelledDataset, repeated: Sequence[Sequence[int]], labels: Sequence[str]
) -> list[Finding]:
    """Equal texts with different labels."""
    torn = [rows for rows in repeated if len({labels[row] for row in rows if labels[row]}) > 1]
    if not torn:
        return []
    affected: dict[int, str] = {}
    for rows in torn:
        first = next(row for row in rows if labels[row])
        second = next(row for row in rows if labels[row] not in ("", labels[first]))
        for row in rows:
            other = second if labels[row] == labels[first] else first
            affected[row] = (
                f"same text as line {dataset.lines[other]}, which is labelled"
                f" {named(labels[other])}"
            )
    return [
        Finding(
            "conflicting_labels",
            "problem",
            f"{count(len(torn), 'text')} with different labels, in {count(len(affected), 'row')}",
            "A model can be right on one of them only: choose one label for each text.",
            dict(sorted(affected.items())),
            [
                Example(
                    dataset.lines[rows[0]],
                    " / ".join(
                        f"{named(name)} {number}x"
                        for name, number in Counter(
                            labels[row] for row in rows if labels[row]
                        ).most_common(3)
                    ),
                    shortened(dataset.texts[rows[0]]),
                )
                for rows in torn[:_EXAMPLES]
            ],
            {"texts": len(torn)},
        )
    ]


def check_near_duplicates(
    dataset: LabelledDataset, groups: np.ndarray, labels: Sequence[str] | None
) -> list[Finding]:
    """Different texts that are near duplicates.

    `groups` are from `similar_groups`, for the texts in `first_rows`; `labels` has one per row in a
    single spelling, "" if missing.
    """
    first_rows = list(dataset.first_rows.values())
    members: dict[int, list[int]] = defaultdict(list)
    for index, group in enumerate(groups.tolist()):
        members[group].append(first_rows[index])
    crowds = [rows for rows in members.values() if len(rows) > 1]
    if not crowds:
        return []
    torn = [
        rows
        for rows in crowds
        if labels is not None and len({labels[row] for row in rows if labels[row]}) > 1
    ]
    affected = {
        row: f"nearly the text of line {dataset.lines[rows[0]]}"
        for rows in crowds
        for row in rows[1:]
    }
    shown = sorted(torn or crowds, key=lambda rows: (-len(rows), rows[0]))[: _EXAMPLES // 2]
    examples = [
        Example(
            dataset.lines[row],
            f"{named(labels[row]) if labels and labels[row] else 'no label'}{like}",
            shortened(dataset.texts[row]),
        )
        for rows in shown
        for row, like in (
            (rows[0], ""),
            (_most_unlike(rows, labels), f", like line {dataset.lines[rows[0]]}"),
        )
    ]
    differ = f"; {count(len(torn), 'group')} of them with different labels" if torn else ""
    return [
        Finding(
            "near_duplicates",
            "look",
            f"{count(len(affected), 'text')} nearly the same as an earlier one{differ}",
            (
                "Look at those with different labels first."
                if torn
                else "Rows that say the same teach little: keep few of each."
            ),
            dict(sorted(affected.items())),
            examples,
            {"groups": len(crowds), "groups_with_different_labels": len(torn)},
        )
    ]


def _most_unlike(rows: Sequence[int], labels: Sequence[str] | None) -> int:
    """The first row whose label differs from the first row's; otherwise the second row."""
    return next(
        (
            row
            for row in rows[1:]
            if labels is not None and labels[row] not in ("", labels[rows[0]])
        ),
        rows[1],
    )


def check_lengths(dataset: LabelledDataset, truncated: np.ndarray, limit: int) -> list[Finding]:
    """Texts longer than the model's `limit` in tokens; `truncated` is bool [rows]."""
    rows = dict.fromkeys(np.flatnonzero(truncated).tolist(), f"longer than {limit} tokens")
    if not rows:
        return []
    return [
        Finding(
            "long_texts",
            "look",
            f"{count(len(rows), 'text')} ({percent(len(rows) / len(dataset.texts))}) longer than"
            f" the {limit} tokens that a model reads",
            "The middle of such a text is left out. Remove quoted mails and attachments if"
            " important words may be there.",
            rows,
            [
                Example(
                    dataset.lines[row],
                    f"{len(dataset.texts[row]):,} characters",
                    shortened(dataset.texts[row], 80),
                )
                for row in list(rows)[:_EXAMPLES]
            ],
            {"limit": limit},
        )
    ]


def check_languages(dataset: LabelledDataset) -> list[Finding]:
    """Texts whose language differs from the main one, if py3langid is certain.

    It is a naive Bayes model over bytes (Lui and Baldwin 2012). It is never certain about texts of
    a few words, so short foreign texts are missed.
    """
    by_text = {text: language for text in dataset.first_rows if (language := language_of(text))}
    languages = {
        row: by_text[text.strip()]
        for row, text in enumerate(dataset.texts)
        if text.strip() in by_text
    }
    counts = Counter(languages.values())
    main = counts.most_common(1)[0][0] if counts else _ENCODERS
    foreign = main != _ENCODERS
    if len(counts) < 2 and not (foreign and counts[main] >= _FEWEST_FOREIGN):
        return []
    if len(counts) < 2:
        return [
            Finding(
                "languages",
                "look",
                f"the {counts[main]:,} of {len(dataset.texts):,} texts whose language is recognised"
                f" are in {main!r}",
                f"The default encoder knows English: train with one that knows {main!r}"
                " (--encoder).",
                {},
                (),
                {"languages": dict(counts)},
            )
        ]
    rows = {
        row: f"language {language!r}" for row, language in languages.items() if language != main
    }
    names = ", ".join(f"{language} {number:,}" for language, number in counts.most_common(6))
    return [
        Finding(
            "languages",
            "look",
            f"{len(rows):,} of {len(languages):,} recognised texts"
            f" ({percent(len(rows) / len(languages))}) are not in the main language, {main!r}"
            f" ({names})",
            (
                f"The default encoder knows English: train with one that knows {main!r} and the"
                " others (--encoder)."
                if foreign
                else (
                    "The default encoder knows English. Sort other languages out, or train on them"
                    " with an encoder that knows them."
                )
            ),
            rows,
            examples_of(rows, dataset.lines, dataset.texts),
            {"languages": dict(counts.most_common())},
        )
    ]
