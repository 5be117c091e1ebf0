"""The quarantine of a stream, without Spark: its records, a selection of them, and their number by reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakehouse.errors import NotFound
from lakehouse.formats.values.unfit import FOUND_PART
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.lake.record.fixed_records import read_repaired
from lakehouse.lake.sql import open_duckdb
from lakehouse.plan.refused.near import suggest_near
from lakehouse.semantics.epoch_time import to_milliseconds
from lakehouse.semantics.position import RecordPlace
from lakehouse.semantics.record import Record

if TYPE_CHECKING:
    from datetime import datetime

    import duckdb

COLUMNS = (
    "topic", "topic_id", "partition", "offset", "timestamp", "key", "value", "tick", "order_time", "headers",
    "timestamp_type",
)  # fmt: skip
PLACE = 'tick, order_time, topic, "partition", "offset"'
RECORDS_SQL = "SELECT * FROM records WHERE {chosen} ORDER BY {order} {limit}"
COUNTS_SQL = "SELECT count(*), count(fixed_at) FROM records WHERE {chosen}"
REASONS_SQL = """
    SELECT regexp_replace(reason, $found, '') AS kind, count(*) AS records,
        count(*) FILTER (fixed_at IS NULL) AS open, min(tick) AS first_tick,
        max(tick) AS last_tick, min("timestamp") AS first_time, max("timestamp") AS last_time,
        arg_max({{{example}}}, ({place})) AS example
    FROM records WHERE {chosen} GROUP BY kind ORDER BY records DESC, kind {limit}
"""
# A reason of an expectation begins with its name: see `lakehouse.plan.expectation`.
EXPECTATIONS_SQL = """
    SELECT regexp_extract(reason, '^expectation ([A-Za-z_][A-Za-z0-9_]*): ', 1) AS expectation, count(*) AS records,
        count(*) FILTER (fixed_at IS NULL) AS open
    FROM records GROUP BY expectation HAVING expectation <> '' ORDER BY expectation
"""


@dataclass(frozen=True, slots=True)
class QuarantineChoice:
    """A selection of quarantined records: those that match every given field.

    reason: a text that the reason contains. places: these records. start_ms, end_ms: records with times in [start,
    end). open: only records that do not yet count with other bytes.
    """

    reason: str | None = None
    places: tuple[RecordPlace, ...] = ()
    start_ms: int | None = None
    end_ms: int | None = None
    open: bool = False


@dataclass(frozen=True, slots=True)
class QuarantinedRecord:
    """A quarantined record and its reason; fixed_at: the tick from which on it counts with other bytes."""

    record: Record
    reason: str
    fixed_at: int | None = None

    @property
    def place(self) -> RecordPlace:
        return RecordPlace(self.record.topic, self.record.partition, self.record.offset)


@dataclass(frozen=True, slots=True)
class QuarantineReason:
    """A reason that several records share, apart from the value in each; `example` is the last of these records.

    open: how many of them are not fixed.
    """

    kind: str
    records: int
    open: int
    first_tick: int
    last_tick: int
    first_time: datetime
    last_time: datetime
    example: QuarantinedRecord


@dataclass(frozen=True, slots=True)
class RefusedRecords:
    """How many quarantined records of a stream do not meet an expectation, and how many of them are not fixed."""

    stream: str
    expectation: str
    records: int
    open: int


ALL_RECORDS = QuarantineChoice()


def read_quarantined(
    layout: Layout,
    stream: str,
    choice: QuarantineChoice = ALL_RECORDS,
    limit: int | None = None,
    *,
    newest_first: bool = False,
) -> list[QuarantinedRecord]:
    """Return a stream's quarantined records in the lake's order. Raises NotFound for a stream without a quarantine."""
    order_columns = ", ".join(f"{name} DESC" for name in PLACE.split(", ")) if newest_first else PLACE
    condition, values = _choice_condition(choice)
    records_sql = RECORDS_SQL.format(chosen=condition, order=order_columns, limit=_limit_clause(limit))
    return [_quarantined_from_row(row) for row in _query_quarantine(layout, stream, records_sql, values)]


def read_reasons(
    layout: Layout, stream: str, choice: QuarantineChoice = ALL_RECORDS, limit: int | None = None
) -> list[QuarantineReason]:
    """Return the reasons of a stream's quarantined records, the most frequent first; NotFound as above."""
    condition, values = _choice_condition(choice)
    example_fields = ", ".join(f"'{name}': \"{name}\"" for name in (*COLUMNS, "reason", "fixed_at"))
    reasons_sql = REASONS_SQL.format(chosen=condition, example=example_fields, place=PLACE, limit=_limit_clause(limit))
    rows = _query_quarantine(layout, stream, reasons_sql, {**values, "found": FOUND_PART})
    return [QuarantineReason(**{**row, "example": _quarantined_from_row(row["example"])}) for row in rows]


def count_quarantined_records(layout: Layout, stream: str, choice: QuarantineChoice = ALL_RECORDS) -> tuple[int, int]:
    """Return the number of chosen records, and how many of them are open, not fixed; NotFound as above."""
    condition, values = _choice_condition(choice)
    record_count, fixed_count = (
        _open_quarantine(layout, stream).execute(COUNTS_SQL.format(chosen=condition), values or None).fetchall()[0]
    )
    return record_count, record_count - fixed_count


def count_open_by_stream(layout: Layout, streams: Iterable[str]) -> dict[str, int]:
    """Return by stream the number of quarantined records that no replay has fixed."""
    return {stream: count_quarantined_records(layout, stream)[1] for stream in streams}


def count_refused(layout: Layout, streams: Iterable[str]) -> list[RefusedRecords]:
    """Return for each expectation of these streams how many records are in the quarantine for it; NotFound as above."""
    return [
        RefusedRecords(stream, **row)
        for stream in streams
        for row in _query_quarantine(layout, stream, EXPECTATIONS_SQL, {})
    ]


def _query_quarantine(layout: Layout, stream: str, query_sql: str, values: dict[str, Any]) -> list[dict[str, Any]]:
    arrow_table: Any = _open_quarantine(layout, stream).sql(query_sql, params=values or None).to_arrow_table()
    rows: list[dict[str, Any]] = arrow_table.to_pylist()
    return rows


def _open_quarantine(layout: Layout, stream: str) -> duckdb.DuckDBPyConnection:
    quarantined_streams = reader.table_names(layout, "quarantine")
    if stream not in quarantined_streams:
        raise NotFound(
            f"stream {stream!r} has no quarantine in {layout.root}.{suggest_near(stream, quarantined_streams)} "
            f"There are: {', '.join(quarantined_streams) or 'none yet'}. `lakehouse run` makes them."
        )
    connection = open_duckdb()
    connection.register("quarantine", reader.open_dataset(layout.quarantine(stream)))
    connection.register("repaired", read_repaired(layout, stream))
    connection.execute(
        "CREATE VIEW records AS SELECT quarantine.*, fixed_at FROM quarantine "
        'LEFT JOIN repaired USING (topic_id, "partition", "offset")'
    )
    return connection


def _choice_condition(choice: QuarantineChoice) -> tuple[str, dict[str, Any]]:
    """Return a condition in SQL, and its values."""
    conditions, values = ["true"], dict[str, Any]()
    if choice.reason is not None:
        conditions.append("contains(reason, $reason)")
        values["reason"] = choice.reason
    for name, comparison in (("start_ms", ">="), ("end_ms", "<")):
        if (bound_ms := getattr(choice, name)) is not None:
            conditions.append(f'epoch_ms("timestamp") {comparison} ${name}')
            values[name] = bound_ms
    if choice.open:
        conditions.append("fixed_at IS NULL")
    if choice.places:
        parameter_names = []
        for number, place in enumerate(choice.places):
            values |= {f"{name}_{number}": place_part for name, place_part in zip("tpo", place, strict=True)}
            parameter_names.append(f"($t_{number}, $p_{number}, $o_{number})")
        conditions.append(f'(topic, "partition", "offset") IN ({", ".join(parameter_names)})')
    return " AND ".join(conditions), values


def _limit_clause(limit: int | None) -> str:
    return "" if limit is None else f"LIMIT {limit:d}"


def _quarantined_from_row(row: dict[str, Any]) -> QuarantinedRecord:
    times_ms = {name: to_milliseconds(row[name]) for name in ("timestamp", "order_time")}
    headers = tuple((item["key"], item["value"]) for item in row["headers"] or ())
    record = Record(**{**{name: row[name] for name in COLUMNS}, **times_ms, "headers": headers})
    return QuarantinedRecord(record, row["reason"], row["fixed_at"])
