"""A topic of Debezium as a stream: the declaration of a database's table and of its changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lakehouse.errors import ConfigError, PlanError
from lakehouse.plan.build import declared_source, parse_key, stream_name
from lakehouse.plan.expression.schema import Column, base_type, parse_schema
from lakehouse.plan.names.debezium_options import (
    APPLY,
    BAD,
    COMMITTED_COLUMN,
    DECIMALS,
    KEEP,
    UNAVAILABLE,
    UNITS,
    UNSENT_COLUMN,
    DebeziumOptions,
    parse_options,
    placeholder_bytes,
)
from lakehouse.plan.names.format_traits import DEBEZIUM, DEBEZIUM_AVRO, JSON, KEY_FORMATS
from lakehouse.plan.names.record_format import RecordFormat, parse_format
from lakehouse.plan.origin import Source
from lakehouse.plan.refused.arguments import check_flag
from lakehouse.plan.refused.formats import check_format_name
from lakehouse.plan.refused.near import suggest_near
from lakehouse.plan.refused.steps import value_in_message
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table

_COMMITTED = Column(COMMITTED_COLUMN, "bigint", "source.ts_ms")
ENVELOPE = ("op", "source", "transaction", "ts_ms", "ts_us", "ts_ns")
_MOMENTS = ("timestamp", "date")
_PLACEHOLDER_BYTES_MIN = 8
KINDS = {JSON: DEBEZIUM, "avro": DEBEZIUM_AVRO}


def debezium(
    topic: str,
    *,
    key: str,
    schema: str,
    flattened: bool = False,
    documents: bool = False,
    decimals: str = "",
    times: Mapping[str, str] | None = None,
    meta: str = "",
    unavailable: str = UNAVAILABLE,
    unsent: str = KEEP,
    truncates: str = BAD,
    format: str = JSON,
    key_format: str | None = None,
    event_time: str | None = None,
    name: str | None = None,
    own_table: bool = False,
    headers: str = "",
    max_ahead: str | None = None,
) -> Stream:
    """Declare the changes of a database's table, as Debezium writes them, as a stream: docs/databases.md.

    A create, an update and a row of a snapshot are a record with the row after the change; a delete is a record with a
    null value. So `.latest("orders")` is the database's table. Bytes without a row go to the quarantine with their
    reason.

    key: the columns of the primary key, "id int". schema: other columns of the table, in any case. flattened: the topic
    has rows alone (ExtractNewRecordState); a row whose field __deleted is true is a delete. documents: they are
    MongoDB's: `after` is the text of a document in Extended JSON, and so is the key's field id.
    Without a schema beside a record ({"schema": ..., "payload": ...}), its numbers and texts have no type. Then say
    decimals: what a text for a decimal is, "precise" (its bytes) or "string" (its digits); times: what a number for a
    timestamp counts, by column, {"made": "micros"}, or "millis" or "nanos", for a date also "days", which is the usual.
    meta: columns beside the row, out of the envelope: "op string, lsn bigint from 'source.lsn'". unavailable: the
    connector's unavailable.value.placeholder, which stands for a value that was not sent (TOAST). unsent: "keep", then
    `latest` directly over this stream keeps the value before, and for others the record is bad; or "quarantine", then
    it is bad for all. truncates: "quarantine": a truncate of the database's table is a bad record; or "apply": it
    deletes all rows of `latest` directly over this stream, whose topic then may have one partition only. format: of
    keys and values, "json", or "avro" with a registry's schemas, which have the types. key_format: "debezium" (JSON),
    or one of those of `stream`. event_time: as in `stream`; if left out, when the database made the change,
    source.ts_ms, also of a delete; of flattened rows the record's own timestamp. name, own_table, headers, max_ahead:
    as in `stream`.

    Raises PlanError for impossible names, types, options or expressions.
    """
    subject = f"stream {stream_name(topic, name)!r}"
    row_columns = parse_schema(schema, f"{subject}: schema")
    meta_columns = _meta_columns(meta, f"{subject}: meta", flattened=flattened)
    has_hidden_time = not flattened and event_time is None
    if has_hidden_time:
        _check_time_types(meta_columns, f"{subject}: meta")
        meta_columns += (_COMMITTED,)
        event_time = _COMMITTED.name
    paths = tuple(dict.fromkeys(column.in_topic.name for column in meta_columns))
    for column in row_columns:
        if column.in_topic.name in paths:
            raise PlanError(f"{subject}: schema: {column}: meta reads {column.in_topic.name} from the envelope.")
    if decimals not in ("", *DECIMALS):
        raise PlanError(f"{subject}: decimals={decimals!r}: expected {' or '.join(map(repr, DECIMALS))}.")
    key_columns = parse_key(key, row_columns, subject)
    if not isinstance(times, Mapping | None):
        raise PlanError(f'{subject}: times={times!r}: expected a unit for each column, such as {{"made": "micros"}}.')
    for option_name, flag in (("flattened", flattened), ("documents", documents)):
        check_flag(flag, f"{subject}: {option_name}")
    units = _units(times or {}, (*key_columns, *row_columns), f"{subject}: times")
    if not isinstance(unavailable, str) or not placeholder_bytes(unavailable):
        raise PlanError(f"{subject}: unavailable={unavailable!r}: expected a text, or hex: and bytes in hexadecimal.")
    if unsent not in (KEEP, BAD):
        raise PlanError(f"{subject}: unsent={unsent!r}: expected {KEEP!r} or {BAD!r}.")
    if truncates not in (BAD, APPLY):
        raise PlanError(f"{subject}: truncates={truncates!r}: expected {BAD!r} or {APPLY!r}.")
    if truncates == APPLY and (flattened or unsent != KEEP):
        raise PlanError(
            f'{subject}: truncates="apply" is for envelopes, and for latest directly over them: it needs '
            'unsent="keep", and no flattened=True (ExtractNewRecordState drops truncates).'
        )
    if any(column.name.lower() == UNSENT_COLUMN for column in (*key_columns, *row_columns, *meta_columns)):
        raise PlanError(f"{subject}: schema: {UNSENT_COLUMN!r} is a name for marks. Give the column another one.")
    if documents and flattened:
        raise PlanError(f"{subject}: flattened=True has rows, documents=True has texts of documents: give one of them.")
    if not isinstance(format, str) or (value_kind := KINDS.get(format)) is None:
        raise PlanError(f"{subject}: format={format!r}: expected {' or '.join(map(repr, KINDS))}.")
    if value_kind == DEBEZIUM_AVRO and (decimals or units or documents):
        raise PlanError(f"{subject}: decimals, times and documents are for JSON; in Avro the schema says the types.")
    if value_kind == DEBEZIUM and (length := len(placeholder_bytes(unavailable))) < _PLACEHOLDER_BYTES_MIN:
        raise PlanError(
            f"{subject}: unavailable={unavailable!r}: expected at least {_PLACEHOLDER_BYTES_MIN} bytes in JSON, found "
            f"{length}. It stands there in hexadecimal and in base64, too, and ordinary texts would be taken as not "
            "sent. Give the connector a longer unavailable.value.placeholder."
        )
    options = DebeziumOptions(flattened, documents, decimals, units, unavailable, paths, unsent, truncates=truncates)
    key_formats = (*KINDS.values(), *KEY_FORMATS)
    key_format = check_format_name(
        value_kind if key_format is None else key_format, key_formats, f"{subject}: key_format"
    )
    key_options = _options_of_key(key_columns, options) if key_format == DEBEZIUM else ""
    stream = declared_source(
        topic, key=key, value_columns=(*row_columns, *meta_columns),
        value_format=str(RecordFormat(value_kind, options=str(options))),
        key_format=str(RecordFormat(key_format, options=str(key_options))),
        event_time=event_time, name=name, own_table=own_table, headers=headers, max_ahead=max_ahead,
    )  # fmt: skip
    return stream.drop(_COMMITTED.name) if has_hidden_time else stream


def list_change_logs(tables: Iterable[Table]) -> tuple[Source, ...]:
    """Return the topics with changes of a database behind tables, each once. Raises ConfigError if there are none."""
    sources = {source.topic: source for table in tables for source in table.stream.sources if _has_envelopes(source)}
    if not sources:
        raise ConfigError(
            "source position: no topic behind these tables has a database's changes; expected one that lh.debezium "
            "declares, with envelopes: flattened rows name no position."
        )
    return tuple(sources.values())


def _has_envelopes(source: Source) -> bool:
    format = parse_format(source.value_format)
    return format.traits.is_change_log and not parse_options(format.options).flattened


def _options_of_key(columns: tuple[Column, ...], options: DebeziumOptions) -> DebeziumOptions:
    """Return what of the options a key's columns are read by: others make no difference to it."""
    names = {column.in_topic.name for column in columns}
    has_decimal = any("decimal" in column.type.lower() for column in columns)
    return DebeziumOptions(
        documents=options.documents,
        decimals=options.decimals if has_decimal else "",
        times=tuple((name, unit) for name, unit in options.times if name in names),
    )


def _meta_columns(text: str, subject: str, *, flattened: bool) -> tuple[Column, ...]:
    if not isinstance(text, str):
        raise PlanError(f'{subject}={value_in_message(text)}: expected one text, such as "op string, ts_ms bigint".')
    if not text.strip():
        return ()
    if flattened:
        raise PlanError(f"{subject}={text!r}: flattened rows have no envelope. Their fields __op, ... are in schema.")
    columns = parse_schema(text, subject)
    for column in columns:
        if (path := column.in_topic.name).split(".")[0] not in ENVELOPE:
            raise PlanError(
                f'{subject}: {column}: found {path!r}, expected {", ".join(ENVELOPE)}, or a field in them: "lsn '
                "bigint from 'source.lsn'\"."
            )
    return columns


def _check_time_types(meta_columns: tuple[Column, ...], subject: str) -> None:
    """Raise PlanError for a column that reads the event time's field in another type: a field is read as one type."""
    for column in meta_columns:
        if column.in_topic.name == _COMMITTED.in_topic.name and base_type(column.type) != "bigint":
            raise PlanError(
                f"{subject}: {column}: the event time reads {column.in_topic.name} as a bigint: declare bigint, and "
                f"make a {column.type} of it in a select. ROWTIME is the same number."
            )


def _units(times: Mapping[str, str], columns: tuple[Column, ...], subject: str) -> tuple[tuple[str, str], ...]:
    """Return the units by the names of fields in the topic."""
    columns_by_name = {column.name: column for column in columns}
    units = []
    for name, unit in times.items():
        if name not in columns_by_name:
            raise PlanError(f"{subject}: {name!r} is not a column.{suggest_near(str(name), columns_by_name)}")
        column = columns_by_name[name]
        kinds = [kind for kind in _MOMENTS if kind in column.type.lower()]
        if not kinds:
            raise PlanError(f"{subject}: {column} has no moments; expected a timestamp or a date.")
        if unit not in UNITS or (unit == "days" and base_type(column.type) == "timestamp"):
            raise PlanError(f"{subject}: {name}={unit!r}: expected {', '.join(UNITS)}; days for a date only.")
        units.append((column.in_topic.name, unit))
    return tuple(units)
