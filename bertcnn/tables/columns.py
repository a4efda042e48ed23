"""Guesses which columns hold the text, the label, an id and a time, and says why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bertcnn.errors import ColumnError, one_line
from bertcnn.tables.column_names import find_name, find_names
from bertcnn.tables.column_profiles import Profile, profiles_of
from bertcnn.tables.column_words import (
    ID_WORDS,
    LABEL_WORDS,
    LAST_LABEL_WORDS,
    NEVER_TEXT_WORDS,
    TEXT_WORDS,
    TIME_WORDS,
    TITLE_WORDS,
)
from bertcnn.tables.tables import Chunk, column_position, list_columns
from bertcnn.wording import count

_MOSTLY = 0.5  # share of a column that has to be filled to come before others
_LONGEST_NAME = 5  # words; a survey's question has more, and gets the remark too

# names that yes and no fit as well
_OF_TWO = frozenset(("label", "class", "target", "klasse", "classe", "clase"))


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
        reasons: for "text", "label", "id" and "time", as far as chosen, the column and why, in
            words.
    """

    text: tuple[str, ...]
    label: str | None = None
    id: str | None = None
    time: str | None = None
    reasons: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Columns:
    """What a saved model remembers of the table it was trained on.

    Attributes:
        text: the text columns.
        label: the label column.
        separator: what stood between several labels of a row; with one, rows may have several
            though all have one.
        merged: rare labels, each with the label that it became part of.
        levels: what stands between the levels of a label; by default as the classifier has it.
    """

    text: tuple[str, ...] = ()
    label: str | None = None
    separator: str | None = None
    merged: Mapping[str, str] = field(default_factory=dict)
    levels: str | None = None


def join_texts(cells: Iterable[str]) -> str:
    r"""The cells of several text columns as one text: blank ones left out, the others on lines of their own.

    Example:
        >>> join_texts(["No signal", " ", "since Monday"])
        'No signal\nsince Monday'
    """
    return "\n".join(cell for cell in cells if cell.strip())


def guess_columns(
    sample: Chunk, *, text: str | Sequence[str] | None = None, label: str | None = None
) -> ColumnChoice:
    """The columns to train on: those named are checked, the others guessed from names and contents.

    Of several columns that could be the label, a name says more than contents: label, category,
    intent, class, target, topic, queue, team, department, product, issue ..., in this order and in
    several languages, a name that is such a word before one that contains it; then columns without
    a telling name, the last one first; then priority or severity. Channel, status, language,
    company and the like are never guessed, nor the columns that scoring or the doctor added to a
    file. Of several texts, the one with a telling name, then the longest.

    Args:
        sample: a whole `Table`, or some of its rows.
        text: the text column, several of them, or several names separated by commas.
        label: the label column.

    Raises:
        ColumnError: if a named column is missing, or none looks like text, or like labels; it lists
            the columns found.

    Example:
        >>> rows = [("1", "web", "my router is dead again", "hardware"), ("2", "web", "why was I billed twice?", "billing")]
        >>> choice = guess_columns(Chunk(("id", "channel", "text", "label"), rows, [2, 3]))
        >>> choice.text, choice.label, choice.id
        (('text',), 'label', 'id')
    """
    profiles = profiles_of(sample)
    if label is not None:
        label = sample.columns[column_position(label, sample.columns)]
    chosen, reasons = _choose_text(profiles, sample.columns, text, label)
    reasons["text"] += _without_header(chosen)
    if label is not None and label in chosen:
        raise ColumnError(
            f"column {label!r} is named as text and as label",
            expected="two different columns",
            fix="name another one of the two",
        )
    if label is None:
        label, reasons["label"] = _choose_label(
            [profile for profile in profiles if profile.name not in chosen], sample.columns
        )
    else:
        reasons["label"] = f"{label!r} (as named)"
    return _with_id_and_time(profiles, chosen, label, reasons)


def guess_text_columns(
    sample: Chunk, *, text: str | Sequence[str] | None = None, trained_on: Sequence[str] = ()
) -> ColumnChoice:
    """The text columns of a file to be scored; its only column, whatever it is called, is the text.

    Args:
        sample: some rows of the file.
        text: the text column, several of them, or several names separated by commas.
        trained_on: the text columns of the training file; taken unless others are named.

    Raises:
        ColumnError: if a named column, or one of the training file's, is missing, or none looks
            like text; it lists the columns found.
    """
    profiles = profiles_of(sample)
    if text is None and trained_on:
        chosen, reason = as_in_training(trained_on, sample.columns, "--text")
        reasons = {"text": reason}
    elif text is None and (len(sample.columns) == 1 or not sample.rows):
        chosen, reasons = _only_or_named(profiles, sample.columns)
    else:
        chosen, reasons = _choose_text(profiles, sample.columns, text, None)
    reasons["text"] += _without_header(chosen)
    return _with_id_and_time(profiles, chosen, None, reasons)


def as_in_training(
    trained_on: Sequence[str], columns: tuple[str, ...], option: str
) -> tuple[tuple[str, ...], str]:
    """The columns that a model was trained on as this table calls them, and the reason for them.

    Args:
        trained_on: their names in the training file.
        columns: those of the table.
        option: by which another column is named.

    Raises:
        ColumnError: one is missing; another one, guessed, would give answers to something else.

    Example:
        >>> as_in_training(["subject"], ("id", "Subject"), "--text")
        (('Subject',), "'Subject' (as in training)")
    """
    chosen = find_names(trained_on, columns)
    if chosen is None:
        missing = tuple(name for name in trained_on if find_name(name, columns) is None)
        other = one_line(columns[0], 40) if len(columns) == len(missing) == 1 else "NAME"
        raise ColumnError(
            f"there is no column {list_columns(missing, 4)}, which the model was trained on;"
            f" columns found: {list_columns(columns)}",
            expected="the columns of the training file",
            fix=(
                "check that this is the right file; if a column has another name in it, add"
                f" {option} {other}"
            ),
        )
    return chosen, f"{list_columns(chosen)} (as in training)"


def _only_or_named(
    profiles: list[Profile], columns: tuple[str, ...]
) -> tuple[tuple[str, ...], dict[str, str]]:
    """The text column of a table with one column, or of one without rows."""
    if len(columns) == 1:
        return columns, {"text": f"{one_line(columns[0], 40)} (the only column)"}
    named = [profile for profile in profiles if profile.is_text_name()]
    if named:
        return _choose_text(named, columns, None, None)
    return columns[:1], {
        "text": f"{one_line(columns[0], 40)} (the first column: there are no rows)"
    }


def _without_header(columns: Sequence[str]) -> str:
    """A remark if a column is called what a message would say.

    Then the file's first message was taken for the header.
    """
    if not any(len(name.split()) > _LONGEST_NAME for name in columns):
        return ""
    return (
        "; that name reads like a message: if the file has no header, add a first line with the"
        " names of its columns"
    )


def _choose_text(
    profiles: list[Profile],
    columns: tuple[str, ...],
    named: str | Sequence[str] | None,
    label: str | None,
) -> tuple[tuple[str, ...], dict[str, str]]:
    """The text columns, and the reason for them."""
    if named is not None:
        names = _named(named, columns)
        return names, {"text": f"{list_columns(names)} (as named)"}
    candidates = [
        profile for profile in profiles if profile.name != label and _may_be_text(profile)
    ]
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
            f"; {list_columns(tuple(others), 4)} {'is' if len(others) == 1 else 'are'} free text"
            f" too: join with --text {','.join(both)}"
        )
    return (best.name,), {"text": reason}


def _text_order(profile: Profile) -> tuple[bool, bool, float, int]:
    """Free text first, then telling names, then the longest.

    Of cells that are no free text, the most telling name.
    """
    rank = profile.rank(TEXT_WORDS)
    return (
        profile.is_free_text(),
        rank is not None,
        profile.length if profile.is_free_text() else -(rank or 0),
        -profile.place,
    )


def _may_be_text(profile: Profile) -> bool:
    if profile.is_something_else():
        return False
    if profile.is_text_name():
        return True
    never_a_text = profile.rank(LABEL_WORDS) is not None and profile.variety <= 0.5
    is_title = profile.rank(TITLE_WORDS) is not None and profile.variety > 0.2
    return (
        (is_title or profile.is_free_text())
        and profile.rank(NEVER_TEXT_WORDS) is None
        and not never_a_text
    )


def _text_reason(best: Profile, candidates: list[Profile]) -> str:
    figures = f"{best.length:.0f} characters on average, {best.variety:.0%} different"
    if not best.is_free_text():
        return f"by its name; {figures}"
    longest = len(candidates) == 1 or best.length >= max(one.length for one in candidates)
    return f"{'longest free text' if longest else 'free text with a telling name'}: {figures}"


def _named(named: str | Sequence[str], columns: tuple[str, ...]) -> tuple[str, ...]:
    """The columns named, each checked."""
    if isinstance(named, str):
        named = (
            (named,)
            if find_name(named, columns) is not None
            else [name.strip() for name in named.split(",")]
        )
    if not named:
        raise ColumnError(
            "no text column was named",
            expected=f"one of {list_columns(columns)}",
            fix="name one, or leave it to be guessed",
        )
    return tuple(dict.fromkeys(columns[column_position(name, columns)] for name in named))


def _choose_label(profiles: list[Profile], columns: tuple[str, ...]) -> tuple[str, str]:
    """The label column, and the reason for it."""
    candidates = sorted(
        (profile for profile in profiles if profile.may_be_label()), key=_label_order
    )
    if not candidates:
        raise ColumnError(
            f"no column looks like labels; columns found: {list_columns(columns)}",
            expected="a column with few values that repeat, such as a category",
            fix="name it with --label",
        )
    best = candidates[0]
    why = (
        "by its name"
        if best.rank(LABEL_WORDS + LAST_LABEL_WORDS) is not None
        else "its values repeat"
    )
    reason = (
        f"{best.name!r} ({why}: {count(best.distinct, 'different value')} in {best.cells:,} rows)"
    )
    if best.distinct < 2:
        reason += (
            "; no column that could be the label has 2 different values, and from one nothing can"
            " be learned"
        )
    others = tuple(profile.name for profile in candidates[1:] if profile.distinct > 1)
    if others:
        reason += f"; {list_columns(others, 4)} could be the label too: name it with --label"
    return best.name, reason


def _label_order(profile: Profile) -> tuple[int, float]:
    """The order of candidates, the best first, by group and within it.

    The groups: telling names in their order; names that tell nothing, the last column first;
    priorities; yes or no under a name of many kinds, such as Issue; what is mostly blank; what has
    one value only.
    """
    rank, last = profile.rank(LABEL_WORDS), profile.rank(LAST_LABEL_WORDS)
    if profile.distinct < 2:
        return 5, -profile.place if rank is None else rank - len(LABEL_WORDS) * 2
    if rank is not None:
        is_flag_of_kinds = profile.is_flag and not _OF_TWO.issuperset(profile.words)
        return 3 if is_flag_of_kinds else 0, rank
    if last is not None:
        return 2, last
    return (1 if profile.filled >= _MOSTLY else 4), -profile.place


def _with_id_and_time(
    profiles: list[Profile], text: tuple[str, ...], label: str | None, reasons: dict[str, str]
) -> ColumnChoice:
    """The choice, with the columns that identify and date a row, if any do."""
    rest = [
        profile
        for profile in profiles
        if profile.name not in text and profile.name != label and profile.cells
    ]
    identifier = next(
        (
            one
            for one in rest
            if one.filled == 1
            and one.variety == 1
            and one.spaces == 0
            and one.rank(ID_WORDS) is not None
        ),
        None,
    )
    time = next((one for one in rest if one is not identifier and one.dates > 0.9), None)
    if identifier is not None:
        reasons["id"] = f"{identifier.name!r} (by its name; every value is different)"
    if time is not None:
        why = (
            "its values are dates"
            if time.rank(TIME_WORDS) is None
            else "by its name; its values are dates"
        )
        reasons["time"] = f"{time.name!r} ({why})"
    return ColumnChoice(
        text, label, identifier.name if identifier else None, time.name if time else None, reasons
    )
