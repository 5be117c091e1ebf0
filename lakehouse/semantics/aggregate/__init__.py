"""Aggregates: what adding a value to a group means, and what a group shows."""
