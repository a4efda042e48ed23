"""The labels in use, and the label guide."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, select

from bertcnn.data import LabelSet, join_labels, names_in
from bertcnn.errors import StoreError, one_line
from bertcnn.review.people import Person
from bertcnn.review.rows import upsert
from bertcnn.review.schema import setting
from bertcnn.review.store import ReviewStore

_LABELS, _GUIDE = "labels", "guide"
_LONGEST = 200
_LONGEST_GUIDE = 1 << 20


@dataclass(frozen=True)
class LabelsInUse:
    """The labels that people may assign; `separator` joins several in one string, if allowed."""

    names: tuple[str, ...]
    separator: str | None = None

    def checked(self, label: str | None) -> str:
        """One label or several, normalised for storage; StoreError if one is not in use."""
        names = self._split(label or "")
        unknown = [name for name in names if name not in self.names]
        if unknown or not names:
            raise StoreError(
                f"the label {one_line(unknown[0] if unknown else label)}",
                expected="a label in use; it may have been removed meanwhile",
                fix="decide again with another label",
            )
        return join_labels(names, self.separator) if self.separator else names[0]

    def has(self, label: str) -> bool:
        """Whether a label, or each of several, is in use."""
        names = self._split(label)
        return bool(names) and all(name in self.names for name in names)

    def _split(self, label: str) -> LabelSet:
        return names_in(label, self.separator) if self.separator else (label,)


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


def guide(store: ReviewStore) -> str:
    """The label guide, Markdown; empty if there is none."""
    with store.reading() as connection:
        return str(connection.scalar(select(setting.c.value).where(setting.c.name == _GUIDE)) or "")


def write_guide(store: ReviewStore, person: Person, text: str) -> None:
    """Replace the label guide; RoleError for non-admins, StoreError if it is too long."""
    person.needs("admin", "write the label guide")
    if len(text) > _LONGEST_GUIDE:
        raise StoreError(
            f"a label guide of {len(text):,} characters",
            expected=f"at most {_LONGEST_GUIDE:,}",
            fix="keep to what people need while they decide",
        )
    with store.writing() as connection:
        upsert(connection, setting, {"name": _GUIDE, "value": text})


def read_labels(connection: Connection) -> LabelsInUse:
    """The labels in use; empty before a model was added."""
    value = connection.scalar(select(setting.c.value).where(setting.c.name == _LABELS))
    if value is None:
        return LabelsInUse(())
    stored = json.loads(value)
    return LabelsInUse(tuple(stored["names"]), stored["separator"])


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
    for name in labels.names:
        if not name.strip() or len(name) > _LONGEST:
            raise StoreError(
                f"the label {one_line(name)}",
                expected=f"1 to {_LONGEST} characters",
                fix="give it a short name",
            )
    value = json.dumps({"names": labels.names, "separator": labels.separator})
    upsert(connection, setting, {"name": _LABELS, "value": value})
