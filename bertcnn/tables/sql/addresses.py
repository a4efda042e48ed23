"""Parses the addresses of databases, and hides their passwords."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

from bertcnn.errors import DatabaseError, one_line
from bertcnn.tables.sql.database import Database
from bertcnn.tables.sql.postgresql import PostgreSQL
from bertcnn.tables.sql.sqlite import SQLite

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+(?=://)")  # two letters, unlike a Windows drive
_NO_CODE = re.compile("%(?![0-9A-Fa-f]{2})")
_HOST = r"(?:\[[^\]]*\]|[^:\[\],]*)(?::\d*)?"
_HOSTS = re.compile(f"{_HOST}(?:,{_HOST})*")
_FILE = "sqlite:///"


def is_address(text: str) -> bool:
    """Whether this is an address, not a path.

    Example:
        >>> is_address("postgresql://host/tickets"), is_address("inbox.csv")
        (True, False)
    """
    return _SCHEME.match(text) is not None


def database_at(address: str) -> Database:
    """The database at an address; nothing is opened yet.

    An address is `sqlite:///FILE`, or `postgresql://USER@HOST/DATABASE` as libpq takes it, which
    also reads PGPASSWORD and ~/.pgpass.

    Raises:
        DatabaseError: the address is invalid, or the file does not exist.
        MissingPackageError: the driver is not installed.
    """
    if address.startswith(_FILE) and len(address) > len(_FILE):
        return SQLite(Path(address.removeprefix(_FILE)))
    scheme = _SCHEME.match(address)
    if scheme is None or scheme[0] not in ("postgresql", "postgres"):
        raise _unknown(f"{scheme[0]}://" if scheme else "")
    return PostgreSQL(address, _shown(address))


def _shown(address: str) -> str:
    """A PostgreSQL address without its password; raises DatabaseError if its end is unclear."""
    try:
        parts = urlsplit(address)
    except ValueError:
        raise _unknown("postgresql://") from None
    user, at, hosts = parts.netloc.rpartition("@")
    is_unclear = (
        "@" in f"{user}{parts.path}{parts.query}"
        or parts.fragment
        or _NO_CODE.search(address)
        or not _HOSTS.fullmatch(hosts)  # as when no host follows the password
    )
    if is_unclear:
        raise DatabaseError(
            "an address in which it is unclear where the password ends",
            expected="%40 for @, %23 for #, %25 for %, %2F for / and %3F for ? in a password",
            fix="write it so, or put the password into PGPASSWORD or ~/.pgpass",
        )
    return f"postgresql://{user.partition(':')[0]}{at}{hosts}{parts.path}"


def _unknown(begin: str) -> DatabaseError:
    return DatabaseError(
        f"a database at an address that begins with {one_line(begin)}",
        expected="postgresql://USER@HOST/DATABASE or sqlite:///FILE",
        fix="correct the address",
    )
