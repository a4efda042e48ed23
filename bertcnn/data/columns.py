"""Guesses which columns hold the text, the label, an id and a time, and says why."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bertcnn.data.column_words import (
    ID_WORDS,
    LABEL_WORDS,
    LAST_LABEL_WORDS,
    NEVER_LABEL_WORDS,
    NEVER_TEXT_WORDS,
    TEXT_WORDS,
    TIME_WORDS,
    TITLE_WORDS,
    words_of,
)
from bertcnn.data.tables import Chunk, column_position, list_columns
from bertcnn.errors import ColumnError, one_line
from bertcnn.wording import count

_SAMPLED_ROWS = 20_000
_FILLED, _MOSTLY = 0.02, 0.5  # shares of a column that has to be filled to be read at all, and to come first
_LONGEST_NAME = 5  # words; a survey's question has more, and gets the remark too


_OF_LABELS = ("name", "id")  # as in label_name
_ANSWERS = frozenset(("predicted_label", "confidence", "decision", "because"))  # columns of a scored file
_ADVICE = frozenset(("suggested_label", "finding"))  # of one that the doctor wrote

_DATE = re.compile(r"\s*(\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[./-]\d{1,2}[./-]\d{2,4}|\d{4}/\d{1,2}/\d{1,2})([T ,]|\s*$)")
_NUMBER = re.compile(r"\s*+[-+]?[.,\s]*+\d[\d.,\s]*+(e[-+]?\d++)?\s*+%?\s*+", re.IGNORECASE)  # possessive: in linear time


def free_names(wanted: Iterable[str], given: Iterable[str]) -> tuple[str, ...]:
    """Names for columns of ours; one that is taken by the input's, or by an earlier one, gets `bertcnn_` in front, as often as it takes.

    Example:
        >>> free_names(["finding", "decision"], ["text", "finding"])
        ('bertcnn_finding', 'decision')
    """
    taken, names = set(given), []
    for name in wanted:
        while name in taken:
            name = f"bertcnn_{name}"
        taken.add(name)
        names.append(name)
    return tuple(names)


@dataclass(frozen=True)
class ColumnChoice:
    """Which columns to use.

    Attributes:
        text: one column or several, whose cells `join_texts` joins.
        label: the column to predict; None where only the text was asked for.
        id: an identifier of the row, if there seems to be one.
        time: when it happened, if a column seems to say so.
        reasons: for "text", "label", "id" and "time", as far as chosen, the column and why, in words.
    """

    text: tuple[str, ...]
    label: str | None = None
    id: str | None = None
    time: str | None = None
    reasons: dict[str, str] = field(default_factory=dict)


def join_texts(cells: Iterable[str]) -> str:
    r"""The cells of several text columns as one text: blank ones left out, the others on lines of their own.

    Example:
        >>> join_texts(["No signal", " ", "since Monday"])
        'No signal\nsince Monday'
    """
    return "\n".join(cell for cell in cells if cell.strip())


def guess_columns(sample: Chunk, *, text: str | Sequence[str] | None = None, label: str | None = None) -> ColumnChoice:
    """The columns to train on: those named are checked, the others guessed from names and contents.

    Of several columns that could be the label, a name says more than contents: label, category, intent, class, target, topic, queue, team,
    department, product, issue ..., in this order and in several languages, a name that is such a word before one that contains it; then
    columns without a telling name, the last one first; then priority or severity. Channel, status, language, company and the like are
    never guessed, nor the columns that scoring or the doctor added to a file. Of several texts, the one with a telling name, then the
    longest.

    Args:
        sample: a whole `Table`, or some of its rows.
        text: the text column, several of them, or several names separated by commas.
        label: the label column.

    Raises:
        ColumnError: if a named column is missing, or none looks like text, or like labels; it lists the columns found.

    Example:
        >>> rows = [("1", "web", "my router is dead again", "hardware"), ("2", "web", "why was I billed twice?", "billing")]
        >>> choice = guess_columns(Chunk(("id", "channel", "text", "label"), rows, [2, 3]))
        >>> choice.text, choice.label, choice.id
        (('text',), 'label', 'id')
    """
    profiles = _profiles(sample)
    if label is not None:
        column_position(label, sample.columns)
    chosen, reasons = _choose_text(profiles, sample.columns, text, label)
    reasons["text"] += _without_header(chosen)
    if label is not None and label in chosen:
        raise ColumnError(
            f"column {label!r} is named as text and as label", expected="two different columns", fix="name another one of the two"
        )
    if label is None:
        label, reasons["label"] = _choose_label([profile for profile in profiles if profile.name not in chosen], sample.columns)
    else:
        reasons["label"] = f"{label!r} (as named)"
    return _with_id_and_time(profiles, chosen, label, reasons)


def guess_text_columns(sample: Chunk, *, text: str | Sequence[str] | None = None, trained_on: Sequence[str] = ()) -> ColumnChoice:
    """The text columns of a file to be scored; its only column, whatever it is called, is the text.

    Args:
        sample: some rows of the file.
        text: the text column, several of them, or several names separated by commas.
        trained_on: the text columns of the training file; taken if the file has all of them.

    Raises:
        ColumnError: if a named column is missing, or none looks like text; it lists the columns found.
    """
    profiles = _profiles(sample)
    if text is None and trained_on and set(trained_on) <= set(sample.columns):
        chosen, reasons = tuple(trained_on), {"text": f"{list_columns(tuple(trained_on))} (as in training)"}
    elif text is None and len(sample.columns) == 1:
        chosen, reasons = sample.columns, {"text": f"{one_line(sample.columns[0], 40)} (the only column)"}
    else:
        chosen, reasons = _choose_text(profiles, sample.columns, text, None)
    reasons["text"] += _without_header(chosen)
    return _with_id_and_time(profiles, chosen, None, reasons)


def _without_header(columns: Sequence[str]) -> str:
    """A remark if a column is called what a message would say: then the file's first message was taken for the header."""
    if not any(len(name.split()) > _LONGEST_NAME for name in columns):
        return ""
    return "; that name reads like a message: if the file has no header, add a first line with the names of its columns"


@dataclass(frozen=True)
class _Profile:
    """What a column is called and what its cells look like, blank ones left out of all but `filled`."""

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

    @property
    def variety(self) -> float:
        """Share of cells that differ from all others before them."""
        return self.distinct / self.cells if self.cells else 0.0

    def rank(self, words: Sequence[str]) -> float | None:
        """Place of the name among `words`, whole names before parts; None if it is not among them."""
        whole = "".join(self.words)
        if whole in words:
            return words.index(whole)
        return min((len(words) + words.index(word) for word in self.words if word in words), default=None)

    def is_text_name(self) -> bool:
        return self.rank(TEXT_WORDS) is not None and self.rank(NEVER_TEXT_WORDS) is None

    def is_free_text(self) -> bool:
        """Whether the cells read like something a person wrote."""
        if max(self.numbers, self.dates, self.links) > 0.5 or self.variety < 0.2 or self.filled < _FILLED:
            return False
        return (self.spaces >= 2 and self.length >= 12) or self.length >= 40

    def _is_about_something_else(self) -> bool:
        """Whether the name speaks of a channel, a language, a person ..., "label_name" and "label_id" with repeating values apart."""
        never = [word for word in self.words if word in NEVER_LABEL_WORDS]
        of_labels = self.rank(LABEL_WORDS) is not None and set(never) <= set(_OF_LABELS) and self.variety <= 0.5
        return bool(never) and not of_labels

    def may_be_label(self) -> bool:
        """Whether the cells repeat as labels do; a telling name asks for less."""
        if not self.cells or self.dates > 0.5 or self.links > 0.5 or self.length > 80 or self._is_about_something_else():
            return False
        if self.rank(LABEL_WORDS + LAST_LABEL_WORDS) is not None:
            return self.variety <= 0.5 or self.cells <= 50
        if self.distinct < 2 or self.filled < _FILLED:
            return False
        few = self.distinct <= 50 and self.variety <= 0.2 if self.numbers > 0.5 and self.cells > 20 else self.variety <= 0.5
        return few and not self.is_text_name()


def _profiles(sample: Chunk) -> list[_Profile]:
    """The profile of each column but a model's answers, from rows spread evenly over the sample, since files are often sorted by label."""
    step = -(-len(sample.rows) // _SAMPLED_ROWS) or 1
    rows = sample.rows[::step]
    answers = _answers(sample.columns)
    return [_profile(name, place, [row[place] for row in rows]) for place, name in enumerate(sample.columns) if name not in answers]


def _answers(columns: Sequence[str]) -> set[str]:
    """The columns that scoring, or the doctor, added to a file; learning from them, or comparing with them, would tell nothing.

    Example:
        >>> sorted(_answers(["text", "team", "predicted_label", "confidence", "decision", "because", "p_billing"]))
        ['because', 'confidence', 'decision', 'p_billing', 'predicted_label']
        >>> _answers(["text", "decision"])
        set()
    """
    plain = {name: re.sub(r"\A(bertcnn_)+", "", name) for name in columns}
    scored = _ANSWERS.issubset(plain.values())
    ours = (_ANSWERS if scored else frozenset()) | (_ADVICE if _ADVICE.issubset(plain.values()) else frozenset())
    return {name for name, called in plain.items() if called in ours or (scored and called.startswith("p_"))}


def _profile(name: str, place: int, cells: list[str]) -> _Profile:
    filled = [cell.strip() for cell in cells if cell.strip()]
    number = len(filled) or 1
    return _Profile(
        name=name,
        place=place,
        words=words_of(name),
        cells=len(filled),
        filled=len(filled) / (len(cells) or 1),
        length=sum(map(len, filled)) / number,
        spaces=sum(len(cell.split()) - 1 for cell in filled) / number,
        distinct=len(set(filled)),
        numbers=sum(_NUMBER.fullmatch(cell) is not None for cell in filled) / number,
        dates=sum(_DATE.match(cell) is not None for cell in filled) / number,
        links=sum(cell.startswith(("http://", "https://", "www.")) and " " not in cell for cell in filled) / number,
    )


def _choose_text(
    profiles: list[_Profile], columns: tuple[str, ...], named: str | Sequence[str] | None, label: str | None
) -> tuple[tuple[str, ...], dict[str, str]]:
    """The text columns, and the reason for them."""
    if named is not None:
        names = _named(named, columns)
        return names, {"text": f"{list_columns(names)} (as named)"}
    candidates = [profile for profile in profiles if profile.name != label and _may_be_text(profile)]
    if not candidates:
        raise ColumnError(
            f"no column looks like text; columns found: {list_columns(columns)}",
            expected="a column of written messages",
            fix="name it with --text",
        )
    best = max(candidates, key=_text_order)
    reason = f"{one_line(best.name, 40)} ({_text_reason(best, candidates)})"
    others = [one.name for one in candidates if one is not best and one.is_free_text()]
    if others:
        both = sorted([best.name, others[0]], key=columns.index)
        reason += (
            f"; {list_columns(tuple(others), 4)} {'is' if len(others) == 1 else 'are'} free text too: join with --text {','.join(both)}"
        )
    return (best.name,), {"text": reason}


def _text_order(profile: _Profile) -> tuple[bool, bool, float, int]:
    """Free text first, then telling names, then the longest; of cells that are no free text, the most telling name."""
    rank = profile.rank(TEXT_WORDS)
    return profile.is_free_text(), rank is not None, profile.length if profile.is_free_text() else -(rank or 0), -profile.place


def _may_be_text(profile: _Profile) -> bool:
    if profile.is_text_name():
        return profile.dates <= 0.5
    never_a_text = profile.rank(LABEL_WORDS) is not None and profile.variety <= 0.5
    is_title = profile.rank(TITLE_WORDS) is not None and profile.variety > 0.2
    return (is_title or profile.is_free_text()) and profile.rank(NEVER_TEXT_WORDS) is None and not never_a_text


def _text_reason(best: _Profile, candidates: list[_Profile]) -> str:
    figures = f"{best.length:.0f} characters on average, {best.variety:.0%} different"
    if not best.is_free_text():
        return f"by its name; {figures}"
    longest = len(candidates) == 1 or best.length >= max(one.length for one in candidates)
    return f"{'longest free text' if longest else 'free text with a telling name'}: {figures}"


def _named(named: str | Sequence[str], columns: tuple[str, ...]) -> tuple[str, ...]:
    """The columns named, each checked."""
    if isinstance(named, str):
        named = (named,) if named in columns else [name.strip() for name in named.split(",")]
    names = tuple(dict.fromkeys(named))
    if not names:
        raise ColumnError("no text column was named", expected=f"one of {list_columns(columns)}", fix="name one, or leave it to be guessed")
    for name in names:
        column_position(name, columns)
    return names


def _choose_label(profiles: list[_Profile], columns: tuple[str, ...]) -> tuple[str, str]:
    """The label column, and the reason for it."""
    candidates = sorted((profile for profile in profiles if profile.may_be_label()), key=_label_order)
    if not candidates:
        raise ColumnError(
            f"no column looks like labels; columns found: {list_columns(columns)}",
            expected="a column with few values that repeat, such as a category",
            fix="name it with --label",
        )
    best = candidates[0]
    why = "by its name" if _label_order(best)[0] in (0, 2) else "its values repeat"
    reason = f"{best.name!r} ({why}: {count(best.distinct, 'different value')} in {best.cells:,} rows)"
    others = tuple(profile.name for profile in candidates[1:])
    if others:
        reason += f"; {list_columns(others, 4)} could be the label too: name it with --label"
    return best.name, reason


def _label_order(profile: _Profile) -> tuple[int, float]:
    """Telling names in their order, then names that tell nothing, the last column first, then priorities, then what is mostly blank."""
    rank = profile.rank(LABEL_WORDS)
    if rank is not None:
        return 0, rank
    last = profile.rank(LAST_LABEL_WORDS)
    if last is not None:
        return 2, last
    return (1 if profile.filled >= _MOSTLY else 3), -profile.place


def _with_id_and_time(profiles: list[_Profile], text: tuple[str, ...], label: str | None, reasons: dict[str, str]) -> ColumnChoice:
    """The choice, with the columns that identify and date a row, if any do."""
    rest = [profile for profile in profiles if profile.name not in text and profile.name != label and profile.cells]
    identifier = next(
        (one for one in rest if one.filled == 1 and one.variety == 1 and one.spaces == 0 and one.rank(ID_WORDS) is not None), None
    )
    time = next((one for one in rest if one is not identifier and one.dates > 0.9), None)
    if identifier is not None:
        reasons["id"] = f"{identifier.name!r} (by its name; every value is different)"
    if time is not None:
        why = "its values are dates" if time.rank(TIME_WORDS) is None else "by its name; its values are dates"
        reasons["time"] = f"{time.name!r} ({why})"
    return ColumnChoice(text, label, identifier.name if identifier else None, time.name if time else None, reasons)
