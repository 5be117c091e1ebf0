"""CREATE STREAM and CREATE TABLE over a topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lakehouse.errors import PlanError, SqlError
from lakehouse.ksql.avro.inferred import with_key_columns, with_value_columns
from lakehouse.ksql.catalog import (
    BOUNDS,
    HIDDEN_KEY,
    HIDDEN_VALUE,
    PSEUDO,
    Entry,
    SqlColumn,
    SqlRelation,
    checked_name,
    pseudo_scope,
)
from lakehouse.ksql.change_log import declare_changes
from lakehouse.ksql.constraint import OF_RECORDS, of_records, with_constraints, with_table_constraints
from lakehouse.ksql.expression.common_types import check_key_type
from lakehouse.ksql.expression.expression import ColumnScope, ScopeColumn
from lakehouse.ksql.function import call
from lakehouse.ksql.function.sql import Sql, column_sql, literal_sql
from lakehouse.ksql.function.sql import text_literal as literal
from lakehouse.ksql.function.topic_moment import has_moment, sql_from_topic
from lakehouse.ksql.property import traits_of_sql
from lakehouse.ksql.query import history_of
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax.kind import Kind
from lakehouse.ksql.syntax.statement import Alter, CreateSource, SchemaElement
from lakehouse.ksql.with_clause import WithClause, source_properties
from lakehouse.plan.build import check_ahead, declared_source
from lakehouse.plan.expectation import Expectation
from lakehouse.plan.expression.expression import name_text, parse_expression
from lakehouse.plan.expression.schema import Column, fields_of, parse_schema
from lakehouse.plan.names.field import is_escaped
from lakehouse.plan.names.format_traits import ABSENT, traits_of
from lakehouse.plan.names.record_format import parse_format
from lakehouse.plan.operator import WINDOW_COLUMNS
from lakehouse.plan.origin import Source
from lakehouse.plan.refused.near import suggest_near
from lakehouse.plan.registered.pinned import with_own_schema
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table
from lakehouse.semantics.time.window import Hopping, Session

HEADERS = k.array_of(k.struct_of({"KEY": k.STRING, "VALUE": k.BYTES}))


@dataclass(frozen=True, slots=True)
class _Columns:
    key: tuple[SchemaElement, ...]
    value: tuple[SchemaElement, ...]
    headers: tuple[SchemaElement, ...] = ()


def declare_source(statement: CreateSource, text: str, settings: Mapping[str, str], folder: Path) -> Entry:
    """Return the stream or the table of a statement. settings: those of SET. Raises SqlError.

    folder: of the file of statements, beside which schemas are pinned.
    """
    checked_name(statement.name, statement.kind.lower(), statement.position)
    properties = source_properties(statement, settings)
    statement = _with_inferred_columns(statement, properties, folder)
    properties = properties.over(len([element for element in statement.elements if not element.role]))
    columns = _split_columns(statement, properties)
    for element in (*columns.key, *columns.value, *columns.headers):
        if element.name.upper() in (*PSEUDO, *BOUNDS):
            raise SqlError(f"'{element.name}' is a reserved column name", element.position, expected="another name")
        checked_name(element.name, "column", element.position)
    try:
        declared_stream = _declared_stream(statement, columns, properties, folder)
        node: Stream | Table = declared_stream.latest(statement.name) if statement.kind == "TABLE" else declared_stream
        relation = SqlRelation(node, _sql_columns(statement, columns))
        if properties.history is not None:
            relation = history_of(relation, statement.name, properties.history)
        relation = with_table_constraints(relation, statement.constraints)
    except SqlError:
        raise
    except PlanError as error:
        raise SqlError(str(error), statement.position) from None
    return Entry(
        statement.kind,
        statement.name,
        properties.topic,
        (properties.key_format, properties.value_format),
        relation,
        text,
        partitions=properties.partitions,
        is_source=statement.is_source,
        is_wrapped=properties.is_wrapped is not False,
        delimiter=properties.value_delimiter,
        key_delimiter=properties.key_delimiter,
        record_names=properties.record_names,
        history=properties.history,
        header_names=tuple(element.name for element in columns.headers),
        created=statement,
        settings=dict(settings),
    )


def _sql_columns(statement: CreateSource, columns: _Columns) -> tuple[SqlColumn, ...]:
    value_elements = [e for e in statement.elements if e in (*columns.value, *columns.headers)]
    return (
        *(SqlColumn(e.name, e.kind, is_key=True) for e in columns.key),
        *(SqlColumn(e.name, e.kind) for e in value_elements),
    )


def _with_inferred_columns(statement: CreateSource, properties: WithClause, folder: Path) -> CreateSource:
    """Return the statement with the columns that it does not name, where its formats have a registry."""
    has_key = any(element.is_key for element in statement.elements)
    has_key = has_key or (properties.key is not None and statement.kind == "TABLE")
    has_value = any(element.role in ("", "METADATA") for element in statement.elements)
    _check_named(statement, properties, has_key=has_key, has_value=has_value)
    if traits_of_sql(properties.value_format).is_change_log:
        return statement
    key_id, value_id = properties.schema_ids
    key_traits, value_traits = map(traits_of_sql, (properties.key_format, properties.value_format))
    if not has_value and value_traits.needs_schema:
        is_wrapped, kind = properties.is_wrapped is True, value_traits.schema_kind
        statement = with_value_columns(statement, properties.topic, kind, folder, value_id, is_wrapped=is_wrapped)
    if not has_key and key_traits.needs_schema:
        statement = with_key_columns(statement, properties.topic, key_traits.schema_kind, folder, key_id)
    return statement


def _check_named(statement: CreateSource, properties: WithClause, *, has_key: bool, has_value: bool) -> None:
    """Raise SqlError for a key or a value whose columns ksqlDB would infer, and which can't be inferred here."""
    parts = (
        ("KEY", has_key, properties.key_format, "(ID BIGINT KEY, ...), or give KEY_FORMAT='NONE'"),
        ("VALUE", has_value, properties.value_format, "(CITY VARCHAR, ...)"),
    )
    for (part_name, is_named, format, advice), id in zip(parts, properties.schema_ids, strict=True):
        traits = traits_of_sql(format)
        if not is_named and part_name == "VALUE" and traits.is_change_log:
            raise SqlError(
                f"VALUE_FORMAT='{format}' and no column is named: name those of the database's table that you want: "
                f"{statement.name} {advice}",
                statement.position,
            )
        if id is not None and is_named:
            raise SqlError(
                f"{part_name}_SCHEMA_ID={id} says what the columns of the {part_name.lower()} are, and they are named, "
                "too. Leave out one of them",
                statement.position,
            )
        if not is_named and traits.is_registered and not traits.reads_by_schema:
            raise SqlError(
                f"{part_name}_FORMAT='{format}' and no column is named: columns are not inferred from a JSON Schema. "
                f"Write them: {statement.name} {advice}",
                statement.position,
            )


def _split_columns(statement: CreateSource, properties: WithClause) -> _Columns:
    elements = statement.elements
    if statement.is_source and statement.replace:
        raise SqlError(
            f"a SOURCE can't be replaced: CREATE SOURCE {statement.kind} {statement.name}", statement.position
        )
    if not elements:
        raise SqlError(
            f"the columns are not named, and values in {properties.value_format} don't say what they are. Write them: "
            f"{statement.name} (ID VARCHAR KEY, ...); or give a format with a schema registry: VALUE_FORMAT='AVRO'",
            statement.position,
        )
    element_names = [element.name for element in elements]
    for element in elements:
        if element_names.count(element.name) > 1:
            raise SqlError(f"duplicate column name: {element.name}", element.position)
        _check_role(statement, element, properties.value_format)
    header_elements = tuple(element for element in elements if element.role.startswith("HEADER"))
    if len([element for element in header_elements if element.role == "HEADERS"]) > 1:
        raise SqlError("there can be one HEADERS column", header_elements[-1].position)
    key_elements = tuple(element for element in elements if element.is_key)
    if properties.key is not None and statement.kind == "TABLE" and not key_elements:
        named_elements = [element for element in elements if element.name == properties.key]
        if not named_elements:
            raise SqlError(
                f"KEY='{properties.key}' names no column",
                statement.position,
                expected=f"one of {', '.join(element_names)}",
            )
        key_elements = tuple(named_elements)
    if statement.kind == "TABLE" and not key_elements:
        raise SqlError(
            "tables require a PRIMARY KEY. Please define the PRIMARY KEY: (ID VARCHAR PRIMARY KEY, ...)",
            statement.position,
        )
    value_elements = tuple(element for element in elements if element not in (*key_elements, *header_elements))
    if properties.window is not None and not key_elements:
        raise SqlError("windowed sources require a key column: (ID VARCHAR KEY, ...)", statement.position)
    if key_elements and traits_of_sql(properties.key_format).is_absent:
        key_text = ", ".join(f"{element.name} {element.kind} KEY" for element in key_elements)
        raise SqlError(
            f"the '{properties.key_format}' format can only be used when no columns are defined. Got: {key_text}",
            statement.position,
        )
    if not properties.is_wrapped and len(value_elements) > 1:
        raise SqlError("WRAP_SINGLE_VALUE=false is for a schema with one value column", statement.position)
    if not value_elements and not traits_of_sql(properties.value_format).is_by_name:
        raise SqlError("the schema has no value columns. Name at least one beside the key", statement.position)
    return _Columns(key_elements, value_elements, header_elements)


def _check_role(statement: CreateSource, element: SchemaElement, value_format: str) -> None:
    if element.role == "METADATA" and not traits_of_sql(value_format).is_change_log:
        raise SqlError(
            f"METADATA('{element.header}') is of the envelope of a database's change, and the values are in "
            f"{value_format}",
            element.position,
            expected="VALUE_FORMAT='DEBEZIUM'",
        )
    role_kind = {"HEADERS": HEADERS, "HEADER": k.BYTES}.get(element.role)
    if role_kind is not None and element.kind != role_kind:
        raise SqlError(
            f"invalid type for {element.role} column {element.name}: expected {role_kind}, got {element.kind}",
            element.position,
        )
    if element.role == "KEY" and statement.kind == "TABLE":
        raise SqlError(
            f"column {element.name} is a 'KEY' column: please use 'PRIMARY KEY' for tables. Tables have PRIMARY KEYs, "
            "which are unique and not null. Streams have KEYs, which have no such constraints",
            element.position,
        )
    if element.role == "PRIMARY KEY" and statement.kind == "STREAM":
        raise SqlError(
            f"column {element.name} is a 'PRIMARY KEY' column: please use 'KEY' for streams", element.position
        )
    if element.is_key:
        check_key_type(element.kind, f"column {element.name}", element.position)


def _declared_stream(statement: CreateSource, columns: _Columns, properties: WithClause, folder: Path) -> Stream:
    key_moments, value_moments = _number_moments(columns, properties)
    key_columns = [(element.name, _topic_type(element.kind, properties.key_format)) for element in columns.key]
    value_columns = [(element.name, _topic_type(element.kind, properties.value_format)) for element in columns.value]
    key_columns = key_columns or [(_hidden_name(HIDDEN_KEY, value_columns), "string")]
    value_columns = value_columns or [(_hidden_name(HIDDEN_VALUE, key_columns), "string")]
    headers_name = "RECORD_HEADERS" if columns.headers else ""
    while headers_name and headers_name in {name for name, _ in (*key_columns, *value_columns)}:
        headers_name += "_"
    is_change, time_text = traits_of_sql(properties.value_format).is_change_log, _time_text(columns, properties)
    if is_change:
        declared_stream = declare_changes(
            statement.name,
            _schema_text(key_columns),
            columns.value,
            properties,
            event_time=time_text,
            headers=headers_name,
        )
    else:
        subject = f"stream {statement.name!r}"
        # Without a schema beside the file, fields have the numbers of the columns in their order, as in ksqlDB.
        topic = properties.topic
        value_format, key_format = properties.value_format.lower(), properties.key_format.lower()
        declared_stream = declared_source(
            topic,
            key=_schema_text(key_columns),
            value_columns=parse_schema(_schema_text(value_columns), f"{subject}: schema"),
            value_format=with_own_schema(value_format, folder, topic, "value", subject),
            key_format=with_own_schema(key_format, folder, topic, "key", subject) if columns.key else None,
            event_time=None,
            name=statement.name,
            own_table=False,
            headers=headers_name,
            max_ahead=None,
        )
    assert isinstance(declared_stream.source, Source)
    key_format, value_format = (
        _format_name(name, is_bare, delimiter, validates=properties.validates)
        for name, is_bare, delimiter in (
            (declared_stream.source.key_format, len(columns.key) == 1, properties.key_delimiter),
            (declared_stream.source.value_format, not properties.is_wrapped, properties.value_delimiter),
        )
    )
    key_format = key_format if columns.key else ABSENT
    source = replace(declared_stream.source, key_format=key_format, value_format=value_format)
    if not is_change:
        subject = f"stream {statement.name!r}: TIMESTAMP"
        event_time = None if time_text is None else parse_expression(time_text, declared_stream.columns, subject)
        ahead_ms = check_ahead(properties.max_ahead, "MAX_AHEAD", has_time=True)
        source = replace(source, event_time=event_time, max_ahead=ahead_ms)
    if parse_format(source.value_format).traits.has_field_names:
        source = replace(source, value=_with_field_names(source.value))
    if parse_format(source.key_format).traits.has_field_names:
        source = replace(source, key=_with_field_names(source.key))
    expectations = _expectations(statement, columns, (*key_moments, *value_moments), declared_stream)
    source = replace(source, expectations=expectations)
    declared_stream = (
        replace(declared_stream, source=source)
        if properties.window is None
        else _with_window_key(declared_stream, source, properties.window)
    )
    if key_moments:
        declared_stream = _with_moments(declared_stream, columns.key)
    if not headers_name and not value_moments:
        return declared_stream
    select_texts = [f"{sql_from_topic(name_text(e.name), e.kind)} AS `{e.name}`" for e in value_moments]
    select_texts += [f"{_header_sql(headers_name, element)} AS `{element.name}`" for element in columns.headers]
    plain_columns = {e.name: name_text(e.name) for e in columns.value if e not in value_moments}
    return declared_stream.select(*select_texts, **plain_columns)


def _expectations(
    statement: CreateSource, columns: _Columns, moments: Sequence[SchemaElement], declared_stream: Stream
) -> tuple[Expectation, ...]:
    """Return what is expected of a topic's records. Raises SqlError for a constraint that can't be judged.

    moments: the columns whose dates and timestamps are numbers in the topic. declared_stream: as the topic has it.
    """
    texts = {element: name_text(element.name) for element in (*columns.key, *columns.value)}
    texts |= {element: sql_from_topic(texts[element], element.kind) for element in moments}
    own_columns = (
        ScopeColumn(element.name, statement.name, Sql(text, element.kind)) for element, text in texts.items()
    )
    scope = ColumnScope(tuple(own_columns), pseudo_scope(statement.name))
    declared_stream = with_constraints(
        declared_stream, of_records(statement.constraints), scope, OF_RECORDS, Stream.expect
    )
    assert isinstance(declared_stream.source, Source)
    return declared_stream.source.expectations


def _number_moments(columns: _Columns, properties: WithClause) -> tuple[list[SchemaElement], list[SchemaElement]]:
    """Return the key columns and the value columns whose dates and timestamps are numbers in the topic."""
    key_moments, value_moments = (
        [] if traits_of_sql(format).has_moments else [element for element in elements if has_moment(element.kind)]
        for elements, format in ((columns.key, properties.key_format), (columns.value, properties.value_format))
    )
    return key_moments, value_moments


def _topic_type(kind: Kind, format: str) -> str:
    """Return the type in Spark SQL that a value has in a topic of a format."""
    return kind.spark if traits_of_sql(format).has_moments else kind.wire_type


def _hidden_name(name: str, other_columns: list[tuple[str, str]]) -> str:
    """Return a name for the column that stands in where there are no others."""
    while name in {taken_name for taken_name, _ in other_columns}:
        name += "_"
    return name


def _with_field_names(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Return the columns with the names of their fields, and of the fields inside structs."""
    named_columns = []
    for column, field in zip(columns, fields_of(columns), strict=True):
        field_title = column.field or (field.name if field.name != column.name else None)
        named_columns.append(
            Column(column.name, column.type, field_title, field.type if is_escaped(column.type) else None)
        )
    return tuple(named_columns)


def _with_window_key(keyed_stream: Stream, source: Source, window_size: int) -> Stream:
    """Return the stream with the bounds of its key's window as the last key columns."""
    bound_columns = tuple(Column(name, "timestamp") for name in WINDOW_COLUMNS)
    window = Hopping(window_size, window_size, 0) if window_size else Session(0, 0)
    key_format = replace(parse_format(source.key_format), window=window)
    source = replace(source, key=(*source.key, *bound_columns), key_format=str(key_format))
    columns = (*source.key, *keyed_stream.columns[len(keyed_stream.key) :])
    return replace(keyed_stream, source=source, key=(*keyed_stream.key, *WINDOW_COLUMNS), columns=columns)


def _with_moments(keyed_stream: Stream, key: tuple[SchemaElement, ...]) -> Stream:
    """Return the stream with its key's numbers as moments, in steps, since the names stay the same."""
    window_key = keyed_stream.key[len(key) :]
    temporary_names = {element: f"KEY_{number}" for number, element in enumerate(key)}
    taken_names = {column.name for column in keyed_stream.columns}
    while taken_names & {*temporary_names.values()}:
        temporary_names = {element: f"{name}_" for element, name in temporary_names.items()}
    read_texts = (
        f"{sql_from_topic(name_text(element.name), element.kind)} AS {name}"
        for element, name in temporary_names.items()
    )
    keyed_stream = keyed_stream.rekey(*read_texts, *window_key).drop(*(element.name for element in key))
    return keyed_stream.rekey(*(f"{name} AS `{e.name}`" for e, name in temporary_names.items()), *window_key).drop(
        *temporary_names.values()
    )


def _format_name(name: str, is_bare: bool, delimiter: str, *, validates: bool) -> str:
    """Return the name of a format as SQL reads it. is_bare: a single value in JSON has no object, as a single key."""
    format = parse_format(name)
    kind = (format.traits.bare if is_bare else "") or format.traits.any_case or format.kind
    kind = (traits_of(kind).validated if validates else "") or kind
    return str(replace(format, kind=kind, separator=delimiter if format.traits.has_separator else ""))


def _header_sql(name: str, element: SchemaElement) -> str:
    """Return Spark SQL for a column of headers: all of the record's, or the last one's value under a key."""
    if element.role == "HEADERS":
        return f"transform({name}, header -> named_struct('KEY', header.key, 'VALUE', header.value))"
    return f"try_element_at(filter({name}, _header -> _header.key = {literal(element.header)}), -1).value"


def _schema_text(columns: list[tuple[str, str]]) -> str:
    return ", ".join(f"`{name}` {kind}" for name, kind in columns)


def _time_text(columns: _Columns, properties: WithClause) -> str | None:
    """Return the expression of the event time that TIMESTAMP names; None if there is none."""
    if properties.timestamp is None:
        return None
    time_column_kind = time_kind({element.name: element.kind for element in (*columns.key, *columns.value)}, properties)
    time_column = column_sql(properties.timestamp, time_column_kind)
    if time_column_kind == k.STRING:
        time_column = call.compile_call(
            "PARSE_TIMESTAMP", [time_column, literal_sql(properties.timestamp_format)], properties.position
        )
    return time_column.text


def time_kind(columns: Mapping[str, Kind], properties: WithClause) -> Kind:
    """Return the type of the column that TIMESTAMP names. Raises SqlError for a column that can't be a time."""
    column_kind = columns.get(properties.timestamp or "")
    if column_kind is None:
        raise SqlError(
            f"TIMESTAMP='{properties.timestamp}' names no column.{suggest_near(properties.timestamp or '', columns)}",
            properties.position,
            expected=f"one of {', '.join(columns)}",
        )
    if properties.timestamp_format is not None and column_kind != k.STRING:
        raise SqlError(
            f"TIMESTAMP_FORMAT is for a VARCHAR, and {properties.timestamp} is a {column_kind}", properties.position
        )
    if properties.timestamp_format is None and column_kind not in (k.BIGINT, k.TIMESTAMP):
        raise SqlError(
            f"TIMESTAMP='{properties.timestamp}' is a {column_kind}; expected a BIGINT, a TIMESTAMP, or a VARCHAR with "
            "TIMESTAMP_FORMAT",
            properties.position,
        )
    return column_kind


def check_altered(statement: Alter, entry: Entry, readers: list[str]) -> None:
    """Raise SqlError for an entry that can't get more columns: a query writes it, or something reads it."""
    if entry.kind != statement.kind:
        raise SqlError(f"incompatible data source type is {entry.kind}, but statement was ALTER {statement.kind}",
                       statement.position)  # fmt: skip
    if entry.query is not None or entry.insert_queries or entry.is_source or entry.writer_name:
        reason = "a SOURCE is read-only" if entry.is_source else "it is written by a query: CREATE OR REPLACE"
        raise SqlError(
            f"ALTER is for what is declared over a topic, and not for {entry.name}: {reason}", statement.position
        )
    if readers:
        raise SqlError(f"{entry.name} is read by {', '.join(readers)}: add its columns before", statement.position)
    taken_names = {column.name for column in entry.columns}
    for element in statement.elements:
        if element.name in taken_names:
            raise SqlError(f"cannot add column {element.name}: a column with the same name exists", element.position)


def alter_source(statement: Alter, entry: Entry, text: str, folder: Path) -> Entry:
    """Return the declaration of a topic with the columns that a statement adds. folder: see `declare_source`.

    The types and the settings are those of then: CREATE TYPE and SET may say something else now.
    """
    assert entry.created is not None
    created = replace(entry.created, elements=(*entry.created.elements, *statement.elements))
    return declare_source(created, f"{entry.statement};\n{text}", entry.settings, folder)
