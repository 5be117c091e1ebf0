"""The properties in WITH (...): which there are, and what they may be."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from lakehouse.duration import LONGEST_MS
from lakehouse.errors import SqlError
from lakehouse.ksql.syntax.read_statement import UNITS_MS
from lakehouse.ksql.syntax.statement import CreateAs, CreateSource, Properties
from lakehouse.ksql.syntax.tree import Name, Value
from lakehouse.plan.names.field import column_name, field_name
from lakehouse.plan.refused.near import near
from lakehouse.plan.schema import check_topic

FORMATS = ("JSON", "DELIMITED", "KAFKA", "NONE")
# What stands for a character that can't be seen.
DELIMITERS = {"TAB": "\t", "SPACE": " "}
LATER = ("AVRO", "PROTOBUF", "PROTOBUF_NOSR", "JSON_SR")
OF_BOTH = (
    "KAFKA_TOPIC", "FORMAT", "KEY_FORMAT", "VALUE_FORMAT", "PARTITIONS", "REPLICAS", "TIMESTAMP", "TIMESTAMP_FORMAT",
    "WRAP_SINGLE_VALUE", "VALUE_DELIMITER", "KEY_DELIMITER", "RETENTION_MS", "CLEANUP_POLICY",
)  # fmt: skip
OF_SOURCE = (*OF_BOTH, "WINDOW_TYPE", "WINDOW_SIZE", "KEY", "MAX_AHEAD")
OF_QUERY = (*OF_BOTH, "QUERY_ID")
WINDOW_TYPES = ("SESSION", "TUMBLING", "HOPPING")


@dataclass(frozen=True, slots=True)
class With:
    """The properties of a statement. at: where the statement begins.

    is_wrapped: whether a single value has an object around it; None: not, if there is one alone.
    window: what stands behind a key: the size of a window in milliseconds, 0 for a session; None for nothing.
    max_ahead: see `lakehouse.plan.build.stream`.
    """

    topic: str
    key_format: str
    value_format: str
    partitions: int | None
    timestamp: str | None
    timestamp_format: str | None
    key: str | None
    at: int
    is_wrapped: bool | None = True
    key_delimiter: str = ","
    value_delimiter: str = ","
    window: int | None = None
    max_ahead: str | None = None

    def over(self, values: int) -> With:
        """Return the same for a number of value columns, of which it is known then whether they are wrapped."""
        return self if self.is_wrapped is not None else replace(self, is_wrapped=values > 1)


# Settings of SET that have an effect, and what they are called in ksqlDB.
WRAPS = "ksql.persistence.wrap.single.values"
DEFAULTS = {
    "KEY_FORMAT": "ksql.persistence.default.format.key",
    "VALUE_FORMAT": "ksql.persistence.default.format.value",
}
TOPIC_PREFIX = "ksql.output.topic.name.prefix"
LIMITS = {"COLLECT_LIST": "ksql.functions.collect_list.limit", "COLLECT_SET": "ksql.functions.collect_set.limit"}


def of_source(statement: CreateSource, settings: Mapping[str, str]) -> With:
    """Return the properties of CREATE over a topic. settings: those of SET. Raises SqlError."""
    given = _with_settings(statement.properties, settings, statement.at)
    _check(given, OF_SOURCE, statement.at)
    topic = _text(given, "KAFKA_TOPIC")
    if topic is None:
        raise SqlError("missing required property KAFKA_TOPIC, which has no default value: WITH (KAFKA_TOPIC='...', "
                       "VALUE_FORMAT='JSON')", statement.at)  # fmt: skip
    both = _format(given, "FORMAT")
    value_format = _format(given, "VALUE_FORMAT") or both
    if value_format is None:
        raise SqlError("missing required property VALUE_FORMAT, which has no default value: VALUE_FORMAT='JSON'",
                       statement.at)  # fmt: skip
    if value_format == "NONE":
        raise SqlError("VALUE_FORMAT='NONE' reads no value, and the schema has value columns", _at(given, statement.at))
    made = _given(given, topic, _format(given, "KEY_FORMAT") or both or "KAFKA", value_format, statement.at)
    max_ahead = _text(given, "MAX_AHEAD")
    if max_ahead is not None and made.timestamp is None:
        raise SqlError(
            "MAX_AHEAD compares an event time with the record's own Kafka timestamp, and ROWTIME is that here. "
            "Name a column: TIMESTAMP='AT'",
            given["MAX_AHEAD"].at,
        )
    return _wrapped(replace(made, window=_window(given), max_ahead=max_ahead), given, settings)


def of_query(
    statement: CreateAs, formats: tuple[str, str], delimiters: tuple[str, str], settings: Mapping[str, str]
) -> With:
    """Return the properties of CREATE ... AS; formats: those of what it reads, and its delimiters."""
    given = statement.properties
    _check(given, OF_QUERY, statement.at)
    both = _format(given, "FORMAT")
    key, value = _format(given, "KEY_FORMAT") or both, _format(given, "VALUE_FORMAT") or both
    if value == "NONE":
        raise SqlError("VALUE_FORMAT='NONE' writes no value, and the query has some", _at(given, statement.at))
    topic = check_topic(_text(given, "KAFKA_TOPIC") or settings.get(TOPIC_PREFIX, "") + field_name(statement.name))
    own_key = formats[0] if formats[0] != "NONE" else settings.get(DEFAULTS["KEY_FORMAT"], formats[0]).upper()
    made = _given(given, topic, key or own_key, value or formats[1], statement.at, delimiters)
    return _wrapped(made, given, settings)


def _given(
    given: Properties, topic: str, key_format: str, value_format: str, at: int, delimiters: tuple[str, str] = (",", ",")
) -> With:
    """delimiters: of values and of keys, where none are given."""
    return With(
        topic, key_format, value_format, _number(given, "PARTITIONS"), _name(given, "TIMESTAMP"),
        _text(given, "TIMESTAMP_FORMAT"), _name(given, "KEY"), at, _is_wrapped(given, value_format),
        _delimiter(given, "KEY_DELIMITER") or delimiters[1], _delimiter(given, "VALUE_DELIMITER") or delimiters[0],
    )  # fmt: skip


def query_id(given: Properties) -> str:
    """Return the name that WITH gives to a query, in upper case; empty if it gives none. Raises SqlError."""
    name = _text(given, "QUERY_ID") or ""
    if name and not re.fullmatch(r"\w+", name, re.ASCII):
        raise SqlError("QUERY_ID is of letters, digits and underscores", given["QUERY_ID"].at)
    return name.upper()


def insert_id(given: Properties, at: int) -> str:
    """Return the name of the query of INSERT INTO ... WITH, which can have nothing else. Raises SqlError."""
    _check(given, ("QUERY_ID",), at)
    return query_id(given)


def _check(given: Properties, known: tuple[str, ...], at: int) -> None:
    for name, value in given.items():
        if name not in known:
            raise SqlError(f"invalid config variable {name} in the WITH clause.{near(name, known)}", value.at,
                           expected=", ".join(known))  # fmt: skip
    _number(given, "REPLICAS")


def _wrapped(made: With, given: Properties, settings: Mapping[str, str]) -> With:
    """The same, with what settings say of a single value that has no object around it."""
    said = "WRAP_SINGLE_VALUE" in given or made.value_format != "JSON"
    return made if said or settings.get(WRAPS, "").lower() != "false" else replace(made, is_wrapped=None)


def limits(settings: Mapping[str, str]) -> dict[str, int]:
    """Return how many values an aggregate keeps, by its name, where settings say so; a negative limit is none."""
    found = {name: settings[of] for name, of in LIMITS.items() if of in settings}
    return {name: int(text) for name, text in found.items() if text.strip().isdecimal() and int(text)}


def _with_settings(given: Properties, settings: Mapping[str, str], at: int) -> Properties:
    """The properties, with those that settings have by default."""
    named = {name for name in ("KEY_FORMAT", "VALUE_FORMAT") if name in given or "FORMAT" in given}
    given = dict(given)
    given |= {name: Value(settings[of], at=at) for name, of in DEFAULTS.items() if of in settings and name not in named}
    return given


def _window(given: Properties) -> int | None:
    """The size of the window that keys name, 0 for a session, None without one. Raises SqlError."""
    kind, size = _text(given, "WINDOW_TYPE"), _text(given, "WINDOW_SIZE")
    if kind is None:
        if size is not None:
            raise SqlError("WINDOW_SIZE is for a WINDOW_TYPE of TUMBLING or HOPPING", given["WINDOW_SIZE"].at)
        return None
    if kind.upper() not in WINDOW_TYPES:
        raise SqlError(f"unknown window type {kind}.{near(kind.upper(), WINDOW_TYPES)}", given["WINDOW_TYPE"].at,
                       expected=", ".join(WINDOW_TYPES))  # fmt: skip
    if kind.upper() == "SESSION":
        if size is not None:
            raise SqlError("'WINDOW_SIZE' should not be set for SESSION windows", given["WINDOW_SIZE"].at)
        return 0
    if size is None:
        raise SqlError(f"'WINDOW_SIZE' should be set for {kind.upper()} windows: WINDOW_SIZE='30 SECONDS'",
                       given["WINDOW_TYPE"].at)  # fmt: skip
    number, _, unit = size.strip().partition(" ")
    length = UNITS_MS.get(unit.strip().upper().removesuffix("S"))
    if length is None or not number.isdecimal() or not int(number):
        raise SqlError("WINDOW_SIZE is a number and a unit of time", given["WINDOW_SIZE"].at, found=size,
                       expected="'30 SECONDS'")  # fmt: skip
    if len(number) > 15 or int(number) * length > LONGEST_MS:
        raise SqlError(f"WINDOW_SIZE is at most {LONGEST_MS // UNITS_MS['DAY']} DAYS", given["WINDOW_SIZE"].at,
                       found=size)  # fmt: skip
    return int(number) * length


def _delimiter(given: Properties, name: str) -> str | None:
    text = _text(given, name)
    if text is None or text.upper() in DELIMITERS:
        return DELIMITERS.get((text or "").upper())
    if len(text) != 1 or text.isspace() or text in ('"', "\\"):
        raise SqlError(f"{name} takes one character, or {' or '.join(DELIMITERS)}", given[name].at, found=repr(text))
    return text


def _is_wrapped(given: Properties, value_format: str) -> bool:
    """Say whether a single value has an object around it: {"NAME": ...}."""
    value = given.get("WRAP_SINGLE_VALUE")
    if value is None:
        return True
    shown = _shown(value).upper()
    if shown not in ("TRUE", "FALSE"):
        raise SqlError("WRAP_SINGLE_VALUE is true or false", value.at, found=_shown(value))
    if shown == "TRUE" and value_format != "JSON":
        raise SqlError(f"format {value_format} does not support WRAP_SINGLE_VALUE=true", value.at)
    return shown == "TRUE" or value_format != "JSON"


def _shown(value: Value | Name) -> str:
    return value.name if isinstance(value, Name) else str(value.value)


def _text(given: Properties, name: str) -> str | None:
    value = given.get(name)
    if value is None:
        return None
    if not isinstance(value, Value) or not isinstance(value.value, str):
        raise SqlError(f"{name} takes a text in quotes", value.at, found=_shown(value))
    return value.value


def _name(given: Properties, name: str) -> str | None:
    """A column's name: in upper case, unless it is in quotes of its own inside the text."""
    text = _text(given, name)
    if text is None:
        return None
    return column_name(text[1:-1] if len(text) > 2 and text[0] == text[-1] and text[0] in '`"' else text.upper())


def _number(given: Properties, name: str) -> int | None:
    value = given.get(name)
    if value is None:
        return None
    shown = _shown(value)
    if not shown.isdecimal() or not 1 <= int(shown) <= 10_000:
        raise SqlError(f"{name} takes a whole number from 1 to 10000", value.at, found=shown)
    return int(shown)


def _format(given: Properties, name: str) -> str | None:
    text = _text(given, name)
    if text is None:
        return None
    if text.upper() in LATER:
        raise SqlError(f"{name}='{text}' needs a schema registry, which is not here yet", given[name].at,
                       expected=", ".join(FORMATS))  # fmt: skip
    if text.upper() not in FORMATS:
        raise SqlError(f"unknown format {text}.{near(text, FORMATS)}", given[name].at, expected=", ".join(FORMATS))
    return text.upper()


def _at(given: Properties, at: int) -> int:
    return next((value.at for name, value in given.items() if name.endswith("FORMAT")), at)
