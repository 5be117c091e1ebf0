"""The syntax: a text becomes a statement, a frozen value, or an error that points at a place."""
