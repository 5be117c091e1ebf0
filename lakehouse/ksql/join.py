"""JOIN: of streams and tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from lakehouse.errors import SqlError
from lakehouse.ksql.catalog import BOUNDS, PSEUDO, Entry, window_bound
from lakehouse.ksql.expression.common_types import check_key_type
from lakehouse.ksql.expression.expression import ColumnScope, ScopeColumn
from lakehouse.ksql.function.sql import Sql, column_sql
from lakehouse.ksql.items import Side
from lakehouse.ksql.join_parts import FromResult, JoinBuilder, JoinKey, free_column_name
from lakehouse.ksql.syntax import tree as t
from lakehouse.ksql.syntax.statement import JoinClause, Query
from lakehouse.plan.app import read_window
from lakehouse.plan.operator import WINDOW_COLUMNS
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table

Find = Callable[[str, int], Entry]


def compile_joins(query: Query, left: Entry, find: Find, result_name: str) -> FromResult:
    """Join a query's sources, one after the other. result_name: the name of the query's result. Raises SqlError."""
    aliases = [query.relation.alias, *(join.right.alias for join in query.joins)]
    for join in query.joins:
        if aliases.count(join.right.alias) > 1:
            raise SqlError(f"two sources have the name {join.right.alias}. Give them aliases", join.right.position)
    _check_windows(query, left, find)
    first_alias = query.relation.alias
    joining = JoinBuilder(
        query, result_name, left.relation.node,
        [ScopeColumn(c.name, first_alias, column_sql(c.name, c.kind)) for c in left.columns],
        _pseudo_columns(left, first_alias),
        [Side(first_alias, left.columns)],
        [column_sql(c.name, c.kind) for c in left.columns if c.is_key],
        isinstance(left.relation.node, Table),
    )  # fmt: skip
    if isinstance(joining.node, Table):
        joining.node, time_column = joining.with_time(joining.node, first_alias)
        joining.pseudo_columns += _row_time(time_column, first_alias)
    for number, join in enumerate(query.joins):
        right = find(join.right.name, join.right.position)
        if isinstance(right.relation.node, Table):
            (_join_tables if joining.is_table else _join_table)(joining, join, right, right.relation.node, number)
        elif joining.is_table:
            raise SqlError(
                "invalid join order: a stream joins a table, not a table a stream. Name the stream first", join.position
            )
        else:
            assert isinstance(right.relation.node, Stream)
            _join_streams(joining, join, right, right.relation.node)
    return FromResult(
        joining.node, tuple(joining.sides), joining.scope, left.relation.key, tuple(joining.keys), joining.is_table,
        joining.rowkey,
    )  # fmt: skip


def _check_windows(query: Query, left: Entry, find: Find) -> None:
    """Raise SqlError for a declared source with windows in its keys, unless two streams have the same windows."""
    joined_entries = [
        (left, query.relation.position),
        *((find(join.right.name, join.right.position), join.position) for join in query.joins),
    ]
    windowed_entries = [
        (entry, position) for entry, position in joined_entries if entry.query is None and entry.is_windowed
    ]
    read_windows = [
        read_window(entry.relation.node) for entry, _ in windowed_entries if isinstance(entry.relation.node, Stream)
    ]
    if len(joined_entries) == len(read_windows) == 2 and read_windows[0] == read_windows[1]:
        return
    for entry, position in windowed_entries:
        raise SqlError(
            f"{entry.name} has a WINDOW_TYPE: a key with a window in it is joined with a stream of the same "
            "windows alone. Read it with a SELECT that has PARTITION BY, and join that",
            position,
        )


def _pseudo_columns(entry: Entry, alias: str) -> list[ScopeColumn]:
    return [
        ScopeColumn(pseudo_column.name, alias, column_sql(pseudo_column.name.lower(), pseudo_column.kind))
        for pseudo_column in entry.pseudo_columns
    ]


def _row_time(column_name: str, alias: str) -> list[ScopeColumn]:
    """Return the ROWTIME of a table, if a column holds it."""
    return [ScopeColumn("ROWTIME", alias, column_sql(column_name, PSEUDO["ROWTIME"]))] if column_name else []


def _join_table(joining: JoinBuilder, join: JoinClause, right: Entry, table: Table, number: int) -> None:
    if join.join_type not in ("inner", "left"):
        raise SqlError("a stream joins a table with JOIN or LEFT JOIN: a row alone makes no record", join.position)
    if join.within is not None:
        raise SqlError("WITHIN is for joins of two streams; a table has its row when the record arrives", join.position)
    join_value, left_node, right_node = _table_join_sides(join, joining.scope, right)
    prefix = _column_prefix(join.right.alias, joining.node)
    assert isinstance(joining.node, Stream)
    indicator = _indicator_name(joining, join, right, prefix)
    join_type: Literal["inner", "left"] = "inner" if join.join_type == "inner" else "left"
    table, time_column = joining.with_time(table, join.right.alias)
    joining.node = joining.node.join(table, on=join_value.text, how=join_type, prefix=prefix, indicator=indicator)
    joining.add(right, join.right.alias, prefix)
    joining.pseudo_columns += _row_time(time_column and prefix + time_column, join.right.alias)
    _add_right_key(joining, join, right, join_value, indicator)
    _add_key_choices(joining, join, join_value, left_node, right_node)


def _join_streams(joining: JoinBuilder, join: JoinClause, right: Entry, stream: Stream) -> None:
    """Join two streams: both get the join's key, and their own keys become values."""
    if join.within is None:
        raise SqlError("stream-stream joins must have a WITHIN clause specified. None was provided", join.position)
    right_alias = join.right.alias
    right_columns = tuple(ScopeColumn(c.name, right_alias, column_sql(c.name, c.kind)) for c in right.columns)
    right_scope = ColumnScope(right_columns, tuple(_pseudo_columns(right, right_alias)))
    left_node, right_node = _stream_join_sides(join, joining.scope, right_scope)
    assert isinstance(joining.node, Stream)
    left_stream, left_pseudo = joining.with_pseudo_columns(joining.node, joining.pseudo_columns)
    stream, right_pseudo = joining.with_pseudo_columns(stream, _pseudo_columns(right, right_alias))
    key_name, prefix = free_column_name("JOIN_KEY", left_stream), _column_prefix(right_alias, left_stream)
    window_columns = WINDOW_COLUMNS if right.query is None and right.is_windowed else ()
    key_names = {c.name for c in (*joining.sides[0].columns, *right.columns) if c.is_key}
    if window_columns and not all(
        isinstance(side_node, t.Name) and side_node.name in key_names for side_node in (left_node, right_node)
    ):
        raise SqlError(
            "streams with a WINDOW_TYPE are joined by their keys, which name the windows", join.condition.position
        )
    left_stream = left_stream.rekey(f"{joining.scope.sql(left_node).text} AS {key_name}", *window_columns)
    right_stream = stream.rekey(
        f"{right_scope.sql(right_node).text} AS {free_column_name('JOIN_KEY', stream)}", *window_columns
    )
    before, after = (f"{span_ms} milliseconds" for span_ms in join.within)
    grace = None if join.grace is None else f"{join.grace} milliseconds"
    joining.node = left_stream.join(
        right_stream, how=join.join_type, before=before, after=after, grace=grace, prefix=prefix
    )
    key_kind = joining.scope.sql(left_node).kind
    joining.scope_columns += [
        ScopeColumn(c.name, right_alias, column_sql(prefix + c.name, c.kind)) for c in right.columns
    ]
    joining.sides.append(Side(right_alias, right.columns))
    left_pseudo += [
        ScopeColumn(
            pseudo_column.name,
            right_alias,
            column_sql(prefix + pseudo_column.sql.text.strip("`"), pseudo_column.sql.kind),
        )
        for pseudo_column in right_pseudo
    ]
    joining.pseudo_columns = [ScopeColumn("ROWTIME", "", column_sql("rowtime", PSEUDO["ROWTIME"])), *left_pseudo]
    joining.pseudo_columns += [ScopeColumn(name, "", window_bound(name)) for name in BOUNDS if window_columns]
    _add_key_choices(joining, join, column_sql(key_name, key_kind), left_node, right_node)


def _stream_join_sides(join: JoinClause, scope: ColumnScope, right_scope: ColumnScope) -> tuple[t.Expr, t.Expr]:
    """Return the two sides of ON: the left source's, and the right one's."""
    on_clause = join.condition
    if not isinstance(on_clause, t.Binary) or on_clause.sign != "=":
        raise SqlError("invalid join condition: expected ON left.column = right.column", on_clause.position)
    for left_node, right_node in ((on_clause.left, on_clause.right), (on_clause.right, on_clause.left)):
        if _reads_only(left_node, scope, right_scope) and _reads_only(right_node, right_scope, scope):
            side_kinds = scope.sql(left_node).kind, right_scope.sql(right_node).kind
            if side_kinds[0] != side_kinds[1]:
                raise SqlError(
                    f"invalid join condition: types don't match. Found {side_kinds[0]} = {side_kinds[1]}",
                    on_clause.position,
                )
            check_key_type(side_kinds[0], "invalid join condition", on_clause.position)
            return left_node, right_node
    raise SqlError(
        "invalid join condition: each side of = reads one of the two streams. Write S.COLUMN", on_clause.position
    )


def _reads_only(node: t.Expr, scope: ColumnScope, other_scope: ColumnScope) -> bool:
    """Say whether an expression reads columns of these sources, and of no other."""
    name_nodes = [part for part in node.walk() if isinstance(part, t.Name)]

    def has(visible: ColumnScope, name: t.Name) -> bool:
        visible_columns = (
            *visible.columns,
            *(visible_column for visible_column in visible.pseudo_columns if name.source is not None),
        )
        return any(
            visible_column.name == name.name and name.source in (None, visible_column.source)
            for visible_column in visible_columns
        )

    return bool(name_nodes) and all(
        has(scope, name) and (name.source is not None or not has(other_scope, name)) for name in name_nodes
    )


def _join_tables(joining: JoinBuilder, join: JoinClause, right: Entry, table: Table, number: int) -> None:
    if join.within is not None:
        raise SqlError("WITHIN is for joins of two streams; tables have their rows now", join.position)
    join_value, left_node, right_node = _table_join_sides(join, joining.scope, right)
    prefix = _column_prefix(join.right.alias, joining.node)
    left_table = joining.node
    if isinstance(left_table, Stream):  # the rows of an earlier join; here a table joins a table
        left_table = left_table.latest(f"{joining.name}_JOIN_{number}")
    by_key = [join_value.text] == [scope_column.text for scope_column in joining.key]
    if not by_key and join.join_type not in ("inner", "left"):
        raise SqlError("by a foreign key there are JOIN and LEFT JOIN: the reference leads one way", join.position)
    indicator = _indicator_name(joining, join, right, prefix)
    foreign_key = None if by_key else join_value.text
    table, time_column = joining.with_time(table, join.right.alias)
    joining.node = left_table.join(table, foreign_key, how=join.join_type, prefix=prefix, indicator=indicator).rows
    joining.add(right, join.right.alias, prefix)
    joining.pseudo_columns += _row_time(time_column and prefix + time_column, join.right.alias)
    if by_key and join.join_type in ("right", "outer"):
        are_keys = [scope_column.sql.text == join_value.text for scope_column in joining.scope_columns]
        joining.scope_columns = [
            ScopeColumn(scope_column.name, scope_column.source, _key_if_matched(scope_column.sql, indicator, "right"))
            if is_key
            else scope_column
            for scope_column, is_key in zip(joining.scope_columns, are_keys, strict=True)
        ]
    _add_right_key(joining, join, right, join_value, indicator)
    if by_key:
        _add_key_choices(joining, join, join_value, left_node, right_node)


def _indicator_name(joining: JoinBuilder, join: JoinClause, right: Entry, prefix: str) -> str:
    """Return the name of a column that says which sides have a row; empty if nothing needs it.

    Only the key of a side that may have no row needs it.
    """
    if join.join_type == "inner":
        return ""
    key_sides = [(join.right.alias, right.columns)]
    if join.join_type in ("right", "outer"):
        key_sides += [(side.alias, side.columns) for side in joining.sides]
    if not any(joining.reads_key(alias, columns, join) for alias, columns in key_sides):
        return ""
    name = f"{prefix}MATCHED"
    while any(name == prefix + c.name for c in right.columns):
        name += "_"
    return name


def _key_if_matched(key_value: Sql, indicator: str, lone_side: str) -> Sql:
    """Return the key of a side: null where only the other side, `lone_side`, has a row."""
    return (
        Sql(f"CASE WHEN `{indicator}` <> '{lone_side}' THEN {key_value.text} END", key_value.kind)
        if indicator
        else key_value
    )


def _add_right_key(joining: JoinBuilder, join: JoinClause, right: Entry, join_value: Sql, indicator: str) -> None:
    """Add the right side's key, which equals the join's value where there is a row."""
    right_key = _key_if_matched(join_value, indicator, "left") if join.join_type in ("left", "outer") else join_value
    joining.scope_columns += [ScopeColumn(c.name, join.right.alias, right_key) for c in right.columns if c.is_key]


def _add_key_choices(joining: JoinBuilder, join: JoinClause, key: Sql, left_node: t.Expr, right_node: t.Expr) -> None:
    """Add the items that select the key: the sides of ON that are columns, the left one first; ROWKEY if there is none.

    An item that an earlier ON makes equal to them counts, too, and so does the join's expression as it is written.
    """
    side_texts = [joining.scope.sql(side).text for side in (left_node, right_node)]
    is_same = side_texts[0] in joining.equal
    earlier_keys = joining.keys if is_same and not joining.rowkey else []
    joining.equal = {*side_texts, *(joining.equal if is_same else ())}
    key_choices = []
    for side, side_text, absent_in in zip((left_node, right_node), side_texts, ("right", "left"), strict=True):
        if isinstance(side, t.Name):
            full_name = f"{side.source}.{side.name}" if side.source else side.name
            key_choices.append(
                JoinKey(side_text, key if join.join_type == absent_in else joining.scope.sql(side), full_name)
            )
    key_choices += [
        JoinKey(key_choice.item_text, key, key_choice.message_text)
        for key_choice in earlier_keys
        if key_choice.item_text not in {named_key.item_text for named_key in key_choices}
    ]
    joining.pseudo_columns = [key_choice for key_choice in joining.pseudo_columns if key_choice.name != joining.rowkey]
    joining.rowkey = _rowkey_name(joining) if join.join_type == "outer" or not key_choices else ""
    if joining.rowkey:
        joining.pseudo_columns = [*joining.pseudo_columns, ScopeColumn(joining.rowkey, "", key)]
        joining.keys = [JoinKey(key.text, key, joining.rowkey)]
    else:
        joining.keys = [*key_choices, JoinKey(key.text, key, key.text)]


def _rowkey_name(joining: JoinBuilder) -> str:
    """Return the name of a key that is no column: ROWKEY, with a number if a column has that name."""
    taken_names = {column.name for side in joining.sides for column in side.columns}
    free_names = ("ROWKEY", *(f"ROWKEY_{number}" for number in range(1, len(taken_names) + 1)))
    return next(name for name in free_names if name not in taken_names)


def _table_join_sides(join: JoinClause, scope: ColumnScope, right: Entry) -> tuple[Sql, t.Expr, t.Expr]:
    """Return the left side of ON, in Spark SQL and as written, and the right one, which must be the table's key."""
    on_clause = join.condition
    if not isinstance(on_clause, t.Binary) or on_clause.sign != "=":
        raise SqlError("invalid join condition: expected ON left.column = right.key", on_clause.position)
    right_key = right.relation.key
    right_names, left_names = {c.name for c in right.columns}, {left_column.name for left_column in scope.columns}
    right_nodes = [
        side_node
        for side_node in (on_clause.left, on_clause.right)
        if isinstance(side_node, t.Name)
        and side_node.name in right_names
        and (side_node.source == join.right.alias or (side_node.source is None and side_node.name not in left_names))
    ]
    if len(right_nodes) != 1 or len(right_key) != 1 or right_nodes[0].name != right_key[0]:
        raise SqlError(
            f"invalid join condition: a table is joined on its key, {', '.join(right_key)}: ON ... = "
            f"{join.right.alias}.{right_key[0]}",
            on_clause.position,
        )
    left_node = on_clause.right if right_nodes[0] is on_clause.left else on_clause.left
    left_value = scope.sql(left_node)
    key_kind = next(c.kind for c in right.columns if c.name == right_key[0])
    if left_value.kind != key_kind:
        raise SqlError(
            f"invalid join condition: types don't match. Found {left_value.kind} = {key_kind}", on_clause.position
        )
    return left_value, left_node, right_nodes[0]


def _column_prefix(alias: str, node: Stream | Table) -> str:
    prefix = f"{alias}_"
    while any(column_of_node.name.lower().startswith(prefix.lower()) for column_of_node in node.columns):
        prefix += "_"
    return prefix
