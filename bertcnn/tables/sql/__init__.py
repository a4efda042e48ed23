"""Scoring the rows of a query into a table: PostgreSQL and SQLite."""
