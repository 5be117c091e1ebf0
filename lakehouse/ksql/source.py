"""CREATE STREAM and CREATE TABLE over a topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lakehouse.errors import PlanError, SqlError
from lakehouse.ksql.catalog import BOUNDS, HIDDEN_KEY, HIDDEN_VALUE, PSEUDO, Entry, Relational, SqlColumn, checked_name
from lakehouse.ksql.coerced import check_key_type
from lakehouse.ksql.function.sql import text as literal
from lakehouse.ksql.moments import arrived, has_moment
from lakehouse.ksql.properties import With, of_source
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax.kind import Kind
from lakehouse.ksql.syntax.statement import Alter, CreateSource, SchemaElement, Statement
from lakehouse.plan.build import check_ahead, stream
from lakehouse.plan.expression import Expression, expression, name_text
from lakehouse.plan.names.field import is_escaped
from lakehouse.plan.operator import WINDOW_COLUMNS
from lakehouse.plan.origin import Source
from lakehouse.plan.schema import Column, fields_of
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table
from lakehouse.semantics.windowed_key import format_with

HEADERS = k.array(k.struct({"KEY": k.STRING, "VALUE": k.BYTES}))
KEY_KINDS = ("INTEGER", "BIGINT", "DOUBLE", "STRING", "BYTES")


@dataclass(frozen=True, slots=True)
class _Columns:
    key: tuple[SchemaElement, ...]
    value: tuple[SchemaElement, ...]
    headers: tuple[SchemaElement, ...] = ()


def declared(statement: CreateSource, text: str, settings: Mapping[str, str]) -> Entry:
    """Return the stream or the table of a statement. settings: those of SET. Raises SqlError."""
    checked_name(statement.name, statement.kind.lower(), statement.at)
    given = of_source(statement, settings)
    given = given.over(len([element for element in statement.elements if not element.role]))
    columns = _columns(statement, given)
    for element in (*columns.key, *columns.value, *columns.headers):
        if element.name.upper() in (*PSEUDO, *BOUNDS):
            raise SqlError(f"'{element.name}' is a reserved column name", element.at, expected="another name")
        checked_name(element.name, "column", element.at)
    try:
        made = _stream(statement, columns, given)
        node: Stream | Table = made.latest(statement.name) if statement.kind == "TABLE" else made
    except PlanError as error:
        raise SqlError(str(error), statement.at) from None
    shown = [SqlColumn(e.name, e.kind, is_key=True) for e in columns.key]
    shown += [SqlColumn(e.name, e.kind) for e in statement.elements if e in (*columns.value, *columns.headers)]
    return Entry(
        statement.kind, statement.name, given.topic, (given.key_format, given.value_format),
        Relational(node, tuple(shown)), text, partitions=given.partitions, is_source=statement.is_source,
        is_wrapped=given.is_wrapped is not False, delimiter=given.value_delimiter, key_delimiter=given.key_delimiter,
    )  # fmt: skip


def _columns(statement: CreateSource, given: With) -> _Columns:
    elements = statement.elements
    if statement.is_source and statement.replace:
        raise SqlError(f"a SOURCE can't be replaced: CREATE SOURCE {statement.kind} {statement.name}", statement.at)
    if not elements:
        raise SqlError(
            "the columns are not named, and there is no schema registry to ask for them yet. Write them: "
            f"{statement.name} (ID VARCHAR KEY, ...)",
            statement.at,
        )
    names = [element.name for element in elements]
    for element in elements:
        if names.count(element.name) > 1:
            raise SqlError(f"duplicate column name: {element.name}", element.at)
        _check_role(statement, element)
    headers = tuple(element for element in elements if element.role.startswith("HEADER"))
    if len([element for element in headers if element.role == "HEADERS"]) > 1:
        raise SqlError("there can be one HEADERS column", headers[-1].at)
    key = tuple(element for element in elements if element.role and element not in headers)
    if given.key is not None and statement.kind == "TABLE" and not key:
        named = [element for element in elements if element.name == given.key]
        if not named:
            raise SqlError(f"KEY='{given.key}' names no column", statement.at, expected=f"one of {', '.join(names)}")
        key = tuple(named)
    if statement.kind == "TABLE" and not key:
        raise SqlError(
            "tables require a PRIMARY KEY. Please define the PRIMARY KEY: (ID VARCHAR PRIMARY KEY, ...)", statement.at
        )
    value = tuple(element for element in elements if element not in (*key, *headers))
    if given.window is not None and not key:
        raise SqlError("windowed sources require a key column: (ID VARCHAR KEY, ...)", statement.at)
    if key and given.key_format == "NONE":
        shown = ", ".join(f"{element.name} {element.kind} KEY" for element in key)
        raise SqlError(f"the 'NONE' format can only be used when no columns are defined. Got: {shown}", statement.at)
    if not given.is_wrapped and len(value) > 1:
        raise SqlError("WRAP_SINGLE_VALUE=false is for a schema with one value column", statement.at)
    if not value and given.value_format != "JSON":
        raise SqlError("the schema has no value columns. Name at least one beside the key", statement.at)
    return _Columns(key, value, headers)


def _check_role(statement: CreateSource, element: SchemaElement) -> None:
    kind = {"HEADERS": HEADERS, "HEADER": k.BYTES}.get(element.role)
    if kind is not None and element.kind != kind:
        raise SqlError(
            f"invalid type for {element.role} column {element.name}: expected {kind}, got {element.kind}", element.at
        )
    if element.role == "KEY" and statement.kind == "TABLE":
        raise SqlError(
            f"column {element.name} is a 'KEY' column: please use 'PRIMARY KEY' for tables. Tables have PRIMARY KEYs, "
            "which are unique and not null. Streams have KEYs, which have no such constraints",
            element.at,
        )
    if element.role == "PRIMARY KEY" and statement.kind == "STREAM":
        raise SqlError(f"column {element.name} is a 'PRIMARY KEY' column: please use 'KEY' for streams", element.at)
    if element.role:
        check_key_type(element.kind, f"column {element.name}", element.at)


def _stream(statement: CreateSource, columns: _Columns, given: With) -> Stream:
    key = [(element.name, element.kind.on_the_way) for element in columns.key]
    value = [(element.name, element.kind.on_the_way) for element in columns.value]
    key = key or [(_hidden(HIDDEN_KEY, value), "string")]
    value = value or [(_hidden(HIDDEN_VALUE, key), "string")]
    headers = "RECORD_HEADERS" if columns.headers else ""
    while headers and headers in {name for name, _ in (*key, *value)}:
        headers += "_"
    made = stream(
        given.topic, key=_schema(key), schema=_schema(value), format=given.value_format.lower(),
        key_format=given.key_format.lower() if columns.key else None, name=statement.name, headers=headers,
    )  # fmt: skip
    assert isinstance(made.source, Source)
    source = replace(
        made.source,
        key_format=_format(made.source.key_format, len(columns.key) == 1, given.key_delimiter)
        if columns.key
        else "none",
        value_format=_format(made.source.value_format, not given.is_wrapped, given.value_delimiter),
        event_time=_event_time(made, columns, given),
        max_ahead=check_ahead(given.max_ahead, "MAX_AHEAD", has_time=True),
    )
    if source.value_format.startswith("json"):
        source = replace(source, value=_fields(source.value))
    if source.key_format.startswith("json"):
        source = replace(source, key=_fields(source.key))
    made = replace(made, source=source) if given.window is None else _windowed(made, source, given.window)
    if any(has_moment(element.kind) for element in columns.key):
        made = _with_moments(made, columns.key)
    if not headers and not any(has_moment(element.kind) for element in columns.value):
        return made
    texts = [f"{arrived(name_text(e.name), e.kind)} AS `{e.name}`" for e in columns.value if has_moment(e.kind)]
    texts += [f"{_header(headers, element)} AS `{element.name}`" for element in columns.headers]
    plain = {e.name: name_text(e.name) for e in columns.value if not has_moment(e.kind)}
    return made.select(*texts, **plain)


def _hidden(name: str, taken: list[tuple[str, str]]) -> str:
    """The name of a column that stands for those that there are none of."""
    while name in {other for other, _ in taken}:
        name += "_"
    return name


def _fields(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Columns with the names of their fields, and of those inside structs."""
    made = []
    for column, field in zip(columns, fields_of(columns), strict=True):
        name = field.name if field.name != column.name else None
        made.append(Column(column.name, column.type, name, field.type if is_escaped(column.type) else None))
    return tuple(made)


def _windowed(made: Stream, source: Source, size: int) -> Stream:
    """The stream with the bounds of the window that its key names as the last columns of its key."""
    bounds = tuple(Column(name, "timestamp") for name in WINDOW_COLUMNS)
    source = replace(source, key=(*source.key, *bounds), key_format=format_with(source.key_format, size or None))
    columns = (*source.key, *made.columns[len(made.key) :])
    return replace(made, source=source, key=(*made.key, *WINDOW_COLUMNS), columns=columns)


def _with_moments(made: Stream, key: tuple[SchemaElement, ...]) -> Stream:
    """The stream with moments in its key, which are numbers in the topic. In steps, since the names stay the same."""
    spans = made.key[len(key) :]
    between = {element: f"KEY_{number}" for number, element in enumerate(key)}
    taken = {column.name for column in made.columns}
    while taken & {*between.values()}:
        between = {element: f"{name}_" for element, name in between.items()}
    read = (f"{arrived(name_text(element.name), element.kind)} AS {name}" for element, name in between.items())
    made = made.rekey(*read, *spans).drop(*(element.name for element in key))
    return made.rekey(*(f"{name} AS `{e.name}`" for e, name in between.items()), *spans).drop(*between.values())


def _format(name: str, is_bare: bool, delimiter: str) -> str:
    """A format as ksqlDB reads it. is_bare: a single value in JSON has no object around it; a single key has none."""
    if name == "delimited" and delimiter != ",":
        return f"delimited{delimiter}"
    return name if name != "json" else "json_bare" if is_bare else "json_any_case"


def _header(name: str, element: SchemaElement) -> str:
    """Spark SQL for a column of the record's headers: all of them, or the value of the last one with a key."""
    if element.role == "HEADERS":
        return f"transform({name}, header -> named_struct('KEY', header.key, 'VALUE', header.value))"
    return f"try_element_at(filter({name}, _header -> _header.key = {literal(element.header)}), -1).value"


def _schema(columns: list[tuple[str, str]]) -> str:
    return ", ".join(f"`{name}` {kind}" for name, kind in columns)


def _event_time(made: Stream, columns: _Columns, given: With) -> Expression | None:
    if given.timestamp is None:
        return None
    kind = time_kind({element.name: element.kind for element in (*columns.key, *columns.value)}, given)
    name = name_text(given.timestamp)
    if kind == k.STRING:
        name = f"to_timestamp({name}, {literal(given.timestamp_format or '')})"
    return expression(name, made.columns, f"stream {made.source.name!r}: TIMESTAMP")


def time_kind(columns: Mapping[str, Kind], given: With) -> Kind:
    """Return the type of the column that TIMESTAMP names. Raises SqlError if that can't be a time."""
    kind = columns.get(given.timestamp or "")
    if kind is None:
        raise SqlError(f"TIMESTAMP='{given.timestamp}' names no column", given.at)
    if given.timestamp_format is not None and kind != k.STRING:
        raise SqlError(f"TIMESTAMP_FORMAT is for a VARCHAR, and {given.timestamp} is a {kind}", given.at)
    if given.timestamp_format is None and kind not in (k.BIGINT, k.TIMESTAMP):
        raise SqlError(
            f"TIMESTAMP='{given.timestamp}' is a {kind}; expected a BIGINT, a TIMESTAMP, or a VARCHAR with "
            "TIMESTAMP_FORMAT",
            given.at,
        )
    return kind


def check_altered(statement: Alter, known: Entry, readers: list[str]) -> None:
    """Raise SqlError for what can't get more columns: what a query writes, or something reads."""
    if known.kind != statement.kind:
        raise SqlError(f"incompatible data source type is {known.kind}, but statement was ALTER {statement.kind}",
                       statement.at)  # fmt: skip
    if known.query is not None or known.inserts or known.is_source or known.over:
        why = "a SOURCE is read-only" if known.is_source else "it is written by a query: CREATE OR REPLACE"
        raise SqlError(f"ALTER is for what is declared over a topic, and not for {known.name}: {why}", statement.at)
    if readers:
        raise SqlError(f"{known.name} is read by {', '.join(readers)}: add its columns before", statement.at)
    taken = {column.name for column in known.columns}
    for element in statement.elements:
        if element.name in taken:
            raise SqlError(f"cannot add column {element.name}: a column with the same name exists", element.at)


def altered(statement: Alter, before: Sequence[Statement], text: str, settings: Mapping[str, str]) -> Entry:
    """Return what statements have declared over a topic, with the columns of one more."""
    created, *others = before
    assert isinstance(created, CreateSource)
    added = [element for one in (*others, statement) if isinstance(one, Alter) for element in one.elements]
    return declared(replace(created, elements=(*created.elements, *added)), text, settings)
