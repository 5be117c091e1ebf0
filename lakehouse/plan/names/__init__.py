"""The names of columns, and of the fields in topics that they are read from."""
