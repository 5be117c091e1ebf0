"""Erasures of records on request: what the lake remembers of them, and logs without the values of rows."""
