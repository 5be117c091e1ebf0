"""SELECT, as nodes of the graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from lakehouse.errors import SqlError
from lakehouse.ksql.catalog import (
    BOUNDS,
    PSEUDO,
    Entry,
    SqlColumn,
    SqlRelation,
    is_windowed,
    pseudo_scope,
    window_bound,
)
from lakehouse.ksql.constraint import with_row_constraints
from lakehouse.ksql.expression.common_types import check_key_type
from lakehouse.ksql.expression.expression import ColumnScope, ScopeColumn
from lakehouse.ksql.function.collection import cube_arrays
from lakehouse.ksql.function.sql import Sql, column_sql
from lakehouse.ksql.group_by import compile_group_by
from lakehouse.ksql.items import (
    NamedItem,
    Side,
    aggregates_in,
    check_places,
    named_items,
    shown_expression,
    table_functions_in,
)
from lakehouse.ksql.join import compile_joins
from lakehouse.ksql.join_parts import FromResult, JoinKey, free_column_name
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax import tree as t
from lakehouse.ksql.syntax.statement import Constraints, HistoryClause, Item, Query
from lakehouse.plan.expression.expression import name_text
from lakehouse.plan.names.field import escaped_name
from lakehouse.plan.operator import VALID_FROM, VALID_TO, WINDOW_COLUMNS, Latest
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table

Find = Callable[[str, int], Entry]


@dataclass(frozen=True, slots=True)
class QueryTarget:
    """The expected result of a query: its name, and whether it is a STREAM or a TABLE.

    limits: how many values an aggregate keeps, by its name. history: the result is the history of the query's table.
    constraints: what is expected of the table's rows.
    """

    kind: str
    name: str
    position: int
    limits: Mapping[str, int] = field(default_factory=dict)
    history: HistoryClause | None = None
    constraints: Constraints = ()


def compile_query(query: Query, find: Find, target: QueryTarget) -> SqlRelation:
    """Return the result of a query. find: called with a name and its place; gives the stream or table.

    Raises SqlError, PlanError.
    """
    return with_row_constraints(_compile_rows(query, find, target), target.constraints, target.name)


def _compile_rows(query: Query, find: Find, target: QueryTarget) -> SqlRelation:
    """Return the result of a query, of which nothing is expected yet."""
    from_clause = compile_from(query, find, target.name)
    if query.moment is not None or query.limit is not None:
        raise SqlError("AT and LIMIT are for a SELECT that is asked now, not for one that is kept", query.position)
    _check_aggregates(query)
    kind = "TABLE" if query.group_by or from_clause.is_table else "STREAM"
    if kind != target.kind:
        raise SqlError(
            f"invalid result type. Your SELECT query produces a {kind}. Please use CREATE {kind} AS SELECT "
            "statement instead",
            target.position,
        )
    _check_clauses(query, from_clause)
    stream = _records_of(from_clause.node, query, target)
    if query.where is not None:
        stream = stream.filter(from_clause.scope.predicate(query.where, "WHERE"))
    sides = [side.with_key_last() for side in from_clause.sides] if query.partition_by else from_clause.sides
    item_list = named_items(_items_with_keys(query), sides, from_clause.scope, rowkey=from_clause.rowkey)
    stream, scope = explode_items(stream, item_list, from_clause.scope)
    if query.group_by:
        grouped = compile_group_by(stream, replace(scope, limits=target.limits), item_list, query, target.name)
        return grouped if target.history is None else history_of(grouped, target.name, target.history)
    selected = _compile_select(stream, scope, item_list, query, from_clause)
    if not from_clause.is_table:
        return selected
    assert isinstance(selected.node, Stream)
    latest = replace(selected, node=selected.node.latest(target.name))
    return latest if target.history is None else history_of(latest, target.name, target.history)


def history_of(relational: SqlRelation, name: str, history: HistoryClause) -> SqlRelation:
    """Return the history of a table, under the same name or another one. Raises PlanError."""
    assert isinstance(relational.node, Table)
    key_columns = [column for column in relational.columns if column.is_key]
    begin, end = VALID_FROM.upper(), VALID_TO.upper()
    times = (SqlColumn(begin, k.TIMESTAMP, is_key=True), SqlColumn(end, k.TIMESTAMP))
    track = history.track
    value_columns = [
        column for column in relational.columns if not column.is_key and (track is None or column.name in track)
    ]
    return SqlRelation(relational.node.history(name, track=track), (*key_columns, *times, *value_columns))


def _records_of(node: Stream | Table, query: Query, target: QueryTarget) -> Stream:
    """Return the records that a query reads: of a table its rows, change by change.

    The history of a topic's table goes back to the topic's records, since the event times of rows are not kept.
    """
    if isinstance(node, Stream):
        return node
    if target.history is None:
        return node.rows
    if (
        query.where is not None
        or query.joins
        or query.group_by
        or type(node.fold) is not Latest
        or node.later_operators
    ):
        raise SqlError(
            "HISTORY is kept of a topic's table, without WHERE, JOIN and GROUP BY, or of the groups of a stream; "
            f"{query.relation.name} is a table",
            query.relation.position,
        )
    return node.stream


def compile_from(query: Query, find: Find, name: str) -> FromResult:
    """Return a query's FROM, with the columns that its expressions read. name: the name of the query's result."""
    left = find(query.relation.name, query.relation.position)
    if query.joins:
        return compile_joins(query, left, find, name)
    source_alias = query.relation.alias
    scope_columns = tuple(
        ScopeColumn(source_column.name, source_alias, column_sql(source_column.name, source_column.kind))
        for source_column in left.columns
    )
    is_table = isinstance(left.relation.node, Table)
    pseudo_columns = pseudo_scope(source_alias)
    own_names = {column.name for column in left.columns}
    bound_columns = tuple(
        ScopeColumn(name, source_alias, window_bound(name))
        for name in BOUNDS
        if left.is_windowed and name not in own_names
    )
    # The bounds are part of * for tables alone, as in ksqlDB, which can't select from a table of windows.
    star_side = _source_side(left, source_alias, bound_columns if is_table else ())
    return FromResult(
        left.relation.node,
        (star_side,),
        ColumnScope(scope_columns, (*pseudo_columns, *bound_columns)),
        left.relation.key,
        (),
        is_table,
    )


def _source_side(entry: Entry, alias: str, bounds: tuple[ScopeColumn, ...]) -> Side:
    """Return the columns of *: the key, the bounds of its window, and the values."""
    key_columns = [column for column in entry.columns if column.is_key]
    value_columns = [column for column in entry.columns if not column.is_key]
    return Side(
        alias,
        (
            *key_columns,
            *(SqlColumn(bound_column.name, bound_column.sql.kind) for bound_column in bounds),
            *value_columns,
        ),
    )


def _items_with_keys(query: Query) -> tuple[Item, ...]:
    """Return the items of a query; * includes the expressions of PARTITION BY, as the key."""
    if not any(item.expression is None and item.source is None for item in query.items):
        return query.items
    listed_nodes = {item.expression for item in query.items}
    key_nodes = [
        key_node for key_node in query.partition_by if not _is_in_star(key_node) and key_node not in listed_nodes
    ]
    return (*(Item(key_node, position=key_node.position) for key_node in key_nodes), *query.items)


def _is_in_star(node: t.Expr) -> bool:
    """Say whether * needs no further item for an expression: a literal, or a column that is no pseudo column."""
    return isinstance(node, t.Value) or (isinstance(node, t.Name) and node.name not in PSEUDO)


def _check_clauses(query: Query, from_clause: FromResult) -> None:
    if from_clause.is_table:
        _check_is_table(query, from_clause)
    if query.group_by:
        if query.partition_by:
            raise SqlError("GROUP BY and PARTITION BY can't be in one statement", query.partition_by[0].position)
        return
    if query.window is not None:
        raise SqlError("WINDOW clause requires a GROUP BY clause", query.window.position)
    if query.having is not None:
        raise SqlError("HAVING clause requires a GROUP BY clause", query.having.position)
    if query.emit == "FINAL":
        raise SqlError("EMIT FINAL is only supported for windowed tables: GROUP BY with a WINDOW", query.position)


def _check_aggregates(query: Query) -> None:
    for item in () if query.group_by else query.items:
        if item.expression is not None and (calls := aggregates_in(item.expression)):
            raise SqlError(f"use of aggregate function {calls[0].name} requires a GROUP BY clause", calls[0].position)


def _check_is_table(query: Query, from_clause: FromResult) -> None:
    if is_windowed(from_clause.node) and query.group_by:
        raise SqlError(
            f"GROUP BY is not supported over a windowed table, and {query.relation.name} has windows. Group the stream "
            "that it is made of",
            query.relation.position,
        )
    for clause_node in (*query.group_by, *([query.where] if query.where is not None else [])):
        for part in clause_node.walk():
            if isinstance(part, t.Name) and part.name in PSEUDO and isinstance(from_clause.node, Table):
                raise SqlError(
                    f"{part.name} of a table's row is that of its last change, so it can be selected, but not decide "
                    "which rows there are. Declare a column with the time",
                    part.position,
                )
    for clause, clause_value in (("PARTITION BY", query.partition_by), ("WINDOW", query.window)):
        if clause_value:
            raise SqlError(f"{clause} clause is only supported for stream sources", query.position)
    for item in query.items:
        if item.expression is not None and (calls := table_functions_in(item.expression)):
            raise SqlError("table source is not supported with table functions", calls[0].position)


def explode_items(stream: Stream, items: list[NamedItem], scope: ColumnScope) -> tuple[Stream, ColumnScope]:
    """Return the stream with a record for each element of the array that an item explodes.

    Several arrays are exploded side by side; nulls fill up the shorter ones.
    """
    calls = list(dict.fromkeys(call for item in items for call in table_functions_in(item.expression)))
    if not calls:
        return stream, scope
    array_values = []
    for item in items:
        check_places(item.expression)
    for call in calls:
        if len(call.arguments) != 1 or (array_value := scope.sql(call.arguments[0])).kind.name != "ARRAY":
            raise SqlError(f"{call.name} takes one array", call.position)
        array_values.append(array_value if call.name == "EXPLODE" else cube_arrays(array_value))
    exploded_name = free_column_name("EXPLODED", stream)
    if len(calls) == 1:
        exploded_elements: dict[t.Expr, Sql] = {calls[0]: column_sql(exploded_name, array_values[0].kind.inner[0])}
        return stream.explode(array_values[0].text, exploded_name), replace(
            scope, precomputed={**scope.precomputed, **exploded_elements}
        )
    longest_size = (
        f"greatest({', '.join(f'coalesce(array_size({array_value.text}), 0)' for array_value in array_values)})"
    )
    places_sql = f"CASE WHEN {longest_size} > 0 THEN sequence(1, {longest_size}) END"
    exploded_elements = {
        call: Sql(f"try_element_at({array_value.text}, {exploded_name})", array_value.kind.inner[0])
        for call, array_value in zip(calls, array_values, strict=True)
    }
    return stream.explode(places_sql, exploded_name), replace(
        scope, precomputed={**scope.precomputed, **exploded_elements}
    )


def _compile_select(
    stream: Stream, scope: ColumnScope, items: list[NamedItem], query: Query, from_clause: FromResult
) -> SqlRelation:
    """Return the stream of a SELECT without a GROUP BY."""
    compiled_items = [(item, scope.sql(item.expression)) for item in items]
    partition_values = [scope.sql(choice) for choice in query.partition_by]
    for node, value in zip(query.partition_by, partition_values, strict=True):
        check_key_type(value.kind, "PARTITION BY", node.position)
    has_null_key = any(choice.kind.is_null for choice in partition_values)
    if has_null_key and len(partition_values) > 1:
        raise SqlError("cannot PARTITION BY multiple columns including NULL", query.partition_by[0].position)
    key_values = (
        []
        if has_null_key
        else partition_values
        if partition_values
        else [scope.sql(t.Name(name, from_clause.sides[0].alias)) for name in from_clause.key]
    )
    key_choices = [JoinKey(choice.text, choice, choice.text) for choice in key_values]
    if query.partition_by and not has_null_key:
        key_choices = [
            replace(choice, message_text=shown_expression(node))
            for node, choice in zip(query.partition_by, key_choices, strict=True)
        ]
    if not partition_values and from_clause.keys:
        selected_texts = {value.text for _, value in compiled_items}
        key_choices = [
            next((choice for choice in from_clause.keys if choice.item_text in selected_texts), from_clause.keys[0])
        ]
    key_columns: dict[str, Sql] = {}
    for choice in key_choices:
        named_items = [item for item, value in compiled_items if value.text == choice.item_text]
        if not named_items:
            raise SqlError(
                f"key missing from projection. The query must include the key {choice.message_text} in its projection: "
                f"SELECT {choice.message_text}, ...",
                query.position,
            )
        if len(named_items) > 1 and len({item.expression for item in named_items}) < len(named_items):
            raise SqlError(
                f"the projection contains the key {choice.message_text} more than once. "
                f"Use AS_VALUE to copy it into the value: AS_VALUE({choice.message_text}) AS ...",
                named_items[1].expression.position,
            )
        key_columns[named_items[0].name] = choice.expression
    value_columns = {item.name: value for item, value in compiled_items if item.name not in key_columns}
    for item in items:
        if item.name in PSEUDO and item.name in value_columns:
            raise SqlError(
                f"{item.name} is a reserved column name. Give it an alias: {item.name} AS ...", item.expression.position
            )
    key_columns = {escaped_name(name) if name in PSEUDO else name: value for name, value in key_columns.items()}
    if not value_columns:
        raise SqlError("the projection contains no value columns", query.position)
    stream = rekey_stream(
        stream,
        key_columns,
        value_columns,
        has_null_key,
        is_windowed=is_windowed(from_clause.node) and not partition_values,
    )
    columns = [SqlColumn(name, value.kind, is_key=True) for name, value in key_columns.items()]
    return SqlRelation(stream, (*columns, *(SqlColumn(name, value.kind) for name, value in value_columns.items())))


def rekey_stream(
    stream: Stream, keys: dict[str, Sql], values: dict[str, Sql], has_null_key: bool, *, is_windowed: bool
) -> Stream:
    """Return the stream with these values and this key, or its present key if none is named.

    has_null_key: the key becomes null. is_windowed: the window in its key stays.
    """
    value_texts = {name: value.text for name, value in values.items()}
    window_key = [] if has_null_key or not is_windowed else [*stream.key[-len(WINDOW_COLUMNS) :]]
    is_same_key = [*keys, *window_key] == [*stream.key] and all(
        value.text == name_text(name) for name, value in keys.items()
    )
    if has_null_key:
        null_key = free_column_name("NO_KEY", stream)
        return _select_texts(stream.rekey(f"cast(NULL AS string) AS {null_key}"), value_texts)
    if is_same_key or not keys:
        return _select_texts(stream, value_texts)
    # In three steps, since the key and a value may have the same name, before and after.
    temporary_names = {name: free_column_name(f"KEY_{number}", stream) for number, name in enumerate(keys)}
    stream = stream.rekey(*(f"{value.text} AS {temporary_names[name]}" for name, value in keys.items()), *window_key)
    stream = _select_texts(stream, value_texts).rekey(
        *(f"{temporary_names[name]} AS `{name}`" for name in keys), *window_key
    )
    return stream.drop(*temporary_names.values())


def _select_texts(stream: Stream, texts: dict[str, str]) -> Stream:
    return stream.select(*(f"{text} AS `{name}`" for name, text in texts.items()))
