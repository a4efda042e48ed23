"""A file in, labelled rows out; rows in, a file out."""
