"""Dates, times and timestamps. Formats are Java's DateTimeFormatter's, as Spark reads them; a zone left out is UTC."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from lakehouse.errors import SqlError
from lakehouse.ksql.function.record import Function, Signature, function
from lakehouse.ksql.function.sql import Sql, let, text
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
# The parts of a format, and patterns for what those of a date read.
_DATE_PARTS = re.compile(r"'(?:[^']|'')*'|(?:([A-Za-z])\1*)|[^A-Za-z']")
_DATE_TEXTS = {
    "yyyy": "[0-9]{4}", "yy": "[0-9]{2}", "MM": "[0-9]{2}", "M": "[0-9]{1,2}", "dd": "[0-9]{2}", "d": "[0-9]{1,2}",
    "MMM": "[A-Za-z]{3}", "MMMM": "[A-Za-z]+",
}  # fmt: skip
# Functions whose first argument is a bare word, a unit of time.
WITH_UNIT = ("TIMESTAMPADD", "TIMESTAMPSUB", "DATEADD", "DATESUB", "TIMEADD", "TIMESUB")


def time_text(of: str) -> str:
    """Return a TIME as a text: without seconds where there are none."""
    return f"date_format(timestamp_millis({of}), CASE WHEN {of} % 60000 < 1000 THEN 'HH:mm' ELSE 'HH:mm:ss' END)"


def _formatted(of: str, format: Sql, zone: Sql | None, without: str) -> str:
    return f"ksql_format_timestamp({of}, {format.text}, {without if zone is None else zone.text})"


def _letters(format: Sql) -> str:
    """A format that is written out, without what it quotes."""
    return re.sub("'[^']*'", "", format.literal or "")


def _letters_sql(format: Sql) -> str:
    """The same of a format that is computed."""
    return f"regexp_replace({format.text}, '\\'[^\\']*\\'', '')"


def _parsed(of: Sql, format: Sql, zone: Sql | None = None) -> str:
    """A timestamp of a text; a zone that is given is for a text that names none itself."""
    read = f"to_timestamp({_divided(of, format)})"
    if zone is None:
        return read
    local = f"to_utc_timestamp({read}, {zone.text})"
    if format.literal is not None:
        is_named = re.search("[XxZzVOv]", _letters(format)) is not None
        return f"CASE WHEN {zone.text} IS NOT NULL THEN {read} END" if is_named else local
    names_zone = f"{_letters_sql(format)} RLIKE '[XxZzVOv]'"
    return f"CASE WHEN {zone.text} IS NOT NULL THEN CASE WHEN {names_zone} THEN {read} ELSE {local} END END"


def _date_of(of: Sql, format: Sql) -> str:
    """A DATE of a text, which may go on behind it: 2020-02-28T10:30 by yyyy-MM-dd."""
    begin = ""
    for part in (found[0] for found in _DATE_PARTS.finditer(format.literal or "")):
        if part.isalpha() and part not in _DATE_TEXTS:
            return _day(_parsed(of, format))
        plain = part[1:-1].replace("''", "'") or "'" if part[0] == "'" else part
        begin += _DATE_TEXTS.get(part) or re.escape(plain)
    if begin:
        of = replace(of, text=f"regexp_extract({of.text}, {text(f'^{begin}')}, 0)")
    return _day(_parsed(of, format))


def _divided(of: Sql, format: Sql) -> str:
    """Return a text and its format with a point before a fraction that follows other numbers at once: Spark needs it.

    Java knows how many digits each number has there: yyyyMMddHHmmssSSS.
    """
    run = re.search("([a-zA-RT-Z]*)(S+)", _letters(format))
    if run is None or not run[1] or not re.fullmatch(r"(yyyy|yy|MM|dd|HH|hh|mm|ss|DDD)+", run[1]):
        return f"{of.text}, {format.text}"
    whole, fraction = map(len, run.groups())
    text = f"regexp_replace({of.text}, '([0-9]{{{whole}}})([0-9]{{{fraction}}})', '$1.$2')"
    return f"{text}, {format.text.replace(run[0], f'{run[1]}.{run[2]}')}"


def _time_of(of: Sql, format: Sql) -> str:
    """A TIME of a text; null for a format with a part of a date."""
    read = f"ksql_parse_time({of.text}, {format.text})"
    letters = "[GuyDMLdQqYwWEecFg]"
    if format.literal is not None:
        return "cast(NULL AS int)" if re.search(letters, _letters(format)) else read
    return f"CASE WHEN NOT {_letters_sql(format)} RLIKE '{letters}' THEN {read} END"


def _converted(of: Sql, one: Sql, other: Sql) -> str:
    """The time on the clock of the second zone when it is that on the clock of the first, by the offsets at the moment.

    As in ksqlDB, which takes the moment itself for both offsets.
    """
    local = [f"unix_millis(from_utc_timestamp({of.text}, {zone.text}))" for zone in (other, one)]
    return f"timestamp_millis(unix_millis({of.text}) + {local[0]} - {local[1]})"


def _day(of: str) -> str:
    """A DATE of a timestamp; null for one with a time."""
    return let(of, "_at", lambda at: f"CASE WHEN pmod(unix_millis({at}), {_DAY_MS}) = 0 THEN cast({at} AS date) END")


def _unit(of: Sql) -> str:
    word = (of.literal or "").upper().removesuffix("S")
    if word not in UNITS_MS and word not in MONTHS:
        raise SqlError(f"unknown unit of time {of.literal or of.text}", expected=", ".join([*UNITS_MS, *MONTHS]))
    return word


def _within(of: str, least: int, most: int) -> str:
    return f"{of} BETWEEN {least} AND {most}"


def _moved(sign: str, kind: Kind) -> Any:
    """A moment that is moved by so many units; null where the result is beyond the years 1 to 9999."""

    def move(unit: Sql, many: Sql, of: Sql) -> str:
        word, count = _unit(unit), f"cast({many.text} AS bigint)"
        if kind == k.TIME:
            if word not in UNITS_MS:
                raise SqlError("a TIME is moved by DAYS, HOURS, MINUTES, SECONDS or MILLISECONDS")
            size = UNITS_MS[word]
            # Around the clock: what is a whole number of days moves nothing.
            rest = f"pmod({count}, {max(_DAY_MS // size, 1)}) * {size}"
            return f"cast(pmod({of.text} {sign} {rest}, {_DAY_MS}) AS int)"
        if word in MONTHS:
            return _by_months(f"{sign}({count} * {MONTHS[word]})", count, of)
        size = UNITS_MS[word]
        few = _within(count, -(_SPAN_MS // size + 1), _SPAN_MS // size + 1)  # more would pass the range of a BIGINT
        if kind == k.DATE:
            moved = f"(unix_date({of.text}) * {_DAY_MS}L {sign} {count} * {size}) div {_DAY_MS}"
            range_, made = (_LEAST_DAY, _MOST_DAY), "date_from_unix_date(cast({0} AS int))"
        else:
            moved = f"unix_millis({of.text}) {sign} {count} * {size}"
            range_, made = (_LEAST_MS, _MOST_MS), "timestamp_millis({0})"
        inside = let(f"({moved})", "_moved", lambda at: f"CASE WHEN {_within(at, *range_)} THEN {made.format(at)} END")
        return f"CASE WHEN {few} THEN {inside} END"

    return move


def _by_months(months: str, count: str, of: Sql) -> str:
    """By months; the last day of a month where there is no such day."""
    day = of.text if of.kind == k.DATE else f"cast({of.text} AS date)"
    month = f"year({day}) * 12 + month({day}) - 1 {months}"
    moved = f"add_months({day}, cast({months} AS int))"
    if of.kind != k.DATE:
        moved = f"timestamp_millis(unix_millis(cast({moved} AS timestamp)) + pmod(unix_millis({of.text}), {_DAY_MS}))"
    return f"CASE WHEN {_within(count, -120000, 120000)} AND {_within(f'({month})', 12, 119999)} THEN {moved} END"


_T = "PARSE_TIMESTAMP('2020-02-28 10:30:00', 'yyyy-MM-dd HH:mm:ss')"
_D = "PARSE_DATE('2020-02-28', 'yyyy-MM-dd')"
FUNCTIONS: tuple[Function, ...] = (
    function(
        "FORMAT_TIMESTAMP", _FAMILY, "timestamp text text?",
        lambda of, format, zone=None: _formatted(of.text, format, zone, "'GMT'"), k.STRING,
        (f"FORMAT_TIMESTAMP({_T}, 'yyyy/MM/dd HH')", "2020/02/28 10"),
        (f"FORMAT_TIMESTAMP({_T}, 'HH:mm', 'Europe/Rome')", "11:30"),
        (f"FORMAT_TIMESTAMP({_T}, 'HH:mm z VV xxx O', 'America/New_York')", "05:30 EST America/New_York -05:00 GMT-5"),
        (f"FORMAT_TIMESTAMP({_T}, 'HH:mm VV')", "10:30 GMT"), (f"FORMAT_TIMESTAMP({_T}, 'HH', 'Nowhere')", None),
    ),
    function(
        "PARSE_TIMESTAMP", _FAMILY, "text text text?", _parsed, k.TIMESTAMP,
        (f"CAST({_T} AS VARCHAR)", "2020-02-28T10:30:00.000"),
        ("CAST(PARSE_TIMESTAMP('2020-02-28 10:30', 'yyyy-MM-dd HH:mm', 'Europe/Rome') AS VARCHAR)",
        "2020-02-28T09:30:00.000"),
        ("CAST(PARSE_TIMESTAMP('2020-02-28 10:30 -07:00', 'yyyy-MM-dd HH:mm xxx', 'Europe/Rome') AS VARCHAR)",
        "2020-02-28T17:30:00.000"),
        ("PARSE_TIMESTAMP('x', 'yyyy-MM-dd')", None), nulls="null if an argument is null, or does not fit",
    ),
    function(
        "FORMAT_DATE", _FAMILY, "date text", "ksql_format_date({0}, {1})", k.STRING,
        (f"FORMAT_DATE({_D}, 'dd.MM.yyyy')", "28.02.2020"), (f"FORMAT_DATE({_D}, 'HH')", None),
    ),
    function(
        "PARSE_DATE", _FAMILY, "text text", _date_of, k.DATE, (_D, "2020-02-28"),
        ("PARSE_DATE('2020-02-28 01', 'yyyy-MM-dd HH')", None),
        ("PARSE_DATE('2020-02-28T10:30', 'yyyy-MM-dd')", "2020-02-28"),
        ("PARSE_DATE('on 8. feb 2020, late', '''on'' d. MMM yyyy')", "2020-02-08"),
        ("PARSE_DATE('2020-2-28', 'yyyy-MM-dd')", None),
        nulls="null if an argument is null, or does not fit",
    ),
    function(
        "FORMAT_TIME", _FAMILY, "time text", "ksql_format_time({0}, {1})", k.STRING,
        ("FORMAT_TIME(PARSE_TIME('10:30', 'HH:mm'), 'HH-mm')", "10-30"),
        ("FORMAT_TIME(PARSE_TIME('10:30', 'HH:mm'), 'dd HH')", None),
    ),
    function(
        "PARSE_TIME", _FAMILY,
        "text text", _time_of, k.TIME,
        ("PARSE_TIME('10:30', 'HH:mm')", 37_800_000),
        ("PARSE_TIME('10:30 +02:00', 'HH:mm xxx')", 37_800_000), ("PARSE_TIME('01 10:30', 'dd HH:mm')", None),
        nulls="null if an argument is null, or does not fit",
    ),
    function(
        "TIMESTAMPTOSTRING", _FAMILY, "whole text text?",
        lambda of, format, zone=None: _formatted(f"timestamp_millis({of.text})", format, zone, "'UTC'"), k.STRING,
        ("TIMESTAMPTOSTRING(1582885800000, 'yyyy-MM-dd HH:mm')", "2020-02-28 10:30"),
    ),
    function(
        "STRINGTOTIMESTAMP", _FAMILY, "text text text?", lambda *given: f"unix_millis({_parsed(*given)})", k.BIGINT,
        ("STRINGTOTIMESTAMP('2020-02-28 10:30', 'yyyy-MM-dd HH:mm')", 1_582_885_800_000),
    ),
    function(
        "DATETOSTRING", _FAMILY, "int text", "ksql_format_date(date_from_unix_date({0}), {1})", k.STRING,
        ("DATETOSTRING(18320, 'yyyy-MM-dd')", "2020-02-28"),
    ),
    function(
        "STRINGTODATE", _FAMILY, "text text", "unix_date(ksql_parse_date({0}, {1}))", k.INTEGER,
        ("STRINGTODATE('2020-02-28', 'yyyy-MM-dd')", 18_320),
        ("STRINGTODATE('2020-02-28 01:00 +02:00', 'yyyy-MM-dd HH:mm xxx')", 18_320),
    ),
    function(
        "UNIX_TIMESTAMP", _FAMILY, "timestamp", "unix_millis({0})", k.BIGINT,
        (f"UNIX_TIMESTAMP({_T})", 1_582_885_800_000),
        differs="the form without an argument reads a clock, and a replay would give another result: use ROWTIME",
    ),
    function(
        "UNIX_DATE", _FAMILY, "date", "unix_date({0})", k.INTEGER, (f"UNIX_DATE({_D})", 18_320),
        differs="the form without an argument reads a clock: use ROWTIME",
    ),
    function(
        "FROM_UNIXTIME", _FAMILY, "whole", "timestamp_millis({0})", k.TIMESTAMP,
        ("UNIX_TIMESTAMP(FROM_UNIXTIME(1582885800000))", 1_582_885_800_000),
    ),
    function("FROM_DAYS", _FAMILY, "int", "date_from_unix_date({0})", k.DATE, ("FROM_DAYS(18320)", "2020-02-28")),
    function(
        "CONVERT_TZ", _FAMILY, "timestamp text text", _converted,
        k.TIMESTAMP,
        (f"CAST(CONVERT_TZ({_T}, 'UTC', 'Europe/Rome') AS VARCHAR)", "2020-02-28T11:30:00.000"),
    ),
    *(
        Function(name, _FAMILY, (Signature(("unit", "whole", kind.name.lower()), _moved(sign, kind), kind),), cases)
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
