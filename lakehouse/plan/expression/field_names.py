"""Rename rows between the names of a topic's fields and the names of columns.

A format that ends with "+named", such as "json+named", contains the original names of the fields; SQL has derived the
names of the columns from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from sqlglot import exp

from lakehouse.plan.expression.schema import Column, base_type, fields_of, parse_type
from lakehouse.plan.names.field import is_escaped

Renamer = Callable[[Any], Any]
OptionalRow = dict[str, Any] | None


def rename_columns(
    row: Mapping[str, Any] | None, columns: tuple[Column, ...], new_columns: tuple[Column, ...]
) -> OptionalRow:
    """Return a row with its columns renamed to `new_columns`, by place, inside structs too.

    A column that is missing in the row is null; other columns of the row are left out.
    """
    if row is None:
        return None
    return {
        new_column.name: _cached_renamer(column.type, new_column.type)(row.get(column.name))
        for column, new_column in zip(columns, new_columns, strict=True)
    }


def name_fields(value: Any, value_type: str) -> Any:
    """Return a value with the original names of the fields in its structs, from which SQL has derived theirs.

    Its type alone says what is a name: the keys of maps and all texts are data, and stay.
    """
    if not is_escaped(value_type):
        return value
    (named_column,) = fields_of((Column("value", value_type),))
    return _cached_renamer(value_type, named_column.type)(value)


@lru_cache(maxsize=1024)
def _cached_renamer(old_type: str, new_type: str) -> Renamer:
    return (
        (lambda value: value) if old_type == new_type else _renamer_of_types(parse_type(old_type), parse_type(new_type))
    )


def _renamer_of_types(old_type: exp.DataType, new_type: exp.DataType) -> Renamer:
    base_name = base_type(old_type.sql("spark"))
    if base_name == "struct":
        member_pairs = list(zip(old_type.expressions, new_type.expressions, strict=True))
        renamed_members = [
            (old_member.name, new_member.name, _renamer_of_types(old_member.args["kind"], new_member.args["kind"]))
            for old_member, new_member in member_pairs
        ]
        return lambda value: (
            None
            if value is None
            else {new_name: rename(value.get(old_name)) for old_name, new_name, rename in renamed_members}
        )
    if base_name == "array":
        rename_item = _renamer_of_types(old_type.expressions[0], new_type.expressions[0])
        return lambda value: None if value is None else [rename_item(element) for element in value]
    if base_name == "map":
        rename_item = _renamer_of_types(old_type.expressions[-1], new_type.expressions[-1])
        return lambda value: None if value is None else {name: rename_item(element) for name, element in value.items()}
    return lambda value: value
