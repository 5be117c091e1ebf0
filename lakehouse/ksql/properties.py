"""The properties in WITH (...): their names and their values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lakehouse.duration import LONGEST_MS
from lakehouse.errors import PlanError, SqlError
from lakehouse.ksql.syntax.read_statement import UNITS_MS
from lakehouse.ksql.syntax.statement import CreateAs, CreateSource, Properties
from lakehouse.ksql.syntax.tree import Name, Value
from lakehouse.plan.names.field import column_name, field_name
from lakehouse.plan.names.format_traits import TRAITS, FormatTraits, traits_of
from lakehouse.plan.names.schema_options import check_full_name
from lakehouse.plan.refused.near import suggest_near
from lakehouse.plan.schema import check_topic

FORMATS = tuple(
    traits.name.upper() for traits in TRAITS.values() if traits.is_declared or traits.is_absent or traits.is_change_log
)
# Names of characters that can't be seen.
DELIMITERS = {"TAB": "\t", "SPACE": " "}
OF_BOTH = (
    "KAFKA_TOPIC", "FORMAT", "KEY_FORMAT", "VALUE_FORMAT", "PARTITIONS", "REPLICAS", "TIMESTAMP", "TIMESTAMP_FORMAT",
    "WRAP_SINGLE_VALUE", "VALUE_DELIMITER", "KEY_DELIMITER", "RETENTION_MS", "CLEANUP_POLICY",
    "KEY_SCHEMA_FULL_NAME", "VALUE_SCHEMA_FULL_NAME", "KEY_SCHEMA_ID", "VALUE_SCHEMA_ID",
)  # fmt: skip
OF_CHANGE_LOG = ("FLATTENED", "DOCUMENTS", "DECIMALS", "TIMES", "UNAVAILABLE", "UNSENT", "TRUNCATES")
OF_SOURCE = (*OF_BOTH, "WINDOW_TYPE", "WINDOW_SIZE", "KEY", "MAX_AHEAD", *OF_CHANGE_LOG)
OF_QUERY = (*OF_BOTH, "QUERY_ID")
ID_MAX = (1 << 31) - 1  # of a registry's schema
WINDOW_TYPES = ("SESSION", "TUMBLING", "HOPPING")


@dataclass(frozen=True, slots=True)
class WithClause:
    """The properties of a statement. position: where the statement begins.

    is_wrapped: whether a single value has an object around it; None: not around the only value column.
    window: the window behind a key: its size in milliseconds, 0 for a session; None without a window.
    max_ahead: see `lakehouse.plan.build.stream`. record_names: the full names of the records that are written as keys
    and as values, in a format with a registry; empty for the usual one. of_change_log: the properties that only a
    database's change log has, as they are written. schema_ids: of the schemas that have the columns of the key and of
    the value; None for the topic's pinned ones.
    """

    topic: str
    key_format: str
    value_format: str
    partitions: int | None
    timestamp: str | None
    timestamp_format: str | None
    key: str | None
    position: int
    is_wrapped: bool | None = True
    key_delimiter: str = ","
    value_delimiter: str = ","
    window: int | None = None
    max_ahead: str | None = None
    record_names: tuple[str, str] = ("", "")
    of_change_log: Properties = field(default_factory=dict)
    schema_ids: tuple[int | None, int | None] = (None, None)

    def over(self, value_count: int) -> WithClause:
        """Return the clause for a known number of value columns, which decides `is_wrapped`."""
        return self if self.is_wrapped is not None else replace(self, is_wrapped=value_count > 1)


def traits_of_sql(format: str) -> FormatTraits:
    """Return what is true of a format by its name in SQL, "JSON"."""
    return traits_of(format.lower())


# Settings of SET that have an effect, and their names in ksqlDB.
WRAPS = "ksql.persistence.wrap.single.values"
DEFAULTS = {
    "KEY_FORMAT": "ksql.persistence.default.format.key",
    "VALUE_FORMAT": "ksql.persistence.default.format.value",
}
TOPIC_PREFIX = "ksql.output.topic.name.prefix"
LIMITS = {"COLLECT_LIST": "ksql.functions.collect_list.limit", "COLLECT_SET": "ksql.functions.collect_set.limit"}


def source_properties(statement: CreateSource, settings: Mapping[str, str]) -> WithClause:
    """Return the properties of CREATE over a topic. settings: those of SET. Raises SqlError."""
    properties = _with_settings(statement.properties, settings, statement.position)
    _check_known(properties, OF_SOURCE, statement.position)
    topic = text_property(properties, "KAFKA_TOPIC")
    if topic is None:
        raise SqlError(
            "missing required property KAFKA_TOPIC, which has no default value: WITH (KAFKA_TOPIC='...', "
            "VALUE_FORMAT='JSON')",
            statement.position,
        )
    both_formats = _format_property(properties, "FORMAT")
    value_format = _format_property(properties, "VALUE_FORMAT") or both_formats
    if value_format is None:
        raise SqlError(
            "missing required property VALUE_FORMAT, which has no default value: VALUE_FORMAT='JSON'",
            statement.position,
        )
    if traits_of_sql(value_format).is_absent:
        raise SqlError(
            f"VALUE_FORMAT='{value_format}' reads no value, and the schema has value columns",
            _format_position(properties, statement.position),
        )
    is_change = traits_of_sql(value_format).is_change_log
    usual_key_format = value_format if is_change else "KAFKA"
    key_format = _format_property(properties, "KEY_FORMAT") or both_formats or usual_key_format
    if traits_of_sql(key_format).is_change_log and not is_change:
        raise SqlError(
            f"KEY_FORMAT='{key_format}' is for a VALUE_FORMAT of the same kind, and this one is {value_format}",
            properties["KEY_FORMAT"].position,
            expected="KEY_FORMAT='CONNECT_JSON' for a key of Kafka Connect",
        )
    of_change_log = {name: value for name, value in properties.items() if name in OF_CHANGE_LOG}
    for name, value in of_change_log.items():
        if not is_change:
            raise SqlError(
                f"{name} is for a database's change log, and the values are in {value_format}",
                value.position,
                expected="VALUE_FORMAT='DEBEZIUM'",
            )
    with_clause = _with_clause(properties, topic, key_format, value_format, statement.position)
    max_ahead = text_property(properties, "MAX_AHEAD")
    if max_ahead is not None and with_clause.timestamp is None and not is_change:
        raise SqlError(
            "MAX_AHEAD compares an event time with the record's own Kafka timestamp, and ROWTIME is that here. "
            "Name a column: TIMESTAMP='AT'",
            properties["MAX_AHEAD"].position,
        )
    return _with_wrap_setting(
        replace(with_clause, window=_window_size_ms(properties), max_ahead=max_ahead, of_change_log=of_change_log),
        properties,
        settings,
    )


def query_properties(
    statement: CreateAs,
    source_formats: tuple[str, str],
    source_delimiters: tuple[str, str],
    settings: Mapping[str, str],
) -> WithClause:
    """Return the properties of CREATE ... AS. source_formats, source_delimiters: those of its first source."""
    properties = statement.properties
    for name in ("KEY_SCHEMA_ID", "VALUE_SCHEMA_ID"):
        if name in properties:
            raise SqlError(
                f"{name} is for a stream or table over a topic, whose columns are those of that schema. What a query "
                "writes has a schema of its own columns, which the registry compares with those before it. Leave it "
                f"out; {name.replace('_ID', '_FULL_NAME')} gives the record's name",
                properties[name].position,
            )
    _check_known(properties, OF_QUERY, statement.position)
    both_formats = _written_format_property(properties, "FORMAT")
    key_format, value_format = (
        _written_format_property(properties, "KEY_FORMAT") or both_formats,
        _written_format_property(properties, "VALUE_FORMAT") or both_formats,
    )
    source_formats = (_written_as(source_formats[0]), _written_as(source_formats[1]))
    if value_format is not None and traits_of_sql(value_format).is_absent:
        raise SqlError(
            f"VALUE_FORMAT='{value_format}' writes no value, and the query has some",
            _format_position(properties, statement.position),
        )
    topic_name = check_topic(
        text_property(properties, "KAFKA_TOPIC") or settings.get(TOPIC_PREFIX, "") + field_name(statement.name)
    )
    default_key_format = (
        source_formats[0]
        if not traits_of_sql(source_formats[0]).is_absent
        else _written_as(settings.get(DEFAULTS["KEY_FORMAT"], source_formats[0]).upper())
    )
    with_clause = _with_clause(
        properties,
        topic_name,
        key_format or default_key_format,
        value_format or source_formats[1],
        statement.position,
        source_delimiters,
    )
    return _with_wrap_setting(with_clause, properties, settings)


def _with_clause(
    properties: Properties,
    topic: str,
    key_format: str,
    value_format: str,
    position: int,
    delimiters: tuple[str, str] = (",", ","),
) -> WithClause:
    """Return the typed clause. delimiters: those of values and of keys that apply by default."""
    return WithClause(
        topic,
        key_format,
        value_format,
        _number_property(properties, "PARTITIONS"),
        _column_property(properties, "TIMESTAMP"),
        text_property(properties, "TIMESTAMP_FORMAT"),
        _column_property(properties, "KEY"),
        position,
        _is_wrapped(properties, value_format),
        _read_delimiter(properties, "KEY_DELIMITER") or delimiters[1],
        _read_delimiter(properties, "VALUE_DELIMITER") or delimiters[0],
        record_names=(_record_name(properties, "KEY", key_format), _record_name(properties, "VALUE", value_format)),
        schema_ids=(_schema_id(properties, "KEY", key_format), _schema_id(properties, "VALUE", value_format)),
    )


def _schema_id(properties: Properties, part_name: str, format: str) -> int | None:
    """Return the id of the schema of a key or a value; None if none is given. Raises SqlError."""
    name = f"{part_name}_SCHEMA_ID"
    if name not in properties:
        return None
    traits = traits_of_sql(format)
    if not traits.reads_by_schema or traits.is_change_log:
        raise SqlError(f"{name} is for {part_name}_FORMAT='AVRO', and this one is {format}", properties[name].position)
    return _number_property(properties, name, ID_MAX)


def _record_name(properties: Properties, part_name: str, format: str) -> str:
    """Return the full name of the record that a key or a value is; empty if none is given. Raises SqlError."""
    name = f"{part_name}_SCHEMA_FULL_NAME"
    full_name = text_property(properties, name)
    if full_name is None:
        return ""
    traits = traits_of_sql(format)
    if not traits.is_registered:
        raise SqlError(
            f"{name} is for a {part_name}_FORMAT with a schema registry, and this one is {format}",
            properties[name].position,
        )
    if not traits.reads_by_schema:  # a title, which may be any text
        return full_name
    try:
        return check_full_name(full_name, name)
    except PlanError as error:
        raise SqlError(str(error), properties[name].position) from None


def query_id(properties: Properties) -> str:
    """Return the name that WITH gives to a query, in upper case; empty if it gives none. Raises SqlError."""
    query_name = text_property(properties, "QUERY_ID") or ""
    if query_name and not re.fullmatch(r"\w+", query_name, re.ASCII):
        raise SqlError("QUERY_ID is of letters, digits and underscores", properties["QUERY_ID"].position)
    return query_name.upper()


def insert_id(properties: Properties, position: int) -> str:
    """Return the name of the query of INSERT INTO ... WITH, which can have nothing else. Raises SqlError."""
    _check_known(properties, ("QUERY_ID",), position)
    return query_id(properties)


def _check_known(properties: Properties, known_names: tuple[str, ...], position: int) -> None:
    for name, value in properties.items():
        if name not in known_names:
            raise SqlError(
                f"invalid config variable {name} in the WITH clause.{suggest_near(name, known_names)}",
                value.position,
                expected=", ".join(known_names),
            )
    _number_property(properties, "REPLICAS")


def _with_wrap_setting(with_clause: WithClause, properties: Properties, settings: Mapping[str, str]) -> WithClause:
    """Return the clause with the setting for a single value without an object around it."""
    is_explicit = "WRAP_SINGLE_VALUE" in properties or not traits_of_sql(with_clause.value_format).wraps
    return (
        with_clause
        if is_explicit or settings.get(WRAPS, "").lower() != "false"
        else replace(with_clause, is_wrapped=None)
    )


def read_aggregate_limits(settings: Mapping[str, str]) -> dict[str, int]:
    """Return how many values an aggregate keeps, by its name, where settings limit it; a negative limit means none."""
    limit_texts = {name: settings[setting] for name, setting in LIMITS.items() if setting in settings}
    return {name: int(text) for name, text in limit_texts.items() if text.strip().isdecimal() and int(text)}


def _with_settings(properties: Properties, settings: Mapping[str, str], position: int) -> Properties:
    """Return the properties, with the defaults that settings give."""
    named_formats = {name for name in ("KEY_FORMAT", "VALUE_FORMAT") if name in properties or "FORMAT" in properties}
    properties = dict(properties)
    properties |= {
        name: Value(settings[setting], position=position)
        for name, setting in DEFAULTS.items()
        if setting in settings and name not in named_formats
    }
    return properties


def _window_size_ms(properties: Properties) -> int | None:
    """Return the size of the window in the keys, 0 for a session, None without one. Raises SqlError."""
    kind, size_text = text_property(properties, "WINDOW_TYPE"), text_property(properties, "WINDOW_SIZE")
    if kind is None:
        if size_text is not None:
            raise SqlError(
                "WINDOW_SIZE is for a WINDOW_TYPE of TUMBLING or HOPPING", properties["WINDOW_SIZE"].position
            )
        return None
    if kind.upper() not in WINDOW_TYPES:
        raise SqlError(
            f"unknown window type {kind}.{suggest_near(kind.upper(), WINDOW_TYPES)}",
            properties["WINDOW_TYPE"].position,
            expected=", ".join(WINDOW_TYPES),
        )
    if kind.upper() == "SESSION":
        if size_text is not None:
            raise SqlError("'WINDOW_SIZE' should not be set for SESSION windows", properties["WINDOW_SIZE"].position)
        return 0
    if size_text is None:
        raise SqlError(
            f"'WINDOW_SIZE' should be set for {kind.upper()} windows: WINDOW_SIZE='30 SECONDS'",
            properties["WINDOW_TYPE"].position,
        )
    count_text, _, unit_word = size_text.strip().partition(" ")
    unit_ms = UNITS_MS.get(unit_word.strip().upper().removesuffix("S"))
    if unit_ms is None or not count_text.isdecimal() or not int(count_text):
        raise SqlError(
            "WINDOW_SIZE is a number and a unit of time",
            properties["WINDOW_SIZE"].position,
            found=size_text,
            expected="'30 SECONDS'",
        )
    if len(count_text) > 15 or int(count_text) * unit_ms > LONGEST_MS:
        raise SqlError(
            f"WINDOW_SIZE is at most {LONGEST_MS // UNITS_MS['DAY']} DAYS",
            properties["WINDOW_SIZE"].position,
            found=size_text,
        )
    return int(count_text) * unit_ms


def _read_delimiter(properties: Properties, name: str) -> str | None:
    text = text_property(properties, name)
    if text is None or text.upper() in DELIMITERS:
        return DELIMITERS.get((text or "").upper())
    if len(text) != 1 or text.isspace() or text in ('"', "\\"):
        raise SqlError(
            f"{name} takes one character, or {' or '.join(DELIMITERS)}", properties[name].position, found=repr(text)
        )
    return text


def _is_wrapped(properties: Properties, value_format: str) -> bool:
    """Say whether a single value has an object around it: {"NAME": ...}."""
    wrap_property = properties.get("WRAP_SINGLE_VALUE")
    if wrap_property is None:
        return True
    is_wrapped, traits = flag_property(properties, "WRAP_SINGLE_VALUE"), traits_of_sql(value_format)
    is_always_wrapped = traits.needs_schema and not traits.is_single
    if not traits.wraps and is_wrapped != is_always_wrapped:
        word = str(is_wrapped).lower()
        raise SqlError(f"format {value_format} does not support WRAP_SINGLE_VALUE={word}", wrap_property.position)
    return is_wrapped or not traits.wraps


def flag_property(properties: Properties, name: str) -> bool:
    """Return whether a property is true; one that is not given is false. Raises SqlError."""
    value = properties.get(name)
    if value is None:
        return False
    word = _property_text(value).upper()
    if word not in ("TRUE", "FALSE"):
        raise SqlError(f"{name} is true or false", value.position, found=_property_text(value))
    return word == "TRUE"


def _property_text(value: Value | Name) -> str:
    return value.name if isinstance(value, Name) else str(value.value)


def text_property(properties: Properties, name: str) -> str | None:
    """Return the text of a property; None for one that is not given. Raises SqlError."""
    value = properties.get(name)
    if value is None:
        return None
    if not isinstance(value, Value) or not isinstance(value.value, str):
        raise SqlError(f"{name} takes a text in quotes", value.position, found=_property_text(value))
    return value.value


def _column_property(properties: Properties, name: str) -> str | None:
    """Return a column's name: in upper case, unless the text has it in quotes of its own."""
    text = text_property(properties, name)
    if text is None:
        return None
    return column_name(text[1:-1] if len(text) > 2 and text[0] == text[-1] and text[0] in '`"' else text.upper())


def _number_property(properties: Properties, name: str, most: int = 10_000) -> int | None:
    value = properties.get(name)
    if value is None:
        return None
    number_text = _property_text(value)
    if not number_text.isdecimal() or not 1 <= int(number_text) <= most:
        raise SqlError(f"{name} takes a whole number from 1 to {most}", value.position, found=number_text)
    return int(number_text)


def _format_property(properties: Properties, name: str) -> str | None:
    format_text = text_property(properties, name)
    if format_text is None:
        return None
    if format_text.upper() not in FORMATS:
        raise SqlError(
            f"unknown format {format_text}.{suggest_near(format_text, FORMATS)}",
            properties[name].position,
            expected=", ".join(FORMATS),
        )
    return format_text.upper()


def _written_format_property(properties: Properties, name: str) -> str | None:
    """Return the format that a query's output is to have. Raises SqlError, also for one that is only read."""
    format = _format_property(properties, name)
    if format is not None and _written_as(format) != format:
        raise SqlError(
            f"{name}='{format}' is only read: others write such records",
            properties[name].position,
            expected=f"another format, such as {_written_as(format)}",
        )
    return format


def _written_as(format: str) -> str:
    """Return the format in which a query writes what it reads in a format."""
    return traits_of_sql(format).written_as.upper() or format


def _format_position(properties: Properties, position: int) -> int:
    return next((value.position for name, value in properties.items() if name.endswith("FORMAT")), position)
