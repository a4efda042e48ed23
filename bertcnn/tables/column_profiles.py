"""Profiles of columns: their names and statistics of their cells."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from bertcnn.tables.column_words import (
    AFTER_WORDS,
    LABEL_WORDS,
    LAST_LABEL_WORDS,
    NEVER_LABEL_WORDS,
    NEVER_TEXT_WORDS,
    TEXT_WORDS,
    TIME_WORDS,
    words_of,
)
from bertcnn.tables.tables import Chunk
from bertcnn.tables.times import looks_like_time

_SAMPLED_ROWS = 20_000
_FILLED = 0.02  # a column with a smaller share of filled cells is ignored
# limits for a column of a few short values: cells, distinct cells, characters
_ENOUGH = 8
_FEW_VALUES = 20
_SHORT = 20
_LONGEST_CODE = 200
_OF_LABELS = ("name", "id")  # as in label_name
# columns of a scored file
_ANSWERS = frozenset(("predicted_label", "confidence", "decision", "because"))
_ADVICE = frozenset(("suggested_label", "finding"))  # columns that the doctor adds

# possessive quantifiers keep the time linear
_NUMBER = re.compile(r"\s*+[-+]?[.,\s]*+\d[\d.,\s]*+(e[-+]?\d++)?\s*+%?\s*+", re.IGNORECASE)

_CODE = re.compile(
    r"[!-~]*\d[!-~]*|[^\s@]+@[^\s@.]+(\.[^\s@.]+)+|\+?[\d ()/.\-]{6,}|\d{1,2}:\d\d(:\d\d)?("
    r" ?[ap]m)?",
    re.IGNORECASE,
)
_INDICATORS = ({"0", "1"}, {"0.0", "1.0"}, {"false", "true"}, {"False", "True"}, {"FALSE", "TRUE"})
_FLAGS = frozenset(
    """yes no y n true false t f 0 1 on off x ja nein j oui non o si sí sì sim não nao nej tak
    nie да нет 是 否 na n/a unknown""".split()  # noqa: SIM905
)


@dataclass(frozen=True)
class Profile:
    """The name of a column and statistics of its cells; only `filled` includes blank cells.

    Attributes:
        filled: share of cells that are not blank.
        length: average number of characters.
        spaces: average number of spaces between words.
        numbers: share of cells that are numbers; likewise `dates` and `links`.
        codes: share of ids, mail addresses, phone numbers or times.
        is_flag: whether all cells mean yes or no.
        is_indicator: whether all cells are 0 or 1, and both occur.
    """

    name: str
    place: int
    words: tuple[str, ...]
    cells: int
    filled: float
    length: float
    spaces: float
    distinct: int
    numbers: float
    dates: float
    links: float
    codes: float
    is_flag: bool
    is_indicator: bool

    @property
    def variety(self) -> float:
        """The share of distinct cells."""
        return self.distinct / self.cells if self.cells else 0.0

    def rank(self, words: Sequence[str]) -> float | None:
        """The position of the name in `words`, or None; whole names come before parts."""
        whole = "".join(self.words)
        if whole in words:
            return words.index(whole)
        return min(
            (len(words) + words.index(word) for word in self.words if word in words), default=None
        )

    def is_text_name(self) -> bool:
        """Whether the name is typical of texts."""
        return self.rank(TEXT_WORDS) is not None and self.rank(NEVER_TEXT_WORDS) is None

    def is_after_decision(self) -> bool:
        """Whether the name suggests a column that is filled in once the label is known."""
        return not set(self.words).isdisjoint(AFTER_WORDS)

    def is_something_else(self) -> bool:
        """Whether the cells are dates, numbers, links, codes or a few short values, not texts."""
        if max(self.numbers, self.dates, self.links, self.codes) > 0.5 or self.is_flag:
            return True
        return (
            self.cells >= _ENOUGH
            and self.variety <= 0.5
            and self.distinct <= _FEW_VALUES
            and self.length <= _SHORT
            and self.spaces < 1
        )

    def is_free_text(self) -> bool:
        """Whether the cells look like messages that people wrote."""
        if (
            max(self.numbers, self.dates, self.links) > 0.5
            or self.variety < 0.2
            or self.filled < _FILLED
        ):
            return False
        return (self.spaces >= 2 and self.length >= 12) or self.length >= 40

    def _is_about_something_else(self) -> bool:
        """Whether the name means a channel, a person and so on; not "label_name", "label_id"."""
        never = [word for word in self.words if word in NEVER_LABEL_WORDS]
        of_labels = (
            self.rank(LABEL_WORDS) is not None
            and set(never) <= set(_OF_LABELS)
            and self.variety <= 0.5
        )
        return bool(never) and not of_labels

    def may_be_label(self) -> bool:
        """Whether the cells repeat like labels; a typical name needs less repetition."""
        if (
            not self.cells
            or self.dates > 0.5
            or self.links > 0.5
            or self.length > 80
            or self._is_about_something_else()
        ):
            return False
        if self.rank(LABEL_WORDS + LAST_LABEL_WORDS) is not None:
            return self.variety <= 0.5 or self.cells <= 50
        if self.distinct < 2 or self.filled < _FILLED:
            return False
        few = (
            self.distinct <= 50 and self.variety <= 0.2
            if self.numbers > 0.5 and self.cells > 20
            else self.variety <= 0.5
        )
        return few and not self.is_text_name()


def profiles_of(sample: Chunk) -> list[Profile]:
    """The profiles of all columns except those that scoring or the doctor added.

    The rows are spread evenly, since files are often sorted by label.
    """
    step = -(-len(sample.rows) // _SAMPLED_ROWS) or 1
    rows = sample.rows[::step]
    answers = _answers(sample.columns)
    return [
        _profile(name, index, [row[index] for row in rows])
        for index, name in enumerate(sample.columns)
        if name not in answers
    ]


def _answers(columns: Sequence[str]) -> set[str]:
    """The columns that scoring or the doctor added to a file; training on them is useless.

    Example:
        >>> scored = ["predicted_label", "confidence", "decision", "because", "p_billing"]
        >>> sorted(_answers(["text", "team", *scored]))
        ['because', 'confidence', 'decision', 'p_billing', 'predicted_label']
        >>> _answers(["text", "decision"])
        set()
    """
    plain = {name: re.sub(r"\A(bertcnn_)+", "", name) for name in columns}
    scored = _ANSWERS.issubset(plain.values())
    added = (_ANSWERS if scored else frozenset()) | (
        _ADVICE if _ADVICE.issubset(plain.values()) else frozenset()
    )
    return {
        name
        for name, called in plain.items()
        if called in added or (scored and called.startswith("p_"))
    }


def _profile(name: str, place: int, cells: list[str]) -> Profile:
    filled = [cell.strip() for cell in cells if cell.strip()]
    number, values, words = len(filled) or 1, set(filled), words_of(name)
    is_time = not set(words).isdisjoint(TIME_WORDS)
    return Profile(
        name=name,
        place=place,
        words=words,
        cells=len(filled),
        filled=len(filled) / (len(cells) or 1),
        length=sum(map(len, filled)) / number,
        spaces=sum(len(cell.split()) - 1 for cell in filled) / number,
        distinct=len(values),
        numbers=sum(_NUMBER.fullmatch(cell) is not None for cell in filled) / number,
        dates=sum(looks_like_time(cell, numbers=is_time) for cell in filled) / number,
        links=sum(
            cell.startswith(("http://", "https://", "www.")) and " " not in cell for cell in filled
        )
        / number,
        codes=sum(_CODE.fullmatch(cell[:_LONGEST_CODE]) is not None for cell in filled) / number,
        is_flag=0 < len(values) <= 4 and {value.casefold() for value in values} <= _FLAGS,
        is_indicator=values in _INDICATORS,
    )
