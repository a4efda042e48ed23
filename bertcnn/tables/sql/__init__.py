"""The rows of a query in, a table of answers out: PostgreSQL and SQLite."""
