"""Guesses the columns of text, label, id and time, and explains the guess."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bertcnn.errors import ColumnError, LabelColumnError, one_line
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

_MOSTLY = 0.5  # columns with a larger share of filled cells come first
_FEWEST_ONE_HOT = 3  # columns of 0 and 1
_LONGEST_NAME = 5  # words; longer names, such as a survey's question, get a remark

# names that also fit a column of yes and no
_OF_TWO = frozenset(("label", "class", "target", "klasse", "classe", "clase"))


def free_names(wanted: Iterable[str], columns: Iterable[str]) -> tuple[str, ...]:
    """Names for new columns; a name that is already used gets the prefix `bertcnn_`.

    Example:
        >>> free_names(["finding", "decision"], ["text", "finding"])
        ('bertcnn_finding', 'decision')
    """
    taken, names = set(columns), []
    for name in wanted:
        while name in taken:
            name = f"bertcnn_{name}"
        taken.add(name)
        names.append(name)
    return tuple(names)


def latest_name(name: str, columns: Sequence[str]) -> str:
    """The last name that `free_names` derived from `name` in a file with these columns.

    Example:
        >>> latest_name("label", ["label", "bertcnn_label"]), latest_name("label", ["text"])
        ('bertcnn_label', 'label')
    """
    while f"bertcnn_{name}" in columns:
        name = f"bertcnn_{name}"
    return name


@dataclass(frozen=True)
class ColumnChoice:
    """The chosen columns; the cells of several text columns are joined by `join_texts`.

    `reasons` describes the choices for "text", "label", "id" and "time".
    """

    text: tuple[str, ...]
    label: str | None = None
    id: str | None = None
    time: str | None = None
    reasons: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Columns:
    """The training table's columns and label format, saved with the model.

    Attributes:
        separator: between the labels of a row; if set, rows may have several even if all have one.
        merged: each rare label, with the label it became.
        levels: the separator of levels; None for the classifier's.
        out_of_scope: the label of rows out of scope; None for the classifier's.
    """

    text: tuple[str, ...] = ()
    label: str | None = None
    separator: str | None = None
    merged: Mapping[str, str] = field(default_factory=dict)
    levels: str | None = None
    out_of_scope: str | None = None


def join_texts(cells: Iterable[str]) -> str:
    r"""Joins the cells of several text columns with line breaks, without blank cells.

    Example:
        >>> join_texts(["No signal", " ", "since Monday"])
        'No signal\nsince Monday'
    """
    return "\n".join(cell for cell in cells if cell.strip())


def guess_columns(
    sample: Chunk, *, text: str | Sequence[str] | None = None, label: str | None = None
) -> ColumnChoice:
    """The columns to train on: checks given names, guesses the others from names and cells.

    Label columns are preferred in this order: names like label, category, intent, class, target,
    topic, queue, team, department, type, reason and product in several languages, whole names
    before parts; other names, the last column first; priority or severity. Channel, status,
    language, company, gender and similar columns are never guessed, nor those that scoring or the
    doctor added. For the text, a typical name is preferred, then the longest column. Columns
    filled in after the decision (resolution, answer, rating) are the last resort for both. `text`
    may be several names, also separated by commas.

    Raises:
        ColumnError: a named column is missing, or none looks like text or labels; lists the
            columns.
        LabelColumnError: each label has a column of 0 and 1, or `text` is the label column.

    Example:
        >>> rows = [
        ...     ("1", "web", "my router is dead again", "hardware"),
        ...     ("2", "web", "why was I billed twice?", "billing"),
        ... ]
        >>> choice = guess_columns(Chunk(("id", "channel", "text", "label"), rows, [2, 3]))
        >>> choice.text, choice.label, choice.id
        (('text',), 'label', 'id')
    """
    profiles = profiles_of(sample)
    if label is not None:
        label = sample.columns[column_position(label, sample.columns)]
        alike = [one.name for one in profiles if _may_be_text(one)]
        if text is None and alike == [label]:
            raise ColumnError(
                f"{label!r}, the only column that looks like text, is named as the label: no column"
                f" is left for the texts; columns found: {list_columns(sample.columns)}",
                expected="two different columns",
                fix="name another column with --label, or the one of the texts with --text",
            )
    chosen, reasons = _choose_text(profiles, sample.columns, text, label)
    reasons["text"] += _without_header(chosen)
    if label is not None and label in chosen:
        raise ColumnError(
            f"column {label!r} is named as text and as label",
            expected="two different columns",
            fix="name another one of the two",
        )
    if label is None:
        left = [profile for profile in profiles if profile.name not in chosen]
        taken = [one.name for one in profiles if one not in left and one.may_be_label()]
        if text is not None and taken and not any(one.may_be_label() for one in left):
            raise LabelColumnError(
                f"{taken[0]!r}, the only column that looks like labels, is named as the text: no"
                f" column is left for the labels; columns found: {list_columns(sample.columns)}",
                expected="two different columns",
                fix="name another column with --text, or the one of the labels with --label",
            )
        label, reasons["label"] = _choose_label(left, sample.columns)
    else:
        reasons["label"] = f"{label!r} (as named)"
    return _with_id_and_time(profiles, chosen, label, reasons)


def guess_text_columns(
    sample: Chunk, *, text: str | Sequence[str] | None = None, trained_on: Sequence[str] = ()
) -> ColumnChoice:
    """The text columns of a file to score: `text`, else those `trained_on`, else a guess.

    A file's only column is always its text. `text` may be several names, also separated by commas.

    Raises:
        ColumnError: a column is missing, or none looks like text; lists the columns.
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


def id_columns(sample: Chunk, choice: ColumnChoice) -> tuple[str, ...]:
    """Candidates for the id column, by name and some rows; uniqueness needs the whole file."""
    taken = (*choice.text, choice.label, choice.time)
    return tuple(
        one.name for one in profiles_of(sample) if one.name not in taken and _may_be_id(one)
    )


def as_in_training(
    trained_on: Sequence[str], columns: tuple[str, ...], option: str
) -> tuple[tuple[str, ...], str]:
    """The columns that a model was trained on, by their names in this table, and the reason.

    `option` is the option that names another column, for the error.

    Raises:
        ColumnError: a column is missing; a guess could be wrong.

    Example:
        >>> as_in_training(["subject"], ("id", "Subject"), "--text")
        (('Subject',), "'Subject' (as in training)")
    """
    chosen = find_names(trained_on, columns)
    if chosen is None:
        missing = tuple(name for name in trained_on if find_name(name, columns) is None)
        replacement = one_line(columns[0], 40) if len(columns) == len(missing) == 1 else "NAME"
        raise ColumnError(
            f"there is no column {list_columns(missing, 4)}, which the model was trained on;"
            f" columns found: {list_columns(columns)}",
            expected="the columns of the training file",
            fix=(
                "check that this is the right file; if its column has another name, add"
                f" {option} {replacement}"
            ),
        )
    return chosen, f"{list_columns(chosen)} (as in training)"


def _only_or_named(
    profiles: list[Profile], columns: tuple[str, ...]
) -> tuple[tuple[str, ...], dict[str, str]]:
    if len(columns) == 1:
        return columns, {"text": f"{one_line(columns[0], 40)} (the only column)"}
    named = [profile for profile in profiles if profile.is_text_name()]
    if named:
        return _choose_text(named, columns, None, None)
    return columns[:1], {
        "text": f"{one_line(columns[0], 40)} (the first column: there are no rows)"
    }


def _without_header(columns: Sequence[str]) -> str:
    """A remark if a column's name reads like a message, since the file may have no header."""
    if not any(len(name.split()) > _LONGEST_NAME for name in columns):
        return ""
    return (
        "; this name reads like a message: if the file has no header, add a first line with the"
        " column names"
    )


def _choose_text(
    profiles: list[Profile],
    columns: tuple[str, ...],
    named: str | Sequence[str] | None,
    label: str | None,
) -> tuple[tuple[str, ...], dict[str, str]]:
    if named is not None:
        names = _named(named, columns)
        return names, {
            "text": f"{list_columns(names)} (as named){_after_decision(profiles, names)}"
        }
    candidates = [
        profile for profile in profiles if profile.name != label and _may_be_text(profile)
    ]
    after = [one for one in candidates if one.is_after_decision()]
    candidates = [one for one in candidates if one not in after] or candidates
    if not candidates:
        raise ColumnError(
            f"no column looks like text; columns found: {list_columns(columns)}",
            expected="a column of written messages",
            fix="name it with --text",
        )
    best = max(candidates, key=_text_order)
    reason = f"{one_line(best.name, 40)} ({_text_reason(best, candidates)})"
    extra = [one.name for one in candidates if one is not best and one.is_free_text()]
    if extra:
        both = sorted([best.name, extra[0]], key=columns.index)
        reason += (
            f"; {list_columns(tuple(extra), 4)} {'is' if len(extra) == 1 else 'are'} also free"
            f" text: to join them, add --text {','.join(both)}"
        )
    return (best.name,), {"text": reason + _after_decision(profiles, (best.name,))}


def columns_after_decision(sample: Chunk) -> tuple[str, ...]:
    """The columns whose names suggest that they are filled in once the label is known."""
    return tuple(one.name for one in profiles_of(sample) if one.is_after_decision())


def _after_decision(profiles: list[Profile], chosen: Sequence[str]) -> str:
    after = [one for one in profiles if one.is_after_decision()]
    used = tuple(one.name for one in after if one.name in chosen)
    texts = tuple(one.name for one in after if one.name not in chosen and one.is_free_text())
    remark = ""
    if used:
        remark += f"; new tickets do not have {list_columns(used, 4)}, written after the decision"
    if texts:
        remark += f"; not {list_columns(texts, 4)}, written after the decision"
    return remark


def _text_order(profile: Profile) -> tuple[bool, bool, float, int]:
    """Free text first, then typical names, then the longest; without free text, the best name."""
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
    return f"{'longest free text' if longest else 'free text with a typical name'}: {figures}"


def _named(named: str | Sequence[str], columns: tuple[str, ...]) -> tuple[str, ...]:
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
            fix="name one, or leave it out to have it guessed",
        )
    return tuple(dict.fromkeys(columns[column_position(name, columns)] for name in named))


def _choose_label(profiles: list[Profile], columns: tuple[str, ...]) -> tuple[str, str]:
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
    flags = tuple(one.name for one in profiles if one.is_indicator)
    if best.name in flags and len(flags) >= _FEWEST_ONE_HOT and not _OF_TWO.issuperset(best.words):
        raise LabelColumnError(
            f"the columns {list_columns(flags, 6)} hold 0 and 1, as if each were a label",
            expected="one column of labels, such as 'billing', or 'billing; network' for several",
            fix=(
                "write the names of each row's columns with a 1 into one column; with pandas:"
                " table[names].apply(lambda row: '; '.join(row.index[row == 1]), axis=1)."
                " To predict only one of them, name it with --label"
            ),
        )
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
            "; no possible label column has 2 different values, and one value is not enough to"
            " train on"
        )
    runners_up = tuple(
        one.name for one in candidates[1:] if one.distinct > 1 and not one.is_after_decision()
    )
    if runners_up:
        reason += f"; {list_columns(runners_up, 4)} could also be the label: name it with --label"
    return best.name, reason


def _label_order(profile: Profile) -> tuple[int, float]:
    """The sort key of candidates, the best first: group, and order within it.

    The groups: typical names in their order; other names, the last column first; priorities; yes or
    no under a name that suggests many values, such as Issue; columns that are mostly blank; columns
    filled in after the decision; columns with one value.
    """
    rank, last = profile.rank(LABEL_WORDS), profile.rank(LAST_LABEL_WORDS)
    if profile.distinct >= 2 and profile.is_after_decision():
        return 5, -profile.place
    if profile.distinct < 2:
        return 6, -profile.place if rank is None else rank - len(LABEL_WORDS) * 2
    if rank is not None:
        is_flag_of_kinds = profile.is_flag and not _OF_TWO.issuperset(profile.words)
        return 3 if is_flag_of_kinds else 0, rank
    if last is not None:
        return 2, last
    return (1 if profile.filled >= _MOSTLY else 4), -profile.place


def _may_be_id(profile: Profile) -> bool:
    return profile.rank(ID_WORDS) is not None and profile.spaces == 0 and profile.variety > _MOSTLY


def _with_id_and_time(
    profiles: list[Profile], text: tuple[str, ...], label: str | None, reasons: dict[str, str]
) -> ColumnChoice:
    rest = [
        profile
        for profile in profiles
        if profile.name not in text and profile.name != label and profile.cells
    ]
    identifier = next(
        (one for one in rest if _may_be_id(one) and one.filled == one.variety == 1), None
    )
    named = {one.name for one in rest if one.rank(TIME_WORDS) is not None}
    times = [
        one
        for one in rest
        if one is not identifier and one.dates > (0.5 if one.name in named else 0.9)
    ]
    time = min(times, key=lambda one: one.name not in named, default=None)
    if identifier is not None:
        reasons["id"] = f"{identifier.name!r} (by its name; no value repeats in the rows looked at)"
    if time is not None:
        why = f"{'by its name; ' if time.name in named else ''}its values are dates"
        reasons["time"] = f"{time.name!r} ({why})"
    return ColumnChoice(
        text, label, identifier.name if identifier else None, time.name if time else None, reasons
    )
