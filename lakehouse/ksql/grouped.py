"""GROUP BY: the table of a stream's aggregates."""

from __future__ import annotations

from dataclasses import replace

from lakehouse.errors import SqlError
from lakehouse.ksql.catalog import BOUNDS, Relational, SqlColumn, bound
from lakehouse.ksql.coerced import check_key_type
from lakehouse.ksql.expression import Seen, Visible
from lakehouse.ksql.function.aggregate import AGGREGATES, AggregateFunction, Option, check_taken
from lakehouse.ksql.function.call import unknown
from lakehouse.ksql.function.sql import Sql, column
from lakehouse.ksql.function.table import FUNCTIONS, TABLE_FUNCTIONS
from lakehouse.ksql.items import NamedItem, aggregates_in
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax import tree as t
from lakehouse.ksql.syntax.kind import Kind
from lakehouse.ksql.syntax.statement import Query, WindowClause
from lakehouse.plan import aggregates as ours
from lakehouse.plan import windows
from lakehouse.plan.aggregates import Aggregation
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Emit
from lakehouse.plan.windows import Declared


def grouped(stream: Stream, scope: Visible, items: list[NamedItem], query: Query, name: str) -> Relational:
    """Return the table of a query with GROUP BY. Raises SqlError."""
    for item in items:
        for part in item.expression.walk():
            if isinstance(part, t.Call) and part.name not in {*FUNCTIONS, *AGGREGATES, *TABLE_FUNCTIONS}:
                raise SqlError(unknown(part.name), part.at)
    if not any(aggregates_in(item.expression) for item in items) and not (
        query.having is not None and aggregates_in(query.having)
    ):
        raise SqlError(
            "GROUP BY requires aggregate functions in either the SELECT or HAVING clause. Add COUNT(*), or read the "
            "topic as a table",
            query.at,
        )
    for one in query.group_by:
        if aggregates_in(one):
            raise SqlError("GROUP BY does not support aggregate functions", one.at)
    by = [scope.sql(one) for one in query.group_by]
    _check_bounds(items, query, {seen.name for seen in (*scope.columns, *scope.pseudo)})
    if query.window is not None and query.window.name == "TUMBLING":
        scope = replace(scope, names={**scope.names, **_bounds(query.window.size)})
    keys = _keys(scope, items, by, query)
    made: dict[str, Aggregation] = {}
    columns = [SqlColumn(item.name, of.kind, is_key=True) for item, of in keys]
    aggregated: dict[t.Expr, Sql] = {expression: column(item.name, of.kind)
                                     for expression, (item, of) in zip(query.group_by, keys, strict=True)}  # fmt: skip
    window = query.window
    if window is None and query.emit == "FINAL":
        raise SqlError("EMIT FINAL is only supported for windowed tables: add a WINDOW", query.at)
    values = [item for item in items if not any(item is key for key, _ in keys)]
    # A group of a table's rows stays when its rows are gone: what is computed of its key must not come from a row.
    of_key = stream.undoes and not all(_is_aggregate(item.expression) for item in values)
    if of_key or _computes(items, query):
        return _computed(stream, scope, keys, items, query, name)
    for item in values:
        aggregation, kind = _item(item, scope, by, query)
        made[item.name] = aggregation
        columns.append(SqlColumn(item.name, kind))
        if isinstance(item.expression, t.Call):
            aggregated.setdefault(item.expression, column(item.name, kind))
    groups = stream.group_by(*(f"{of.text} AS `{item.name}`" for item, of in keys))
    if window is not None:
        groups = groups.window(_window(window))
    result = groups.agg(**made)
    if query.having is not None:
        result = result.having(_having(query.having, aggregated, columns, windowed=window is not None))
    retention = None if window is None or window.retention is None else f"{_kept(window)} milliseconds"
    return Relational(result.table(name, emit=_emit(query), retention=retention), tuple(columns))


def _emit(query: Query) -> Emit:
    return "final" if query.emit == "FINAL" else "changes"


def _computes(items: list[NamedItem], query: Query) -> bool:
    """Whether something is computed of aggregates or of a window's bounds, or an aggregate is only in HAVING."""
    window = query.window.name if query.window is not None else ""
    if window in ("HOPPING", "SESSION") and any(_bounds_in(item.expression, window) for item in items):
        return True
    alone = [item.expression for item in items if isinstance(item.expression, t.Call)]
    inside = [item for item in items if aggregates_in(item.expression) and not _is_aggregate(item.expression)]
    return bool(inside) or any(call not in alone for call in aggregates_in(query.having or t.Value(None)))


def _bounds_in(node: t.Expr, window: str) -> bool:
    """Whether a window's bounds are read in a way that its records don't tell; of a session they tell each alone."""
    if window == "SESSION" and isinstance(node, t.Name):
        return False
    return any(isinstance(part, t.Name) and part.name in BOUNDS for part in node.walk())


def _is_aggregate(node: t.Expr) -> bool:
    return isinstance(node, t.Call) and node.name in AGGREGATES


def _computed(
    stream: Stream, scope: Visible, keys: list[tuple[NamedItem, Sql]], items: list[NamedItem], query: Query, name: str
) -> Relational:
    """The table of what is computed of aggregates: over the rows of one that keeps these, NAME_AGGREGATES."""
    every = [*(item.expression for item in items), *([query.having] if query.having is not None else [])]
    calls = list(dict.fromkeys(call for node in every for call in aggregates_in(node)))
    made = {f"AGGREGATE_{number}": aggregation(call, scope) for number, call in enumerate(calls)}
    groups = stream.group_by(*(f"{of.text} AS `{item.name}`" for item, of in keys))
    if query.window is not None:
        groups = groups.window(_window(query.window))
    inner = groups.agg(**{one: of for one, (of, _) in made.items()}).table(f"{name}_AGGREGATES", emit=_emit(query))
    ready: dict[t.Expr, Sql] = {
        call: column(one, kind) for call, (one, (_, kind)) in zip(calls, made.items(), strict=True)
    }
    texts = {of.text: column(item.name, of.kind) for item, of in keys}
    scope = replace(scope, names={one: of for one, of in scope.names.items() if one not in BOUNDS})
    for node in every:
        if query.window is not None:
            ready |= {
                part: bound(part.name) for part in node.walk() if isinstance(part, t.Name) and part.name in BOUNDS
            }
        _check_of_group(node, scope, set(texts))
        ready |= {part: texts[text] for part in node.walk() if (text := _group_text(part, scope)) in texts}
    after = Visible((), ready=ready)
    rows = inner.rows
    if query.having is not None:
        rows = rows.filter(after.predicate(query.having, "HAVING"))
    values = {item.name: after.sql(item.expression) for item in items if not any(item is key for key, _ in keys)}
    if not values:
        raise SqlError("the projection contains no value columns", query.at)
    rows = rows.select(*(f"{of.text} AS `{one}`" for one, of in values.items()))
    columns = [SqlColumn(item.name, of.kind, is_key=True) for item, of in keys]
    return Relational(rows.latest(name), (*columns, *(SqlColumn(one, of.kind) for one, of in values.items())))


def _group_text(node: t.Expr, scope: Visible) -> str | None:
    """What a part of an expression is in Spark SQL before the aggregates; None for an aggregate, or a lambda's part."""
    if aggregates_in(node) or isinstance(node, t.Value | t.Lambda):
        return None
    try:
        return scope.sql(node).text
    except SqlError:
        return None


def _bounds(size: int) -> dict[str, Sql]:
    """The bounds of a record's window: a tumbling one is told by the record's time."""
    start = f"(rowtime - pmod(rowtime, {size}))"
    return {"WINDOWSTART": Sql(start, k.BIGINT), "WINDOWEND": Sql(f"({start} + {size})", k.BIGINT)}


def _check_bounds(items: list[NamedItem], query: Query, known: set[str]) -> None:
    for item in items:
        for part in item.expression.walk():
            if not isinstance(part, t.Name) or part.name not in BOUNDS:
                continue
            if query.window is None and part.name not in known:
                raise SqlError(f"column '{part.name}' cannot be resolved: the query has no WINDOW", part.at)


def _keys(scope: Visible, items: list[NamedItem], by: list[Sql], query: Query) -> list[tuple[NamedItem, Sql]]:
    """The items that are the grouping expressions, in their order."""
    found = []
    for expression, of in zip(query.group_by, by, strict=True):
        check_key_type(of.kind, "GROUP BY", expression.at)
        plain = [item for item in items if not aggregates_in(item.expression)]
        same = [item for item in plain if _text(scope, item.expression) == of.text]
        if not same:
            raise SqlError(
                "key missing from projection. The query must include the grouping expression in its projection: "
                f"SELECT {of.text}, ...",
                expression.at,
            )
        if len(same) > 1:
            raise SqlError(
                f"the projection contains the key {of.text} more than once. Use AS_VALUE to copy it: "
                f"AS_VALUE({of.text}) AS ...",
                same[1].expression.at,
            )
        found.append((same[0], of))
    return found


def _text(scope: Visible, node: t.Expr) -> str | None:
    if any(isinstance(part, t.Name) and part.name in BOUNDS for part in node.walk()):
        return None
    return scope.sql(node).text


def _item(item: NamedItem, scope: Visible, by: list[Sql], query: Query) -> tuple[Aggregation, Kind]:
    """A value of the group: an aggregate, or an expression over the group's key, which all its records share."""
    node = item.expression
    if isinstance(node, t.Name) and node.name in BOUNDS and query.window is not None and query.window.name == "SESSION":
        return (ours.min if node.name == "WINDOWSTART" else ours.max)("rowtime"), k.BIGINT
    if isinstance(node, t.Call) and node.name in AGGREGATES:
        return aggregation(node, scope)
    _check_of_group(node, scope, {of.text for of in by})
    made = scope.sql(node)
    return ours.latest(made.text, ignore_nulls=False), made.kind


def _check_of_group(node: t.Expr, scope: Visible, by: set[str]) -> None:
    if isinstance(node, t.Lambda) or _is_aggregate(node):
        return
    plain = not aggregates_in(node) and not isinstance(node, t.Value) and not _bounds_in(node, "")
    if plain and scope.sql(node).text in by:
        return
    if isinstance(node, t.Name) and node.name not in BOUNDS:
        raise SqlError(
            f"non-aggregate SELECT expression(s) not part of GROUP BY: {node.name}. Either add the column(s) to the "
            "GROUP BY or remove them from the SELECT",
            node.at,
        )
    for part in node.parts():
        _check_of_group(part, scope, by)


def aggregation(call: t.Call, scope: Visible) -> tuple[Aggregation, Kind]:
    """Return the aggregate that a call means, and the type of its result. Raises SqlError."""
    record = AGGREGATES[call.name]
    if call.every or not call.arguments:
        if call.name == "COUNT":
            return ours.count(), record.gives(Kind("BIGINT"))
        call = replace(call, arguments=(t.Name("ROWTIME", at=call.at),), every=False)  # as ksqlDB has it
    arguments, options = _given(call, record)
    for part in call.arguments:
        if nested := aggregates_in(part):
            raise SqlError(f"aggregate functions can't be nested: {call.name}({nested[0].name}(...))", nested[0].at)
        for one in part.walk():
            known = {seen.name for seen in (*scope.columns, *scope.pseudo)}
            if isinstance(one, t.Name) and one.name in BOUNDS and one.name not in known:
                raise SqlError(f"{one.name} in {call.name}: a window has one. Select it beside the aggregates", one.at)
    given = [scope.sql(one) for one in arguments]
    check_taken(record, [of.kind for of in given], call.at)
    made = record.call(given, options)
    if (limit := scope.limits.get(call.name)) is not None:
        made = replace(made, options=(("limit", limit),))
    return made, record.gives(*(of.kind for of in given), *options)


def _given(call: t.Call, record: AggregateFunction) -> tuple[list[t.Expr], list[Option]]:
    """The arguments of a call, and the literals after them, which are its options. Raises SqlError."""
    arguments: list[t.Expr] = list(call.arguments)
    options: list[Option] = []
    while _ends_in_option(arguments) and len(options) < max(map(len, record.options)):
        last = arguments.pop()
        assert isinstance(last, t.Value)
        assert isinstance(last.value, bool | int)
        options.insert(0, last.value)
    least, most = record.arguments
    if tuple(map(type, options)) not in record.options or not least <= len(arguments) <= most:
        raise SqlError(
            f"{call.name} takes {record.wanted}", call.at,
            expected=f"{call.name}({record.shown or record.takes})",
        )  # fmt: skip
    return arguments, options


def _ends_in_option(arguments: list[t.Expr]) -> bool:
    """Say whether the last of several arguments is a literal: a whole number, true or false."""
    return len(arguments) > 1 and isinstance(arguments[-1], t.Value) and isinstance(arguments[-1].value, bool | int)


def _having(node: t.Expr, aggregated: dict[t.Expr, Sql], columns: list[SqlColumn], *, windowed: bool) -> str:
    seen = tuple(Seen(c.name, "", column(c.name, c.kind)) for c in columns)
    ready = aggregated | ({t.Name(one): bound(one) for one in BOUNDS} if windowed else {})
    return replace(Visible(seen), ready=ready).predicate(node, "HAVING")


def _window(window: WindowClause) -> Declared:
    grace = None if window.grace is None else f"{window.grace} milliseconds"
    size = f"{window.size} milliseconds"
    match window.name:
        case "TUMBLING":
            return windows.tumbling(size, grace=grace)
        case "HOPPING":
            return windows.hopping(size, f"{window.advance} milliseconds", grace=grace)
    return windows.session(size, grace=grace)


def _kept(window: WindowClause) -> int:
    """How long after its end a window's row is kept; ksqlDB counts from the window's begin."""
    assert window.retention is not None
    if window.name == "SESSION":
        return window.retention
    least = window.size + (window.grace or 0)
    if window.retention < least:
        raise SqlError(
            f"RETENTION is {window.retention} ms, and a window with its grace is needed for {least} ms", window.at
        )
    return window.retention - window.size
