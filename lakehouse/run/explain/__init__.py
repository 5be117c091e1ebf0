"""The explanation of a row: the records behind its key, also as a test."""
