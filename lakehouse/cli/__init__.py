"""The `lakehouse` command: one module for each command or two; `groups` says which is found where, `main` runs them.

What needs no Spark does not import it: a command imports what it works with when it runs.
"""
