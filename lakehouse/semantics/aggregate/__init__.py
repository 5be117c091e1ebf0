"""Aggregates: the meaning of adding a value to a group, and what a group shows."""
