"""Scoring the rows of a query into a table: PostgreSQL and SQLite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertcnn.doors import door

if TYPE_CHECKING:
    from bertcnn.tables.sql.addresses import database_at as database_at
    from bertcnn.tables.sql.addresses import is_address as is_address
    from bertcnn.tables.sql.database import Column as Column
    from bertcnn.tables.sql.database import Database as Database
    from bertcnn.tables.sql.identifiers import TableName as TableName
    from bertcnn.tables.sql.postgresql import will_pass as will_pass
    from bertcnn.tables.sql.spool import Spool as Spool
    from bertcnn.tables.sql.targets import Target as Target

__getattr__, __dir__, __all__ = door(__name__)
