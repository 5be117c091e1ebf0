"""Dates, times and timestamps. Formats are Java's DateTimeFormatter's, as Spark reads them; a zone left out is UTC."""

from __future__ import annotations

from typing import Any

from lakehouse.errors import SqlError
from lakehouse.ksql.function.record import Function, Signature, function
from lakehouse.ksql.function.sql import Sql
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax.kind import Kind

_FAMILY = "Dates and times"
_DAY_MS = 86_400_000
UNITS_MS = {
    "MILLISECOND": 1, "SECOND": 1_000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": _DAY_MS, "WEEK": 7 * _DAY_MS,
}  # fmt: skip
MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
# Functions whose first argument is a bare word, a unit of time.
WITH_UNIT = ("TIMESTAMPADD", "TIMESTAMPSUB", "DATEADD", "DATESUB", "TIMEADD", "TIMESUB")


def time_text(of: str) -> str:
    """Return a TIME as a text: without seconds where there are none."""
    return f"date_format(timestamp_millis({of}), CASE WHEN {of} % 60000 < 1000 THEN 'HH:mm' ELSE 'HH:mm:ss' END)"


def _formatted(of: str, format: Sql, zone: Sql | None) -> str:
    return f"date_format({of if zone is None else f'from_utc_timestamp({of}, {zone.text})'}, {format.text})"


def _parsed(of: Sql, format: Sql, zone: Sql | None = None) -> str:
    read = f"to_timestamp({of.text}, {format.text})"
    return read if zone is None else f"to_utc_timestamp({read}, {zone.text})"


def _unit(of: Sql) -> str:
    word = (of.literal or "").upper().removesuffix("S")
    if word not in UNITS_MS and word not in MONTHS:
        raise SqlError(f"unknown unit of time {of.literal or of.text}", expected=", ".join([*UNITS_MS, *MONTHS]))
    return word


def _moved(sign: str, kind: Kind) -> Any:
    def move(unit: Sql, many: Sql, of: Sql) -> str:
        word = _unit(unit)
        if kind == k.TIME:
            if word not in UNITS_MS:
                raise SqlError("a TIME is moved by DAYS, HOURS, MINUTES, SECONDS or MILLISECONDS")
            return f"cast(pmod({of.text} {sign} cast({many.text} AS bigint) * {UNITS_MS[word]}, {_DAY_MS}) AS int)"
        if kind == k.DATE:
            if word in MONTHS:
                return f"add_months({of.text}, {sign}({many.text}) * {MONTHS[word]})"
            if UNITS_MS[word] < _DAY_MS:
                moved = f"unix_date({of.text}) * {_DAY_MS // UNITS_MS[word]}L {sign} {many.text}"
                return f"date_from_unix_date(cast(floor(({moved}) / {_DAY_MS // UNITS_MS[word]}) AS int))"
            return f"date_add({of.text}, {sign}({many.text}) * {UNITS_MS[word] // _DAY_MS})"
        if word in UNITS_MS:
            return f"timestamp_millis(unix_millis({of.text}) {sign} cast({many.text} AS bigint) * {UNITS_MS[word]})"
        day = f"add_months(cast({of.text} AS date), {sign}({many.text}) * {MONTHS[word]})"
        return f"timestamp_millis(unix_millis(cast({day} AS timestamp)) + pmod(unix_millis({of.text}), {_DAY_MS}))"

    return move


_T = "PARSE_TIMESTAMP('2020-02-28 10:30:00', 'yyyy-MM-dd HH:mm:ss')"
_D = "PARSE_DATE('2020-02-28', 'yyyy-MM-dd')"
FUNCTIONS: tuple[Function, ...] = (
    function(
        "FORMAT_TIMESTAMP", _FAMILY, "timestamp text text?",
        lambda of, format, zone=None: _formatted(of.text, format, zone), k.STRING,
        (f"FORMAT_TIMESTAMP({_T}, 'yyyy/MM/dd HH')", "2020/02/28 10"),
        (f"FORMAT_TIMESTAMP({_T}, 'HH:mm', 'Europe/Rome')", "11:30"),
    ),
    function(
        "PARSE_TIMESTAMP", _FAMILY, "text text text?", _parsed, k.TIMESTAMP,
        (f"CAST({_T} AS VARCHAR)", "2020-02-28T10:30:00.000"),
        ("CAST(PARSE_TIMESTAMP('2020-02-28 10:30', 'yyyy-MM-dd HH:mm', 'Europe/Rome') AS VARCHAR)",
        "2020-02-28T09:30:00.000"),
        ("PARSE_TIMESTAMP('x', 'yyyy-MM-dd')", None), nulls="null if an argument is null, or does not fit",
    ),
    function(
        "FORMAT_DATE", _FAMILY, "date text", "date_format({0}, {1})", k.STRING, (f"FORMAT_DATE({_D}, 'dd.MM.yyyy')",
        "28.02.2020"),
    ),
    function(
        "PARSE_DATE", _FAMILY, "text text", "cast(to_timestamp({0}, {1}) AS date)", k.DATE, (_D, "2020-02-28"),
        nulls="null if an argument is null, or does not fit",
    ),
    function(
        "FORMAT_TIME", _FAMILY, "time text", "date_format(timestamp_millis({0}), {1})", k.STRING,
        ("FORMAT_TIME(PARSE_TIME('10:30', 'HH:mm'), 'HH-mm')", "10-30"),
    ),
    function(
        "PARSE_TIME", _FAMILY,
        "text text", f"cast(pmod(unix_millis(to_timestamp({{0}}, {{1}})), {_DAY_MS}) AS int)", k.TIME,
        ("PARSE_TIME('10:30', 'HH:mm')", 37_800_000), nulls="null if an argument is null, or does not fit",
    ),
    function(
        "TIMESTAMPTOSTRING", _FAMILY, "whole text text?",
        lambda of, format, zone=None: _formatted(f"timestamp_millis({of.text})", format, zone), k.STRING,
        ("TIMESTAMPTOSTRING(1582885800000, 'yyyy-MM-dd HH:mm')", "2020-02-28 10:30"),
    ),
    function(
        "STRINGTOTIMESTAMP", _FAMILY, "text text text?", lambda *given: f"unix_millis({_parsed(*given)})", k.BIGINT,
        ("STRINGTOTIMESTAMP('2020-02-28 10:30', 'yyyy-MM-dd HH:mm')", 1_582_885_800_000),
    ),
    function(
        "DATETOSTRING", _FAMILY, "whole text", "date_format(date_from_unix_date({0}), {1})", k.STRING,
        ("DATETOSTRING(18320, 'yyyy-MM-dd')", "2020-02-28"),
    ),
    function(
        "STRINGTODATE", _FAMILY, "text text", "unix_date(to_date({0}, {1}))", k.INTEGER,
        ("STRINGTODATE('2020-02-28', 'yyyy-MM-dd')", 18_320),
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
    function("FROM_DAYS", _FAMILY, "whole", "date_from_unix_date({0})", k.DATE, ("FROM_DAYS(18320)", "2020-02-28")),
    function(
        "CONVERT_TZ", _FAMILY, "timestamp text text", "from_utc_timestamp(to_utc_timestamp({0}, {1}), {2})",
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
            ("TIMESTAMPSUB", "-", k.TIMESTAMP, ((f"UNIX_TIMESTAMP(TIMESTAMPSUB(DAYS, 1, {_T}))", 1_582_799_400_000),)),
            ("DATEADD", "+", k.DATE, ((f"DATEADD(DAYS, 2, {_D})", "2020-03-01"),
            (f"DATEADD(HOURS, 50, {_D})", "2020-03-01"),
            (f"DATEADD(YEARS, 1, {_D})",
            "2021-02-28"))),
            ("DATESUB", "-", k.DATE, (
                (f"DATESUB(WEEKS, 1, {_D})", "2020-02-21"), ("DATESUB(DAYS, 1, '2020-03-01')", "2020-02-29"),
            )),
            ("TIMEADD", "+", k.TIME, (
                ("TIMEADD(HOURS, 20, PARSE_TIME('10:30', 'HH:mm'))", 23_400_000),
                ("TIMEADD(DAYS, 40, PARSE_TIME('10:30', 'HH:mm'))", 37_800_000),
            )),
            ("TIMESUB", "-", k.TIME, (("TIMESUB(MINUTES, 30, PARSE_TIME('10:30', 'HH:mm'))", 36_000_000),)),
        )
    ),
)  # fmt: skip
