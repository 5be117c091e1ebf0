"""The audit of a table."""
