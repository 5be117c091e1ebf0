"""Nulls, and choosing among values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakehouse.errors import SqlError
from lakehouse.ksql.function.record import Function, function
from lakehouse.ksql.function.sql import copied
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax.kind import Kind

_FAMILY = "Nulls and choice"


def of_all(arguments: Sequence[Any]) -> Kind:
    """The type that all arguments have together."""
    kind = k.common([argument.kind for argument in arguments])
    if kind is None:
        raise SqlError(f"the arguments need one type, found {', '.join(str(a.kind) for a in arguments)}")
    return kind


FUNCTIONS: tuple[Function, ...] = (
    function(
        "COALESCE", _FAMILY, "any any*", "coalesce({all})", of_all,
        ("COALESCE(NULL, 2, 3)", 2), ("COALESCE(CAST(NULL AS VARCHAR))", None), nulls="the first that is not null",
    ),
    function(
        "IFNULL", _FAMILY, "any any", "coalesce({all})", of_all,
        ("IFNULL(CAST(NULL AS VARCHAR), 'a')", "a"), ("IFNULL('b', 'a')", "b"),
        nulls="the second, if the first is null",
    ),
    function(
        "NULLIF", _FAMILY, "any any", "CASE WHEN {0} = {1} THEN NULL ELSE {0} END", 0,
        ("NULLIF('a', 'a')", None), ("NULLIF('a', 'b')", "a"), ("NULLIF('a', CAST(NULL AS VARCHAR))", "a"),
        nulls="null, if both are equal",
    ),
    function(
        "AS_VALUE", _FAMILY, "any", copied("{0}"), 0, ("AS_VALUE('a')", "a"), nulls="the argument itself",
    ),
)  # fmt: skip
