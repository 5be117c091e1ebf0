"""Operators: the effect of a record on the rows of its key, without windows and in windows; and joins."""
