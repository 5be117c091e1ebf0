"""Repairs of a lake, and new tables made from its past."""
