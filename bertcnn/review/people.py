"""People and their roles."""

from __future__ import annotations

import getpass
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bertcnn.errors import RoleError, SettingsError, TableError, one_line
from bertcnn.tables import list_columns, read_table
from bertcnn.wording import count

Role = Literal["viewer", "reviewer", "admin"]
ROLES: tuple[Role, ...] = ("viewer", "reviewer", "admin")  # each role includes those before it
_LONGEST_NAME = 200
_COLUMNS = ("person", "role")  # of a list of people


@dataclass(frozen=True)
class Person:
    """A person or a program, with a name as from `name_key` and a role."""

    name: str
    role: Role = "admin"

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", name_key(self.name))
        if not self.name or len(self.name) > _LONGEST_NAME:
            raise SettingsError(
                f"the name {one_line(self.name)} of a person",
                expected=f"1 to {_LONGEST_NAME} characters",
                fix="give a name or an e-mail address",
            )
        if self.role not in ROLES:
            raise SettingsError(
                f"the role {one_line(self.role)}",
                expected=f"one of {', '.join(ROLES)}",
                fix="give one of these",
            )

    def needs(self, role: Role, action: str) -> None:
        """Raise RoleError if the person's role is below `role`."""
        if ROLES.index(self.role) < ROLES.index(role):
            raise RoleError(
                f"{one_line(self.name)} has the role {self.role} and wants to {action}",
                expected=f"the role {role}",
                fix="ask an admin to do it, or for the role",
            )


def own_name(given: str | None) -> str:
    """The given name or the system user's; SettingsError if there is neither."""
    try:
        return given or getpass.getuser()
    except (OSError, KeyError, ImportError):  # depends on the Python version
        raise SettingsError(
            "no name for the person who decides",
            expected="a name, since the system's user has none",
            fix="add --person NAME, or set BERTCNN_PERSON",
        ) from None


def read_people(path: str | Path) -> dict[str, Person]:
    """A list of people with their roles, by name.

    The table has the columns person (an e-mail address, or a name from a proxy) and role. Other
    columns are ignored.

    Raises:
        SettingsError: somebody has no role, an unknown one, or two lines.
        TableError: the file cannot be read, or lacks a column.
    """
    table = read_table(path, expected_columns=_COLUMNS)
    if not set(_COLUMNS) <= set(table.columns):
        raise TableError(
            f"{str(path)!r} has the columns {list_columns(table.columns)}",
            expected="the columns person and role",
            fix="make its first line: person,role",
        )
    if table.rejected:
        raise TableError(
            f"{count(table.rejected, 'line')} of {str(path)!r} cannot be read",
            expected="a person and a role on each line",
            fix="correct these lines",
        )
    people: dict[str, Person] = {}
    rows = zip(table.line_numbers, table.column("person"), table.column("role"), strict=True)
    for line, name, role in rows:
        person = _listed(path, line, name.strip(), role.strip().lower())
        if person.name in people:
            raise SettingsError(
                f"line {line:,} of {str(path)!r} names {one_line(name.strip())} a second time",
                expected="one line for each person; upper and lower case are the same",
                fix="remove one of the lines",
            )
        people[person.name] = person
    return people


def _listed(path: str | Path, line: int, name: str, role: str) -> Person:
    for valid_role in ROLES:
        if role == valid_role and name:
            return Person(name, valid_role)
    raise SettingsError(
        f"line {line:,} of {str(path)!r} gives {one_line(name)} the role {one_line(role)}",
        expected=f"a name, and one of the roles {', '.join(ROLES)}",
        fix="correct this line",
    )


def name_key(name: str) -> str:
    r"""The normalised form of a name: lower case, single spaces, composed letters.

    Letters outside ASCII that would become ASCII letters, such as the Kelvin sign, stay unchanged:
    otherwise an address with one could impersonate another person.

    Example:
        >>> name_key(" Ann@Example.org"), name_key("JOSE\u0301  LUIS") == name_key("José Luis")
        ('ann@example.org', True)
        >>> name_key("\N{KELVIN SIGN}ate") == "kate"
        False
    """
    name = " ".join(name.split())
    composed = [unicodedata.normalize("NFC", letter) for letter in name]
    if all(map(_stays_outside, name, composed)):
        name = unicodedata.normalize("NFC", name)
    lower = [letter.lower() for letter in name]
    return "".join(
        new if _stays_outside(old, new) else old for old, new in zip(name, lower, strict=True)
    )


def _stays_outside(old: str, new: str) -> bool:
    return old.isascii() or not any(letter.isascii() for letter in new)


def find_person(people: Mapping[str, Person], name: str) -> Person:
    """Somebody on a list from `read_people`; RoleError for an unknown name."""
    person = people.get(name_key(name))
    if person is None:
        raise RoleError(
            f"{one_line(name)} is not on the list of people",
            expected="a name or an address with a role",
            fix="ask an admin for a line in the list",
        )
    return person
