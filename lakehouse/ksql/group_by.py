"""GROUP BY: the table of a stream's aggregates."""

from __future__ import annotations

from dataclasses import replace

from lakehouse.errors import SqlError
from lakehouse.ksql.catalog import BOUNDS, SqlColumn, SqlRelation, window_bound
from lakehouse.ksql.expression.common_types import check_key_type
from lakehouse.ksql.expression.expression import ColumnScope, ScopeColumn
from lakehouse.ksql.function.aggregate import AGGREGATES, AggregateFunction, Option, check_argument_kinds
from lakehouse.ksql.function.call import why_unknown
from lakehouse.ksql.function.sql import Sql, column_sql
from lakehouse.ksql.function.table import FUNCTIONS, TABLE_FUNCTIONS
from lakehouse.ksql.items import NamedItem, aggregates_in, shown_expression
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax import tree as t
from lakehouse.ksql.syntax.kind import Kind
from lakehouse.ksql.syntax.statement import Query, WindowClause
from lakehouse.plan import aggregate_functions as ours
from lakehouse.plan import windows
from lakehouse.plan.aggregate_functions import Aggregation
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Emit
from lakehouse.plan.windows import DeclaredWindow


def compile_group_by(
    stream: Stream, scope: ColumnScope, items: list[NamedItem], query: Query, table_name: str
) -> SqlRelation:
    """Return the table of a query with GROUP BY. Raises SqlError."""
    _check_group_by(items, query)
    group_values = [scope.sql(group_node) for group_node in query.group_by]
    _check_bounds(items, query, {column_in_scope.name for column_in_scope in (*scope.columns, *scope.pseudo_columns)})
    if query.window is not None and query.window.name == "TUMBLING":
        scope = replace(scope, names={**scope.names, **_tumbling_bounds(query.window.size)})
    key_items = _grouping_keys(scope, items, group_values, query)
    aggregations: dict[str, Aggregation] = {}
    columns = [SqlColumn(item.name, value.kind, is_key=True) for item, value in key_items]
    aggregated_columns: dict[t.Expr, Sql] = {
        expression: column_sql(item.name, value.kind)
        for expression, (item, value) in zip(query.group_by, key_items, strict=True)
    }
    window = query.window
    value_items = [item for item in items if not any(item is key for key, _ in key_items)]
    # A group stays when its table's rows are gone: a value computed from its key must not be read from a row.
    computes_of_key = stream.undoes and not all(_is_aggregate(item.expression) for item in value_items)
    if computes_of_key or _computes_of_aggregates(items, query):
        return _compile_computed(stream, scope, key_items, items, query, table_name)
    for item in value_items:
        aggregate, result_kind = _group_value(item, scope, group_values, query)
        aggregations[item.name] = aggregate
        columns.append(SqlColumn(item.name, result_kind))
        if isinstance(item.expression, t.Call):
            aggregated_columns.setdefault(item.expression, column_sql(item.name, result_kind))
    grouped_stream = stream.group_by(*(f"{value.text} AS `{item.name}`" for item, value in key_items))
    if window is not None:
        grouped_stream = grouped_stream.window(_declared_window(window))
    aggregated_table = grouped_stream.agg(**aggregations)
    if query.having is not None:
        aggregated_columns |= _key_parts(query.having, scope, key_items)
        aggregated_table = aggregated_table.having(
            _having_text(query.having, aggregated_columns, columns, is_windowed=window is not None)
        )
    retention_text = None if window is None or window.retention is None else f"{_retention_ms(window)} milliseconds"
    return SqlRelation(
        aggregated_table.table(table_name, emit=_emit_mode(query), retention=retention_text), tuple(columns)
    )


def _check_group_by(items: list[NamedItem], query: Query) -> None:
    """Raise SqlError for a query whose groups can't be aggregated as it says."""
    for item in items:
        for node in item.expression.walk():
            if isinstance(node, t.Call) and node.name not in {*FUNCTIONS, *AGGREGATES, *TABLE_FUNCTIONS}:
                raise SqlError(why_unknown(node.name), node.position)
    if not any(aggregates_in(item.expression) for item in items) and not (
        query.having is not None and aggregates_in(query.having)
    ):
        raise SqlError(
            "GROUP BY requires aggregate functions in either the SELECT or HAVING clause. Add COUNT(*), or read the "
            "topic as a table",
            query.position,
        )
    for group_node in query.group_by:
        if aggregates_in(group_node):
            raise SqlError("GROUP BY does not support aggregate functions", group_node.position)
    if query.window is None and query.emit == "FINAL":
        raise SqlError("EMIT FINAL is only supported for windowed tables: add a WINDOW", query.position)


def _emit_mode(query: Query) -> Emit:
    return "final" if query.emit == "FINAL" else "changes"


def _computes_of_aggregates(items: list[NamedItem], query: Query) -> bool:
    """Say whether an item computes with aggregates or a window's bounds, or HAVING alone has an aggregate."""
    window_name = query.window.name if query.window is not None else ""
    if window_name in ("HOPPING", "SESSION") and any(_reads_bounds(item.expression, window_name) for item in items):
        return True
    direct_calls = [item.expression for item in items if isinstance(item.expression, t.Call)]
    nested_items = [item for item in items if aggregates_in(item.expression) and not _is_aggregate(item.expression)]
    return bool(nested_items) or any(call not in direct_calls for call in aggregates_in(query.having or t.Value(None)))


def _reads_bounds(node: t.Expr, window_name: str) -> bool:
    """Say whether the query reads a window's bounds in a way that the window's records can't answer.

    A session's records give each bound only by itself.
    """
    if window_name == "SESSION" and isinstance(node, t.Name):
        return False
    return any(isinstance(part, t.Name) and part.name in BOUNDS for part in node.walk())


def _is_aggregate(node: t.Expr) -> bool:
    return isinstance(node, t.Call) and node.name in AGGREGATES


def _compile_computed(
    stream: Stream,
    scope: ColumnScope,
    keys: list[tuple[NamedItem, Sql]],
    items: list[NamedItem],
    query: Query,
    table_name: str,
) -> SqlRelation:
    """Return a table that computes with aggregates; it reads a table that holds the aggregates, NAME_AGGREGATES."""
    expressions = [*(item.expression for item in items), *([query.having] if query.having is not None else [])]
    calls = list(dict.fromkeys(call for node in expressions for call in aggregates_in(node)))
    aggregates_by_name = {f"AGGREGATE_{number}": aggregation(call, scope) for number, call in enumerate(calls)}
    grouped_stream = stream.group_by(*(f"{value.text} AS `{item.name}`" for item, value in keys))
    if query.window is not None:
        grouped_stream = grouped_stream.window(_declared_window(query.window))
    aggregate_table = grouped_stream.agg(
        **{column_name: value for column_name, (value, _) in aggregates_by_name.items()}
    ).table(f"{table_name}_AGGREGATES", emit=_emit_mode(query))
    precomputed: dict[t.Expr, Sql] = {
        call: column_sql(column_name, kind)
        for call, (column_name, (_, kind)) in zip(calls, aggregates_by_name.items(), strict=True)
    }
    key_texts = {value.text for _, value in keys}
    scope = replace(
        scope, names={column_name: value for column_name, value in scope.names.items() if column_name not in BOUNDS}
    )
    for node in expressions:
        if query.window is not None:
            precomputed |= {
                part: window_bound(part.name)
                for part in node.walk()
                if isinstance(part, t.Name) and part.name in BOUNDS
            }
        _check_of_group(node, scope, key_texts)
        precomputed |= _key_parts(node, scope, keys)
    result_scope = ColumnScope((), precomputed=precomputed)
    rows = aggregate_table.rows
    if query.having is not None:
        rows = rows.filter(result_scope.predicate(query.having, "HAVING"))
    result_values = {
        item.name: result_scope.sql(item.expression) for item in items if not any(item is key for key, _ in keys)
    }
    if not result_values:
        raise SqlError("the projection contains no value columns", query.position)
    rows = rows.select(*(f"{value.text} AS `{column_name}`" for column_name, value in result_values.items()))
    columns = [SqlColumn(item.name, value.kind, is_key=True) for item, value in keys]
    return SqlRelation(
        rows.latest(table_name),
        (*columns, *(SqlColumn(column_name, value.kind) for column_name, value in result_values.items())),
    )


def _key_parts(node: t.Expr, scope: ColumnScope, keys: list[tuple[NamedItem, Sql]]) -> dict[t.Expr, Sql]:
    """Return the key's columns by the parts of an expression that mean them, however they are written."""
    keys_by_text = {value.text: column_sql(item.name, value.kind) for item, value in keys}
    return {part: keys_by_text[text] for part in node.walk() if (text := _group_text(part, scope)) in keys_by_text}


def _group_text(node: t.Expr, scope: ColumnScope) -> str | None:
    """Return the Spark SQL of a part before the aggregates; None for an aggregate or a part of a lambda."""
    if aggregates_in(node) or isinstance(node, t.Value | t.Lambda):
        return None
    try:
        return scope.sql(node).text
    except SqlError:
        return None


def _tumbling_bounds(size: int) -> dict[str, Sql]:
    """Return the bounds of a record's tumbling window, which follow from the record's time."""
    start = f"(rowtime - pmod(rowtime, {size}))"
    return {"WINDOWSTART": Sql(start, k.BIGINT), "WINDOWEND": Sql(f"({start} + {size})", k.BIGINT)}


def _check_bounds(items: list[NamedItem], query: Query, known_names: set[str]) -> None:
    for item in items:
        for part in item.expression.walk():
            if not isinstance(part, t.Name) or part.name not in BOUNDS:
                continue
            if query.window is None and part.name not in known_names:
                raise SqlError(f"column '{part.name}' cannot be resolved: the query has no WINDOW", part.position)


def _grouping_keys(
    scope: ColumnScope, items: list[NamedItem], group_values: list[Sql], query: Query
) -> list[tuple[NamedItem, Sql]]:
    """Return the items that are the grouping expressions, in their order."""
    key_items = []
    for expression, value in zip(query.group_by, group_values, strict=True):
        check_key_type(value.kind, "GROUP BY", expression.position)
        plain_items = [item for item in items if not aggregates_in(item.expression)]
        matching_items = [item for item in plain_items if _item_text(scope, item.expression) == value.text]
        if not matching_items:
            raise SqlError(
                "key missing from projection. The query must include the grouping expression in its projection: "
                f"SELECT {shown_expression(expression)}, ...",
                expression.position,
            )
        if len(matching_items) > 1:
            key_text = shown_expression(expression)
            raise SqlError(
                f"the projection contains the key {key_text} more than once. Use AS_VALUE to copy it: "
                f"AS_VALUE({key_text}) AS ...",
                matching_items[1].expression.position,
            )
        key_items.append((matching_items[0], value))
    return key_items


def _item_text(scope: ColumnScope, node: t.Expr) -> str | None:
    if any(isinstance(part, t.Name) and part.name in BOUNDS for part in node.walk()):
        return None
    return scope.sql(node).text


def _group_value(
    item: NamedItem, scope: ColumnScope, group_values: list[Sql], query: Query
) -> tuple[Aggregation, Kind]:
    """Return a value of a group: an aggregate, or an expression over the key that all its records share."""
    node = item.expression
    if isinstance(node, t.Name) and node.name in BOUNDS and query.window is not None and query.window.name == "SESSION":
        return (ours.min if node.name == "WINDOWSTART" else ours.max)("rowtime"), k.BIGINT
    if isinstance(node, t.Call) and node.name in AGGREGATES:
        return aggregation(node, scope)
    _check_of_group(node, scope, {value.text for value in group_values})
    value_sql = scope.sql(node)
    return ours.latest(value_sql.text, ignore_nulls=False), value_sql.kind


def _check_of_group(
    node: t.Expr, scope: ColumnScope, group_texts: set[str], parameters: frozenset[str] = frozenset()
) -> None:
    """Raise SqlError for a column that is none of the group. parameters: the names of the lambdas around the node."""
    if _is_aggregate(node):
        return
    if isinstance(node, t.Lambda):
        parameters |= set(node.names)
    reads_parameter = t.reads_names(node, parameters)
    is_plain = not (isinstance(node, t.Value | t.Lambda) or aggregates_in(node) or _reads_bounds(node, ""))
    if is_plain and not reads_parameter and scope.sql(node).text in group_texts:
        return
    if isinstance(node, t.Name) and node.name not in BOUNDS and not reads_parameter:
        raise SqlError(
            f"non-aggregate SELECT expression(s) not part of GROUP BY: {node.name}. Either add the column(s) to the "
            "GROUP BY or remove them from the SELECT",
            node.position,
        )
    for part in node.parts():
        _check_of_group(part, scope, group_texts, parameters)


def aggregation(call: t.Call, scope: ColumnScope) -> tuple[Aggregation, Kind]:
    """Return the aggregate that a call means, and the type of its result. Raises SqlError."""
    record = AGGREGATES[call.name]
    if call.every or not call.arguments:
        if call.name == "COUNT":
            return ours.count(), record.gives(Kind("BIGINT"))
        call = replace(call, arguments=(t.Name("ROWTIME", position=call.position),), every=False)  # as ksqlDB has it
    arguments, options = _split_options(call, record)
    for part in call.arguments:
        if nested_calls := aggregates_in(part):
            raise SqlError(
                f"aggregate functions can't be nested: {call.name}({nested_calls[0].name}(...))",
                nested_calls[0].position,
            )
        for inner_node in part.walk():
            known_names = {scope_column.name for scope_column in (*scope.columns, *scope.pseudo_columns)}
            if isinstance(inner_node, t.Name) and inner_node.name in BOUNDS and inner_node.name not in known_names:
                raise SqlError(
                    f"{inner_node.name} in {call.name}: a window has one. Select it beside the aggregates",
                    inner_node.position,
                )
    argument_values = [scope.sql(inner_node) for inner_node in arguments]
    check_argument_kinds(record, [value.kind for value in argument_values], call.position)
    aggregate = record.call(argument_values, options)
    if (limit := scope.limits.get(call.name)) is not None:
        aggregate = replace(aggregate, options=(("limit", limit),))
    return aggregate, record.gives(*(value.kind for value in argument_values), *options)


def _split_options(call: t.Call, record: AggregateFunction) -> tuple[list[t.Expr], list[Option]]:
    """Split a call into its arguments and its options, the literals after them. Raises SqlError."""
    arguments: list[t.Expr] = list(call.arguments)
    options: list[Option] = []
    while _ends_in_option(arguments) and len(options) < max(map(len, record.options)):
        last_argument = arguments.pop()
        assert isinstance(last_argument, t.Value)
        assert isinstance(last_argument.value, bool | int)
        options.insert(0, last_argument.value)
    least, most = record.arguments
    if tuple(map(type, options)) not in record.options or not least <= len(arguments) <= most:
        raise SqlError(
            f"{call.name} takes {record.argument_form}", call.position,
            expected=f"{call.name}({record.usage or record.takes})",
        )  # fmt: skip
    return arguments, options


def _ends_in_option(arguments: list[t.Expr]) -> bool:
    """Say whether the last of several arguments is a literal: a whole number, true or false."""
    return len(arguments) > 1 and isinstance(arguments[-1], t.Value) and isinstance(arguments[-1].value, bool | int)


def _having_text(node: t.Expr, aggregated: dict[t.Expr, Sql], columns: list[SqlColumn], *, is_windowed: bool) -> str:
    scope_columns = tuple(
        ScopeColumn(result_column.name, "", column_sql(result_column.name, result_column.kind))
        for result_column in columns
    )
    precomputed = aggregated | (
        {t.Name(bound_name): window_bound(bound_name) for bound_name in BOUNDS} if is_windowed else {}
    )
    return replace(ColumnScope(scope_columns), precomputed=precomputed).predicate(node, "HAVING")


def _declared_window(window: WindowClause) -> DeclaredWindow:
    grace = None if window.grace is None else f"{window.grace} milliseconds"
    size_text = f"{window.size} milliseconds"
    match window.name:
        case "TUMBLING":
            return windows.tumbling(size_text, grace=grace)
        case "HOPPING":
            return windows.hopping(size_text, f"{window.advance} milliseconds", grace=grace)
    return windows.session(size_text, grace=grace)


def _retention_ms(window: WindowClause) -> int:
    """Return how long a window's row is kept after the window's end; ksqlDB counts from its start."""
    assert window.retention is not None
    if window.name == "SESSION":
        return window.retention
    least_retention = window.size + (window.grace or 0)
    if window.retention < least_retention:
        raise SqlError(
            f"RETENTION is {window.retention} ms, and a window with its grace is needed for {least_retention} ms",
            window.position,
        )
    return window.retention - window.size
