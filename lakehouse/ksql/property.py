"""Each property in WITH (...) by itself: its value as Python has it, or the error at its place."""

from __future__ import annotations

from lakehouse.duration import LONGEST_MS
from lakehouse.errors import PlanError, SqlError
from lakehouse.ksql.syntax.read_statement import UNITS_MS
from lakehouse.ksql.syntax.statement import HistoryClause, Properties
from lakehouse.ksql.syntax.tree import Name, Value
from lakehouse.plan.names.field import column_name
from lakehouse.plan.names.format_traits import TRAITS, FormatTraits, traits_of
from lakehouse.plan.names.schema_options import check_full_name
from lakehouse.plan.refused.near import suggest_near

FORMATS = tuple(
    traits.name.upper() for traits in TRAITS.values() if traits.is_declared or traits.is_absent or traits.is_change_log
)
# Names of characters that can't be seen.
DELIMITERS = {"TAB": "\t", "SPACE": " "}
ID_MAX = (1 << 31) - 1  # of a registry's schema
WINDOW_TYPES = ("SESSION", "TUMBLING", "HOPPING")


def traits_of_sql(format: str) -> FormatTraits:
    """Return what is true of a format by its name in SQL, "JSON"."""
    return traits_of(format.lower())


def schema_id_property(properties: Properties, part_name: str, format: str) -> int | None:
    """Return the id of the schema of a key or a value; None if none is given. Raises SqlError."""
    name = f"{part_name}_SCHEMA_ID"
    if name not in properties:
        return None
    traits = traits_of_sql(format)
    if not traits.reads_by_schema or traits.is_change_log:
        raise SqlError(f"{name} is for {part_name}_FORMAT='AVRO', and this one is {format}", properties[name].position)
    return number_property(properties, name, ID_MAX)


def record_name_property(properties: Properties, part_name: str, format: str) -> str:
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


def window_size_property(properties: Properties) -> int | None:
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


def delimiter_property(properties: Properties, name: str) -> str | None:
    text = text_property(properties, name)
    if text is None or text.upper() in DELIMITERS:
        return DELIMITERS.get((text or "").upper())
    if len(text) != 1 or text.isspace() or text in ('"', "\\"):
        raise SqlError(
            f"{name} takes one character, or {' or '.join(DELIMITERS)}", properties[name].position, found=repr(text)
        )
    return text


def wrap_property(properties: Properties, value_format: str) -> bool:
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


def history_property(properties: Properties, kind: str) -> HistoryClause | None:
    """Return what a table says of the history of its rows; None for a table of the rows themselves.

    kind: STREAM or TABLE. Raises SqlError.
    """
    word = text_property(properties, "HISTORY")
    if word is None:
        if "TRACK" in properties:
            raise SqlError("TRACK names the columns of a history: HISTORY='event'", properties["TRACK"].position)
        return None
    if word.lower() != "event":
        raise SqlError("HISTORY takes 'event': by event time", properties["HISTORY"].position, found=repr(word))
    if kind != "TABLE":
        raise SqlError("HISTORY is that of a table's rows: CREATE TABLE", properties["HISTORY"].position)
    tracked_text = text_property(properties, "TRACK")
    if tracked_text is None:
        return HistoryClause()
    return HistoryClause(tuple(_column_name(name.strip()) for name in tracked_text.split(",")))


def flag_property(properties: Properties, name: str) -> bool:
    """Return whether a property is true; false if it is not given. Raises SqlError."""
    value = properties.get(name)
    if value is None:
        return False
    word = property_text(value).upper()
    if word not in ("TRUE", "FALSE"):
        raise SqlError(f"{name} is true or false", value.position, found=property_text(value))
    return word == "TRUE"


def property_text(value: Value | Name) -> str:
    """Return a property as a text, whatever it takes."""
    return value.name if isinstance(value, Name) else str(value.value)


def text_property(properties: Properties, name: str) -> str | None:
    """Return the text of a property; None if it is not given. Raises SqlError."""
    value = properties.get(name)
    if value is None:
        return None
    if not isinstance(value, Value) or not isinstance(value.value, str):
        raise SqlError(f"{name} takes a text in quotes", value.position, found=property_text(value))
    return value.value


def column_property(properties: Properties, name: str) -> str | None:
    """Return a column's name: in upper case, unless the text has it in quotes of its own."""
    text = text_property(properties, name)
    return None if text is None else _column_name(text)


def _column_name(text: str) -> str:
    return column_name(text[1:-1] if len(text) > 2 and text[0] == text[-1] and text[0] in '`"' else text.upper())


def number_property(properties: Properties, name: str, most: int = 10_000) -> int | None:
    value = properties.get(name)
    if value is None:
        return None
    number_text = property_text(value)
    if not number_text.isdecimal() or not 1 <= int(number_text) <= most:
        raise SqlError(f"{name} takes a whole number from 1 to {most}", value.position, found=number_text)
    return int(number_text)


def format_property(properties: Properties, name: str) -> str | None:
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


def written_format_property(properties: Properties, name: str) -> str | None:
    """Return the format that a query's output is to have. Raises SqlError, also for a format that is only read."""
    format = format_property(properties, name)
    if format is not None and written_as(format) != format:
        raise SqlError(
            f"{name}='{format}' is only read: others write such records",
            properties[name].position,
            expected=f"another format, such as {written_as(format)}",
        )
    return format


def written_as(format: str) -> str:
    """Return the format in which a query writes what it reads in a format."""
    return traits_of_sql(format).written_as.upper() or format


def format_position(properties: Properties, position: int) -> int:
    return next((value.position for name, value in properties.items() if name.endswith("FORMAT")), position)
