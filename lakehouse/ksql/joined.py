"""JOIN: of streams and tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from lakehouse.errors import SqlError
from lakehouse.ksql.catalog import PSEUDO, Entry
from lakehouse.ksql.expression import Seen, Visible
from lakehouse.ksql.function.sql import Sql, column
from lakehouse.ksql.items import Side
from lakehouse.ksql.syntax import tree as t
from lakehouse.ksql.syntax.statement import JoinClause, Query
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table

KEY_OF_OPTIONAL = (
    "of a side that may be missing only the values are there; its key equals the other side's of ON, or is null"
)
NO_BOTH = "either side may be missing, so the key is ROWKEY: SELECT ROWKEY AS ..."
Find = Callable[[str, int], Entry]


@dataclass(frozen=True, slots=True)
class Joined:
    """What FROM means: the node, its sides, the columns, the key's names.

    keys: what the key of a join may be named by, each equal to it. is_table: the node holds rows.
    """

    node: Stream | Table
    sides: tuple[Side, ...]
    scope: Visible
    key: tuple[str, ...]
    keys: tuple[Sql, ...] = ()
    is_table: bool = False


@dataclass(slots=True)
class _Joining:
    """The join so far."""

    name: str
    node: Stream | Table
    seen: list[Seen]
    pseudo: list[Seen]
    sides: list[Side]
    keys: list[Sql]
    is_table: bool
    absent: dict[tuple[str, str], str] = field(default_factory=dict)

    @property
    def scope(self) -> Visible:
        return Visible(tuple(self.seen), tuple(self.pseudo), absent=self.absent)

    def add(self, right: Entry, alias: str, prefix: str) -> None:
        """Take in the right side's values."""
        self.seen += [Seen(c.name, alias, column(prefix + c.name, c.kind)) for c in right.columns if not c.is_key]
        self.sides.append(Side(alias, right.columns))

    def hide(self, why: str, *aliases: str) -> None:
        """Take the keys of these sides out of what can be read."""
        for side in self.sides:
            for c in side.columns:
                if side.alias in aliases and c.is_key:
                    self.seen = [one for one in self.seen if (one.of, one.name) != (side.alias, c.name)]
                    self.absent[side.alias, c.name] = why


def joined(query: Query, left: Entry, find: Find, name: str) -> Joined:
    """Return the join of a query's sources, one after the other. name: of what the query makes. Raises SqlError."""
    aliases = [query.relation.alias, *(join.right.alias for join in query.joins)]
    for join in query.joins:
        if aliases.count(join.right.alias) > 1:
            raise SqlError(f"two sources have the name {join.right.alias}. Give them aliases", join.right.at)
    first = query.relation.alias
    so_far = _Joining(
        name, left.made.node,
        [Seen(c.name, first, column(c.name, c.kind)) for c in left.columns],
        [Seen(c.name, first, column(c.name.lower(), c.kind)) for c in left.pseudo],
        [Side(first, left.columns)],
        [column(c.name, c.kind) for c in left.columns if c.is_key],
        isinstance(left.made.node, Table),
    )  # fmt: skip
    for number, join in enumerate(query.joins):
        right = find(join.right.name, join.right.at)
        if isinstance(right.made.node, Table):
            (_of_tables if so_far.is_table else _with_table)(so_far, join, right, right.made.node, number)
        elif so_far.is_table:
            raise SqlError(
                "invalid join order: a stream joins a table, not a table a stream. Name the stream first", join.at
            )
        else:
            assert isinstance(right.made.node, Stream)
            _of_streams(so_far, join, right, right.made.node)
    return Joined(so_far.node, tuple(so_far.sides), so_far.scope, (), tuple(so_far.keys), so_far.is_table)


def _with_table(so_far: _Joining, join: JoinClause, right: Entry, table: Table, number: int) -> None:
    if join.how not in ("inner", "left"):
        raise SqlError("a stream joins a table with JOIN or LEFT JOIN: a row alone makes no record", join.at)
    if join.within is not None:
        raise SqlError("WITHIN is for joins of two streams; a table has its row when the record arrives", join.at)
    on = _on_key(join, so_far.scope, right)
    prefix = _prefix(join.right.alias, so_far.node)
    assert isinstance(so_far.node, Stream)
    so_far.node = so_far.node.join(table, on=on.text, how="inner" if join.how == "inner" else "left", prefix=prefix)
    so_far.add(right, join.right.alias, prefix)
    _see_key(so_far, join, right, on)
    so_far.keys = [on]


def _of_streams(so_far: _Joining, join: JoinClause, right: Entry, stream: Stream) -> None:
    """Both are keyed by what they are joined on; the keys that they had are values then."""
    if join.within is None:
        raise SqlError("stream-stream joins must have a WITHIN clause specified. None was provided", join.at)
    alias = join.right.alias
    own = Visible(tuple(Seen(c.name, alias, column(c.name, c.kind)) for c in right.columns))
    mine, theirs = _on_streams(join, so_far.scope, own)
    assert isinstance(so_far.node, Stream)
    key, prefix = _free("JOIN_KEY", so_far.node), _prefix(alias, so_far.node)
    left = so_far.node.rekey(f"{so_far.scope.sql(mine).text} AS {key}")
    other = stream.rekey(f"{own.sql(theirs).text} AS {_free('JOIN_KEY', stream)}")
    before, after = (f"{span} milliseconds" for span in join.within)
    grace = None if join.grace is None else f"{join.grace} milliseconds"
    so_far.node = left.join(other, how=join.how, before=before, after=after, grace=grace, prefix=prefix)
    kind = so_far.scope.sql(mine).kind
    so_far.seen += [Seen(c.name, alias, column(prefix + c.name, c.kind)) for c in right.columns]
    so_far.sides.append(Side(alias, right.columns))
    so_far.pseudo = [Seen("ROWTIME", "", column("rowtime", PSEUDO["ROWTIME"]))]
    left_key, right_key = so_far.scope.sql(mine), so_far.scope.sql(theirs)
    so_far.keys = {"left": [left_key], "right": [right_key], "inner": [left_key, right_key]}.get(join.how, [])
    if join.how == "outer":
        so_far.keys = [column(key, kind)]
        so_far.pseudo.append(Seen("ROWKEY", "", so_far.keys[0]))


def _on_streams(join: JoinClause, scope: Visible, own: Visible) -> tuple[t.Expr, t.Expr]:
    """The two sides of ON: the left's, and the right's."""
    on = join.on
    if not isinstance(on, t.Binary) or on.sign != "=":
        raise SqlError("invalid join condition: expected ON left.column = right.column", on.at)
    for mine, theirs in ((on.left, on.right), (on.right, on.left)):
        if _reads(mine, scope, own) and _reads(theirs, own, scope):
            kinds = scope.sql(mine).kind, own.sql(theirs).kind
            if kinds[0] != kinds[1]:
                raise SqlError(f"invalid join condition: types don't match. Found {kinds[0]} = {kinds[1]}", on.at)
            return mine, theirs
    raise SqlError("invalid join condition: each side of = reads one of the two streams. Write S.COLUMN", on.at)


def _reads(node: t.Expr, scope: Visible, other: Visible) -> bool:
    """Whether an expression reads columns of these sources, and of no other."""
    names = [part for part in node.walk() if isinstance(part, t.Name)]

    def has(of: Visible, name: t.Name) -> bool:
        return any(one.name == name.name and name.of in (None, one.of) for one in of.columns)

    return bool(names) and all(has(scope, name) and (name.of is not None or not has(other, name)) for name in names)


def _free(name: str, stream: Stream) -> str:
    while any(one.name.lower() == name.lower() for one in stream.columns):
        name += "_"
    return name


def _of_tables(so_far: _Joining, join: JoinClause, right: Entry, table: Table, number: int) -> None:
    if join.within is not None:
        raise SqlError("WITHIN is for joins of two streams; tables have their rows now", join.at)
    on = _on_key(join, so_far.scope, right)
    prefix = _prefix(join.right.alias, so_far.node)
    left = so_far.node
    if isinstance(left, Stream):  # the rows of a join before this one; a table is joined with a table
        left = left.latest(f"{so_far.name}_JOIN_{number}")
    by_key = [on.text] == [one.text for one in so_far.keys]
    if not by_key and join.how not in ("inner", "left"):
        raise SqlError("by a foreign key there are JOIN and LEFT JOIN: the reference leads one way", join.at)
    so_far.node = left.join(table, None if by_key else on.text, how=join.how, prefix=prefix).rows
    so_far.add(right, join.right.alias, prefix)
    _see_key(so_far, join, right, on)
    if join.how in ("right", "outer"):
        so_far.hide(KEY_OF_OPTIONAL if join.how == "right" else NO_BOTH, *(side.alias for side in so_far.sides[:-1]))
    if join.how == "right":
        c = next(c for c in right.columns if c.is_key)
        so_far.absent.pop((join.right.alias, c.name), None)
        so_far.seen.append(Seen(c.name, join.right.alias, so_far.keys[0]))
    elif join.how == "outer":
        so_far.hide(NO_BOTH, join.right.alias)
        so_far.pseudo.append(Seen("ROWKEY", "", so_far.keys[0]))


def _see_key(so_far: _Joining, join: JoinClause, right: Entry, on: Sql) -> None:
    """The right side's key equals what it is joined on, if there is a row."""
    if join.how != "inner":
        so_far.hide(KEY_OF_OPTIONAL, join.right.alias)
        return
    so_far.seen += [Seen(c.name, join.right.alias, on) for c in right.columns if c.is_key]


def _on_key(join: JoinClause, scope: Visible, right: Entry) -> Sql:
    """The left side of ON; the other one must be the right table's key."""
    on = join.on
    if not isinstance(on, t.Binary) or on.sign != "=":
        raise SqlError("invalid join condition: expected ON left.column = right.key", on.at)
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
            f"invalid join condition: a table is joined on its key, {', '.join(key)}: ON ... = "
            f"{join.right.alias}.{key[0]}",
            on.at,
        )
    mine = scope.sql(on.right if theirs[0] is on.left else on.left)
    kind = next(c.kind for c in right.columns if c.name == key[0])
    if mine.kind != kind:
        raise SqlError(f"invalid join condition: types don't match. Found {mine.kind} = {kind}", on.at)
    return mine


def _prefix(alias: str, node: Stream | Table) -> str:
    prefix = f"{alias}_"
    while any(one.name.lower().startswith(prefix.lower()) for one in node.columns):
        prefix += "_"
    return prefix
