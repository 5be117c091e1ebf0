"""How large a value may be that a function makes of what a record says: a larger one is null."""

MADE_MAX = 10_000_000  # characters of a text, elements of an array
