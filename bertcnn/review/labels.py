"""The labels in use, and the label guide."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, select, update

from bertcnn.data import LabelSet, join_labels, names_in
from bertcnn.errors import StoreError, one_line
from bertcnn.review.people import Person
from bertcnn.review.rows import upsert
from bertcnn.review.schema import label, setting
from bertcnn.review.store import ReviewStore

_SEPARATOR = "separator"
_COLOR = re.compile(r"#[0-9a-fA-F]{6}")
_LONGEST = 200  # characters of a name or a hint
_LONGEST_GUIDE = 1 << 20


@dataclass(frozen=True)
class LabelsInUse:
    """The labels that people may assign; `separator` joins several in one string, if allowed."""

    names: tuple[str, ...]
    separator: str | None = None

    def checked(self, given: str | None) -> str:
        """One label or several, normalised for storage; StoreError if one is not in use."""
        names = self._split(given or "")
        unknown = [name for name in names if name not in self.names]
        if unknown or not names:
            raise StoreError(
                f"the label {one_line(unknown[0] if unknown else given)}",
                expected="a label in use; it may have been removed meanwhile",
                fix="decide again with another label",
            )
        return join_labels(names, self.separator) if self.separator else names[0]

    def has(self, given: str) -> bool:
        """Whether a label, or each of several, is in use."""
        names = self._split(given)
        return bool(names) and all(name in self.names for name in names)

    def _split(self, given: str) -> LabelSet:
        return names_in(given, self.separator) if self.separator else (given,)


@dataclass(frozen=True)
class LabelGuide:
    """What people see about a label: an explanation in Markdown, a colour, a hint of one line."""

    text: str = ""
    color: str = ""
    hint: str = ""


def labels_in_use(store: ReviewStore) -> LabelsInUse:
    """The labels that people may assign."""
    with store.reading() as connection:
        return read_labels(connection)


def add_labels(store: ReviewStore, person: Person, names: Iterable[str]) -> LabelsInUse:
    """Add labels to use; the next training learns them.

    Raises:
        RoleError: the person is not an admin.
        StoreError: a name is blank, too long, or contains the separator.
    """
    person.needs("admin", "add a label")
    names = list(names)
    with store.writing() as connection:
        separator = read_labels(connection).separator
        for name in names:
            if separator and _torn(name, separator):
                raise StoreError(
                    f"the label {one_line(name)}, though {separator!r} stands between labels",
                    expected="a name without that",
                    fix="give it another name",
                )
        return merge_labels(connection, names)


def _torn(name: str, separator: str) -> bool:
    """Whether a name would be parsed as several labels or as another one."""
    return bool(name.strip()) and names_in(join_labels([name], separator), separator) != (name,)


def remove_label(store: ReviewStore, person: Person, name: str) -> LabelsInUse:
    """Take a label out of use; RoleError for non-admins, StoreError if unknown."""
    person.needs("admin", "remove a label")
    with store.writing() as connection:
        used = read_labels(connection)
        used.checked(name)
        left = LabelsInUse(tuple(one for one in used.names if one != name), used.separator)
        _write(connection, left)
        return left


def label_guide(store: ReviewStore) -> dict[str, LabelGuide]:
    """What people know about each label in use, in their order."""
    with store.reading() as connection:
        rows = connection.execute(select(label).where(label.c.used).order_by(label.c.place))
        return {row.name: LabelGuide(row.guide, row.color, row.hint) for row in rows}


def set_guide(
    store: ReviewStore,
    person: Person,
    name: str,
    text: str | None = None,
    *,
    color: str | None = None,
    hint: str | None = None,
) -> LabelGuide:
    """Change what people see about a label; None leaves a part as it is.

    Args:
        store: an open store.
        person: an admin.
        name: a label in use.
        text: explanation, Markdown.
        color: such as "#1f77b4"; "" for none.
        hint: one short line.

    Raises:
        RoleError: the person is not an admin.
        StoreError: the label is not in use, or a part is too long or no colour.
    """
    person.needs("admin", "write the label guide")
    _check_length(text or "")
    if color and not _COLOR.fullmatch(color):
        raise StoreError(
            f"the colour {one_line(color)}", expected="one such as #1f77b4", fix="correct it"
        )
    if hint and (len(hint) > _LONGEST or "\n" in hint):
        raise StoreError(
            f"a hint of {len(hint):,} characters",
            expected=f"one line of at most {_LONGEST}",
            fix="write the rest into the guide",
        )
    parts = {"guide": text, "color": color, "hint": hint}
    changed = {part: value for part, value in parts.items() if value is not None}
    with store.writing() as connection:
        read_labels(connection).checked(name)
        if changed:
            connection.execute(update(label).where(label.c.name == name).values(**changed))
        row = connection.execute(select(label).where(label.c.name == name)).one()
        return LabelGuide(row.guide, row.color, row.hint)


def _check_length(text: str) -> None:
    if len(text) > _LONGEST_GUIDE:
        raise StoreError(
            f"a label guide of {len(text):,} characters",
            expected=f"at most {_LONGEST_GUIDE:,}",
            fix="keep to what people need while they decide",
        )


def read_labels(connection: Connection) -> LabelsInUse:
    """The labels in use; empty before a model was added."""
    names = connection.scalars(select(label.c.name).where(label.c.used).order_by(label.c.place))
    value = select(setting.c.value).where(setting.c.name == _SEPARATOR)
    return LabelsInUse(tuple(names), connection.scalar(value))


def merge_labels(
    connection: Connection, names: Iterable[str], separator: str | None = None
) -> LabelsInUse:
    """Add names to the labels in use."""
    used = read_labels(connection)
    merged = LabelsInUse(tuple(dict.fromkeys([*used.names, *names])), used.separator or separator)
    _write(connection, merged)
    return merged


def replace_labels(connection: Connection, names: Mapping[str, str]) -> None:
    """Rename labels in use; "" removes one."""
    used = read_labels(connection)
    renamed = [names.get(name, name) for name in used.names]
    kept = dict.fromkeys(name for name in renamed if name)
    _write(connection, LabelsInUse(tuple(kept), used.separator))


def _write(connection: Connection, labels: LabelsInUse) -> None:
    """Write the labels in use; the guide of others is kept for the day they return."""
    for name in labels.names:
        if not name.strip() or len(name) > _LONGEST:
            raise StoreError(
                f"the label {one_line(name)}",
                expected=f"1 to {_LONGEST} characters",
                fix="give it a short name",
            )
    connection.execute(update(label).values(used=False))
    rows = [{"name": name, "place": place, "used": True} for place, name in enumerate(labels.names)]
    upsert(connection, label, *rows)
    if labels.separator is not None:
        upsert(connection, setting, {"name": _SEPARATOR, "value": labels.separator})
