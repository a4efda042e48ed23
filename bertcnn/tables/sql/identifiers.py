"""Names of tables and columns in SQL."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from bertcnn.errors import SettingsError, one_line

_PLAIN = r"[^\W\d][\w$]*"
_PART = rf'{_PLAIN}|"(?:[^"\0]|"")+"'
_SQL_NAME = re.compile(rf"(?:({_PART})\.)?({_PART})")


def quoted(name: str) -> str:
    """Quotes a name for SQL.

    Example:
        >>> print(quoted('a "b"; drop table c'))
        "a ""b""; drop table c"
    """
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class TableName:
    """A table, in a schema or in the default schema; both names are unquoted."""

    table: str
    schema: str | None = None

    @classmethod
    def of(cls, name: str) -> Self:
        """Parses a name as users type it: `answers`, `triage.answers`, `"Answers"`.

        As in SQL, an unquoted name becomes lower case, and a dot separates schema and table. Any
        other text, such as a name with a space, is the table's name unchanged.

        Raises:
            SettingsError: it is empty, contains NUL, or has dots that do not separate a schema and
                a table.

        Example:
            >>> TableName.of('Triage."My answers"')
            TableName(table='My answers', schema='triage')
            >>> TableName.of("x; drop table y").sql
            '"x; drop table y"'
        """
        if not name.strip() or "\0" in name:
            raise SettingsError(
                f"{one_line(name)} as the name of a table",
                expected="a name such as answers or triage.answers",
                fix="name the table that the answers go into",
            )
        match = _SQL_NAME.fullmatch(name)
        if match is None and "." in name:
            raise SettingsError(
                f"{one_line(name)} as the name of a table",
                expected="TABLE or SCHEMA.TABLE, in the database of the address",
                fix="""write a name that has a dot or a space itself in quotes: '"my.answers"'""",
            )
        if match is None:
            return cls(name)
        return cls(_read(match[2]), _read(match[1]) if match[1] else None)

    @property
    def sql(self) -> str:
        """The quoted name, for a statement."""
        table = quoted(self.table)
        return table if self.schema is None else f"{quoted(self.schema)}.{table}"

    def __str__(self) -> str:
        return self.table if self.schema is None else f"{self.schema}.{self.table}"


def _read(part: str) -> str:
    return part[1:-1].replace('""', '"') if part.startswith('"') else part.lower()
