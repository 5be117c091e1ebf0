"""The functions on Spark whose records are `own`. The model has them in `model/function/`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lakehouse.spark.jvm.tree.java_calls import (
    NODE,
    STRING,
    constant_object,
    invoke_method,
    invoke_static,
    jackson_mapper,
    jackson_reader,
    java_text,
    loop_variable,
    map_list,
    map_map_entries,
    new_object,
    spark_text,
    us_locale,
)

TIME = "java.time."
FORMATTER = f"{TIME}format.DateTimeFormatter"
BUILDER = f"{TIME}format.DateTimeFormatterBuilder"
TEXTS = "org.apache.commons.lang3.StringUtils"
REGEX = "java.util.regex."


def _date_formatter(format: Any) -> Any:
    return invoke_static(FORMATTER, "ofPattern", FORMATTER, java_text(format), us_locale())


def _format_timestamp(millis: Any, format: Any, zone: Any) -> Any:
    instant = invoke_static(f"{TIME}Instant", "ofEpochMilli", f"{TIME}Instant", millis)
    local_time = invoke_method(instant, "atZone", f"{TIME}ZonedDateTime", invoke_static(
        f"{TIME}ZoneId", "of", f"{TIME}ZoneId", java_text(zone)
    ))  # fmt: skip
    return spark_text(invoke_method(local_time, "format", STRING, _date_formatter(format)))


def _format_date(days: Any, format: Any) -> Any:
    local_date = invoke_static(f"{TIME}LocalDate", "ofEpochDay", f"{TIME}LocalDate", days)
    return spark_text(invoke_method(local_date, "format", STRING, _date_formatter(format)))


def _format_time(nanos: Any, format: Any) -> Any:
    local_time = invoke_static(f"{TIME}LocalTime", "ofNanoOfDay", f"{TIME}LocalTime", nanos)
    return spark_text(invoke_method(local_time, "format", STRING, _date_formatter(format)))


def _parsing_formatter(format: Any) -> Any:
    """Return a formatter that reads texts in any case.

    Spark computes the common part of two expressions once, and a builder changes: each format needs its own builder. So
    the constructor's arguments, an empty array, are computed from the format.
    """
    empty_array = invoke_static(
        TEXTS,
        "split",
        "[Ljava.lang.String;",
        invoke_static(TEXTS, "left", STRING, java_text(format), constant_object(0, "int")),
    )
    formatter_builder = invoke_method(new_object(BUILDER, empty_array), "parseCaseInsensitive", BUILDER)
    return invoke_method(
        invoke_method(formatter_builder, "appendPattern", BUILDER, java_text(format)),
        "toFormatter",
        FORMATTER,
        us_locale(),
    )


def _parse_date(text: Any, format: Any) -> Any:
    local_date = invoke_static(
        f"{TIME}LocalDate", "parse", f"{TIME}LocalDate", java_text(text), _parsing_formatter(format)
    )
    return invoke_method(local_date, "toEpochDay", "bigint")


def _parse_time(text: Any, format: Any) -> Any:
    local_time = invoke_static(
        f"{TIME}LocalTime", "parse", f"{TIME}LocalTime", java_text(text), _parsing_formatter(format)
    )
    return invoke_method(local_time, "toNanoOfDay", "bigint")


def _json_at_pointer(text: Any, pointer: Any) -> Any:
    """Return the value at a JSON pointer as JSON; an empty text if there is none."""
    json_node = invoke_method(jackson_mapper(), "readTree", NODE, java_text(text))
    return spark_text(invoke_method(invoke_method(json_node, "at", NODE, java_text(pointer)), "toString", STRING))


def _json_text_value(text: Any) -> Any:
    return spark_text(
        invoke_method(invoke_method(jackson_mapper(), "readTree", NODE, java_text(text)), "textValue", STRING)
    )


def _json_items(text: Any) -> Any:
    item_variable = loop_variable("item", NODE)
    item_list = invoke_method(jackson_reader("List"), "readValue", "java.util.List", java_text(text))
    return map_list(item_list, item_variable, spark_text(invoke_method(item_variable, "toString", STRING)))


def _json_fields(text: Any) -> Any:
    name_variable, value_variable = loop_variable("name", STRING), loop_variable("value", NODE)
    entry_map = invoke_method(jackson_reader("Map"), "readValue", "java.util.Map", java_text(text))
    return map_map_entries(
        entry_map,
        name_variable,
        spark_text(name_variable),
        value_variable,
        spark_text(invoke_method(value_variable, "toString", STRING)),
    )


def _find_nth(text: Any, part: Any, start: Any, number: Any) -> Any:
    rest_of_text = invoke_static(TEXTS, "substring", STRING, java_text(text), start)
    return invoke_static(TEXTS, "ordinalIndexOf", "int", rest_of_text, java_text(part), number)


def _substring(text: Any, begin: Any, end: Any) -> Any:
    return spark_text(invoke_method(java_text(text), "substring", STRING, begin, end))


def _unescape(text: Any) -> Any:
    return spark_text(
        invoke_static("org.apache.commons.lang3.StringEscapeUtils", "unescapeJava", STRING, java_text(text))
    )


def _match_results(text: Any, *pattern_arguments: Any) -> Any:
    """Return the matches of a pattern in a text as a stream.

    Spark computes once what two expressions share, and a matcher changes when it is used: calls that go on with the
    stream in different ways must compile the pattern by different arguments.
    """
    pattern = invoke_static(f"{REGEX}Pattern", "compile", f"{REGEX}Pattern", *pattern_arguments)
    matcher = invoke_method(pattern, "matcher", f"{REGEX}Matcher", java_text(text))
    return invoke_method(matcher, "results", "java.util.stream.Stream")


def _first_group(text: Any, pattern: Any, group: Any) -> Any:
    """Return what a group has in the first match, null if it took no part in it. Java raises if nothing matches."""
    first_match = invoke_method(_match_results(text, java_text(pattern)), "findFirst", "java.util.Optional")
    return spark_text(invoke_method(invoke_method(first_match, "get", f"{REGEX}MatchResult"), "group", STRING, group))


def _all_groups(text: Any, pattern: Any, group: Any) -> Any:
    """Return what a group has in each match, null where it took no part.

    The group is a literal: Spark may interpret the loop over the matches, and then has no other columns there.
    """
    match_variable = loop_variable("match", f"{REGEX}MatchResult")
    matches = _match_results(text, java_text(pattern), constant_object(0, "int"))
    return map_list(
        invoke_method(matches, "toList", "java.util.List"),
        match_variable,
        spark_text(invoke_method(match_variable, "group", STRING, group)),
    )


# plan/names/json_path.py in patterns of Java, as Spark SQL has them. *+ does not try other ways to match, so that Java
# does not recurse for each step of a long path.
_SIMPLE = r"""\\.([^.\\[\\]"\\s]+)"""
_PLACE = r"""\\[([^.\\[\\]"\'\\s]+)\\]"""
_DOUBLE = r"""\\["((?:[^"\\\\]|\\\\["\\\\])*+)"\\]"""
_SINGLE = r"""\\[\'([^\']*)\'\\]"""
_STEP = f"{_SIMPLE}|{_PLACE}|{_DOUBLE}|{_SINGLE}"
_STEPS = "replace(replace(substring(`0`, 2), '~', '~0'), '/', '~1')"
_POINTER = (
    rf"CASE WHEN `0` RLIKE '^\\$(?:{_STEP})*+$' THEN "
    rf"regexp_replace(regexp_replace({_STEPS}, '{_STEP}', '/$1$2$3$4'), '\\\\(.)', '$1') END"
)


# By name: a function's arguments in Spark SQL, the Java call over them, and the result in Spark SQL over that call.
FUNCTIONS: dict[str, tuple[Sequence[str], Callable[..., Any], str]] = {
    "ksql_format_timestamp": (
        ("unix_millis(cast(`0` AS timestamp))", "cast(`1` AS string)", "cast(`2` AS string)"), _format_timestamp, "`0`"
    ),
    "ksql_format_date": (("cast(unix_date(`0`) AS bigint)", "cast(`1` AS string)"), _format_date, "`0`"),
    "ksql_format_time": (("cast(`0` AS bigint) * 1000000L", "cast(`1` AS string)"), _format_time, "`0`"),
    "ksql_parse_date": (
        ("cast(`0` AS string)", "cast(`1` AS string)"), _parse_date, "date_from_unix_date(cast(`0` AS int))"
    ),
    "ksql_parse_time": (("cast(`0` AS string)", "cast(`1` AS string)"), _parse_time, "cast(`0` div 1000000 AS int)"),
    "ksql_json_at": (("cast(`0` AS string)", "cast(`1` AS string)"), _json_at_pointer, "`0`"),
    "ksql_json_pointer": (("cast(`0` AS string)",), lambda path: path, _POINTER),
    "ksql_json_text": (("cast(`0` AS string)",), _json_text_value, "`0`"),
    "ksql_json_items": (("cast(`0` AS string)",), _json_items, "`0`"),
    # Names with halves of surrogate pairs, each a ?, may become one: map_concat keeps its last value.
    "ksql_json_fields": (("cast(`0` AS string)",), _json_fields, "map_concat(`0`)"),
    "ksql_length": (("cast(`0` AS string)",), lambda text: invoke_method(java_text(text), "length", "int"), "`0`"),
    "ksql_substring": (("cast(`0` AS string)", "cast(`1` AS int)", "cast(`2` AS int)"), _substring, "`0`"),
    "ksql_find": (
        ("cast(`0` AS string)", "cast(`1` AS string)", "cast(`2` AS int)", "cast(`3` AS int)"), _find_nth, "`0`"
    ),
    "ksql_regexp_group": (
        ("cast(`0` AS string)", "cast(`1` AS string)", "cast(`2` AS int)"), _first_group, "`0`"
    ),
    "ksql_regexp_groups": (
        ("cast(`0` AS string)", "cast(`1` AS string)", "cast(`2` AS int)"), _all_groups, "`0`"
    ),
    "ksql_unescape": (("cast(`0` AS string)",), _unescape, "`0`"),
    "ksql_reverse": (
        ("cast(`0` AS string)",),
        lambda text: spark_text(invoke_static(TEXTS, "reverse", STRING, java_text(text))),
        "`0`",
    ),
}  # fmt: skip
