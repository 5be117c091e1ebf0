"""The outputs of queries: topics, and the formats of their values."""

from __future__ import annotations

from dataclasses import replace

from lakehouse.errors import PlanError, SqlError
from lakehouse.ksql.catalog import BOUNDS, Catalog, Entry, SqlColumn, SqlRelation
from lakehouse.ksql.expression.cast import cast
from lakehouse.ksql.function import call
from lakehouse.ksql.function.sql import column_sql, let_sql, literal_sql
from lakehouse.ksql.function.topic_moment import has_moment, sql_to_topic
from lakehouse.ksql.property import traits_of_sql
from lakehouse.ksql.query import Find, QueryTarget, compile_query
from lakehouse.ksql.source import time_kind
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax.kind import Kind
from lakehouse.ksql.syntax.statement import CreateAs
from lakehouse.ksql.with_clause import WithClause
from lakehouse.plan.expression.expression import name_text
from lakehouse.plan.expression.schema import NESTED_TYPES, base_type
from lakehouse.plan.names.field import is_escaped
from lakehouse.plan.names.format_traits import JSON, KAFKA, TRAITS, FormatTraits
from lakehouse.plan.names.record_format import RecordFormat
from lakehouse.plan.names.schema_options import DEFAULT_NAME, SchemaOptions
from lakehouse.plan.registered.writable import check_writable
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Changes, Sink, Table


def written_stream(relational: SqlRelation, value_format: str) -> Stream:
    """Return a stream in the form that a topic holds: moments become numbers, if the format has no types for them."""
    assert isinstance(relational.node, Stream)
    if traits_of_sql(value_format).has_moments:
        return relational.node
    value_kinds: dict[str, Kind] = {
        sql_column.name: sql_column.kind for sql_column in relational.columns if not sql_column.is_key
    }
    if not any(map(has_moment, value_kinds.values())):
        return relational.node
    return relational.node.select(
        *(f"{sql_to_topic(name_text(name), value_kind)} AS `{name}`" for name, value_kind in value_kinds.items())
    )


def widen_columns(query_result: SqlRelation, sink_columns: tuple[SqlColumn, ...]) -> SqlRelation:
    """Return a query's result, cast to the sink's wider numbers and to its moments.

    Only a result whose columns fit the sink's otherwise is cast.
    """
    column_pairs = list(zip(query_result.columns, sink_columns, strict=False))
    wider_columns = {
        source.name: sink
        for source, sink in column_pairs
        if source.kind != sink.kind and not sink.is_key and _can_widen(source.kind, sink.kind)
    }  # fmt: skip
    if not wider_columns or [source.name for source, _ in column_pairs] != [sink.name for _, sink in column_pairs]:
        return query_result
    assert isinstance(query_result.node, Stream)
    cast_texts = {
        name: cast(column_sql(name, source.kind), wider_columns[name].kind, 0).text
        for source in query_result.columns
        if (name := source.name) in wider_columns
    }
    return SqlRelation(
        query_result.node.with_columns(**cast_texts),
        tuple(wider_columns.get(source.name, source) for source in query_result.columns),
    )


def _can_widen(narrow_kind: Kind, wide_kind: Kind) -> bool:
    """Say whether INSERT INTO casts a type to another: also a whole number to a DECIMAL that can't hold every one."""
    if narrow_kind.name == wide_kind.name == "DECIMAL":
        (precision, scale), (wide_precision, wide_scale) = narrow_kind.digits, wide_kind.digits
        return scale <= wide_scale and precision - scale <= wide_precision - wide_scale
    if narrow_kind.is_number and wide_kind.is_number:
        return k.NUMBERS.index(narrow_kind.name) < k.NUMBERS.index(wide_kind.name)
    return narrow_kind == k.STRING and wide_kind.name in k.MOMENTS


def pad_columns(query_result: SqlRelation, sink_columns: tuple[SqlColumn, ...]) -> SqlRelation:
    """Return a query's result, with nulls for the columns that its sink got later, behind the others."""
    missing_columns = [
        sink_column for sink_column in sink_columns[len(query_result.columns) :] if not sink_column.is_key
    ]
    if not missing_columns or query_result.columns != sink_columns[: len(query_result.columns)]:
        return query_result
    assert isinstance(query_result.node, Stream)
    null_texts = {sink_column.name: f"cast(NULL AS {sink_column.kind.spark})" for sink_column in missing_columns}
    return SqlRelation(query_result.node.with_columns(**null_texts), (*query_result.columns, *missing_columns))


def time_sql(query_result: SqlRelation, properties: WithClause) -> str:
    """Return Spark SQL for the time that TIMESTAMP gives to a query's records; as in Kafka, none before 1970."""
    if properties.timestamp is None:
        return ""
    time_column_kind = time_kind(
        {result_column.name: result_column.kind for result_column in query_result.columns}, properties
    )
    time_column = column_sql(properties.timestamp, time_column_kind)
    if time_column_kind == k.STRING:
        time_column = call.compile_call(
            "PARSE_TIMESTAMP", [time_column, literal_sql(properties.timestamp_format)], properties.position
        )
    milliseconds = time_column.text if time_column_kind == k.BIGINT else f"unix_millis({time_column.text})"
    return let_sql(milliseconds, "_ms", lambda milliseconds: f"CASE WHEN {milliseconds} >= 0 THEN {milliseconds} END")


def retime_stream(query_result: SqlRelation, entry: Entry) -> SqlRelation:
    """Return the stream of an entry at the time that TIMESTAMP gives to its records."""
    if not entry.time or not isinstance(query_result.node, Stream):
        return query_result
    return replace(query_result, node=query_result.node.retime(entry.time))


def changes_of(table: Table, entry: Entry) -> Stream | Changes:
    """Return a table's changelog for its topic, at the time that TIMESTAMP gives to its records."""
    return table.to_stream().retime(entry.time) if entry.time else table.changes()


def sink_of(stream: Stream | Changes, entry: Entry) -> Sink:
    """Return the sink of an entry's topic, in its formats."""
    key_format, value_format = written_formats(entry)
    return replace(
        stream.to_topic(entry.topic, partitions=entry.partitions), format=value_format, key_format=key_format
    )


def written_formats(entry: Entry) -> tuple[str, str]:
    """Return the names of the formats in which keys and values are written; of keys "" for the usual one.

    Moments are numbers where a format has no types for them.
    """
    is_named = any(is_escaped(f"{column.name} {column.kind.spark}") for column in entry.columns)
    has_moments = any(has_moment(column.kind) for column in entry.columns)
    key_columns = [column for column in entry.columns if column.is_key]
    key_traits, value_traits = map(traits_of_sql, entry.formats)
    key_name, value_name = entry.record_names

    def format_name(traits: FormatTraits, delimiter: str, record_name: str, *, is_bare: bool) -> str:
        kind = (traits.bare if is_bare else "") or traits.name
        options = SchemaOptions(name=record_name or DEFAULT_NAME, has_millis=has_moments and traits.has_moments)
        return str(
            RecordFormat(
                kind,
                delimiter if traits.has_separator else "",
                is_named,
                has_moments and not traits.has_moments,
                options=str(options) if traits.is_registered or traits.has_own_schema else "",
            )
        )

    value_format = format_name(value_traits, entry.delimiter, value_name, is_bare=not entry.is_wrapped)
    if not key_columns or not key_traits.is_declared:
        return "", value_format
    if key_traits.name != KAFKA:
        return format_name(key_traits, entry.key_delimiter, key_name, is_bare=len(key_columns) == 1), value_format
    # Keys in Kafka's primitives need no name. Those that are none become JSON: with moments as the values have them,
    # unless these have types of their own for them.
    if not value_traits.has_moments or key_traits.holds([base_type(column.kind.spark) for column in key_columns]):
        return "", value_format
    return format_name(TRAITS[JSON], entry.key_delimiter, "", is_bare=False), value_format


def check_names(entry: Entry, position: int) -> None:
    """Raise SqlError for a column that a format's schemas can't have, or a record's name where there is none."""
    key_columns = [column for column in entry.columns if column.is_key]
    value_columns = [column for column in entry.columns if not column.is_key]
    is_alone = (
        traits_of_sql(entry.formats[0]).wraps
        and len(key_columns) == 1
        and base_type(key_columns[0].kind.spark) not in NESTED_TYPES,
        not entry.is_wrapped and base_type(value_columns[0].kind.spark) not in NESTED_TYPES,
    )
    parts = (("KEY", key_columns), ("VALUE", value_columns))
    for (part_name, columns), format, name, alone in zip(
        parts, entry.formats, entry.record_names, is_alone, strict=True
    ):
        traits = traits_of_sql(format)
        if not traits.needs_schema:
            continue
        if name and alone:
            raise SqlError(
                f"{part_name}_SCHEMA_FULL_NAME names a record, and this {part_name.lower()} is one value alone. Leave "
                "it out",
                position,
            )
        try:
            check_writable(traits, ((c.name, c.kind.spark) for c in columns), f"{part_name}_FORMAT='{format}'")
        except PlanError as error:
            raise SqlError(str(error), position) from None


def check_format(query_result: SqlRelation, value_format: str, position: int, *, is_wrapped: bool = True) -> None:
    """Raise SqlError for a value that a format can't hold."""
    value_columns = [c for c in query_result.columns if not c.is_key]
    for value_column in value_columns:
        if value_column.kind.has_null:
            place = value_column.name if value_column.kind.is_null else f"{value_column.name} {value_column.kind}"
            raise SqlError(f"can't infer a type of NULL for {place}. Give it one: CAST(NULL AS VARCHAR)", position)
        if value_column.name in BOUNDS and isinstance(query_result.node, Stream):
            raise SqlError(
                f"{value_column.name} is a reserved column name. Give it another one: {value_column.name} AS ...",
                position,
            )
    if not is_wrapped and len(value_columns) > 1:
        raise SqlError("WRAP_SINGLE_VALUE=false is for a query that gives one value column", position)
    traits = traits_of_sql(value_format)
    if traits.is_single and not traits.holds([_held_type(column.kind) for column in value_columns]):
        held_kinds = [kind for kind in map(Kind, k.SPARK) if not kind.is_null and traits.holds_type(_held_type(kind))]
        raise SqlError(
            f"VALUE_FORMAT='{value_format}' holds one column of {', '.join(kind.name for kind in held_kinds)}, and "
            f"there are: {', '.join(f'{c.name} {c.kind}' for c in value_columns)}. Name another: WITH "
            "(VALUE_FORMAT='JSON')",
            position,
        )
    if refused := [c for c in value_columns if _held_type(c.kind) in traits.refused_types]:
        raise SqlError(
            f"VALUE_FORMAT='{value_format}' can't hold {refused[0].name} {refused[0].kind}. Name another: WITH "
            "(VALUE_FORMAT='JSON')",
            position,
        )


def _held_type(kind: Kind) -> str:
    """Return the first word of a type, of which a format says whether it holds it. A moment is none of its numbers."""
    return kind.name.lower() if kind.name in k.MOMENTS else base_type(kind.spark)


def check_key(query_result: SqlRelation, statement: CreateAs, format: str) -> None:
    """Raise SqlError for a key that its format can't hold, and for KEY_FORMAT where there is no key.

    format: the statement's, or that of the query's source.
    """
    format_property = statement.properties.get("KEY_FORMAT", statement.properties.get("FORMAT"))
    position = format_property.position if format_property is not None else statement.position
    if not query_result.key and "KEY_FORMAT" in statement.properties and not traits_of_sql(format).is_absent:
        raise SqlError("KEY_FORMAT is for a stream with a key, and this one has none. Leave it out", position)
    wrap_property = statement.properties.get("WRAP_SINGLE_VALUE")
    if wrap_property is not None and len(query_result.columns) - len(query_result.key) > 1:
        raise SqlError("WRAP_SINGLE_VALUE is for a query that gives one value column", wrap_property.position)
    key_columns = [key_column for key_column in query_result.columns if key_column.is_key]
    if key_columns and format_property is not None and traits_of_sql(format).is_absent:
        key_text = ", ".join(f"{key_column.name} {key_column.kind} KEY" for key_column in key_columns)
        raise SqlError(f"the '{format}' format can only be used when no columns are defined. Got: {key_text}", position)
    _check_nested_key(query_result, format, position)


def _check_nested_key(query_result: SqlRelation, format: str, position: int) -> None:
    refused_types = traits_of_sql(format).refused_types
    if refused := [c for c in query_result.columns if c.is_key and _held_type(c.kind) in refused_types]:
        raise SqlError(
            f"KEY_FORMAT='{format}' can't hold the key {refused[0].name} {refused[0].kind}. Name another: WITH "
            "(KEY_FORMAT='JSON')",
            position,
        )


def fit_columns(query_result: SqlRelation, first_result: SqlRelation) -> Stream:
    """Return a stream with the columns of the first result, in its order and under the hidden key's name."""
    assert isinstance(query_result.node, Stream)
    assert isinstance(first_result.node, Stream)
    if query_result.node.key != first_result.node.key:
        return query_result.node.rekey(f"{name_text(query_result.node.key[0])} AS {first_result.node.key[0]}").drop(
            *query_result.node.key
        )
    return query_result.node


def check_queries(catalog: Catalog, find: Find, position: int) -> None:
    """Raise SqlError if a query does not fit a declaration that the statement at `position` has replaced."""
    for entry in catalog.entries.values():
        for query_name, query in entry.insert_queries:
            query_result = widen_columns(
                compile_query(query, find, QueryTarget("STREAM", entry.name, position)), entry.columns
            )
            if comparable_columns(pad_columns(query_result, entry.columns)) != comparable_columns(entry.relation):
                raise SqlError(
                    f"cannot replace it: query {query_name} inserts into {entry.name}, and its result schema "
                    f"{schema_of(query_result)} does not fit the schema {schema_of(entry.relation)}. Keep these "
                    f"columns, and add new ones behind them; or DROP {entry.kind} {entry.name} first",
                    position,
                )
        if entry.query is not None:
            query_result = find(entry.name, position).relation
            check_format(query_result, entry.formats[1], position, is_wrapped=entry.is_wrapped)
            _check_nested_key(query_result, entry.formats[0], position)


def check_inserted(query_result: SqlRelation, target: Entry, position: int) -> None:
    """Raise SqlError for a query whose columns are not those of its target."""
    if comparable_columns(query_result) != comparable_columns(target.relation):
        raise SqlError(
            f"incompatible schema between results and sink. Result schema is {schema_of(query_result)}, but the sink "
            f"schema is {schema_of(target.relation)}",
            position,
        )


def comparable_columns(relational: SqlRelation) -> list[tuple[str, Kind, bool]]:
    """Return the columns of a stream or a table in a form that can be compared."""
    return [(column.name, column.kind, column.is_key) for column in relational.columns]


def schema_of(relational: SqlRelation) -> str:
    """Return the columns as a message shows them."""
    return ", ".join(
        f"{sql_column.name} {sql_column.kind}{' KEY' if sql_column.is_key else ''}" for sql_column in relational.columns
    )
