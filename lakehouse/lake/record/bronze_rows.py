"""A topic's records from bronze, in the lake's order, without Spark and in bounded memory.

The chosen records are counted first, by tick, topic id and partition, from small columns alone. Then the ticks are read
in slices of a few, and each slice is sorted. A recreated topic is there under each of its ids, the older id first,
since its ticks came first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import pyarrow as pa

from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.lake.record.records_at import bronze_field, choose_records, ticks_between
from lakehouse.lake.record.sorted_rows import sort_rows
from lakehouse.semantics.moment import At

if TYPE_CHECKING:
    import pyarrow.dataset as ds

# The number of rows to sort at once; fewer if the rows are large.
SLICE_ROWS = 500_000
SLICE_FILE_BYTES = 64 * 2**20
BATCH_ROWS = 16_384
BATCH_FILE_BYTES = 2**20

COUNT = """
    CREATE TABLE counted AS
    SELECT tick, topic_id, "partition", count(*) FILTER (chosen) AS n, min("offset") FILTER (chosen) AS first,
        max("offset") FILTER (chosen) AS last, min(ms) FILTER (chosen) AS oldest, max(ms) FILTER (chosen) AS newest,
        count(*) FILTER (chosen AND ms < 1) AS untimed
    FROM rows GROUP BY ALL
"""
WHOLE = 'SELECT max("partition"), min(oldest), max(newest), coalesce(sum(untimed), 0)::BIGINT FROM counted'
PARTS = """
    SELECT topic_id, "partition", sum(n)::BIGINT, min(first), max(last) FROM counted WHERE n > 0
    GROUP BY ALL ORDER BY min(tick), "partition"
"""
SLICES = """
    WITH before AS (SELECT tick, (sum(sum(n)) OVER (ORDER BY tick) - sum(n))::BIGINT AS n FROM counted GROUP BY tick)
    SELECT before.n // {rows} AS slice, min(tick), max(tick), "partition", sum(counted.n)::BIGINT
    FROM counted JOIN before USING (tick) WHERE counted.n > 0
    GROUP BY slice, "partition" ORDER BY slice, "partition"
"""
NTH = """
    SELECT "partition", tick, "offset", n FROM (
        SELECT *, row_number() OVER (PARTITION BY "partition" ORDER BY tick, "offset") - 1 AS n FROM rows
    ) JOIN (SELECT unnest({partitions}) AS "partition", unnest({numbers}) AS n) USING ("partition", n)
"""
ORDER = 4  # the number of a row's first columns that give its place in the lake's order


class BronzeRow(NamedTuple):
    """A record. Times are microseconds since the epoch, as in bronze; headers are {"key", "value"} dicts, or None."""

    tick: int
    order_time: int
    partition: int
    offset: int
    timestamp: int
    headers: list[dict[str, Any]] | None
    key: bytes | None
    value: bytes | None
    topic_id: str


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """The chosen records of one partition of the topic, under one of its ids: how many, and their offsets."""

    topic_id: str
    partition: int
    records: int
    first_offset: int
    last_offset: int


@dataclass(slots=True)
class _Slice:
    """A run of ticks, from the first to the last, and the number of chosen records of each partition in them."""

    first: int
    last: int
    counts: dict[int, int]


class BronzeRows:
    """A topic's records in bronze, up to a moment and from a tick on. See `moment.choose_records`, also for its errors.

    parts: the chosen records, in order. counts: their number by partition. oldest_ms, newest_ms: the range of their
    timestamps. untimed: how many are from 1970's first millisecond or earlier. ids, partitions: all of the topic in
    bronze.
    """

    def __init__(self, layout: Layout, topic: str, moment: At | None = None, from_tick: int | None = None) -> None:
        self.topic = topic
        self._of = choose_records(layout, topic, moment, from_tick)
        self._table = reader.open_table(reader.find_table_path(layout, "bronze", topic), f"bronze.{topic}")
        self._rows = self._table.to_pyarrow_dataset()
        slice_rows, self._batch = self._row_limits()
        connection = duckdb.connect(config={"enable_external_access": "false"})
        scan_columns = {name: bronze_field(name) for name in ("tick", "topic_id", "partition", "offset")}
        scan_columns |= {"ms": _column_ms("timestamp"), "chosen": self._of.filter()}
        connection.register(
            "rows", self._scan(scan_columns, ticks_between(0, self._of.complete), BATCH_ROWS).to_reader()
        )
        connection.execute(COUNT)
        totals: Any = connection.execute(WHOLE).fetchone()
        highest_partition, self.oldest_ms, self.newest_ms, self.untimed = totals
        self.partitions = 1 + max(highest_partition or 0, *self._of.next, 0)
        topic_ids = {row[0] for row in connection.execute("SELECT DISTINCT topic_id FROM counted").fetchall()}
        self.ids = frozenset(topic_ids | ({self._of.topic_id} - {None}))
        self.parts = tuple(PartitionRows(*row) for row in connection.execute(PARTS).fetchall())
        self.counts: dict[int, int] = {}
        for part in self.parts:
            self.counts[part.partition] = self.counts.get(part.partition, 0) + part.records
        self._slices = _merge_slices(connection.execute(SLICES.format(rows=slice_rows)).fetchall())

    @property
    def records(self) -> int:
        """The number of chosen records."""
        return sum(self.counts.values())

    def read(self, skip: Mapping[int, int] | None = None) -> Iterator[list[BronzeRow]]:
        """Yield the chosen records in the lake's order, in lists. skip: how many to leave out first, by partition."""
        skip_counts = dict(skip or {})
        for tick_slice in self._slices:
            if all(skip_counts.get(partition, 0) >= count for partition, count in tick_slice.counts.items()):
                for partition, count in tick_slice.counts.items():
                    skip_counts[partition] -= count
                continue
            scanner = self._scan(
                _row_columns(), self._of.filter() & ticks_between(tick_slice.first, tick_slice.last), self._batch
            )
            for rows in sort_rows(scanner.to_batches(), ORDER):
                kept_rows = (
                    rows
                    if not any(skip_counts.values())
                    else [row for row in rows if not _skip_one(skip_counts, row[2])]
                )
                if kept_rows:
                    yield list(map(BronzeRow._make, kept_rows))

    def find(self, places: Iterable[tuple[int, int]]) -> dict[tuple[int, int], BronzeRow]:
        """Return chosen records by their place: (partition, number of the record in it, counted from 0)."""
        wanted_places = sorted(set(places))
        counts_before: dict[int, int] = {}
        rows_by_place: dict[tuple[int, int], BronzeRow] = {}
        for tick_slice in self._slices:
            places_here = {
                (p, n): (p, n - counts_before.get(p, 0))
                for p, n in wanted_places
                if 0 <= n - counts_before.get(p, 0) < tick_slice.counts.get(p, 0)
            }
            if places_here:
                slice_rows = self._rows_by_number(tick_slice, list(places_here.values()))
                rows_by_place |= {place: slice_rows[local_place] for place, local_place in places_here.items()}
            for partition, n in tick_slice.counts.items():
                counts_before[partition] = counts_before.get(partition, 0) + n
        return rows_by_place

    def _rows_by_number(self, tick_slice: _Slice, places: list[tuple[int, int]]) -> dict[tuple[int, int], BronzeRow]:
        connection = duckdb.connect(config={"enable_external_access": "false"})
        slice_filter = self._of.filter() & ticks_between(tick_slice.first, tick_slice.last)
        scan_columns = {name: bronze_field(name) for name in ("partition", "tick", "offset")}
        connection.register("rows", self._scan(scan_columns, slice_filter, BATCH_ROWS).to_reader())
        numbers_sql = NTH.format(partitions=[p for p, _ in places], numbers=[n for _, n in places])
        numbers_by_row = {
            (p, tick, offset): (p, n) for p, tick, offset, n in connection.execute(numbers_sql).fetchall()
        }
        rows_by_number = {}
        for partition, tick, offset in numbers_by_row:
            row_filter = (
                (bronze_field("partition") == partition)
                & (bronze_field("tick") == tick)
                & (bronze_field("offset") == offset)
            )
            row = self._scan(_row_columns(), slice_filter & row_filter, self._batch).to_table().to_pylist()[0]
            rows_by_number[numbers_by_row[partition, tick, offset]] = BronzeRow(**row)
        return rows_by_number

    def _scan(
        self, scan_columns: Mapping[str, ds.Expression], row_filter: ds.Expression, batch_rows: int
    ) -> ds.Scanner:
        import pyarrow.dataset as ds

        # A row group is decoded as a whole, which takes enough memory: its encoded bytes are streamed.
        fragment_options = ds.ParquetFragmentScanOptions(pre_buffer=False, use_buffered_stream=True)
        return self._rows.scanner(
            columns=dict(scan_columns),
            filter=(bronze_field("topic") == self.topic) & row_filter,
            batch_size=batch_rows,
            batch_readahead=2,
            fragment_readahead=1,
            fragment_scan_options=fragment_options,
        )

    def _row_limits(self) -> tuple[int, int]:
        """Return how many rows to sort, and to read, at once: as many as take a certain size in the files."""
        add_actions = pa.RecordBatchReader.from_stream(self._table.get_add_actions(flatten=True)).read_all()
        file_topics, *size_columns = (
            add_actions[name].to_pylist() for name in ("partition.topic", "num_records", "size_bytes")
        )
        topic_sizes = [pair for topic, *pair in zip(file_topics, *size_columns, strict=True) if topic == self.topic]
        row_count, file_bytes = (
            max(1, sum(numbers)) for numbers in (zip(*topic_sizes, strict=True) if topic_sizes else ([], []))
        )
        return (
            min(SLICE_ROWS, max(1, SLICE_FILE_BYTES * row_count // file_bytes)),
            min(BATCH_ROWS, max(16, BATCH_FILE_BYTES * row_count // file_bytes)),
        )


def _merge_slices(counted_rows: Iterable[tuple[int, int, int, int, int]]) -> list[_Slice]:
    """Return the slices, from rows of slice number, first and last tick, partition, and records."""
    slices_by_number: dict[int, _Slice] = {}
    for number, first_tick, last_tick, partition, n in counted_rows:
        tick_slice = slices_by_number.setdefault(number, _Slice(first_tick, last_tick, {}))
        tick_slice.first, tick_slice.last = min(tick_slice.first, first_tick), max(tick_slice.last, last_tick)
        tick_slice.counts[partition] = n
    return list(slices_by_number.values())


def _skip_one(skip_counts: dict[int, int], partition: int) -> bool:
    """Say whether to leave out a record, and count it."""
    if skip_counts.get(partition, 0) <= 0:
        return False
    skip_counts[partition] -= 1
    return True


def _row_columns() -> dict[str, ds.Expression]:
    """Return the columns of a `BronzeRow`."""
    times = {name: bronze_field(name).cast("int64") for name in ("order_time", "timestamp")}
    return {name: bronze_field(name) for name in BronzeRow._fields} | times


def _column_ms(name: str) -> ds.Expression:
    import pyarrow.compute as pc

    return pc.divide(bronze_field(name).cast("int64"), 1000)
