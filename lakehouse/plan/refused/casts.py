"""Refuse casts to a struct whose fields may be too small for their values: Spark wraps these around, without a guard.

A cast of a number, an array or a map gives null for values that its type can't hold
(`lakehouse.spark.expression.cast_values`). A struct has no such guard: Spark casts its fields by their places, not by
their names, and SQL can't read fields by place.
"""

from __future__ import annotations

from sqlglot import exp

from lakehouse.errors import ExpressionError

_TYPE = exp.DataType.Type
# Types that can't hold every value that Spark casts to them without an error.
_NARROW = (
    _TYPE.TINYINT, _TYPE.SMALLINT, _TYPE.INT, _TYPE.BIGINT, _TYPE.DECIMAL, _TYPE.TIMESTAMP, _TYPE.TIMESTAMPTZ,
    _TYPE.TIMESTAMPLTZ, _TYPE.TIMESTAMPNTZ,
)  # fmt: skip


def check_cast(node: exp.Expr, value_text: str, subject: str, sql_text: str) -> None:
    """Raise ExpressionError for a cast, in a typed tree, to a struct with a field that may not hold its value.

    value_text: the value that is cast, as it is written.
    """
    target_type = node.args["to"]
    if isinstance(node.this, exp.Null) or node.this.type == target_type:
        return
    struct_types = (inner_type for inner_type in target_type.find_all(exp.DataType) if inner_type.this == _TYPE.STRUCT)
    fields = (field for struct_type in struct_types for field in struct_type.expressions)
    if (narrow_field := next(filter(_is_narrow, fields), None)) is not None:
        name, field_type = narrow_field.name, narrow_field.kind.sql("spark").lower()
        raise ExpressionError(
            f"{subject}: {sql_text!r} casts to a struct, whose field {name!r} as {field_type} would wrap around where "
            "a value does not fit. Make the struct of casts, which are null there: "
            f"named_struct('{name}', cast({value_text}.{name} AS {field_type})); inside of an array, by "
            "transform."
        )


def _is_narrow(field: exp.Expr) -> bool:
    return any(field_type.this in _NARROW for field_type in field.find_all(exp.DataType))
