"""JOIN: of streams and tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from lakehouse.errors import SqlError
from lakehouse.ksql.catalog import BOUNDS, PSEUDO, Entry, bound
from lakehouse.ksql.coerced import check_key_type
from lakehouse.ksql.expression import Seen, Visible
from lakehouse.ksql.function.sql import Sql, column
from lakehouse.ksql.items import Side
from lakehouse.ksql.joining import Joined, Joining, JoinKey, free
from lakehouse.ksql.syntax import tree as t
from lakehouse.ksql.syntax.statement import JoinClause, Query
from lakehouse.plan.app import read_window
from lakehouse.plan.operator import WINDOW_COLUMNS
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table

Find = Callable[[str, int], Entry]


def joined(query: Query, left: Entry, find: Find, name: str) -> Joined:
    """Return the join of a query's sources, one after the other. name: of what the query makes. Raises SqlError."""
    aliases = [query.relation.alias, *(join.right.alias for join in query.joins)]
    for join in query.joins:
        if aliases.count(join.right.alias) > 1:
            raise SqlError(f"two sources have the name {join.right.alias}. Give them aliases", join.right.at)
    _check_windows(query, left, find)
    first = query.relation.alias
    so_far = Joining(
        query, name, left.made.node,
        [Seen(c.name, first, column(c.name, c.kind)) for c in left.columns],
        _pseudo(left, first),
        [Side(first, left.columns)],
        [column(c.name, c.kind) for c in left.columns if c.is_key],
        isinstance(left.made.node, Table),
    )  # fmt: skip
    if isinstance(so_far.node, Table):
        so_far.node, time = so_far.with_time(so_far.node, first)
        so_far.pseudo += _row_time(time, first)
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
    return Joined(
        so_far.node, tuple(so_far.sides), so_far.scope, left.made.key, tuple(so_far.keys), so_far.is_table,
        so_far.rowkey,
    )  # fmt: skip


def _check_windows(query: Query, left: Entry, find: Find) -> None:
    """Raise SqlError for a declared source with windows in its keys, unless two streams with the same ones meet."""
    sides = [(left, query.relation.at), *((find(join.right.name, join.right.at), join.at) for join in query.joins)]
    windowed = [(of, at) for of, at in sides if of.query is None and of.is_windowed]
    windows = [read_window(of.made.node) for of, _ in windowed if isinstance(of.made.node, Stream)]
    if len(sides) == len(windows) == 2 and windows[0] == windows[1]:
        return
    for of, at in windowed:
        raise SqlError(f"{of.name} has a WINDOW_TYPE: a key with a window in it is joined with a stream of the same "
                       "windows alone. Read it with a SELECT that has PARTITION BY, and join that", at)  # fmt: skip


def _pseudo(of: Entry, alias: str) -> list[Seen]:
    return [Seen(c.name, alias, column(c.name.lower(), c.kind)) for c in of.pseudo]


def _row_time(column_name: str, alias: str) -> list[Seen]:
    """The ROWTIME of a table, where a column has it."""
    return [Seen("ROWTIME", alias, column(column_name, PSEUDO["ROWTIME"]))] if column_name else []


def _with_table(so_far: Joining, join: JoinClause, right: Entry, table: Table, number: int) -> None:
    if join.how not in ("inner", "left"):
        raise SqlError("a stream joins a table with JOIN or LEFT JOIN: a row alone makes no record", join.at)
    if join.within is not None:
        raise SqlError("WITHIN is for joins of two streams; a table has its row when the record arrives", join.at)
    on, mine, theirs = _on_key(join, so_far.scope, right)
    prefix = _prefix(join.right.alias, so_far.node)
    assert isinstance(so_far.node, Stream)
    indicator = _indicator(so_far, join, right, prefix)
    how: Literal["inner", "left"] = "inner" if join.how == "inner" else "left"
    table, time = so_far.with_time(table, join.right.alias)
    so_far.node = so_far.node.join(table, on=on.text, how=how, prefix=prefix, indicator=indicator)
    so_far.add(right, join.right.alias, prefix)
    so_far.pseudo += _row_time(time and prefix + time, join.right.alias)
    _see_key(so_far, join, right, on, indicator)
    _name_key(so_far, join, on, mine, theirs)


def _of_streams(so_far: Joining, join: JoinClause, right: Entry, stream: Stream) -> None:
    """Both are keyed by what they are joined on; the keys that they had are values then."""
    if join.within is None:
        raise SqlError("stream-stream joins must have a WITHIN clause specified. None was provided", join.at)
    alias = join.right.alias
    seen = tuple(Seen(c.name, alias, column(c.name, c.kind)) for c in right.columns)
    own = Visible(seen, tuple(_pseudo(right, alias)))
    mine, theirs = _on_streams(join, so_far.scope, own)
    assert isinstance(so_far.node, Stream)
    left, pseudo = so_far.placed(so_far.node, so_far.pseudo)
    stream, others = so_far.placed(stream, _pseudo(right, alias))
    key, prefix = free("JOIN_KEY", left), _prefix(alias, left)
    spans = WINDOW_COLUMNS if right.query is None and right.is_windowed else ()
    keys = {c.name for c in (*so_far.sides[0].columns, *right.columns) if c.is_key}
    if spans and not all(isinstance(side, t.Name) and side.name in keys for side in (mine, theirs)):
        raise SqlError("streams with a WINDOW_TYPE are joined by their keys, which name the windows", join.on.at)
    left = left.rekey(f"{so_far.scope.sql(mine).text} AS {key}", *spans)
    other = stream.rekey(f"{own.sql(theirs).text} AS {free('JOIN_KEY', stream)}", *spans)
    before, after = (f"{span} milliseconds" for span in join.within)
    grace = None if join.grace is None else f"{join.grace} milliseconds"
    so_far.node = left.join(other, how=join.how, before=before, after=after, grace=grace, prefix=prefix)
    kind = so_far.scope.sql(mine).kind
    so_far.seen += [Seen(c.name, alias, column(prefix + c.name, c.kind)) for c in right.columns]
    so_far.sides.append(Side(alias, right.columns))
    pseudo += [Seen(one.name, alias, column(prefix + one.sql.text.strip("`"), one.sql.kind)) for one in others]
    so_far.pseudo = [Seen("ROWTIME", "", column("rowtime", PSEUDO["ROWTIME"])), *pseudo]
    so_far.pseudo += [Seen(name, "", bound(name)) for name in BOUNDS if spans]
    _name_key(so_far, join, column(key, kind), mine, theirs)


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
            check_key_type(kinds[0], "invalid join condition", on.at)
            return mine, theirs
    raise SqlError("invalid join condition: each side of = reads one of the two streams. Write S.COLUMN", on.at)


def _reads(node: t.Expr, scope: Visible, other: Visible) -> bool:
    """Whether an expression reads columns of these sources, and of no other."""
    names = [part for part in node.walk() if isinstance(part, t.Name)]

    def has(of: Visible, name: t.Name) -> bool:
        every = (*of.columns, *(one for one in of.pseudo if name.of is not None))
        return any(one.name == name.name and name.of in (None, one.of) for one in every)

    return bool(names) and all(has(scope, name) and (name.of is not None or not has(other, name)) for name in names)


def _of_tables(so_far: Joining, join: JoinClause, right: Entry, table: Table, number: int) -> None:
    if join.within is not None:
        raise SqlError("WITHIN is for joins of two streams; tables have their rows now", join.at)
    on, mine, theirs = _on_key(join, so_far.scope, right)
    prefix = _prefix(join.right.alias, so_far.node)
    left = so_far.node
    if isinstance(left, Stream):  # the rows of a join before this one; a table is joined with a table
        left = left.latest(f"{so_far.name}_JOIN_{number}")
    by_key = [on.text] == [one.text for one in so_far.key]
    if not by_key and join.how not in ("inner", "left"):
        raise SqlError("by a foreign key there are JOIN and LEFT JOIN: the reference leads one way", join.at)
    indicator = _indicator(so_far, join, right, prefix)
    by = None if by_key else on.text
    table, time = so_far.with_time(table, join.right.alias)
    so_far.node = left.join(table, by, how=join.how, prefix=prefix, indicator=indicator).rows
    so_far.add(right, join.right.alias, prefix)
    so_far.pseudo += _row_time(time and prefix + time, join.right.alias)
    if by_key and join.how in ("right", "outer"):
        found = [one.sql.text == on.text for one in so_far.seen]
        so_far.seen = [
            Seen(one.name, one.of, _there(one.sql, indicator, "right")) if is_key else one
            for one, is_key in zip(so_far.seen, found, strict=True)
        ]
    _see_key(so_far, join, right, on, indicator)
    if by_key:
        _name_key(so_far, join, on, mine, theirs)


def _indicator(so_far: Joining, join: JoinClause, right: Entry, prefix: str) -> str:
    """The name of a column that says which sides have a row; empty if nothing reads the key of one that may not."""
    if join.how == "inner":
        return ""
    sides = [(join.right.alias, right.columns)]
    if join.how in ("right", "outer"):
        sides += [(side.alias, side.columns) for side in so_far.sides]
    if not any(so_far.reads_key(alias, columns, join) for alias, columns in sides):
        return ""
    name = f"{prefix}MATCHED"
    while any(name == prefix + c.name for c in right.columns):
        name += "_"
    return name


def _there(of: Sql, indicator: str, alone: str) -> Sql:
    """The key of a side: null where the other side, `alone`, has a row and this one has none."""
    return Sql(f"CASE WHEN `{indicator}` <> '{alone}' THEN {of.text} END", of.kind) if indicator else of


def _see_key(so_far: Joining, join: JoinClause, right: Entry, on: Sql, indicator: str) -> None:
    """The right side's key equals what it is joined on, if there is a row."""
    of = _there(on, indicator, "left") if join.how in ("left", "outer") else on
    so_far.seen += [Seen(c.name, join.right.alias, of) for c in right.columns if c.is_key]


def _name_key(so_far: Joining, join: JoinClause, key: Sql, mine: t.Expr, theirs: t.Expr) -> None:
    """What may be selected as the key: the sides of ON that are columns, the left one first; ROWKEY if there is none.

    Also what equals them by an earlier ON, and what it is joined on, as it is written.
    """
    texts = [so_far.scope.sql(side).text for side in (mine, theirs)]
    is_same = texts[0] in so_far.equal
    before = so_far.keys if is_same and not so_far.rowkey else []
    so_far.equal = {*texts, *(so_far.equal if is_same else ())}
    keys = []
    for side, text, absent_in in zip((mine, theirs), texts, ("right", "left"), strict=True):
        if isinstance(side, t.Name):
            shown = f"{side.of}.{side.name}" if side.of else side.name
            keys.append(JoinKey(text, key if join.how == absent_in else so_far.scope.sql(side), shown))
    keys += [JoinKey(one.by, key, one.shown) for one in before if one.by not in {of.by for of in keys}]
    so_far.pseudo = [one for one in so_far.pseudo if one.name != so_far.rowkey]
    so_far.rowkey = _rowkey(so_far) if join.how == "outer" or not keys else ""
    if so_far.rowkey:
        so_far.pseudo = [*so_far.pseudo, Seen(so_far.rowkey, "", key)]
        so_far.keys = [JoinKey(key.text, key, so_far.rowkey)]
    else:
        so_far.keys = [*keys, JoinKey(key.text, key, key.text)]


def _rowkey(so_far: Joining) -> str:
    """The name of a key that no column is: ROWKEY, with a number where a column has that name."""
    taken = {column.name for side in so_far.sides for column in side.columns}
    names = ("ROWKEY", *(f"ROWKEY_{number}" for number in range(1, len(taken) + 1)))
    return next(name for name in names if name not in taken)


def _on_key(join: JoinClause, scope: Visible, right: Entry) -> tuple[Sql, t.Expr, t.Expr]:
    """The left side of ON, in Spark SQL and as written; and the other one, which must be the right table's key."""
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
    written = on.right if theirs[0] is on.left else on.left
    mine = scope.sql(written)
    kind = next(c.kind for c in right.columns if c.name == key[0])
    if mine.kind != kind:
        raise SqlError(f"invalid join condition: types don't match. Found {mine.kind} = {kind}", on.at)
    return mine, written, theirs[0]


def _prefix(alias: str, node: Stream | Table) -> str:
    prefix = f"{alias}_"
    while any(one.name.lower().startswith(prefix.lower()) for one in node.columns):
        prefix += "_"
    return prefix
