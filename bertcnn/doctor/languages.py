"""Which texts are in another language than the others."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

from bertcnn.doctor.dataset import LabelledDataset
from bertcnn.doctor.report import Finding, examples_of
from bertcnn.wording import percent

_SURE = 0.9  # probability; on 5,040 English tickets nothing was wrong above 0.53
_FEWEST_LETTERS = 12
_ENCODERS = "en"  # the language of the default encoder
_FEWEST_FOREIGN = 10  # texts that are recognised, to speak of another main language
_LOOKED_AT = 400  # characters


def check_languages(dataset: LabelledDataset) -> list[Finding]:
    """Texts in another language than most, as far as py3langid is sure.

    It is a naive Bayes model over bytes (Lui and Baldwin 2012).

    Texts of a few words are never sure enough, so short ones in another language are missed.
    """
    identifier = _identifier()
    known: dict[str, str] = {}
    for text in dataset.first_rows:
        start = text[:_LOOKED_AT].encode("utf-8", "replace").decode()
        if sum(map(str.isalpha, start)) >= _FEWEST_LETTERS:
            language, probability = identifier.classify(start.lower() if start.isupper() else start)
            if probability >= _SURE:
                known[text] = language
    languages = {
        row: known[text.strip()] for row, text in enumerate(dataset.texts) if text.strip() in known
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


@cache
def _identifier() -> Any:  # noqa: ANN401 - a class of py3langid
    """The model, about a second to load."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
