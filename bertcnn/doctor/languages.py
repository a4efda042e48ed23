"""Finds texts in another language than the others."""

from __future__ import annotations

from collections import Counter

from bertcnn.doctor.dataset import LabelledDataset
from bertcnn.doctor.report import Finding, examples_of
from bertcnn.text import language_of
from bertcnn.wording import percent

_ENCODERS = "en"  # the language of the default encoder
_FEWEST_FOREIGN = 10  # foreign texts needed to report another main language


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
