"""The items of a SELECT under their names, as ksqlDB gives them: KSQL_COL_0 for what has none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lakehouse.errors import SqlError
from lakehouse.ksql.catalog import BOUNDS, PSEUDO, SqlColumn, checked_name
from lakehouse.ksql.expression import Visible
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
        """Return what * means where PARTITION BY makes another key: the values, then the key until now, its window."""
        key = [one for one in self.columns if one.is_key]
        bounds = [one for one in self.columns if one.name in BOUNDS and not one.is_key]
        return Side(self.alias, (*(one for one in self.columns if one not in (*key, *bounds)), *key, *bounds))


def named_items(items: Iterable[Item], sides: Sequence[Side], scope: Visible, *, rowkey: str = "") -> list[NamedItem]:
    """Return the items with * spelled out, each under its name. Raises SqlError for a name that is given twice.

    rowkey: the name of a join's key that no column is; * begins with it.
    """
    found: list[NamedItem] = []
    clashing = _clashing(sides)
    items = list(items)
    taken = {column.name for side in sides for column in side.columns} | {item.alias for item in items}
    number = 0
    for item in items:
        if item.expression is None:
            if rowkey and item.of is None:
                found.append(NamedItem(rowkey, t.Name(rowkey, at=item.at)))
            found += _every(item, sides)
        elif isinstance(item.expression, t.FieldOf) and item.expression.name is None:
            of = item.expression.of
            found += [NamedItem(one, t.FieldOf(of, one, at=item.at)) for one in scope.sql(of).kind.names]
        elif item.alias is not None:
            check_alias(item)
            found.append(NamedItem(checked_name(item.alias, "column", item.at), item.expression))
        elif isinstance(item.expression, t.Name):
            found.append(NamedItem(_column_name(item.expression, clashing), item.expression))
        elif isinstance(item.expression, t.FieldOf):
            assert item.expression.name is not None
            # The name of a column of the source is taken, too: s->id beside a column ID is ID_1.
            free = _free(item.expression.name, taken | {one.name for one in found})
            found.append(NamedItem(free, item.expression))
        else:
            while f"KSQL_COL_{number}" in taken:
                number += 1
            found.append(NamedItem(f"KSQL_COL_{number}", item.expression))
            number += 1
    names = [one.name for one in found]
    for one in found:
        if names.count(one.name) > 1:
            raise SqlError(f"the projection contains the column {one.name} more than once. Give it an alias: AS ...",
                           one.expression.at)  # fmt: skip
    return found


def check_alias(item: Item) -> None:
    """Raise SqlError for an alias that ksqlDB keeps for what every record or window has, of something else."""
    alias = (item.alias or "").upper()
    own = isinstance(item.expression, t.Name | t.FieldOf) and (item.expression.name or "").upper() == alias
    if alias in RESERVED and not own:
        raise SqlError(f"{alias} is a reserved column name. You cannot use it as an alias for a column", item.at,
                       expected="another name")  # fmt: skip


def _every(item: Item, sides: Sequence[Side]) -> list[NamedItem]:
    chosen = [side for side in sides if item.of in (None, side.alias)]
    if not chosen:
        raise SqlError(f"'{item.of}' is not a source of this statement", item.at)
    prefixed = len(sides) > 1
    return [
        NamedItem(
            _prefixed(side.alias, column.name) if prefixed else column.name, t.Name(column.name, side.alias, at=item.at)
        )
        for side in chosen
        for column in side.columns
    ]


def _column_name(node: t.Name, clashing: set[str]) -> str:
    return _prefixed(node.of, node.name) if node.of is not None and node.name in clashing else node.name


def _prefixed(alias: str, name: str) -> str:
    return column_name(f"{field_name(alias)}_{field_name(name)}")


def _clashing(sides: Sequence[Side]) -> set[str]:
    names = [column.name for side in sides for column in side.columns]
    return {name for name in names if names.count(name) > 1} | (set(PSEUDO) if len(sides) > 1 else set())


def _free(name: str, taken: set[str | None]) -> str:
    """A struct's field keeps its name; a second one of the name gets a number."""
    number, shown = 0, name
    while shown in taken:
        number += 1
        shown = f"{name}_{number}"
    return shown


def aggregates_in(node: t.Expr) -> list[t.Call]:
    """Return the calls of aggregates in an expression."""
    return [part for part in node.walk() if isinstance(part, t.Call) and part.name in AGGREGATES]


def table_functions_in(node: t.Expr) -> list[t.Call]:
    """Return the calls of functions that give several rows."""
    return [part for part in node.walk() if isinstance(part, t.Call) and part.name in TABLE_FUNCTIONS]


def check_places(node: t.Expr) -> None:
    """Raise SqlError for a function of several rows where it can't stand: in CASE, a lambda, another such one."""
    for around in node.walk():
        match around:
            case t.CaseOf():
                where = "cannot be used in CASE: the rows that it gives would not depend on the condition"
            case t.Lambda():
                where = "cannot be used in a lambda"
            case t.Call() if around.name in TABLE_FUNCTIONS:
                where = f"cannot be nested: {around.name} gives several rows already"
            case _:
                continue
        inner = [call for part in around.parts() for call in table_functions_in(part)]
        if inner:
            raise SqlError(f"table functions {where}. Select {inner[0].name}(...) in a stream before", inner[0].at)
