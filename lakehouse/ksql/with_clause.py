"""WITH (...) of a statement as one typed value: the properties that may be given, and the defaults that SET gives."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lakehouse.errors import SqlError
from lakehouse.ksql.property import (
    column_property,
    delimiter_property,
    flag_property,
    format_position,
    format_property,
    history_property,
    number_property,
    record_name_property,
    schema_id_property,
    text_property,
    traits_of_sql,
    window_size_property,
    wrap_property,
    written_as,
    written_format_property,
)
from lakehouse.ksql.syntax.statement import CreateAs, CreateSource, HistoryClause, Properties
from lakehouse.ksql.syntax.tree import Value
from lakehouse.plan.expression.schema import check_topic
from lakehouse.plan.names.field import field_name
from lakehouse.plan.refused.near import suggest_near

OF_BOTH = (
    "KAFKA_TOPIC", "FORMAT", "KEY_FORMAT", "VALUE_FORMAT", "PARTITIONS", "REPLICAS", "TIMESTAMP", "TIMESTAMP_FORMAT",
    "WRAP_SINGLE_VALUE", "VALUE_DELIMITER", "KEY_DELIMITER", "RETENTION_MS", "CLEANUP_POLICY",
    "KEY_SCHEMA_FULL_NAME", "VALUE_SCHEMA_FULL_NAME", "KEY_SCHEMA_ID", "VALUE_SCHEMA_ID",
)  # fmt: skip
OF_CHANGE_LOG = ("FLATTENED", "DOCUMENTS", "DECIMALS", "TIMES", "UNAVAILABLE", "UNSENT", "TRUNCATES")
OF_SOURCE = (*OF_BOTH, "WINDOW_TYPE", "WINDOW_SIZE", "KEY", "MAX_AHEAD", "VALIDATE", "HISTORY", "TRACK", *OF_CHANGE_LOG)
OF_QUERY = (*OF_BOTH, "QUERY_ID")


@dataclass(frozen=True, slots=True)
class WithClause:
    """The properties of a statement. position: where the statement begins.

    is_wrapped: whether a single value has an object around it; None: not around the only value column.
    window: the window behind a key: its size in milliseconds, 0 for a session; None without a window.
    max_ahead: see `lakehouse.plan.build.stream`. validates: see `validate` there. history: what is said of the history
    of its rows, if the table is that. record_names: the full names of the records that are written as keys and as
    values, in a format with a registry; empty for the usual one. of_change_log: the properties that only a database's
    change log has, as they are written. schema_ids: of the schemas that have the columns of the key and of the value;
    None for the topic's pinned ones.
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
    validates: bool = False
    history: HistoryClause | None = None
    record_names: tuple[str, str] = ("", "")
    of_change_log: Properties = field(default_factory=dict)
    schema_ids: tuple[int | None, int | None] = (None, None)

    def over(self, value_count: int) -> WithClause:
        """Return the clause for a known number of value columns, which decides `is_wrapped`."""
        return self if self.is_wrapped is not None else replace(self, is_wrapped=value_count > 1)


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
    both_formats = format_property(properties, "FORMAT")
    value_format = format_property(properties, "VALUE_FORMAT") or both_formats
    if value_format is None:
        raise SqlError(
            "missing required property VALUE_FORMAT, which has no default value: VALUE_FORMAT='JSON'",
            statement.position,
        )
    if traits_of_sql(value_format).is_absent:
        raise SqlError(
            f"VALUE_FORMAT='{value_format}' reads no value, and the schema has value columns",
            format_position(properties, statement.position),
        )
    is_change = traits_of_sql(value_format).is_change_log
    usual_key_format = value_format if is_change else "KAFKA"
    key_format = format_property(properties, "KEY_FORMAT") or both_formats or usual_key_format
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
    if with_clause.key is not None:
        _check_older_key(statement, with_clause.key)
    max_ahead = text_property(properties, "MAX_AHEAD")
    if max_ahead is not None and with_clause.timestamp is None and not is_change:
        raise SqlError(
            "MAX_AHEAD compares an event time with the record's own Kafka timestamp, and ROWTIME is that here. "
            "Name a column: TIMESTAMP='AT'",
            properties["MAX_AHEAD"].position,
        )
    validates = flag_property(properties, "VALIDATE")
    if validates and not any(traits_of_sql(format).validated for format in (value_format, key_format)):
        raise SqlError(
            f"VALIDATE compares JSON with the schema of its writer, and the values are in {value_format}",
            properties["VALIDATE"].position,
            expected="VALUE_FORMAT='JSON_SR'",
        )
    source_clause = replace(
        with_clause,
        window=window_size_property(properties),
        max_ahead=max_ahead,
        validates=validates,
        history=history_property(properties, statement.kind),
        of_change_log=of_change_log,
    )
    return _with_wrap_setting(source_clause, properties, settings)


def _check_older_key(statement: CreateSource, column_name: str) -> None:
    """Raise SqlError for KEY='column' that does not name the key: of a stream, or beside a key of another column."""
    key_names = [element.name for element in statement.elements if element.is_key]
    if statement.kind == "STREAM" or key_names not in ([], [column_name]):
        key_word = "KEY" if statement.kind == "STREAM" else "PRIMARY KEY"
        raise SqlError(
            f"KEY='{column_name}' names the key of a table that has no PRIMARY KEY. Leave it out, and write the key "
            f"among the columns: ({column_name} VARCHAR {key_word}, ...)",
            statement.properties["KEY"].position,
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
    both_formats = written_format_property(properties, "FORMAT")
    key_format, value_format = (
        written_format_property(properties, "KEY_FORMAT") or both_formats,
        written_format_property(properties, "VALUE_FORMAT") or both_formats,
    )
    source_formats = (written_as(source_formats[0]), written_as(source_formats[1]))
    if value_format is not None and traits_of_sql(value_format).is_absent:
        raise SqlError(
            f"VALUE_FORMAT='{value_format}' writes no value, and the query has some",
            format_position(properties, statement.position),
        )
    named_topic = text_property(properties, "KAFKA_TOPIC")
    if named_topic == "":
        raise SqlError("KAFKA_TOPIC is empty", properties["KAFKA_TOPIC"].position, expected="a topic's name")
    topic_name = check_topic(named_topic or settings.get(TOPIC_PREFIX, "") + field_name(statement.name))
    default_key_format = (
        source_formats[0]
        if not traits_of_sql(source_formats[0]).is_absent
        else written_as(settings.get(DEFAULTS["KEY_FORMAT"], source_formats[0]).upper())
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


def history_of_query(statement: CreateAs) -> HistoryClause | None:
    """Return what is said of the history of a query's rows; None if the table is that of the rows themselves.

    Raises SqlError, also for what a topic would have.
    """
    history = history_property(statement.properties, statement.kind)
    if history is None:
        return None
    if other_names := [name for name in statement.properties if name not in ("HISTORY", "TRACK")]:
        raise SqlError(
            f"a history is kept in the lake, and not in a topic. Leave out {', '.join(other_names)}",
            statement.properties["HISTORY"].position,
        )
    return history


def _with_clause(
    properties: Properties,
    topic: str,
    key_format: str,
    value_format: str,
    position: int,
    delimiters: tuple[str, str] = (",", ","),
) -> WithClause:
    """Return the typed clause. delimiters: those of values and of keys that apply by default."""
    if "TIMESTAMP_FORMAT" in properties and "TIMESTAMP" not in properties:
        raise SqlError(
            "TIMESTAMP_FORMAT is that of the column of the event time, and none is named: TIMESTAMP='AT'",
            properties["TIMESTAMP_FORMAT"].position,
        )
    for name, format in (("KEY_DELIMITER", key_format), ("VALUE_DELIMITER", value_format)):
        if name in properties and not traits_of_sql(format).has_separator:
            raise SqlError(
                f"{name} is for DELIMITED, and this format is {format}. Leave it out", properties[name].position
            )
    return WithClause(
        topic,
        key_format,
        value_format,
        number_property(properties, "PARTITIONS"),
        column_property(properties, "TIMESTAMP"),
        text_property(properties, "TIMESTAMP_FORMAT"),
        column_property(properties, "KEY"),
        position,
        wrap_property(properties, value_format),
        delimiter_property(properties, "KEY_DELIMITER") or delimiters[1],
        delimiter_property(properties, "VALUE_DELIMITER") or delimiters[0],
        record_names=(
            record_name_property(properties, "KEY", key_format),
            record_name_property(properties, "VALUE", value_format),
        ),
        schema_ids=(
            schema_id_property(properties, "KEY", key_format),
            schema_id_property(properties, "VALUE", value_format),
        ),
    )


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
    number_property(properties, "REPLICAS")


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
