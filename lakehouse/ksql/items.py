"""The items of a SELECT under their names, by ksqlDB's rules: KSQL_COL_0 for an item without a name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lakehouse.errors import SqlError
from lakehouse.ksql.catalog import BOUNDS, PSEUDO, SqlColumn, checked_name
from lakehouse.ksql.expression.expression import ColumnScope
from lakehouse.ksql.function.aggregate import AGGREGATES
from lakehouse.ksql.function.table import TABLE_FUNCTIONS
from lakehouse.ksql.syntax import tree as t
from lakehouse.ksql.syntax.statement import Item
from lakehouse.plan.names.field import column_name, field_name

RESERVED = (*PSEUDO, *BOUNDS)


@dataclass(frozen=True, slots=True)
class NamedItem:
    """An expression and its name in the result."""

    name: str
    expression: t.Expr


@dataclass(frozen=True, slots=True)
class Side:
    """One source of a SELECT, under its alias."""

    alias: str
    columns: tuple[SqlColumn, ...]

    def with_key_last(self) -> Side:
        """Return the side with * for a PARTITION BY that makes another key: the values, the old key, its window."""
        key_columns = [side_column for side_column in self.columns if side_column.is_key]
        bound_columns = [
            side_column for side_column in self.columns if side_column.name in BOUNDS and not side_column.is_key
        ]
        return Side(
            self.alias,
            (
                *(side_column for side_column in self.columns if side_column not in (*key_columns, *bound_columns)),
                *key_columns,
                *bound_columns,
            ),
        )


def named_items(
    item_list: Iterable[Item], sides: Sequence[Side], scope: ColumnScope, *, rowkey: str = ""
) -> list[NamedItem]:
    """Return the items with * spelled out, each under its name. Raises SqlError for a name that stands twice.

    rowkey: the name of a join's key that is no column; * begins with it.
    """
    result_items: list[NamedItem] = []
    clashing_names = _clashing_names(sides)
    item_list = list(item_list)
    taken_names = {column.name for side in sides for column in side.columns} | {item.alias for item in item_list}
    next_number = 0
    for item in item_list:
        if item.expression is None:
            if rowkey and item.source is None:
                result_items.append(NamedItem(rowkey, t.Name(rowkey, position=item.position)))
            result_items += _expand_star(item, sides)
        elif isinstance(item.expression, t.FieldOf) and item.expression.name is None:
            struct_node = item.expression.operand
            result_items += [
                NamedItem(result_item, t.FieldOf(struct_node, result_item, position=item.position))
                for result_item in scope.sql(struct_node).kind.names
            ]
        elif item.alias is not None:
            check_alias(item)
            result_items.append(NamedItem(checked_name(item.alias, "column", item.position), item.expression))
        elif isinstance(item.expression, t.Name):
            result_items.append(NamedItem(_column_name(item.expression, clashing_names), item.expression))
        elif isinstance(item.expression, t.FieldOf):
            assert item.expression.name is not None
            # Names of the source's columns are taken, too: s->id beside a column ID becomes ID_1.
            free_name = _free_field_name(
                item.expression.name, taken_names | {result_item.name for result_item in result_items}
            )
            result_items.append(NamedItem(free_name, item.expression))
        else:
            while f"KSQL_COL_{next_number}" in taken_names:
                next_number += 1
            result_items.append(NamedItem(f"KSQL_COL_{next_number}", item.expression))
            next_number += 1
    result_names = [result_item.name for result_item in result_items]
    for result_item in result_items:
        if result_names.count(result_item.name) > 1:
            raise SqlError(
                f"the projection contains the column {result_item.name} more than once. Give it an alias: AS ...",
                result_item.expression.position,
            )
    return result_items


def check_alias(item: Item) -> None:
    """Raise SqlError for an alias that ksqlDB reserves for a record's or a window's own columns."""
    alias = (item.alias or "").upper()
    is_own_name = isinstance(item.expression, t.Name | t.FieldOf) and (item.expression.name or "").upper() == alias
    if alias in RESERVED and not is_own_name:
        raise SqlError(f"{alias} is a reserved column name. You cannot use it as an alias for a column", item.position,
                       expected="another name")  # fmt: skip


def _expand_star(item: Item, sides: Sequence[Side]) -> list[NamedItem]:
    chosen_sides = [side for side in sides if item.source in (None, side.alias)]
    if not chosen_sides:
        raise SqlError(f"'{item.source}' is not a source of this statement", item.position)
    has_prefix = len(sides) > 1
    return [
        NamedItem(
            _prefixed_name(side.alias, column.name) if has_prefix else column.name,
            t.Name(column.name, side.alias, position=item.position),
        )
        for side in chosen_sides
        for column in side.columns
    ]


def _column_name(node: t.Name, clashing_names: set[str]) -> str:
    return (
        _prefixed_name(node.source, node.name) if node.source is not None and node.name in clashing_names else node.name
    )


def _prefixed_name(alias: str, name: str) -> str:
    return column_name(f"{field_name(alias)}_{field_name(name)}")


def _clashing_names(sides: Sequence[Side]) -> set[str]:
    column_names = [column.name for side in sides for column in side.columns]
    return {name for name in column_names if column_names.count(name) > 1} | (set(PSEUDO) if len(sides) > 1 else set())


def _free_field_name(name: str, taken_names: set[str | None]) -> str:
    """Return a struct field's name, with a number if the name is taken."""
    number, free_name = 0, name
    while free_name in taken_names:
        number += 1
        free_name = f"{name}_{number}"
    return free_name


def shown_expression(node: t.Expr) -> str:
    """Return an expression for a message, as it can be written in SQL; an ellipsis for its longer parts."""
    match node:
        case t.Name():
            return node.name if node.source is None else f"{node.source}.{node.name}"
        case t.FieldOf(name=str() as name):
            return f"{shown_expression(node.operand)}->{name}"
        case t.Call():
            return f"{node.name}({', '.join(map(shown_expression, node.arguments))})"
        case t.Binary():
            return f"{shown_expression(node.left)} {node.sign} {shown_expression(node.right)}"
        case t.Value(value=int() | str() as value) if not isinstance(value, bool):
            return "'{}'".format(value.replace("'", "''")) if isinstance(value, str) else str(value)
    return "..."


def aggregates_in(node: t.Expr) -> list[t.Call]:
    """Return the calls of aggregates in an expression."""
    return [part for part in node.walk() if isinstance(part, t.Call) and part.name in AGGREGATES]


def table_functions_in(node: t.Expr) -> list[t.Call]:
    """Return the calls of table functions, which give several rows."""
    return [part for part in node.walk() if isinstance(part, t.Call) and part.name in TABLE_FUNCTIONS]


def check_places(node: t.Expr) -> None:
    """Raise SqlError for a table function where none can stand: in CASE, in a lambda, in another one."""
    for outer_node in node.walk():
        match outer_node:
            case t.CaseOf():
                reason = "cannot be used in CASE: the rows that it gives would not depend on the condition"
            case t.Lambda():
                reason = "cannot be used in a lambda"
            case t.Call() if outer_node.name in TABLE_FUNCTIONS:
                reason = f"cannot be nested: {outer_node.name} gives several rows already"
            case _:
                continue
        inner_calls = [call for inner_part in outer_node.parts() for call in table_functions_in(inner_part)]
        if inner_calls:
            raise SqlError(
                f"table functions {reason}. Select {inner_calls[0].name}(...) in a stream before",
                inner_calls[0].position,
            )
