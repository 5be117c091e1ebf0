"""JOIN: a stream with a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lakehouse.errors import SqlError
from lakehouse.ksql.catalog import Entry
from lakehouse.ksql.expression import Seen, Visible
from lakehouse.ksql.function.sql import Sql, column
from lakehouse.ksql.items import Side
from lakehouse.ksql.syntax import tree as t
from lakehouse.ksql.syntax.kind import Kind
from lakehouse.ksql.syntax.statement import JoinClause, Query
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table

KEY_OF_LEFT = (
    "of the table of a LEFT JOIN, only the values are there; its key equals the stream's side of ON, or is null"
)
Find = Callable[[str, int], Entry]


@dataclass(frozen=True, slots=True)
class Joined:
    """What FROM means: the node, its sides, the columns, the key's names, and the key of a join if it is another."""

    node: Stream | Table
    sides: tuple[Side, ...]
    scope: Visible
    key: tuple[str, ...]
    rekeyed: Sql | None = None


def joined(query: Query, left: Entry, find: Find) -> Joined:
    """Return the join of a query's sources, one after the other. Raises SqlError for one that is not here."""
    aliases = [query.relation.alias, *(join.right.alias for join in query.joins)]
    for join in query.joins:
        if aliases.count(join.right.alias) > 1:
            raise SqlError(f"two sources have the name {join.right.alias}. Give them aliases", join.right.at)
    first = query.relation.alias
    node = left.made.node
    seen = [Seen(c.name, first, column(c.name, c.kind)) for c in left.columns]
    pseudo = tuple(Seen(c.name, first, column(c.name.lower(), c.kind)) for c in left.pseudo)
    sides, key = [Side(first, left.columns)], [column(name, _kind(left, name)) for name in left.made.key]
    absent: dict[tuple[str, str], str] = {}
    for join in query.joins:
        right = find(join.right.name, join.right.at)
        if not isinstance(node, Stream) or not isinstance(right.made.node, Table):
            raise SqlError(_not_here(node, right), join.at)
        if join.how not in ("inner", "left"):
            raise SqlError("a stream joins a table with JOIN or LEFT JOIN: a row alone makes no record", join.at)
        if join.within is not None:
            raise SqlError("WITHIN is for joins of two streams; a table has its row when the record arrives", join.at)
        on = _on(join, Visible(tuple(seen), pseudo), right)
        prefix = _prefix(join.right.alias, node)
        node = node.join(right.made.node, on=on.text, how="inner" if join.how == "inner" else "left", prefix=prefix)
        for c in right.columns:
            if not c.is_key:
                seen.append(Seen(c.name, join.right.alias, column(prefix + c.name, c.kind)))
            elif join.how == "inner":
                seen.append(Seen(c.name, join.right.alias, on))
            else:
                absent[join.right.alias, c.name] = KEY_OF_LEFT
        sides.append(Side(join.right.alias, right.columns))
        key = [on]
    return Joined(node, tuple(sides), Visible(tuple(seen), pseudo, absent=absent), (), key[0])


def _kind(of: Entry, name: str) -> Kind:
    return next(c.kind for c in of.columns if c.name == name)


def _not_here(left: Stream | Table, right: Entry) -> str:
    sides = ("a table" if isinstance(left, Table) else "a stream"), f"a {right.kind.lower()}"
    return f"a join of {sides[0]} with {sides[1]} is not here yet; a stream joins a table"


def _on(join: JoinClause, scope: Visible, right: Entry) -> Sql:
    """The stream's side of ON; the other one must be the table's key."""
    on = join.on
    if not isinstance(on, t.Binary) or on.sign != "=":
        raise SqlError("invalid join condition: expected ON stream.column = table.key", on.at)
    key = right.made.key
    names, known = {c.name for c in right.columns}, {seen.name for seen in scope.columns}
    theirs = [
        side
        for side in (on.left, on.right)
        if isinstance(side, t.Name)
        and side.name in names
        and (side.of == join.right.alias or (side.of is None and side.name not in known))
    ]
    if len(theirs) != 1 or len(key) != 1 or theirs[0].name != key[0]:
        raise SqlError(
            f"invalid join condition: a stream joins a table on the table's key, {', '.join(key)}: ON ... = "
            f"{join.right.alias}.{key[0]}",
            on.at,
        )
    mine = scope.sql(on.right if theirs[0] is on.left else on.left)
    kind = next(c.kind for c in right.columns if c.name == key[0])
    if mine.kind != kind:
        raise SqlError(f"invalid join condition: types don't match. Found {mine.kind} = {kind}", on.at)
    return mine


def _prefix(alias: str, stream: Stream) -> str:
    prefix = f"{alias}_"
    while any(one.name.lower().startswith(prefix.lower()) for one in stream.columns):
        prefix += "_"
    return prefix
