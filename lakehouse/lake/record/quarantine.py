"""The quarantine of a stream, read without Spark: its records, a choice of them, and their number by reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb

from lakehouse.errors import NotFound
from lakehouse.formats.unfit import FOUND
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.lake.record.repaired import repaired
from lakehouse.semantics.moment import milliseconds
from lakehouse.semantics.record import Record

if TYPE_CHECKING:
    from datetime import datetime

COLUMNS = (
    "topic", "topic_id", "partition", "offset", "timestamp", "key", "value", "tick", "order_time", "headers",
    "timestamp_type",
)  # fmt: skip
PLACE = 'tick, order_time, topic, "partition", "offset"'
RECORDS = "SELECT * FROM records WHERE {chosen} ORDER BY {order} {limit}"
COUNTS = "SELECT count(*), count(fixed_at) FROM records WHERE {chosen}"
REASONS = """
    SELECT regexp_replace(reason, $found, '') AS kind, count(*) AS records,
        count(*) FILTER (fixed_at IS NULL) AS open, min(tick) AS first_tick,
        max(tick) AS last_tick, min("timestamp") AS first_time, max("timestamp") AS last_time,
        arg_max({{{example}}}, ({place})) AS example
    FROM records WHERE {chosen} GROUP BY kind ORDER BY records DESC, kind {limit}
"""


class RecordPlace(NamedTuple):
    """The place of a record in Kafka: topic/partition/offset."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


@dataclass(frozen=True, slots=True)
class Choice:
    """Which quarantined records are meant: those that fit every field that is given.

    reason: a text that the reason contains. places: these records. start_ms, end_ms: their time is in [start, end).
    open: without those that by now count with other bytes.
    """

    reason: str | None = None
    places: tuple[RecordPlace, ...] = ()
    start_ms: int | None = None
    end_ms: int | None = None
    open: bool = False


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A quarantined record and the reason; fixed_at: the tick from which on it counts with other bytes."""

    record: Record
    reason: str
    fixed_at: int | None = None

    @property
    def place(self) -> RecordPlace:
        return RecordPlace(self.record.topic, self.record.partition, self.record.offset)


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason for which several records were refused, whatever the value in each; `example` is the last of them.

    open: how many of them are not fixed.
    """

    kind: str
    records: int
    open: int
    first_tick: int
    last_tick: int
    first_time: datetime
    last_time: datetime
    example: Quarantined


ALL = Choice()


def records(
    layout: Layout, stream: str, choice: Choice = ALL, limit: int | None = None, *, newest_first: bool = False
) -> list[Quarantined]:
    """Return a stream's quarantined records in the lake's order. Raises NotFound for a stream without a quarantine."""
    order = ", ".join(f"{name} DESC" for name in PLACE.split(", ")) if newest_first else PLACE
    text, values = _chosen(choice)
    asked = RECORDS.format(chosen=text, order=order, limit=_limit(limit))
    return [_quarantined(row) for row in _rows(layout, stream, asked, values)]


def reasons(layout: Layout, stream: str, choice: Choice = ALL, limit: int | None = None) -> list[Reason]:
    """Return the reasons of a stream's quarantined records, the most frequent first; NotFound as above."""
    text, values = _chosen(choice)
    example = ", ".join(f"'{name}': \"{name}\"" for name in (*COLUMNS, "reason", "fixed_at"))
    asked = REASONS.format(chosen=text, example=example, place=PLACE, limit=_limit(limit))
    rows = _rows(layout, stream, asked, {**values, "found": FOUND})
    return [Reason(**{**row, "example": _quarantined(row["example"])}) for row in rows]


def counts(layout: Layout, stream: str, choice: Choice = ALL) -> tuple[int, int]:
    """Return the number of chosen records, and how many of them are open, not fixed; NotFound as above."""
    text, values = _chosen(choice)
    records, fixed = _open(layout, stream).execute(COUNTS.format(chosen=text), values or None).fetchall()[0]
    return records, records - fixed


def still_open(layout: Layout, streams: Iterable[str]) -> dict[str, int]:
    """Return by stream the number of quarantined records that no replay has fixed."""
    return {stream: counts(layout, stream)[1] for stream in streams}


def _rows(layout: Layout, stream: str, asked: str, values: dict[str, Any]) -> list[dict[str, Any]]:
    found: Any = _open(layout, stream).sql(asked, params=values).to_arrow_table()
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def _open(layout: Layout, stream: str) -> duckdb.DuckDBPyConnection:
    known = reader.names(layout, "quarantine")
    if stream not in known:
        raise NotFound(
            f"stream {stream!r} has no quarantine in {layout.root}. There are: {', '.join(known) or 'none yet'}. "
            "`lakehouse run` makes them."
        )
    connection = duckdb.connect(config={"enable_external_access": "false"})
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("quarantine", reader.dataset(layout.quarantine(stream)))
    connection.register("repaired", repaired(layout, stream))
    connection.execute(
        "CREATE VIEW records AS SELECT quarantine.*, fixed_at FROM quarantine "
        'LEFT JOIN repaired USING (topic_id, "partition", "offset")'
    )
    return connection


def _chosen(choice: Choice) -> tuple[str, dict[str, Any]]:
    """Return a condition in SQL, and its values."""
    parts, values = ["true"], dict[str, Any]()
    if choice.reason is not None:
        parts.append("contains(reason, $reason)")
        values["reason"] = choice.reason
    for name, sign in (("start_ms", ">="), ("end_ms", "<")):
        if (ms := getattr(choice, name)) is not None:
            parts.append(f'epoch_ms("timestamp") {sign} ${name}')
            values[name] = ms
    if choice.open:
        parts.append("fixed_at IS NULL")
    if choice.places:
        names = []
        for number, place in enumerate(choice.places):
            values |= {f"{name}_{number}": part for name, part in zip("tpo", place, strict=True)}
            names.append(f"($t_{number}, $p_{number}, $o_{number})")
        parts.append(f'(topic, "partition", "offset") IN ({", ".join(names)})')
    return " AND ".join(parts), values


def _limit(limit: int | None) -> str:
    return "" if limit is None else f"LIMIT {limit:d}"


def _quarantined(row: dict[str, Any]) -> Quarantined:
    times = {name: milliseconds(row[name]) for name in ("timestamp", "order_time")}
    headers = tuple((item["key"], item["value"]) for item in row["headers"] or ())
    record = Record(**{**{name: row[name] for name in COLUMNS}, **times, "headers": headers})
    return Quarantined(record, row["reason"], row["fixed_at"])
