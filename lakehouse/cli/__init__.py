"""The `lakehouse` command: a module for each command or two; `groups` has the place of each, `main` runs them.

A command imports its parts when it runs, so a command without Spark does not import it.
"""
