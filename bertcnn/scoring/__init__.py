"""A table of any size in, the same table with answers out."""
