"""A topic's records from bronze, in the lake's order, without Spark and in bounded memory.

The chosen records are counted first, by tick, topic id and partition, from the small columns alone. Then the ticks are
read in slices of a few; each slice is sorted. A topic that was deleted and recreated is there under each of its ids,
the older one first: its ticks came before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import pyarrow as pa

from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.lake.record.moment import between, chosen, field
from lakehouse.lake.record.sorted_rows import in_order
from lakehouse.semantics.moment import At

if TYPE_CHECKING:
    import pyarrow.dataset as ds

# The number of rows that are sorted at once; fewer if they are large.
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
ORDER = 4  # this many of a row's first columns are its place in the lake's order


class BronzeRow(NamedTuple):
    """A record. Times are microseconds since the epoch, as bronze has them; headers are {"key", "value"} or None."""

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
    """A topic's records in bronze, up to a moment and from a tick on. See `bronze_moment.chosen`, also for its errors.

    parts: the chosen records, in order. counts: their number by partition. oldest_ms, newest_ms: of their timestamps.
    untimed: how many are from 1970's first millisecond or earlier. ids, partitions: all that bronze has of the topic.
    """

    def __init__(self, layout: Layout, topic: str, at: At | None = None, from_tick: int | None = None) -> None:
        self.topic = topic
        self._of = chosen(layout, topic, at, from_tick)
        self._table = reader.open_table(reader.path_of(layout, "bronze", topic), f"bronze.{topic}")
        self._rows = self._table.to_pyarrow_dataset()
        rows, self._batch = self._sizes()
        lake = duckdb.connect(config={"enable_external_access": "false"})
        columns = {name: field(name) for name in ("tick", "topic_id", "partition", "offset")}
        columns |= {"ms": _milliseconds("timestamp"), "chosen": self._of.filter()}
        lake.register("rows", self._scan(columns, between(0, self._of.complete), BATCH_ROWS).to_reader())
        lake.execute(COUNT)
        whole: Any = lake.execute(WHOLE).fetchone()
        highest, self.oldest_ms, self.newest_ms, self.untimed = whole
        self.partitions = 1 + max(highest or 0, *self._of.next, 0)
        ids = {row[0] for row in lake.execute("SELECT DISTINCT topic_id FROM counted").fetchall()}
        self.ids = frozenset(ids | ({self._of.topic_id} - {None}))
        self.parts = tuple(PartitionRows(*row) for row in lake.execute(PARTS).fetchall())
        self.counts: dict[int, int] = {}
        for part in self.parts:
            self.counts[part.partition] = self.counts.get(part.partition, 0) + part.records
        self._slices = _slices(lake.execute(SLICES.format(rows=rows)).fetchall())

    @property
    def records(self) -> int:
        """The number of chosen records."""
        return sum(self.counts.values())

    def read(self, skip: Mapping[int, int] | None = None) -> Iterator[list[BronzeRow]]:
        """Yield the chosen records in the lake's order, some at a time. skip: how many to leave out, by partition."""
        left = dict(skip or {})
        for part in self._slices:
            if all(left.get(partition, 0) >= n for partition, n in part.counts.items()):
                for partition, n in part.counts.items():
                    left[partition] -= n
                continue
            scan = self._scan(_whole(), self._of.filter() & between(part.first, part.last), self._batch)
            for rows in in_order(scan.to_batches(), ORDER):
                kept = rows if not any(left.values()) else [row for row in rows if not _skipped(left, row[2])]
                if kept:
                    yield list(map(BronzeRow._make, kept))

    def find(self, places: Iterable[tuple[int, int]]) -> dict[tuple[int, int], BronzeRow]:
        """Return chosen records by their place: (partition, number of the record in it, counted from 0)."""
        wanted = sorted(set(places))
        before: dict[int, int] = {}
        found: dict[tuple[int, int], BronzeRow] = {}
        for part in self._slices:
            here = {
                (p, n): (p, n - before.get(p, 0))
                for p, n in wanted
                if 0 <= n - before.get(p, 0) < part.counts.get(p, 0)
            }
            if here:
                rows = self._nth(part, list(here.values()))
                found |= {place: rows[local] for place, local in here.items()}
            for partition, n in part.counts.items():
                before[partition] = before.get(partition, 0) + n
        return found

    def _nth(self, part: _Slice, places: list[tuple[int, int]]) -> dict[tuple[int, int], BronzeRow]:
        lake = duckdb.connect(config={"enable_external_access": "false"})
        these = self._of.filter() & between(part.first, part.last)
        columns = {name: field(name) for name in ("partition", "tick", "offset")}
        lake.register("rows", self._scan(columns, these, BATCH_ROWS).to_reader())
        text = NTH.format(partitions=[p for p, _ in places], numbers=[n for _, n in places])
        numbers = {(p, tick, offset): (p, n) for p, tick, offset, n in lake.execute(text).fetchall()}
        found = {}
        for partition, tick, offset in numbers:
            at = (field("partition") == partition) & (field("tick") == tick) & (field("offset") == offset)
            row = self._scan(_whole(), these & at, self._batch).to_table().to_pylist()[0]
            found[numbers[partition, tick, offset]] = BronzeRow(**row)
        return found

    def _scan(self, columns: Mapping[str, ds.Expression], chosen: ds.Expression, rows: int) -> ds.Scanner:
        import pyarrow.dataset as ds

        # A row group is decoded as a whole, which takes memory enough: its bytes are not held as well.
        pieces = ds.ParquetFragmentScanOptions(pre_buffer=False, use_buffered_stream=True)
        return self._rows.scanner(
            columns=dict(columns), filter=(field("topic") == self.topic) & chosen, batch_size=rows, batch_readahead=2,
            fragment_readahead=1, fragment_scan_options=pieces,
        )  # fmt: skip

    def _sizes(self) -> tuple[int, int]:
        """How many rows to sort, and to read, at once: as many as fit a certain size in the files."""
        actions = pa.RecordBatchReader.from_stream(self._table.get_add_actions(flatten=True)).read_all()
        topics, *sizes = (actions[name].to_pylist() for name in ("partition.topic", "num_records", "size_bytes"))
        of = [pair for topic, *pair in zip(topics, *sizes, strict=True) if topic == self.topic]
        rows, size = (max(1, sum(numbers)) for numbers in (zip(*of, strict=True) if of else ([], [])))
        return (
            min(SLICE_ROWS, max(1, SLICE_FILE_BYTES * rows // size)),
            min(BATCH_ROWS, max(16, BATCH_FILE_BYTES * rows // size)),
        )


def _slices(counted: Iterable[tuple[int, int, int, int, int]]) -> list[_Slice]:
    """Return the slices, from rows of slice number, first and last tick, partition, and records."""
    found: dict[int, _Slice] = {}
    for number, first, last, partition, n in counted:
        of = found.setdefault(number, _Slice(first, last, {}))
        of.first, of.last = min(of.first, first), max(of.last, last)
        of.counts[partition] = n
    return list(found.values())


def _skipped(left: dict[int, int], partition: int) -> bool:
    """Say whether a record is to be left out, and count it."""
    if left.get(partition, 0) <= 0:
        return False
    left[partition] -= 1
    return True


def _whole() -> dict[str, ds.Expression]:
    """The columns of a `BronzeRow`."""
    times = {name: field(name).cast("int64") for name in ("order_time", "timestamp")}
    return {name: field(name) for name in BronzeRow._fields} | times


def _milliseconds(name: str) -> ds.Expression:
    import pyarrow.compute as pc

    return pc.divide(field(name).cast("int64"), 1000)
