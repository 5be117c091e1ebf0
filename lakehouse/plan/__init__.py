"""Declarations as frozen values, and the checks that refuse an impossible one."""

import logging

# sqlglot writes what it can't read on stderr, where users would take it for our message: it raises an error, too, or
# gives a tree that is refused.
logging.getLogger("sqlglot").setLevel(logging.ERROR)
