"""Refuse types that Spark can't make, or that a key or a JSON object can't have."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from lakehouse.errors import PlanError
from lakehouse.semantics.decimal_digits import DECIMAL_DIGITS_MAX

_TYPE = exp.DataType.Type
# How many types stand inside of a type, and how it is written with them.
_INNER_TYPES = {
    _TYPE.ARRAY: (1, "array<string>"),
    _TYPE.MAP: (2, "map<string, int>"),
    _TYPE.STRUCT: (None, "struct<city: string>"),
}


def check_parameters(part: exp.DataType, base_name: str, subject: str) -> None:
    """Raise PlanError for a type without the types inside of it, or with digits that it can't have."""
    type_sql, parameters = part.sql("spark").lower(), part.expressions
    if part.this in _INNER_TYPES:
        inner_count, example = _INNER_TYPES[part.this]
        if not parameters or inner_count not in (None, len(parameters)):
            raise PlanError(f"{subject}: {type_sql!r} does not say what is in it. Write it as {example!r}.")
    elif base_name == "decimal":
        precision, scale, *others = (*map(_number_of, parameters), *(10, 0)[len(parameters) :])
        if others or not 1 <= precision <= DECIMAL_DIGITS_MAX or not 0 <= scale <= precision:
            raise PlanError(
                f"{subject}: {type_sql!r}: a decimal has 1 to {DECIMAL_DIGITS_MAX} digits, and at most as many of "
                "them after the point: 'decimal(10, 2)'."
            )
    elif parameters:
        raise PlanError(f"{subject}: {type_sql!r}: a {base_name} has no length. Write {base_name!r}.")


def check_cast_type(target_type: exp.DataType, subject: str) -> None:
    """Raise PlanError for a cast to a type without the types inside of it, or to a decimal that Spark does not have."""
    for part in target_type.find_all(exp.DataType):
        if part.this in (*_INNER_TYPES, _TYPE.DECIMAL):
            check_parameters(part, part.this.value.lower(), subject)


def check_json_type(parsed_type: exp.DataType, subject: str) -> None:
    """Raise PlanError for a map whose keys are no texts: the names in a JSON object are texts."""
    for part in parsed_type.find_all(exp.DataType):
        if part.this == _TYPE.MAP and part.expressions[0].this != _TYPE.TEXT:
            raise PlanError(
                f"{subject}: {part.sql('spark').lower()!r}: the names in a JSON object are texts, so the keys of a map "
                f"are, too. Write 'map<string, {part.expressions[1].sql('spark').lower()}>', and cast the keys in a "
                "select: transform_keys(m, (k, v) -> cast(k AS int))."
            )


def check_key_types(named_types: Iterable[tuple[str, str | None]], subject: str) -> None:
    """Raise PlanError for a key with a map in it: a map's entries have no order, so Spark can't compare maps.

    named_types: the key's columns with their types; None or "" for a type that only Spark can tell.
    """
    for name, type_text in named_types:
        parsed_types = exp.DataType.build(type_text, dialect="spark").find_all(exp.DataType) if type_text else ()
        if any(part.this == _TYPE.MAP for part in parsed_types):
            raise PlanError(
                f"{subject}: {name!r} is a {type_text}, and a key can't have a map in it: maps have no order. Take the "
                f"entries in their order, array_sort(map_entries({name})), or one of the values."
            )


def _number_of(parameter: exp.Expr) -> int:
    return int(parameter.name) if parameter.name.isdigit() else 0
