"""Tables whose stream time is ahead of the wall clock, as their newest commits say.

A record's time lies in the future. Nothing is judged by this: it is a warning. What judges is `max_ahead`: see
`lakehouse.semantics.ahead`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from lakehouse.duration import UNITS_MS, duration_text
from lakehouse.formats.shown import moment
from lakehouse.lake.counted import kept_logs, newest_counts
from lakehouse.lake.layout import Layout

MARGIN_MS = 10 * UNITS_MS["minute"]  # clocks of producers differ


@dataclass(frozen=True, slots=True)
class Ahead:
    """A table's stream time that is ahead of the clock: milliseconds since 1970, and of which partition."""

    table: str
    partition: str
    stream_time: int
    ahead_ms: int

    def __str__(self) -> str:
        topic, _, number = self.partition.split("/")
        days = self.ahead_ms // UNITS_MS["day"]
        by = f"{days:,} day{'s' * (days > 1)}" if days else duration_text(self.ahead_ms // 60_000 * 60_000)
        return (
            f"Table {self.table!r}: its stream time of {topic}, partition {number}, is {moment(self.stream_time)}, "
            f"{by} ahead of the clock. Windows that end before it are closed, and records for them come too late. If a "
            "record's time is wrong, declare the stream with max_ahead=\"1 day\" (SQL: MAX_AHEAD='1 day'), which "
            "sends such records to the quarantine, and backfill the table."
        )


def by_table(layout: Layout, now_ms: int | None = None) -> list[Ahead]:
    """Return the tables whose stream time is more than ten minutes ahead of the clock; read without Spark."""
    now = int(time.time() * 1000) if now_ms is None else now_ms
    found = []
    for table, log, name in kept_logs(layout):
        clock = newest_counts(log, name).get("clock") or {}
        times: dict[str, int] = clock.get("stream_times", {})
        partition = max(times, key=lambda part: times[part], default="")
        if partition and times[partition] > now + MARGIN_MS:
            found.append(Ahead(table, partition, times[partition], times[partition] - now))
    return found
