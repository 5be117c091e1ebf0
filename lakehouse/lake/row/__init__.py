"""Rows of a table: differences, since when they exist, and the record that set a row."""
