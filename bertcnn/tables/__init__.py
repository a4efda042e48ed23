"""Reading labelled rows from files, and writing rows to files."""
