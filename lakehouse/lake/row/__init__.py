"""Rows of a table: their differences, the version that changed them, and the record that set a row."""
