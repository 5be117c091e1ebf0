"""The records of bronze that a stream is made of, tick by tick, in the order of their positions. No JVM.

A few ticks are read at a time, so that the first records come soon, and memory need not hold them all; many records of
one tick are sorted on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

import pyarrow as pa

from lakehouse.errors import SqlError
from lakehouse.formats.decode import decode
from lakehouse.ksql.catalog import Entry
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.lake.place import INGEST
from lakehouse.lake.record.sorted_rows import in_order
from lakehouse.model import model
from lakehouse.plan.origin import Merge, Source
from lakehouse.plan.stream import Stream
from lakehouse.run.explain.of_key import COLUMNS, record_of
from lakehouse.semantics.record import Record

Row = dict[str, Any]
Wait = Callable[[], None]
ORDER = ("tick", "order_time", "topic", "partition", "offset")
NAMES = (*ORDER, *(name for name in COLUMNS if name not in ORDER))
RECORDS_A_READ = 50_000
TICKS_A_READ = 64
BATCH_ROWS = 4096
# A stream that joins needs the records before a record, too: all are held, and those of larger topics are refused.
RECORDS_HELD = 1_000_000


def last_tick(layout: Layout) -> int:
    """Return the last complete tick of bronze."""
    return reader.read_progress(reader.open_table(layout.records, "bronze"), INGEST).tick


def coming(layout: Layout, wait: Wait, *, earliest: bool) -> Iterator[tuple[int, int]]:
    """Yield the new ticks of bronze, without end: those after one tick up to another. `earliest`: from the first."""
    seen = 0 if earliest else last_tick(layout)
    while True:
        newest = last_tick(layout)
        if newest > seen:
            yield seen, newest
        seen = newest
        wait()


def is_alone(stream: Stream) -> bool:
    """Say whether each record of a stream is made of one record of a topic: no join, no table."""
    match stream.source:
        case Source():
            return True
        case Merge(streams):
            return all(map(is_alone, streams))
    return False


def rows(of: Entry, layout: Layout, after: int, last: int) -> Iterator[Row]:
    """Yield a stream's records with a value, of the ticks after one tick up to another. Raises SqlError, NeedsSpark."""
    stream = of.made.node
    assert isinstance(stream, Stream)
    sources = stream.sources
    for part in _parts(sources, layout, after, last) if is_alone(stream) else [held(sources, layout, last)]:
        for event in model.events(stream, part, decode):
            if not event.tombstone:
                yield dict(event.values)


def held(sources: Iterable[Source], layout: Layout, last: int) -> list[Record]:
    """Return all records of sources, up to a tick. Raises SqlError if there are too many."""
    found: list[Record] = []
    for part in _parts(sources, layout, 0, last):
        found += part
        if len(found) > RECORDS_HELD:
            raise SqlError(
                f"this joins or groups, and so holds all records of its topics: at most {RECORDS_HELD:,} here. CREATE "
                "... AS SELECT keeps such a query, and its result can be asked",
                0,
            )
    return found


def _parts(sources: Iterable[Source], layout: Layout, after: int, last: int) -> Iterator[list[Record]]:
    topics = {source.topic: source.own_table for source in sources}
    together = [topic for topic, own in topics.items() if not own]
    places = [(layout.own_records(topic), [topic]) for topic, own in topics.items() if own]
    if together:
        places.append((layout.records, together))
    ticks = 1
    while after < last:
        until, count = min(after + ticks, last), 0
        for part in in_order(chain.from_iterable(_scan(*place, after, until) for place in places), len(ORDER)):
            count += len(part)
            yield [record_of(dict(zip(NAMES, row, strict=True))) for row in part]
        ticks = min(ticks * 2, TICKS_A_READ) if count < RECORDS_A_READ else max(ticks // 2, 1)
        after = until


def _scan(path: str, topics: list[str], after: int, last: int) -> Iterator[pa.RecordBatch]:
    import pyarrow.dataset as ds

    wanted = ds.field("topic").isin(topics) & (ds.field("tick") > after) & (ds.field("tick") <= last)
    yield from reader.dataset(path).to_batches(columns=list(NAMES), filter=wanted, batch_size=BATCH_ROWS)
