"""Tables whose stream time is ahead of the wall clock, according to their newest commits.

Some record's time lies in the future. This is only a warning; `max_ahead` decides about records, see
`lakehouse.semantics.time.future_time`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from lakehouse.duration import UNITS_MS, duration_text
from lakehouse.lake.batch_totals import read_newest_batch, walk_state_logs
from lakehouse.lake.layout import Layout
from lakehouse.markup.shown import moment

MARGIN_MS = 10 * UNITS_MS["minute"]  # the clocks of producers differ


@dataclass(frozen=True, slots=True)
class ClockAhead:
    """A table's stream time that is ahead of the clock, in milliseconds since 1970, and its partition."""

    table: str
    partition: str
    stream_time: int
    ahead_ms: int

    def __str__(self) -> str:
        topic, _, partition_number = self.partition.split("/")
        whole_days = self.ahead_ms // UNITS_MS["day"]
        ahead_text = (
            f"{whole_days:,} day{'s' * (whole_days > 1)}"
            if whole_days
            else duration_text(self.ahead_ms // 60_000 * 60_000)
        )
        return (
            f"Table {self.table!r}: its stream time of {topic}, partition {partition_number}, is "
            f"{moment(self.stream_time)}, "
            f"{ahead_text} ahead of the clock. Windows that end before it are closed, and records for them come too "
            "late. If a "
            "record's time is wrong, declare the stream with max_ahead=\"1 day\" (SQL: MAX_AHEAD='1 day'), which "
            "sends such records to the quarantine, and backfill the table."
        )


def tables_ahead(layout: Layout, now_ms: int | None = None) -> list[ClockAhead]:
    """Return the tables whose stream time is more than ten minutes ahead of the clock, without Spark."""
    clock_ms = int(time.time() * 1000) if now_ms is None else now_ms
    ahead_tables = []
    for table, log, progress_name in walk_state_logs(layout):
        newest_batch = read_newest_batch(log, progress_name)
        stream_times = newest_batch.clock.stream_times if newest_batch and newest_batch.clock else {}
        partition = max(stream_times, key=lambda part: stream_times[part], default="")
        if partition and stream_times[partition] > clock_ms + MARGIN_MS:
            ahead_tables.append(
                ClockAhead(table, partition, stream_times[partition], stream_times[partition] - clock_ms)
            )
    return ahead_tables
