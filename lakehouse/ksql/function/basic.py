"""Functions that replace nulls and choose among values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakehouse.errors import SqlError
from lakehouse.ksql.function.record import Function, define_function
from lakehouse.ksql.function.sql import Sql, copy_sql, fitted, let_sql, text_literal
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax.kind import Kind
from lakehouse.plan.expression.expression import name_text

_FAMILY = "Nulls and choice"


def common_argument_kind(arguments: Sequence[Any]) -> Kind:
    """Return the common type of all arguments."""
    kind = k.common_kind([argument.kind for argument in arguments])
    if kind is None:
        raise SqlError(
            f"the arguments need one type, found {', '.join(str(typed_argument.kind) for typed_argument in arguments)}"
        )
    return kind


def _first_non_null(*arguments: Sql) -> str:
    """Return the first value that is not null."""
    kind = common_argument_kind(arguments)
    return f"coalesce({', '.join(fitted(argument, kind).text for argument in arguments)})"


def _null_if(value: Sql, other: Sql) -> str:
    kind = common_argument_kind([value, other])
    if value.kind.is_null or other.kind.is_null:
        return value.text
    return f"CASE WHEN {comparable(value.text, kind)} = {comparable(other.text, kind)} THEN NULL ELSE {value.text} END"


def comparable(text: str, kind: Kind, depth: int = 0) -> str:
    """Return a value in a form that Spark can compare: each map becomes its entries, in order, also inside of others.

    depth: how many values are around; each has a name of its own.
    """
    item = f"_compared{depth}"
    if not has_map(kind):
        return text
    if kind.name == "ARRAY":
        return f"transform({text}, {item} -> {comparable(item, kind.inner[0], depth + 1)})"
    if kind.name == "MAP":
        entries = f"map_entries({text})"
        if has_map(kind.inner[1]):
            entry_value = comparable(f"{item}.value", kind.inner[1], depth + 1)
            entries = f"transform({entries}, {item} -> named_struct('key', {item}.key, 'value', {entry_value}))"
        return f"array_sort({entries})"

    def compare_fields(struct_text: str) -> str:
        field_texts = (
            f"{text_literal(name)}, {comparable(f'{struct_text}.{name_text(name)}', field_kind, depth + 1)}"
            for name, field_kind in zip(kind.names, kind.inner, strict=True)
        )
        return f"CASE WHEN {struct_text} IS NOT NULL THEN named_struct({', '.join(field_texts)}) END"

    return let_sql(text, item, compare_fields)


def has_map(kind: Kind) -> bool:
    """Say whether a type is or contains a map."""
    return kind.name == "MAP" or any(map(has_map, kind.inner))


FUNCTIONS: tuple[Function, ...] = (
    define_function(
        "COALESCE", _FAMILY, "any any*", _first_non_null, common_argument_kind,
        ("COALESCE(NULL, 2, 3)", 2), ("COALESCE(CAST(NULL AS VARCHAR))", None),
        ("COALESCE(CAST(NULL AS DECIMAL(4, 2)), CAST(7 AS BIGINT))", 7.0), nulls="the first that is not null",
    ),
    define_function(
        "IFNULL", _FAMILY, "any any", _first_non_null, common_argument_kind,
        ("IFNULL(CAST(NULL AS VARCHAR), 'a')", "a"), ("IFNULL('b', 'a')", "b"),
        nulls="the second, if the first is null",
    ),
    define_function(
        "NULLIF", _FAMILY, "any any", _null_if, 0,
        ("NULLIF('a', 'a')", None), ("NULLIF('a', 'b')", "a"), ("NULLIF('a', CAST(NULL AS VARCHAR))", "a"),
        ("NULLIF(MAP('a' := 1), MAP('a' := 1))", None),
        nulls="null, if both are equal",
    ),
    define_function(
        "AS_VALUE", _FAMILY, "any", copy_sql("{0}"), 0, ("AS_VALUE('a')", "a"), nulls="the argument itself",
    ),
)  # fmt: skip
