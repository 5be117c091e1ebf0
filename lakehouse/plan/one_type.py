"""The type of one value, as a declaration has it beside a name."""

from __future__ import annotations

from lakehouse.errors import PlanError
from lakehouse.plan.expression.schema import parse_schema
from lakehouse.plan.names.field import mark_fields
from lakehouse.plan.refused.steps import value_in_message


def parse_one_type(type_text: str, subject: str, name: str = "x") -> str:
    """Return a type as Spark writes it. name: that of its column, in messages.

    Raises PlanError for a text that is not one type and nothing else.
    """
    expected = 'expected one type, such as "bigint" or "struct<n: bigint, total: double>"'
    if not isinstance(type_text, str):
        raise PlanError(f"{subject}: found {value_in_message(type_text)}, {expected}.")
    columns = parse_schema(f"`{name}` {type_text}", subject)
    if len(columns) != 1 or mark_fields(type_text)[1]:
        raise PlanError(f"{subject}: found {type_text!r}, {expected}. Names of fields in a topic belong to a schema.")
    return columns[0].type
