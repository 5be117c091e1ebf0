"""The meaning of FROM, and a join in the making, source by source."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from lakehouse.ksql.catalog import Entry, SqlColumn
from lakehouse.ksql.expression.expression import ColumnScope, ScopeColumn
from lakehouse.ksql.function.sql import Sql, column_sql
from lakehouse.ksql.items import Side
from lakehouse.ksql.syntax import tree as t
from lakehouse.ksql.syntax.statement import JoinClause, Query
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table


@dataclass(frozen=True, slots=True)
class JoinKey:
    """One way to select the key of a join. item_text: an item that selects it; message_text: its form in a message."""

    item_text: str
    expression: Sql
    message_text: str


@dataclass(frozen=True, slots=True)
class FromResult:
    """The meaning of FROM: the node, its sides, the columns, the key's names.

    keys: the ways to select the key of a join; none if it is `key`. is_table: the node holds rows. rowkey: the
    name of a key that is no column of a source: ROWKEY, or ROWKEY_1 beside a column of that name.
    """

    node: Stream | Table
    sides: tuple[Side, ...]
    scope: ColumnScope
    key: tuple[str, ...]
    keys: tuple[JoinKey, ...] = ()
    is_table: bool = False
    rowkey: str = ""


@dataclass(slots=True)
class JoinBuilder:
    """The join so far.

    key: the key of its rows, if they have one. keys: the ways to select the key, after the first ON. equal: the
    texts of the expressions that are equal by the last ON, and by those before it with the same key.
    """

    query: Query
    name: str
    node: Stream | Table
    scope_columns: list[ScopeColumn]
    pseudo_columns: list[ScopeColumn]
    sides: list[Side]
    key: list[Sql]
    is_table: bool
    keys: list[JoinKey] = field(default_factory=list)
    equal: set[str] = field(default_factory=set)
    rowkey: str = ""

    @property
    def scope(self) -> ColumnScope:
        return ColumnScope(tuple(self.scope_columns), tuple(self.pseudo_columns))

    def add(self, right: Entry, alias: str, prefix: str) -> None:
        """Add the right side's values."""
        self.scope_columns += [
            ScopeColumn(right_column.name, alias, column_sql(prefix + right_column.name, right_column.kind))
            for right_column in right.columns
            if not right_column.is_key
        ]
        self.sides.append(Side(alias, right.columns))

    def names(self, skipped_join: JoinClause | None = None) -> list[t.Name]:
        """Return the columns that the query names, without those in the ON of `skipped_join`."""
        query = self.query
        expressions = [item.expression for item in query.items if item.expression is not None]
        expressions += [clause_node for clause_node in (query.where, query.having) if clause_node is not None]
        expressions += [
            *query.group_by,
            *query.partition_by,
            *(join.condition for join in query.joins if join is not skipped_join),
        ]
        return [part for node in expressions for part in node.walk() if isinstance(part, t.Name)]

    def reads_key(self, alias: str, columns: tuple[SqlColumn, ...], skipped_join: JoinClause) -> bool:
        """Say whether the query reads this side's key outside the ON of `skipped_join`."""
        if any(item.expression is None and item.source in (None, alias) for item in self.query.items):
            return True
        key_names = {side_column.name for side_column in columns if side_column.is_key}
        return any(part.name in key_names and part.source in (None, alias) for part in self.names(skipped_join))

    def with_time(self, table: Table, alias: str) -> tuple[Table, str]:
        """Return a table, and the name of its column for ROWTIME; empty if the query does not name ROWTIME.

        A row does not contain its time, so a table of rows with their times is kept.
        """
        if not any((part.source, part.name) == (alias, "ROWTIME") for part in self.names()):
            return table, ""
        time_column = free_column_name(f"{alias}_ROWTIME", table)
        return table.rows.with_columns(**{time_column: "rowtime"}).latest(f"{self.name}_{alias}_ROWTIME"), time_column

    def with_pseudo_columns(self, stream: Stream, pseudo: Iterable[ScopeColumn]) -> tuple[Stream, list[ScopeColumn]]:
        """Return a stream with a column for each pseudo column that the query names with its source."""
        named_columns = {(part.source, part.name) for part in self.names()}
        columns_by_name = {
            free_column_name(f"{pseudo_column.source}_{pseudo_column.name}", stream): pseudo_column
            for pseudo_column in pseudo
            if (pseudo_column.source, pseudo_column.name) in named_columns
        }
        extended_stream = (
            stream.with_columns(**{name: pseudo_column.sql.text for name, pseudo_column in columns_by_name.items()})
            if columns_by_name
            else stream
        )
        return extended_stream, [
            ScopeColumn(pseudo_column.name, pseudo_column.source, column_sql(name, pseudo_column.sql.kind))
            for name, pseudo_column in columns_by_name.items()
        ]


def free_column_name(name: str, node: Stream | Table) -> str:
    """Return a name that no column of a stream or a table has: this one, or a variant of it."""
    while any(node_column.name.lower() == name.lower() for node_column in node.columns):
        name += "_"
    return name
