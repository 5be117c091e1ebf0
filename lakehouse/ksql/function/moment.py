"""Functions of dates, times and timestamps. Formats are Java's, as Spark reads them; the default zone is UTC."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from lakehouse.errors import SqlError
from lakehouse.ksql.function.record import Function, Signature, define_function
from lakehouse.ksql.function.sql import Sql, let_sql, literal_sql, text_literal
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax.kind import Kind

_FAMILY = "Dates and times"
_DAY_MS = 86_400_000
# The years 1 to 9999.
_LEAST_DAY, _MOST_DAY = -719_162, 2_932_896
_LEAST_MS, _MOST_MS = _LEAST_DAY * _DAY_MS, (_MOST_DAY + 1) * _DAY_MS - 1
_SPAN_MS = _MOST_MS - _LEAST_MS
UNITS_MS = {
    "MILLISECOND": 1, "SECOND": 1_000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": _DAY_MS, "WEEK": 7 * _DAY_MS,
}  # fmt: skip
MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
# Patterns: the parts of a format, and the texts that the parts of a date match.
_DATE_PARTS = re.compile(r"'(?:[^']|'')*'|(?:([A-Za-z])\1*)|[^A-Za-z']")
_DATE_TEXTS = {
    "yyyy": "[0-9]{4}", "yy": "[0-9]{2}", "MM": "[0-9]{2}", "M": "[0-9]{1,2}", "dd": "[0-9]{2}", "d": "[0-9]{1,2}",
    "MMM": "[A-Za-z]{3}", "MMMM": "[A-Za-z]+",
}  # fmt: skip
_ZONE_LETTER = "[XxZzVOv]"
# A quoted part, which stays as it is; or what may be left out, with a zone in it.
_OPTIONAL_ZONE = rf"('[^']*')|\[[^\[\]]*{_ZONE_LETTER}[^\[\]]*(\]|$)"
# Functions whose first argument is a bare word, a unit of time.
WITH_UNIT = ("TIMESTAMPADD", "TIMESTAMPSUB", "DATEADD", "DATESUB", "TIMEADD", "TIMESUB")


def time_text(millis: str) -> str:
    """Return a TIME as a text, without seconds if they are 0."""
    return (
        f"date_format(timestamp_millis({millis}), CASE WHEN {millis} % 60000 < 1000 THEN 'HH:mm' ELSE 'HH:mm:ss' END)"
    )


def _format_timestamp(timestamp: str, format: Sql, zone: Sql | None, default_zone: str) -> str:
    return f"ksql_format_timestamp({timestamp}, {format.text}, {default_zone if zone is None else zone.text})"


def _format_letters(format: Sql) -> str:
    """Return the letters of a literal format, without its quoted parts."""
    return re.sub("'[^']*'", "", format.literal or "")


def _format_letters_sql(format: Sql) -> str:
    """Return Spark SQL for the letters of a computed format, without its quoted parts."""
    return f"regexp_replace({format.text}, '\\'[^\\']*\\'', '')"


def _parse_timestamp(text_value: Sql, format: Sql, zone: Sql | None = None) -> str:
    """Return a text's timestamp; the zone applies to a text that names none itself."""
    parsed = f"to_timestamp({_divide_fraction(text_value, format)})"
    if zone is None:
        return parsed
    short_format = _without_optional_zone(format)
    local_time = f"to_timestamp({_divide_fraction(text_value, short_format)})"
    zone_parsed = f"to_utc_timestamp({local_time}, {zone.text})"
    is_local = f"{local_time} IS NOT NULL"
    if format.literal is None:
        is_local = f"NOT {_format_letters_sql(short_format)} RLIKE '{_ZONE_LETTER}' AND {is_local}"
    elif re.search(_ZONE_LETTER, _format_letters(short_format)):
        return f"CASE WHEN {zone.text} IS NOT NULL THEN {parsed} END"
    elif short_format.literal == format.literal:
        return zone_parsed
    return f"CASE WHEN {zone.text} IS NOT NULL THEN CASE WHEN {is_local} THEN {zone_parsed} ELSE {parsed} END END"


def _without_optional_zone(format: Sql) -> Sql:
    """Return the format of the texts that leave out a zone in square brackets."""
    if format.literal is None:
        return replace(format, text=f"regexp_replace({format.text}, {text_literal(_OPTIONAL_ZONE)}, '$1')")
    return literal_sql(re.sub(_OPTIONAL_ZONE, lambda part: part[1] or "", format.literal))


def _date_of(text_value: Sql, format: Sql) -> str:
    """Return the DATE at the start of a text, which may go on: 2020-02-28T10:30 with yyyy-MM-dd."""
    date_pattern = ""
    for format_part in (part_match[0] for part_match in _DATE_PARTS.finditer(format.literal or "")):
        if format_part.isalpha() and format_part not in _DATE_TEXTS:
            return _whole_day(_parse_timestamp(text_value, format))
        plain_text = format_part[1:-1].replace("''", "'") or "'" if format_part[0] == "'" else format_part
        date_pattern += _DATE_TEXTS.get(format_part) or re.escape(plain_text)
    if date_pattern:
        text_value = replace(
            text_value, text=f"regexp_extract({text_value.text}, {text_literal(f'^{date_pattern}')}, 0)"
        )
    return _whole_day(_parse_timestamp(text_value, format))


def _divide_fraction(text_value: Sql, format: Sql) -> str:
    """Return a text and its format with a point before the fraction, which Spark needs right after other numbers.

    Java does without: it knows how many digits each number of yyyyMMddHHmmssSSS has.
    """
    digit_run = re.search("([a-zA-RT-Z]*)(S+)", _format_letters(format))
    if digit_run is None or not digit_run[1] or not re.fullmatch(r"(yyyy|yy|MM|dd|HH|hh|mm|ss|DDD)+", digit_run[1]):
        return f"{text_value.text}, {format.text}"
    whole, fraction = map(len, digit_run.groups())
    divided_text = f"regexp_replace({text_value.text}, '([0-9]{{{whole}}})([0-9]{{{fraction}}})', '$1.$2')"
    return f"{divided_text}, {format.text.replace(digit_run[0], f'{digit_run[1]}.{digit_run[2]}')}"


def _time_of(text_value: Sql, format: Sql) -> str:
    """Return a text's TIME; null for a format with a part of a date."""
    parsed = f"ksql_parse_time({text_value.text}, {format.text})"
    date_letters = "[GuyDMLdQqYwWEecFg]"
    if format.literal is not None:
        return "cast(NULL AS int)" if re.search(date_letters, _format_letters(format)) else parsed
    return f"CASE WHEN NOT {_format_letters_sql(format)} RLIKE '{date_letters}' THEN {parsed} END"


def _convert_zone(timestamp: Sql, from_zone: Sql, to_zone: Sql) -> str:
    """Return the wall-clock time in the second zone for one in the first.

    As in ksqlDB, both zones' offsets are those at the given timestamp, read as UTC.
    """
    local_times = [f"unix_millis(from_utc_timestamp({timestamp.text}, {zone.text}))" for zone in (to_zone, from_zone)]
    return f"timestamp_millis(unix_millis({timestamp.text}) + {local_times[0]} - {local_times[1]})"


def _whole_day(timestamp: str) -> str:
    """Return a timestamp's DATE; null for a timestamp with a time of day."""
    return let_sql(
        timestamp,
        "_at",
        lambda timestamp_name: (
            f"CASE WHEN pmod(unix_millis({timestamp_name}), {_DAY_MS}) = 0 THEN cast({timestamp_name} AS date) END"
        ),
    )


def _parse_unit(unit_value: Sql) -> str:
    unit_word = (unit_value.literal or "").upper().removesuffix("S")
    if unit_word not in UNITS_MS and unit_word not in MONTHS:
        raise SqlError(
            f"unknown unit of time {unit_value.literal or unit_value.text}", expected=", ".join([*UNITS_MS, *MONTHS])
        )
    return unit_word


def _between_sql(number_text: str, least: int, most: int) -> str:
    return f"{number_text} BETWEEN {least} AND {most}"


def _move_moment(sign: str, kind: Kind) -> Any:
    """Return a function that moves a moment by units; null where the result is beyond the years 1 to 9999."""

    def move(unit: Sql, amount: Sql, moment: Sql) -> str:
        unit_word, unit_count = _parse_unit(unit), f"cast({amount.text} AS bigint)"
        if kind == k.TIME:
            if unit_word not in UNITS_MS:
                raise SqlError("a TIME is moved by DAYS, HOURS, MINUTES, SECONDS or MILLISECONDS")
            unit_ms = UNITS_MS[unit_word]
            # A TIME goes around the clock: whole days do not move it.
            clock_ms = f"pmod({unit_count}, {max(_DAY_MS // unit_ms, 1)}) * {unit_ms}"
            return f"cast(pmod({moment.text} {sign} {clock_ms}, {_DAY_MS}) AS int)"
        if unit_word in MONTHS:
            return _move_months(f"{sign}({unit_count} * {MONTHS[unit_word]})", unit_count, moment)
        unit_ms = UNITS_MS[unit_word]
        is_bounded = _between_sql(
            unit_count, -(_SPAN_MS // unit_ms + 1), _SPAN_MS // unit_ms + 1
        )  # more would pass the range of a BIGINT
        if kind == k.DATE:
            moved = f"(unix_date({moment.text}) * {_DAY_MS}L {sign} {unit_count} * {unit_ms}) div {_DAY_MS}"
            value_range, result_template = (_LEAST_DAY, _MOST_DAY), "date_from_unix_date(cast({0} AS int))"
        else:
            moved = f"unix_millis({moment.text}) {sign} {unit_count} * {unit_ms}"
            value_range, result_template = (_LEAST_MS, _MOST_MS), "timestamp_millis({0})"
        bounded_result = let_sql(
            f"({moved})",
            "_moved",
            lambda moved_name: (
                f"CASE WHEN {_between_sql(moved_name, *value_range)} THEN {result_template.format(moved_name)} END"
            ),
        )
        return f"CASE WHEN {is_bounded} THEN {bounded_result} END"

    return move


def _move_months(months: str, count: str, moment: Sql) -> str:
    """Move a moment by months, to the month's last day if it lacks the day."""
    day_text = moment.text if moment.kind == k.DATE else f"cast({moment.text} AS date)"
    month = f"year({day_text}) * 12 + month({day_text}) - 1 {months}"
    moved = f"add_months({day_text}, cast({months} AS int))"
    if moment.kind != k.DATE:
        moved = (
            f"timestamp_millis(unix_millis(cast({moved} AS timestamp)) + pmod(unix_millis({moment.text}), {_DAY_MS}))"
        )
    in_range = f"{_between_sql(count, -120000, 120000)} AND {_between_sql(f'({month})', 12, 119999)}"
    return f"CASE WHEN {in_range} THEN {moved} END"


_T = "PARSE_TIMESTAMP('2020-02-28 10:30:00', 'yyyy-MM-dd HH:mm:ss')"
_D = "PARSE_DATE('2020-02-28', 'yyyy-MM-dd')"
FUNCTIONS: tuple[Function, ...] = (
    define_function(
        "FORMAT_TIMESTAMP", _FAMILY, "timestamp text text?",
        lambda moment, format, zone=None: _format_timestamp(moment.text, format, zone, "'GMT'"), k.STRING,
        (f"FORMAT_TIMESTAMP({_T}, 'yyyy/MM/dd HH')", "2020/02/28 10"),
        (f"FORMAT_TIMESTAMP({_T}, 'HH:mm', 'Europe/Rome')", "11:30"),
        (f"FORMAT_TIMESTAMP({_T}, 'HH:mm z VV xxx O', 'America/New_York')", "05:30 EST America/New_York -05:00 GMT-5"),
        (f"FORMAT_TIMESTAMP({_T}, 'HH:mm VV')", "10:30 GMT"), (f"FORMAT_TIMESTAMP({_T}, 'HH', 'Nowhere')", None),
    ),
    define_function(
        "PARSE_TIMESTAMP", _FAMILY, "text text text?", _parse_timestamp, k.TIMESTAMP,
        (f"CAST({_T} AS VARCHAR)", "2020-02-28T10:30:00.000"),
        ("CAST(PARSE_TIMESTAMP('2020-02-28 10:30', 'yyyy-MM-dd HH:mm', 'Europe/Rome') AS VARCHAR)",
        "2020-02-28T09:30:00.000"),
        ("CAST(PARSE_TIMESTAMP('2020-02-28 10:30 -07:00', 'yyyy-MM-dd HH:mm xxx', 'Europe/Rome') AS VARCHAR)",
        "2020-02-28T17:30:00.000"),
        ("CAST(PARSE_TIMESTAMP('2020-02-28 10:30', 'yyyy-MM-dd HH:mm[ xxx]', 'Europe/Rome') AS VARCHAR)",
        "2020-02-28T09:30:00.000"),
        ("CAST(PARSE_TIMESTAMP('2020-02-28 10:30 -07:00', 'yyyy-MM-dd HH:mm[ xxx]', 'Europe/Rome') AS VARCHAR)",
        "2020-02-28T17:30:00.000"),
        ("PARSE_TIMESTAMP('2020-02-28 10:30', 'yyyy-MM-dd HH:mm[ xxx]', CAST(NULL AS VARCHAR))", None),
        ("PARSE_TIMESTAMP('x', 'yyyy-MM-dd')", None), nulls="null if an argument is null, or does not fit",
    ),
    define_function(
        "FORMAT_DATE", _FAMILY, "date text", "ksql_format_date({0}, {1})", k.STRING,
        (f"FORMAT_DATE({_D}, 'dd.MM.yyyy')", "28.02.2020"), (f"FORMAT_DATE({_D}, 'HH')", None),
    ),
    define_function(
        "PARSE_DATE", _FAMILY, "text text", _date_of, k.DATE, (_D, "2020-02-28"),
        ("PARSE_DATE('2020-02-28 01', 'yyyy-MM-dd HH')", None),
        ("PARSE_DATE('2020-02-28T10:30', 'yyyy-MM-dd')", "2020-02-28"),
        ("PARSE_DATE('on 8. feb 2020, late', '''on'' d. MMM yyyy')", "2020-02-08"),
        ("PARSE_DATE('2020-2-28', 'yyyy-MM-dd')", None),
        nulls="null if an argument is null, or does not fit",
    ),
    define_function(
        "FORMAT_TIME", _FAMILY, "time text", "ksql_format_time({0}, {1})", k.STRING,
        ("FORMAT_TIME(PARSE_TIME('10:30', 'HH:mm'), 'HH-mm')", "10-30"),
        ("FORMAT_TIME(PARSE_TIME('10:30', 'HH:mm'), 'dd HH')", None),
    ),
    define_function(
        "PARSE_TIME", _FAMILY,
        "text text", _time_of, k.TIME,
        ("PARSE_TIME('10:30', 'HH:mm')", 37_800_000),
        ("PARSE_TIME('10:30 +02:00', 'HH:mm xxx')", 37_800_000), ("PARSE_TIME('01 10:30', 'dd HH:mm')", None),
        nulls="null if an argument is null, or does not fit",
    ),
    define_function(
        "TIMESTAMPTOSTRING", _FAMILY, "whole text text?",
        lambda moment, format, zone=None: _format_timestamp(f"timestamp_millis({moment.text})", format, zone, "'UTC'"),
        k.STRING,
        ("TIMESTAMPTOSTRING(1582885800000, 'yyyy-MM-dd HH:mm')", "2020-02-28 10:30"),
    ),
    define_function(
        "STRINGTOTIMESTAMP", _FAMILY, "text text text?",
        lambda *arguments: f"unix_millis({_parse_timestamp(*arguments)})", k.BIGINT,
        ("STRINGTOTIMESTAMP('2020-02-28 10:30', 'yyyy-MM-dd HH:mm')", 1_582_885_800_000),
    ),
    define_function(
        "DATETOSTRING", _FAMILY, "int text", "ksql_format_date(date_from_unix_date({0}), {1})", k.STRING,
        ("DATETOSTRING(18320, 'yyyy-MM-dd')", "2020-02-28"),
    ),
    define_function(
        "STRINGTODATE", _FAMILY, "text text", "unix_date(ksql_parse_date({0}, {1}))", k.INTEGER,
        ("STRINGTODATE('2020-02-28', 'yyyy-MM-dd')", 18_320),
        ("STRINGTODATE('2020-02-28 01:00 +02:00', 'yyyy-MM-dd HH:mm xxx')", 18_320),
    ),
    define_function(
        "UNIX_TIMESTAMP", _FAMILY, "timestamp", "unix_millis({0})", k.BIGINT,
        (f"UNIX_TIMESTAMP({_T})", 1_582_885_800_000),
        differs="the form without an argument reads a clock, and a replay would give another result: use ROWTIME",
    ),
    define_function(
        "UNIX_DATE", _FAMILY, "date", "unix_date({0})", k.INTEGER, (f"UNIX_DATE({_D})", 18_320),
        differs="the form without an argument reads a clock: use ROWTIME",
    ),
    define_function(
        "FROM_UNIXTIME", _FAMILY, "whole", "timestamp_millis({0})", k.TIMESTAMP,
        ("UNIX_TIMESTAMP(FROM_UNIXTIME(1582885800000))", 1_582_885_800_000),
    ),
    define_function(
        "FROM_DAYS", _FAMILY, "int", "date_from_unix_date({0})", k.DATE, ("FROM_DAYS(18320)", "2020-02-28"),
    ),
    define_function(
        "CONVERT_TZ", _FAMILY, "timestamp text text", _convert_zone,
        k.TIMESTAMP,
        (f"CAST(CONVERT_TZ({_T}, 'UTC', 'Europe/Rome') AS VARCHAR)", "2020-02-28T11:30:00.000"),
    ),
    *(
        Function(
            name, _FAMILY, (Signature(("unit", "whole", kind.name.lower()), _move_moment(sign, kind), kind),), cases,
        )
        for name, sign, kind, cases in (
            ("TIMESTAMPADD", "+", k.TIMESTAMP, (
                (f"UNIX_TIMESTAMP(TIMESTAMPADD(HOURS, 2, {_T}))", 1_582_893_000_000),
                (f"CAST(TIMESTAMPADD(MONTHS, 1, {_T}) AS VARCHAR)", "2020-03-28T10:30:00.000"),
            )),
            ("TIMESTAMPSUB", "-", k.TIMESTAMP, (
                (f"UNIX_TIMESTAMP(TIMESTAMPSUB(DAYS, 1, {_T}))", 1_582_799_400_000),
                (f"TIMESTAMPSUB(DAYS, 9223372036854775807, {_T})", None), (f"TIMESTAMPSUB(YEARS, 2020, {_T})", None),
            )),
            ("DATEADD", "+", k.DATE, ((f"DATEADD(DAYS, 2, {_D})", "2020-03-01"),
            (f"DATEADD(HOURS, 50, {_D})", "2020-03-01"),
            (f"DATEADD(YEARS, 1, {_D})", "2021-02-28"), (f"DATEADD(WEEKS, 2147483647, {_D})", None),
            (f"DATEADD(DAYS, CAST(2 AS BIGINT), {_D})", "2020-03-01"),
            (f"DATEADD(MONTHS, 2147483647, {_D})", None), ("UNIX_DATE(DATEADD(HOURS, -1, FROM_DAYS(0)))", 0))),
            ("DATESUB", "-", k.DATE, (
                (f"DATESUB(WEEKS, 1, {_D})", "2020-02-21"), ("DATESUB(DAYS, 1, '2020-03-01')", "2020-02-29"),
            )),
            ("TIMEADD", "+", k.TIME, (
                ("TIMEADD(HOURS, 20, PARSE_TIME('10:30', 'HH:mm'))", 23_400_000),
                ("TIMEADD(DAYS, 40, PARSE_TIME('10:30', 'HH:mm'))", 37_800_000),
                ("TIMEADD(HOURS, 2147483647, PARSE_TIME('10:30', 'HH:mm'))", 63_000_000),
            )),
            ("TIMESUB", "-", k.TIME, (("TIMESUB(MINUTES, 30, PARSE_TIME('10:30', 'HH:mm'))", 36_000_000),)),
        )
    ),
)  # fmt: skip
