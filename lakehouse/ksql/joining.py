"""What FROM means, and a join while it is made of its sources, one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from lakehouse.ksql.catalog import Entry, SqlColumn
from lakehouse.ksql.expression import Seen, Visible
from lakehouse.ksql.function.sql import Sql, column
from lakehouse.ksql.items import Side
from lakehouse.ksql.syntax import tree as t
from lakehouse.ksql.syntax.statement import JoinClause, Query
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table


@dataclass(frozen=True, slots=True)
class JoinKey:
    """One way to select the key of a join. by: the text of the item that is it; shown: how a message names it."""

    by: str
    of: Sql
    shown: str


@dataclass(frozen=True, slots=True)
class Joined:
    """What FROM means: the node, its sides, the columns, the key's names.

    keys: the ways to select the key of a join; none if it is `key`. is_table: the node holds rows. rowkey: the
    name of a key that is no column of a source: ROWKEY, or ROWKEY_1 beside a column of that name.
    """

    node: Stream | Table
    sides: tuple[Side, ...]
    scope: Visible
    key: tuple[str, ...]
    keys: tuple[JoinKey, ...] = ()
    is_table: bool = False
    rowkey: str = ""


@dataclass(slots=True)
class Joining:
    """The join so far.

    key: that of its rows, if it has some. keys: the ways to select the key, once it has joined. equal: what the last
    ON, and those before it by the same key, say to be equal, as texts.
    """

    query: Query
    name: str
    node: Stream | Table
    seen: list[Seen]
    pseudo: list[Seen]
    sides: list[Side]
    key: list[Sql]
    is_table: bool
    keys: list[JoinKey] = field(default_factory=list)
    equal: set[str] = field(default_factory=set)
    rowkey: str = ""

    @property
    def scope(self) -> Visible:
        return Visible(tuple(self.seen), tuple(self.pseudo))

    def add(self, right: Entry, alias: str, prefix: str) -> None:
        """Take in the right side's values."""
        self.seen += [Seen(c.name, alias, column(prefix + c.name, c.kind)) for c in right.columns if not c.is_key]
        self.sides.append(Side(alias, right.columns))

    def names(self, besides: JoinClause | None = None) -> list[t.Name]:
        """The columns that the query names, besides those in the ON of a join."""
        query = self.query
        every = [item.expression for item in query.items if item.expression is not None]
        every += [one for one in (query.where, query.having) if one is not None]
        every += [*query.group_by, *query.partition_by, *(join.on for join in query.joins if join is not besides)]
        return [part for node in every for part in node.walk() if isinstance(part, t.Name)]

    def reads_key(self, alias: str, columns: tuple[SqlColumn, ...], besides: JoinClause) -> bool:
        """Whether the query reads the key of this side, besides the ON of a join."""
        if any(item.expression is None and item.of in (None, alias) for item in self.query.items):
            return True
        keys = {c.name for c in columns if c.is_key}
        return any(part.name in keys and part.of in (None, alias) for part in self.names(besides))

    def with_time(self, table: Table, alias: str) -> tuple[Table, str]:
        """A table, and the name of a column with the ROWTIME of its rows; empty if the query does not name that.

        The time of a row is not part of it, so a table of rows with their times is kept.
        """
        if not any((part.of, part.name) == (alias, "ROWTIME") for part in self.names()):
            return table, ""
        name = free(f"{alias}_ROWTIME", table)
        return table.rows.with_columns(**{name: "rowtime"}).latest(f"{self.name}_{alias}_ROWTIME"), name

    def placed(self, stream: Stream, pseudo: Iterable[Seen]) -> tuple[Stream, list[Seen]]:
        """A stream with a column for each of its pseudo columns that the query names with its source."""
        named = {(part.of, part.name) for part in self.names()}
        kept = {free(f"{one.of}_{one.name}", stream): one for one in pseudo if (one.of, one.name) in named}
        made = stream.with_columns(**{name: one.sql.text for name, one in kept.items()}) if kept else stream
        return made, [Seen(one.name, one.of, column(name, one.sql.kind)) for name, one in kept.items()]


def free(name: str, of: Stream | Table) -> str:
    """Return a name that no column of a stream or a table has: this one, or one like it."""
    while any(one.name.lower() == name.lower() for one in of.columns):
        name += "_"
    return name
