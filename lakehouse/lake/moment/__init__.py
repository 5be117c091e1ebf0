"""Moments of the past: the version, the ticks and the rows that belong to a moment."""
