"""Nulls, and choosing among values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakehouse.errors import SqlError
from lakehouse.ksql.function.record import Function, function
from lakehouse.ksql.function.sql import Sql, copied, fitted
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax.kind import Kind

_FAMILY = "Nulls and choice"


def of_all(arguments: Sequence[Any]) -> Kind:
    """The type that all arguments have together."""
    kind = k.common([argument.kind for argument in arguments])
    if kind is None:
        raise SqlError(f"the arguments need one type, found {', '.join(str(a.kind) for a in arguments)}")
    return kind


def _first(*given: Sql) -> str:
    """The first value that is not null."""
    kind = of_all(given)
    return f"coalesce({', '.join(fitted(of, kind).text for of in given)})"


def _null_if(of: Sql, other: Sql) -> str:
    kind = of_all([of, other])
    if of.kind.is_null or other.kind.is_null:
        return of.text
    return f"CASE WHEN {comparable(of.text, kind)} = {comparable(other.text, kind)} THEN NULL ELSE {of.text} END"


def comparable(text: str, kind: Kind) -> str:
    """Return a value as Spark can compare it: of a map its entries, in order. Raises SqlError for a map inside."""
    if any(map(has_map, kind.inner)):
        raise SqlError(f"values of the type {kind} can't be compared")
    return f"array_sort(map_entries({text}))" if kind.name == "MAP" else text


def has_map(kind: Kind) -> bool:
    """Say whether a type is, or has anywhere in it, a map."""
    return kind.name == "MAP" or any(map(has_map, kind.inner))


FUNCTIONS: tuple[Function, ...] = (
    function(
        "COALESCE", _FAMILY, "any any*", _first, of_all,
        ("COALESCE(NULL, 2, 3)", 2), ("COALESCE(CAST(NULL AS VARCHAR))", None),
        ("COALESCE(CAST(NULL AS DECIMAL(4, 2)), CAST(7 AS BIGINT))", 7.0), nulls="the first that is not null",
    ),
    function(
        "IFNULL", _FAMILY, "any any", _first, of_all,
        ("IFNULL(CAST(NULL AS VARCHAR), 'a')", "a"), ("IFNULL('b', 'a')", "b"),
        nulls="the second, if the first is null",
    ),
    function(
        "NULLIF", _FAMILY, "any any", _null_if, 0,
        ("NULLIF('a', 'a')", None), ("NULLIF('a', 'b')", "a"), ("NULLIF('a', CAST(NULL AS VARCHAR))", "a"),
        ("NULLIF(MAP('a' := 1), MAP('a' := 1))", None),
        nulls="null, if both are equal",
    ),
    function(
        "AS_VALUE", _FAMILY, "any", copied("{0}"), 0, ("AS_VALUE('a')", "a"), nulls="the argument itself",
    ),
)  # fmt: skip
