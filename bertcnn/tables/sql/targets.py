"""The table for the predictions: its columns, and the statements to create and fill it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from bertcnn.errors import DatabaseError, one_line
from bertcnn.tables.sql.identifiers import TableName, quoted

_MOST_COLUMNS = 1600  # limit of PostgreSQL; SQLite takes 2,000


@dataclass(frozen=True)
class Target:
    """A table with one row for each id; `columns` are the others, True for numbers.

    Raises:
        DatabaseError: there are more columns than a table can have.
    """

    table: TableName
    id: str
    id_type: str
    columns: Mapping[str, bool]

    def __post_init__(self) -> None:
        if len(self.names) > _MOST_COLUMNS:
            raise DatabaseError(
                f"{len(self.names):,} columns for the table {one_line(self.table)}",
                expected=f"at most {_MOST_COLUMNS:,}, as PostgreSQL takes",
                fix="leave out --probabilities",
            )

    @property
    def names(self) -> tuple[str, ...]:
        """All columns, the id first."""
        return (self.id, *self.columns)

    def create(self, table: str, types: Mapping[bool, str]) -> str:
        """The statement that creates a missing table; `types` of numbers (True) and texts."""
        columns = [
            f"{quoted(self.id)} {self.id_type} NOT NULL",
            *(f"{quoted(name)} {types[number]}" for name, number in self.columns.items()),
        ]
        return (
            f"CREATE TABLE IF NOT EXISTS {table} ({', '.join(columns)},"
            f" PRIMARY KEY ({quoted(self.id)}))"
        )

    def replace(self, table: str, rows: str) -> str:
        """The statement that inserts rows, or replaces those with the same ids.

        `rows` is a SELECT with a WHERE, because SQLite would otherwise parse ON as part of a join.
        """
        names = ", ".join(map(quoted, self.names))
        changes = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in self.columns)
        return (
            f"INSERT INTO {table} ({names}) {rows}"
            f" ON CONFLICT ({quoted(self.id)}) DO UPDATE SET {changes}"
        )

    def check_columns(self, existing: Sequence[str]) -> None:
        """Raises DatabaseError if the columns of an existing table (`existing`) differ."""
        if not existing or set(existing) == set(self.names):
            return
        raise DatabaseError(
            f"the table {one_line(self.table)} is there and "
            + _differences(
                set(self.names).difference(existing), set(existing).difference(self.names)
            ),
            expected=f"a table with the columns {_listed(self.names)}, or none",
            fix="name another table with --into, or drop this one",
        )


def _differences(missing: Collection[str], more: Collection[str]) -> str:
    lacks = f"lacks {_listed(sorted(missing))}" if missing else ""
    has = f"also has {_listed(sorted(more))}" if more else ""
    return " and ".join(filter(None, (lacks, has)))


def _listed(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(one_line(name, 40) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
