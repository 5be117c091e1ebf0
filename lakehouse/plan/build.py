"""A topic as a stream: the declaration of its key, its values and their time."""

from __future__ import annotations

from lakehouse.duration import duration_ms
from lakehouse.errors import PlanError
from lakehouse.plan.avro.schema_text import schema_text, type_of_avro
from lakehouse.plan.expression.expression import expression_type, parse_expression
from lakehouse.plan.expression.schema import (
    HEADERS_TYPE,
    NESTED_TYPES,
    PSEUDO_COLUMNS,
    Column,
    base_type,
    check_column,
    check_distinct,
    check_name,
    check_topic,
    parse_schema,
    parse_type,
)
from lakehouse.plan.names.field import quote_field
from lakehouse.plan.names.format_traits import JSON, KAFKA, KEY_FORMATS, VALUE_FORMATS
from lakehouse.plan.names.record_format import parse_format
from lakehouse.plan.origin import Source
from lakehouse.plan.refused.arguments import check_flag
from lakehouse.plan.refused.formats import check_format_name
from lakehouse.plan.refused.types import check_json_type, check_key_types
from lakehouse.plan.registered.pinned import declaring_folder, pinned_file, read_pinned, with_own_schema
from lakehouse.plan.stream import Stream


def stream(
    topic: str,
    *,
    key: str | None = None,
    schema: str | None = None,
    format: str = "json",
    key_format: str | None = None,
    event_time: str | None = None,
    name: str | None = None,
    own_table: bool = False,
    headers: str = "",
    max_ahead: str | None = None,
    validate: bool = False,
) -> Stream:
    """Declare a topic as a stream: schema on read.

    topic: the Kafka topic. key: the key's column and type, "tailnum string"; a name alone takes its type from `schema`
    (the value's field of that name is then not read), or is a string. schema: the value's columns, as Spark writes
    them; "deleted string from '__deleted'" reads a field of any name, also inside a struct. In Avro and Protobuf, key
    and schema may be left out: then the columns are those of the registry's schema, which `lakehouse schema pull` has
    written beside the application's file; key="id" is the name of a key that is one value alone.
    format: of the value, "json", "delimited" ("csv"), "kafka" (one primitive column), "avro", "protobuf" or "json_sr"
    (a registry's schemas: docs/avro.md, docs/protobuf.md, docs/json-schema.md), "protobuf_nosr" (without a registry, by
    the .proto file schemas/TOPIC-value.proto beside the application's file), or "connect_json" ({"schema": ...,
    "payload": ...}, with or without the schema, as Kafka Connect writes it: docs/databases.md). key_format: "kafka" for
    a single primitive (the default), or one of the others. event_time: an expression of type timestamp, or epoch
    milliseconds as a bigint; the record's own timestamp if left out. name: of the stream, for its quarantine; the
    topic's name if left out. own_table: give the topic a physical bronze table of its own. headers: the name of a
    column with the record's headers, in their order, an array of structs (key string, value binary); empty for none.
    max_ahead: a duration, "1 day": a record whose event time lies further ahead of its own Kafka timestamp goes to the
    quarantine; any may count if left out. validate: compare keys and values in json_sr with their writers' schemas;
    what does not fit goes to the quarantine (docs/json-schema.md).

    Raises PlanError for impossible names, types, formats or expressions.
    """
    subject = f"stream {stream_name(topic, name)!r}"
    format = check_format_name(format, VALUE_FORMATS, f"{subject}: format")
    if key_format is not None:
        key_format = check_format_name(key_format, KEY_FORMATS, f"{subject}: key_format")
    format = _with_required_schema(topic, "value", format, subject)
    key_format = key_format and _with_required_schema(topic, "key", key_format, subject)
    if schema is None:
        schema = _pinned_schema(topic, "value", format, subject)
    if key is None or (key_format is not None and _is_pinned_name(key, topic, key_format)):
        key = _pinned_schema(topic, "key", key_format or KAFKA, subject, name=key)
    check_flag(validate, f"{subject}: validate")
    if validate:
        format, key_format = _validated_formats(format, key_format, subject)
    return declared_source(
        topic, key=key, value_columns=parse_schema(schema, f"{subject}: schema"),
        value_format=format, key_format=key_format,
        event_time=event_time, name=name, own_table=own_table, headers=headers, max_ahead=max_ahead,
    )  # fmt: skip


def _with_required_schema(topic: str, part_name: str, format: str, subject: str) -> str:
    """Return a format with the schema beside the application's file, if the format needs it there."""
    folder, traits = declaring_folder(), parse_format(format).traits
    complete_format = with_own_schema(format, folder, topic, part_name, subject)
    if traits.has_own_schema and complete_format == format:
        path = pinned_file(folder, topic, part_name, traits.schema_kind)
        raise PlanError(
            f"{subject}: its {part_name}s are in {format}, and there is no file {path}. Put the .proto file of their "
            "producer there; the first message in it is theirs."
        )
    return complete_format


def _validated_formats(format: str, key_format: str | None, subject: str) -> tuple[str, str | None]:
    """Return the formats of values and keys that compare with schemas, where there are such. Raises PlanError."""
    validated, key_validated = (parse_format(name or KAFKA).traits.validated for name in (format, key_format))
    if not validated and not key_validated:
        raise PlanError(
            f"{subject}: validate=True, and neither its values, in {format}, nor its keys have a JSON Schema. Leave it "
            'out, or give format="json_sr".'
        )
    return validated or format, key_validated or key_format


def _is_pinned_name(key: str, topic: str, key_format: str) -> bool:
    """Say whether a key is only named, and a pinned schema has its type."""
    is_name = isinstance(key, str) and " " not in key.strip()
    traits = parse_format(key_format).traits
    is_pinned = traits.needs_schema and pinned_file(declaring_folder(), topic, "key", traits.schema_kind).exists()
    return is_name and is_pinned


def _pinned_schema(topic: str, part_name: str, format: str, subject: str, name: str | None = None) -> str:
    """Return the columns of a pinned schema. name: of the column, if it is one value alone. Raises PlanError."""
    parameter = "key" if part_name == "key" else "schema"
    traits = parse_format(format).traits
    if not traits.needs_schema:
        reason = (
            "columns are not taken from a JSON Schema"
            if traits.is_registered
            else f"records in {format} don't say what their columns are"
        )
        raise PlanError(
            f"{subject}: {parameter} is missing, and {reason}: "
            + ('key="id string".' if part_name == "key" else 'schema="city string, amount decimal(10, 2)".')
        )
    pinned_type = read_pinned(declaring_folder(), topic, part_name, traits.schema_kind, subject)
    if name is None and pinned_type.kind != "record":
        raise PlanError(
            f'{subject}: {parameter} is one {pinned_type} alone, in the pinned schema. Name it: {parameter}="id".'
        )
    if pinned_type.kind != "record":
        return f"{name} {type_of_avro(pinned_type, f'{subject}: {parameter}')}"
    if name is not None:
        raise PlanError(f"{subject}: {parameter}={name!r}: the pinned schema is {pinned_type}. Leave out {parameter}.")
    return schema_text(pinned_type, f"{subject}: {parameter}")


def declared_source(
    topic: str,
    *,
    key: str,
    value_columns: tuple[Column, ...],
    value_format: str,
    key_format: str | None,
    event_time: str | None,
    name: str | None,
    own_table: bool,
    headers: str,
    max_ahead: str | None,
) -> Stream:
    """Return a stream of a topic, as `stream` does, with the names of formats that are known to exist."""
    name = stream_name(topic, name)
    subject = f"stream {name!r}"
    check_flag(own_table, f"{subject}: own_table")
    key_columns = parse_key(key, value_columns, subject)
    key_names = {column.name.lower() for column in key_columns}
    if " " not in key.strip():
        value_columns = tuple(column for column in value_columns if column.name.lower() not in key_names)
    check_distinct((column.name for column in (*key_columns, *value_columns)), f"{subject}: key and schema")
    if not value_columns:
        raise PlanError(f"{subject}: schema has no value column beside the key, {key!r}. Name at least one.")
    is_primitive = len(key_columns) == 1 and base_type(key_columns[0].type) not in NESTED_TYPES
    key_format = key_format or (KAFKA if is_primitive else JSON)
    if " " not in key.strip() and not parse_format(key_format).traits.has_field_names:
        key_columns = tuple(column.plain for column in key_columns)  # the field of that name in the value is not read
    check_key_types(((column.name, column.type) for column in key_columns), f"{subject}: key")
    _check_holds_columns(key_format, key_columns, f"{subject}: key")
    _check_holds_columns(value_format, value_columns, f"{subject}: schema")
    columns = tuple(column.plain for column in (*key_columns, *value_columns))
    if headers:
        columns += (Column(check_name(headers, f"{subject}: headers"), HEADERS_TYPE),)
        check_distinct((column.name for column in columns), f"{subject}: headers")
        if headers.lower() in PSEUDO_COLUMNS:
            raise PlanError(
                f"{subject}: headers={headers!r} is a pseudo column that every stream has. Choose another name, such "
                'as headers="headers".'
            )
    time_expression = (
        parse_expression(event_time, columns, f"{subject}: event_time") if event_time is not None else None
    )
    if time_expression is not None and (time_type := expression_type(time_expression, columns)) not in (
        None,
        "timestamp",
        "bigint",
    ):
        raise PlanError(
            f"{subject}: event_time={event_time!r} is a {time_type}; expected a timestamp, or milliseconds as a bigint."
        )
    ahead_ms = check_ahead(max_ahead, subject, has_time=time_expression is not None)
    source = Source(
        name, topic, key_columns, value_columns, key_format, value_format, time_expression, own_table, headers, ahead_ms
    )
    return Stream(source, tuple(column.name for column in key_columns), columns)


def stream_name(topic: str, name: str | None) -> str:
    """Return the name of a topic's stream, by default made of the topic's."""
    check_topic(topic)
    return check_name(name if name is not None else topic.replace("-", "_").replace(".", "_"), "stream")


def check_ahead(max_ahead: str | None, subject: str, *, has_time: bool) -> int | None:
    """Return how far ahead an event time may lie, in milliseconds. Raises PlanError if the stream has no event time."""
    if max_ahead is None:
        return None
    if not has_time:
        raise PlanError(
            f"{subject}: max_ahead={max_ahead!r} compares an event time with the record's own Kafka timestamp, and the "
            'stream\'s event time is that timestamp. Name a field: event_time="at". Against producers whose clocks are '
            "wrong, let Kafka set the time: message.timestamp.type=LogAppendTime for the topic, or "
            "message.timestamp.after.max.ms."
        )
    return duration_ms(max_ahead, f"{subject}: max_ahead")


def parse_key(key: str, value_columns: tuple[Column, ...], subject: str) -> tuple[Column, ...]:
    """Return the columns of a key; a name alone is that of a value column, or of a string."""
    if not isinstance(key, str) or not key.strip():
        raise PlanError(f'{subject}: key={key!r}, expected the key\'s column and type, such as "id string".')
    if " " in key.strip():
        return parse_schema(key, f"{subject}: key")
    name = check_column(key.strip(), "string", f"{subject}: key")
    for column in value_columns:
        if column.name.lower() == name.lower():
            return (column,)
    return (Column(name, "string"),)


def _check_holds_columns(name: str, columns: tuple[Column, ...], subject: str) -> None:
    """Raise PlanError for columns that a format can't hold."""
    traits, base_types = parse_format(name).traits, [base_type(column.type) for column in columns]
    for column in columns:
        check_json_type(parse_type(column.type), f"{subject}: column {column.name!r}")
    renamed_columns = [column for column in columns if column.field is not None]
    if renamed_columns and not traits.has_field_names:
        places = "one value without a name" if traits.is_single else "values by their places, without names"
        raise PlanError(
            f"{subject}: {renamed_columns[0]}: format {name} holds {places}. Leave out from "
            f"{quote_field(renamed_columns[0].field or '')}"
            f"{', or give key_format=' + repr(JSON) if subject.endswith(': key') else ''}."
        )
    if traits.holds(base_types):
        return
    if traits.is_single:
        raise PlanError(
            f"{subject}: format {name} holds one column of type {', '.join(traits.only_types)}; found "
            f"{', '.join(map(str, columns))}. Use json or delimited."
        )
    refused_columns = [c for c, kind in zip(columns, base_types, strict=True) if not traits.holds_type(kind)]
    raise PlanError(f"{subject}: format {name} can't hold {refused_columns[0]}. Use json.")
