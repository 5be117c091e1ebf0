"""Parse SQL text to a tree without loss: each function under its own name, with all its arguments in their order.

sqlglot's own trees serve all dialects: for Spark they have one node for array_size and size, which treat null
differently, and no place for the format of to_char. They only serve for types: see
`lakehouse.plan.expression.type_checks`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser

# Functions with words between their arguments.
WORDED = ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "OVERLAY", "POSITION", "SUBSTRING", "SUBSTR")
# Functions whose first argument is a word, a unit of time, not a column.
WITH_UNIT = ("timestampadd", "timestampdiff", "dateadd", "date_add", "datediff", "date_diff")

# The errors that sqlglot raises, beside its own, for a call with fewer or other arguments than it expects.
SQLGLOT_FAULTS = (AttributeError, LookupError, TypeError, ValueError)
OTHER_ARGUMENTS = "a function has other arguments than it takes."


class WrittenParser(SparkParser):
    """A parser that keeps each call's own name, and its arguments in their order."""

    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    # In other dialects list[0] is an array with one element; in Spark it is an element of the column `list`.
    ARRAY_CONSTRUCTORS: ClassVar[dict[str, Any]] = {}
    NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: parse for name, parse in SparkParser.NO_PAREN_FUNCTION_PARSERS.items() if name != "TRANSFORM"
    }
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: parse for name, parse in SparkParser.FUNCTION_PARSERS.items() if name in WORDED
    }


class WrittenSpark(Spark):
    """Spark's dialect, with functions that keep their names."""

    Parser = WrittenParser


@lru_cache(maxsize=4096)
def parse_as_written(sql_text: str) -> exp.Expression:
    """Return the tree of one expression in Spark's SQL. The tree is shared: do not change it."""
    tree: exp.Expression = sqlglot.parse_one(f"SELECT {sql_text}", read=WrittenSpark).expressions[0]
    for call in tree.find_all(exp.Anonymous):
        if (
            name_of_call(call) in WITH_UNIT
            and len(call.expressions) == 3
            and isinstance(call.expressions[0], exp.Column)
        ):
            call.expressions[0].replace(exp.var(call.expressions[0].name))
    return tree


def name_of_call(call: exp.Anonymous) -> str:
    """Return a function's name in lower case."""
    return str(call.this).lower()


def error_place(error: sqlglot.errors.SqlglotError) -> str:
    """Return ", at 'word'" for a parser's error, if it has a place; its own text names sqlglot's classes."""
    details = error.errors[0] if isinstance(error, sqlglot.errors.ParseError) and error.errors else {}
    highlighted_word = str(details.get("highlight") or "").strip()
    if highlighted_word == ")" and str(details.get("description")).startswith("Required keyword"):
        return f": a function has too few arguments: {details['start_context'].removeprefix('SELECT ')})"
    if details and not str(details.get("end_context") or "").strip():
        return f": something is missing after {highlighted_word!r}, or a parenthesis or a quote is not closed"
    return f", at {highlighted_word!r}" if highlighted_word else ": a parenthesis or a quote is not closed"
