"""Aggregates: the meaning of adding a value to a group, and the visible result."""
