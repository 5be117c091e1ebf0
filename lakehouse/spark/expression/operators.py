"""Catalyst's nodes of Spark's operators, with records like those of functions (`lakehouse.plan.spark_functions`)."""

from __future__ import annotations

from itertools import chain

from lakehouse.plan.spark_functions.record import SparkFunction, make_records, word_set
from lakehouse.plan.spark_functions.table import function_named

LEAVES = word_set("UnresolvedAttribute Literal UnresolvedNamedLambdaVariable NamePlaceholder")  # they have no arguments
_RECORDS = (
    make_records("LambdaFunction", raises=False),
    make_records("Alias Cast CaseWhen CreateNamedStruct If UnresolvedExtractValue", raises=False, size="linear"),
    make_records("Concat Literal NamePlaceholder", size="linear"),
    make_records(
        """
        And EqualNullSafe EqualTo GreaterThan GreaterThanOrEqual In IsNotNull IsNull LessThan LessThanOrEqual Not Or
        """,
        raises=False,
        size="small",
    ),
    make_records("Add Divide IntegralDivide Multiply Remainder Subtract UnaryMinus UnaryPositive", size="small"),
    # The parser has these nodes instead of the functions.
    make_records("TimestampAdd", moments=(1,)),
    make_records("TimestampDiff", moments=(0, 1)),
)
_OPERATORS = {record.name: record for record in chain.from_iterable(_RECORDS)} | {
    "ILike": function_named("ilike"), "Like": function_named("like"), "RLike": function_named("rlike"),
}  # fmt: skip


def record_of_node(kind: str, name: str) -> SparkFunction:
    """Return the record of a node. kind: its class; name: the name of the function, if the node is a call."""
    return function_named(name) if name else _OPERATORS.get(kind, function_named(""))
