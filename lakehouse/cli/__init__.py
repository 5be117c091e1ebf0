"""The `lakehouse` command: one module for each command or two, `main` puts them together.

What needs no Spark does not import it: a command imports what it works with when it runs.
"""
