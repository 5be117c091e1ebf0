"""SELECT: the nodes of the graph that it means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from lakehouse.errors import SqlError
from lakehouse.ksql.catalog import BOUNDS, PSEUDO, Entry, Relational, SqlColumn, bound, is_windowed
from lakehouse.ksql.coerced import check_key_type
from lakehouse.ksql.expression import Seen, Visible
from lakehouse.ksql.function.collection import choices
from lakehouse.ksql.function.sql import Sql, column
from lakehouse.ksql.grouped import grouped
from lakehouse.ksql.items import NamedItem, Side, aggregates_in, check_places, named_items, table_functions_in
from lakehouse.ksql.joined import joined
from lakehouse.ksql.joining import Joined, JoinKey, free
from lakehouse.ksql.syntax import tree as t
from lakehouse.ksql.syntax.statement import Item, Query
from lakehouse.plan.expression import name_text
from lakehouse.plan.names.field import escaped_name
from lakehouse.plan.operator import WINDOW_COLUMNS
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table

Find = Callable[[str, int], Entry]


@dataclass(frozen=True, slots=True)
class QueryTarget:
    """What is asked of a query: the name of its result, and whether that is a STREAM or a TABLE.

    limits: how many values an aggregate keeps, by its name.
    """

    kind: str
    name: str
    at: int
    limits: Mapping[str, int] = field(default_factory=dict)


def compiled(query: Query, find: Find, asked: QueryTarget) -> Relational:
    """Return what a query makes. find: gives a stream or a table by its name. Raises SqlError, PlanError."""
    begin = beginning(query, find, asked.name)
    if query.moment is not None or query.limit is not None:
        raise SqlError("AT and LIMIT are for a SELECT that is asked now, not for one that is kept", query.at)
    _check_aggregates(query)
    makes = "TABLE" if query.group_by or begin.is_table else "STREAM"
    if makes != asked.kind:
        raise SqlError(
            f"invalid result type. Your SELECT query produces a {makes}. Please use CREATE {makes} AS SELECT "
            "statement instead",
            asked.at,
        )
    _check_clauses(query, begin)
    stream = begin.node.rows if isinstance(begin.node, Table) else begin.node
    if query.where is not None:
        stream = stream.filter(begin.scope.predicate(query.where, "WHERE"))
    sides = [side.with_key_last() for side in begin.sides] if query.partition_by else begin.sides
    items = named_items(_with_keys(query), sides, begin.scope, rowkey=begin.rowkey)
    stream, scope = exploded(stream, items, begin.scope)
    if query.group_by:
        return grouped(stream, replace(scope, limits=asked.limits), items, query, asked.name)
    made = _selected(stream, scope, items, query, begin)
    if not begin.is_table:
        return made
    assert isinstance(made.node, Stream)
    return replace(made, node=made.node.latest(asked.name))


def beginning(query: Query, find: Find, name: str) -> Joined:
    """Return what a query's FROM means, with the columns that its expressions read. name: of what the query makes."""
    left = find(query.relation.name, query.relation.at)
    if query.joins:
        return joined(query, left, find, name)
    alias = query.relation.alias
    columns = tuple(Seen(c.name, alias, column(c.name, c.kind)) for c in left.columns)
    is_table = isinstance(left.made.node, Table)
    pseudo = tuple(Seen(name, alias, column(name.lower(), kind)) for name, kind in PSEUDO.items())
    own = {column.name for column in left.columns}
    bounds = tuple(Seen(name, alias, bound(name)) for name in BOUNDS if left.is_windowed and name not in own)
    every = _side(left, alias, bounds if is_table else ())  # as in ksqlDB; its tables of windows can't be selected from
    return Joined(left.made.node, (every,), Visible(columns, (*pseudo, *bounds)), left.made.key,
                  (), is_table)  # fmt: skip


def _side(of: Entry, alias: str, bounds: tuple[Seen, ...]) -> Side:
    """What * means: the key, the bounds of its window, and the values."""
    key = [column for column in of.columns if column.is_key]
    values = [column for column in of.columns if not column.is_key]
    return Side(alias, (*key, *(SqlColumn(one.name, one.sql.kind) for one in bounds), *values))


def _with_keys(query: Query) -> tuple[Item, ...]:
    """The items of a query; * has the expressions of PARTITION BY, too, as the key."""
    if not any(item.expression is None and item.of is None for item in query.items):
        return query.items
    listed = {item.expression for item in query.items}
    keys = [one for one in query.partition_by if not _in_every(one) and one not in listed]
    return (*(Item(one, at=one.at) for one in keys), *query.items)


def _in_every(node: t.Expr) -> bool:
    """Whether * has an expression: a column of the source, but for those that every record has besides."""
    return isinstance(node, t.Value) or (isinstance(node, t.Name) and node.name not in PSEUDO)


def _check_clauses(query: Query, begin: Joined) -> None:
    if begin.is_table:
        _check_table(query, begin)
    if query.group_by:
        if query.partition_by:
            raise SqlError("GROUP BY and PARTITION BY can't be in one statement", query.partition_by[0].at)
        return
    if query.window is not None:
        raise SqlError("WINDOW clause requires a GROUP BY clause", query.window.at)
    if query.having is not None:
        raise SqlError("HAVING clause requires a GROUP BY clause", query.having.at)
    if query.emit == "FINAL":
        raise SqlError("EMIT FINAL is only supported for windowed tables: GROUP BY with a WINDOW", query.at)


def _check_aggregates(query: Query) -> None:
    for item in () if query.group_by else query.items:
        if item.expression is not None and (calls := aggregates_in(item.expression)):
            raise SqlError(f"use of aggregate function {calls[0].name} requires a GROUP BY clause", calls[0].at)


def _check_table(query: Query, begin: Joined) -> None:
    if is_windowed(begin.node) and query.group_by:
        raise SqlError(
            f"GROUP BY is not supported over a windowed table, and {query.relation.name} has windows. Group the stream "
            "that it is made of",
            query.relation.at,
        )
    for one in (*query.group_by, *([query.where] if query.where is not None else [])):
        for part in one.walk():
            if isinstance(part, t.Name) and part.name in PSEUDO and isinstance(begin.node, Table):
                raise SqlError(
                    f"{part.name} of a table's row is that of its last change, so it can be selected, but not decide "
                    "which rows there are. Declare a column with the time",
                    part.at,
                )
    for clause, found in (("PARTITION BY", query.partition_by), ("WINDOW", query.window)):
        if found:
            raise SqlError(f"{clause} clause is only supported for stream sources", query.at)
    for item in query.items:
        if item.expression is not None and (calls := table_functions_in(item.expression)):
            raise SqlError("table source is not supported with table functions", calls[0].at)


def exploded(stream: Stream, items: list[NamedItem], scope: Visible) -> tuple[Stream, Visible]:
    """Return the stream with a record for each element of the array that an item explodes.

    Of several, each record has the elements at one place; a shorter array is followed by nulls.
    """
    calls = list(dict.fromkeys(call for item in items for call in table_functions_in(item.expression)))
    if not calls:
        return stream, scope
    arrays = []
    for item in items:
        check_places(item.expression)
    for call in calls:
        if len(call.arguments) != 1 or (of := scope.sql(call.arguments[0])).kind.name != "ARRAY":
            raise SqlError(f"{call.name} takes one array", call.at)
        arrays.append(of if call.name == "EXPLODE" else choices(of))
    name = free("EXPLODED", stream)
    if len(calls) == 1:
        ready: dict[t.Expr, Sql] = {calls[0]: column(name, arrays[0].kind.inner[0])}
        return stream.explode(arrays[0].text, name), replace(scope, ready={**scope.ready, **ready})
    longest = f"greatest({', '.join(f'coalesce(array_size({of.text}), 0)' for of in arrays)})"
    places = f"CASE WHEN {longest} > 0 THEN sequence(1, {longest}) END"
    ready = {
        call: Sql(f"try_element_at({of.text}, {name})", of.kind.inner[0])
        for call, of in zip(calls, arrays, strict=True)
    }
    return stream.explode(places, name), replace(scope, ready={**scope.ready, **ready})


def _selected(stream: Stream, scope: Visible, items: list[NamedItem], query: Query, begin: Joined) -> Relational:
    """The stream of a SELECT without a GROUP BY."""
    made = [(item, scope.sql(item.expression)) for item in items]
    by = [scope.sql(one) for one in query.partition_by]
    for node, of in zip(query.partition_by, by, strict=True):
        check_key_type(of.kind, "PARTITION BY", node.at)
    nothing = any(one.kind.is_null for one in by)
    if nothing and len(by) > 1:
        raise SqlError("cannot PARTITION BY multiple columns including NULL", query.partition_by[0].at)
    own = [] if nothing else by if by else [scope.sql(t.Name(name, begin.sides[0].alias)) for name in begin.key]
    key = [JoinKey(one.text, one, one.text) for one in own]
    if not by and begin.keys:
        shown = {of.text for _, of in made}
        key = [next((one for one in begin.keys if one.by in shown), begin.keys[0])]
    keys: dict[str, Sql] = {}
    for one in key:
        named = [item for item, of in made if of.text == one.by]
        if not named:
            raise SqlError(
                f"key missing from projection. The query must include the key {one.shown} in its projection: SELECT "
                f"{one.shown}, ...",
                query.at,
            )
        if len(named) > 1 and len({item.expression for item in named}) < len(named):
            raise SqlError(
                f"the projection contains the key {one.shown} more than once. Use AS_VALUE to copy it into the value: "
                f"AS_VALUE({one.shown}) AS ...",
                named[1].expression.at,
            )
        keys[named[0].name] = one.of
    values = {item.name: of for item, of in made if item.name not in keys}
    keys = {escaped_name(name) if name in PSEUDO else name: of for name, of in keys.items()}
    if not values:
        raise SqlError("the projection contains no value columns", query.at)
    stream = keyed(stream, keys, values, nothing, windowed=is_windowed(begin.node) and not by)
    columns = [SqlColumn(name, of.kind, is_key=True) for name, of in keys.items()]
    return Relational(stream, (*columns, *(SqlColumn(name, of.kind) for name, of in values.items())))


def keyed(stream: Stream, keys: dict[str, Sql], values: dict[str, Sql], nothing: bool, *, windowed: bool) -> Stream:
    """Return the stream with this key and these values; with the key that it has, if no other is named.

    nothing: with a null key. windowed: the window in its key stays.
    """
    texts = {name: of.text for name, of in values.items()}
    spans = [] if nothing or not windowed else [*stream.key[-len(WINDOW_COLUMNS) :]]
    same = [*keys, *spans] == [*stream.key] and all(of.text == name_text(name) for name, of in keys.items())
    if nothing:
        hidden = free("NO_KEY", stream)
        return _select(stream.rekey(f"cast(NULL AS string) AS {hidden}"), texts)
    if same or not keys:
        return _select(stream, texts)
    # In three steps, since a name may be one of the key and one of a value, before and after.
    between = {name: free(f"KEY_{number}", stream) for number, name in enumerate(keys)}
    stream = stream.rekey(*(f"{of.text} AS {between[name]}" for name, of in keys.items()), *spans)
    stream = _select(stream, texts).rekey(*(f"{between[name]} AS `{name}`" for name in keys), *spans)
    return stream.drop(*between.values())


def _select(stream: Stream, texts: dict[str, str]) -> Stream:
    return stream.select(*(f"{text} AS `{name}`" for name, text in texts.items()))
