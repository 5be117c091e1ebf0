"""Pull queries: the rows of a table now or at a moment, or the records of a stream so far; without a JVM.

The model evaluates expressions: a function that it does not have needs Spark, and so a CREATE ... AS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from lakehouse.errors import ConfigError, NotFound, SqlError
from lakehouse.ksql.catalog import BOUNDS, Entry, SqlColumn, window_bound
from lakehouse.ksql.describe import Answer
from lakehouse.ksql.expression.expression import ColumnScope, ScopeColumn
from lakehouse.ksql.function.sql import column_sql
from lakehouse.ksql.items import Side, aggregates_in, named_items
from lakehouse.ksql.script import Script
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax.kind import Kind
from lakehouse.ksql.syntax.statement import MomentClause, Query
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment import rows_at
from lakehouse.lake.sql import quote_name
from lakehouse.lake.store import is_table
from lakehouse.model.evaluate import evaluate
from lakehouse.plan.expression.expression import Expression
from lakehouse.plan.expression.field_names import name_fields
from lakehouse.plan.names.field import field_name
from lakehouse.run.sql import computed, records
from lakehouse.semantics.moment import At
from lakehouse.semantics.time.named_moment import FindSource, moment_of, refuse_source

if TYPE_CHECKING:
    from lakehouse.lake.moment.rows_at import FoldRows

Row = dict[str, Any]
ROWS_A_READ = 10_000


@dataclass(frozen=True, slots=True)
class Reading:
    """A SELECT for an answer now: the names of its columns, and the function that makes its rows.

    Names are those of fields, inside structs too.
    """

    names: tuple[str, ...]
    keep: Callable[[Row], bool]
    row: Callable[[Row], tuple[object, ...]]


def compile_reading(query: Query, entry: Entry) -> Reading:
    """Return the reading of a SELECT. Raises SqlError for clauses that only a kept query has."""
    for used, clause in (
        (query.joins, "JOIN"), (query.group_by, "GROUP BY"), (query.partition_by, "PARTITION BY"),
        (query.having, "HAVING"), (query.window, "WINDOW"),
    ):  # fmt: skip
        if used:
            raise SqlError(
                f"a SELECT that is asked now doesn't support {clause}. EMIT CHANGES computes it as records come, and "
                f"CREATE {'TABLE' if query.group_by else entry.kind} ... AS SELECT keeps it: then its result can be "
                "asked",
                query.position,
            )
    alias = query.relation.alias
    own_names = {c.name for c in entry.columns}
    bound_columns = [SqlColumn(name, k.BIGINT) for name in BOUNDS if name not in own_names] if entry.is_windowed else []
    key_columns = [c for c in entry.columns if c.is_key]
    all_columns = (*key_columns, *bound_columns, *(c for c in entry.columns if not c.is_key))
    visible_columns = tuple(
        ScopeColumn(c.name, alias, window_bound(c.name) if c in bound_columns else column_sql(c.name, c.kind))
        for c in all_columns
    )
    pseudo_columns = tuple(ScopeColumn(c.name, alias, column_sql(c.name.lower(), c.kind)) for c in entry.pseudo_columns)
    scope = ColumnScope(visible_columns, pseudo_columns)
    items = named_items(query.items, (Side(alias, all_columns),), scope)
    for item in items:
        if calls := aggregates_in(item.expression):
            raise SqlError(f"use of aggregate function {calls[0].name} requires a GROUP BY clause", calls[0].position)
    columns = [scope.sql(item.expression) for item in items]
    readings = [(Expression(column.text), column.kind.spark) for column in columns]
    predicate = Expression(scope.predicate(query.where, "WHERE")) if query.where is not None else None
    return Reading(
        tuple(field_name(item.name) for item in items),
        lambda row: predicate is None or evaluate(predicate, row) is True,
        lambda row: tuple(name_fields(evaluate(expression, row), kind) for expression, kind in readings),
    )


def pull(
    query: Query, script: Script, layout: Layout, fold: FoldRows | None, find_source: FindSource = refuse_source
) -> Answer:
    """Return the answer to a SELECT without EMIT CHANGES. fold: how Spark folds a table at a moment between versions.

    find_source: how Spark finds the offsets of a database's position.

    Raises SqlError, NeedsSpark, NotFound for a table that the lake does not have.
    """
    entry = script.find(query.relation.name, query.relation.position)
    if entry.kind == "STREAM" and query.emit is None and query.moment is None and computed.gives_several_rows(query):
        answer = computed.answer_so_far(query, script, layout)
        return replace(answer, rows=islice(answer.rows, query.limit))
    row_reading = compile_reading(query, entry)
    if query.emit == "FINAL":
        raise SqlError("EMIT FINAL is for a query that is kept: CREATE TABLE ... AS SELECT", query.position)
    if entry.kind == "TABLE":
        rows: Iterable[Row] = table_rows(entry, layout, parse_moment(query.moment, find_source), fold)
    elif query.moment is not None:
        raise SqlError("AT is for tables: a stream's records have no moments. Compare ROWTIME", query.moment.position)
    else:
        rows = records.stream_rows(entry, layout, 0, records.last_tick(layout, records.topic_sources_of(entry)))
    return Answer(
        row_reading.names,
        islice((row_reading.row(row) for row in rows if row_reading.keep(row)), query.limit),
        is_long=True,
    )


def parse_moment(clause: MomentClause | None, find_source: FindSource = refuse_source) -> At | None:
    """Return the moment of AT: 'TIME', EVENT or COMMIT 'TIME', VERSION or TICK n, OFFSETS 't/0=5', SOURCE '16/B3'."""
    if clause is None:
        return None
    value = clause.value
    match clause.way:
        case "AT" | "EVENT":
            return moment_of(value, clock="event")
        case "COMMIT":
            return moment_of(value, clock="commit")
        case "OFFSETS":
            return moment_of(None, offsets=value)
        case "SOURCE":
            return find_source(value)
        case "VERSION" if value.isdecimal():
            return moment_of(version=int(value))
        case "TICK" if value.isdecimal():
            return moment_of(tick=int(value))
    valid_forms = (
        "AT '2026-01-31T12:00:00Z', AT COMMIT '...', AT VERSION 3, AT TICK 5, AT OFFSETS 't/0=7', AT SOURCE '16/B3'"
    )
    raise SqlError("can't read this moment", clause.position, found=f"{clause.way} {value}", expected=valid_forms)


def table_rows(entry: Entry, layout: Layout, moment_read: At | None, fold: FoldRows | None) -> Iterator[Row]:
    """Yield a table's rows, now or at a moment. Raises NotFound for a table that is not built yet."""
    text = f"SELECT * FROM {quote_name(entry.name)}"
    try:
        relation = (
            reader.query_lake(layout, text) if moment_read is None else rows_at.query(layout, text, moment_read, fold)
        )
    except (ConfigError, NotFound) as error:
        if is_table(layout.silver(reader.find_stored_name(layout, "silver", entry.name))):
            raise
        raise NotFound(
            f"table {entry.name} is declared, but the lake {layout.root} does not have it yet. `lakehouse run` "
            "builds it."
        ) from error
    kinds_by_column = {c.name.lower(): c.kind for c in entry.columns}
    for batch in relation.to_arrow_reader(ROWS_A_READ):  # not all at once: a LIMIT needs only a few
        for row in batch.to_pylist():
            yield {name.lower(): value_of(value, kinds_by_column.get(name.lower())) for name, value in row.items()}


def value_of(value: Any, kind: Kind | None) -> Any:
    """Return a value of Arrow in the model's form: a map is a dict."""
    if value is None or kind is None:
        return value
    match kind.name:
        case "MAP":
            pairs = value.items() if isinstance(value, dict) else value
            return {key: value_of(item, kind.inner[1]) for key, item in pairs}
        case "ARRAY":
            return [value_of(item, kind.inner[0]) for item in value]
        case "STRUCT":
            return {
                n: value_of(item, dict(zip(kind.names, kind.inner, strict=True)).get(n)) for n, item in value.items()
            }
    return value
