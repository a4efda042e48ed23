"""Scores tables of any size: the same table with answers."""
