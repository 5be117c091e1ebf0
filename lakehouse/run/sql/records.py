"""Reads a stream's records from bronze, tick by tick, in the order of their positions; without a JVM.

It reads a few ticks at a time, so that the first records come soon, and memory need not hold them all; it sorts many
records of one tick on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

from lakehouse.errors import SqlError
from lakehouse.ksql.catalog import Entry
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.lake.place import INGEST
from lakehouse.lake.record.sorted_rows import sort_rows
from lakehouse.lake.record.writer_schemas import LakeSchemas, record_decoder
from lakehouse.model import model
from lakehouse.plan.origin import Merge, Source
from lakehouse.plan.stream import Stream
from lakehouse.run.explain.key_records import COLUMNS, record_of
from lakehouse.semantics.record import Record

Row = dict[str, Any]
Wait = Callable[[], None]
ORDER = ("tick", "order_time", "topic", "partition", "offset")
NAMES = (*ORDER, *(name for name in COLUMNS if name not in ORDER))
RECORDS_A_READ = 50_000
TICKS_A_READ = 64
BATCH_ROWS = 4096
# A stream that joins needs the records before a record, too: all stay in memory, and larger topics are refused.
RECORDS_HELD = 1_000_000


def last_tick(layout: Layout, sources: Iterable[Source]) -> int:
    """Return the last complete tick of bronze that these sources can read: with the schemas of all its records."""
    complete_tick = reader.read_progress(reader.open_table(layout.records, "bronze"), INGEST).tick
    schemas = LakeSchemas(layout)
    schema_ticks = (schemas.tick(item.topic, item.registered_parts) for item in sources if item.is_registered)
    return min([complete_tick, *schema_ticks])


def new_ticks(layout: Layout, sources: Sequence[Source], wait: Wait, *, earliest: bool) -> Iterator[tuple[int, int]]:
    """Yield bronze's new ticks without end, as (after, to]. sources: those that are read. earliest: from the first."""
    seen_tick = 0 if earliest else last_tick(layout, sources)
    while True:
        newest_tick = last_tick(layout, sources)
        if newest_tick > seen_tick:
            yield seen_tick, newest_tick
        seen_tick = newest_tick
        wait()


def topic_sources_of(entry: Entry) -> tuple[Source, ...]:
    """Return the topics' sources that a stream reads."""
    stream = entry.relation.node
    assert isinstance(stream, Stream)
    return stream.sources


def is_alone(stream: Stream) -> bool:
    """Say whether each record of a stream comes from one record of a topic, without a join or a table."""
    match stream.source:
        case Source():
            return True
        case Merge(streams):
            return all(map(is_alone, streams))
    return False


def stream_rows(entry: Entry, layout: Layout, after_tick: int, last: int) -> Iterator[Row]:
    """Yield a stream's records with a value, of the ticks in (after_tick, last]. Raises SqlError, NeedsSpark."""
    stream = entry.relation.node
    assert isinstance(stream, Stream)
    sources, decode = stream.sources, record_decoder(layout)
    for chunk in (
        _record_chunks(sources, layout, after_tick, last)
        if is_alone(stream)
        else [read_all_records(sources, layout, last)]
    ):
        for event in model.events(stream, chunk, decode):
            if not event.tombstone:
                yield dict(event.values)


def read_all_records(sources: Iterable[Source], layout: Layout, last: int) -> list[Record]:
    """Return all records of sources, up to a tick. Raises SqlError if there are too many."""
    all_records: list[Record] = []
    for chunk in _record_chunks(sources, layout, 0, last):
        all_records += chunk
        if len(all_records) > RECORDS_HELD:
            raise SqlError(
                f"this joins or groups, and so holds all records of its topics: at most {RECORDS_HELD:,} here. CREATE "
                "... AS SELECT keeps such a query, and its result can be asked",
                0,
            )
    return all_records


def _record_chunks(sources: Iterable[Source], layout: Layout, after_tick: int, end_tick: int) -> Iterator[list[Record]]:
    owned_by_topic = {source.topic: source.own_table for source in sources}
    shared_topics = [topic for topic, has_own in owned_by_topic.items() if not has_own]
    places = [(layout.own_records(topic), [topic]) for topic, has_own in owned_by_topic.items() if has_own]
    if shared_topics:
        places.append((layout.records, shared_topics))
    tick_count = 1
    while after_tick < end_tick:
        chunk_end, record_count = min(after_tick + tick_count, end_tick), 0
        for chunk in sort_rows(
            chain.from_iterable(_scan_batches(*place, after_tick, chunk_end) for place in places), len(ORDER)
        ):
            record_count += len(chunk)
            yield [record_of(dict(zip(NAMES, row, strict=True))) for row in chunk]
        tick_count = min(tick_count * 2, TICKS_A_READ) if record_count < RECORDS_A_READ else max(tick_count // 2, 1)
        after_tick = chunk_end


def _scan_batches(path: str, topics: list[str], after_tick: int, last: int) -> Iterator[pa.RecordBatch]:
    import pyarrow.dataset as ds

    predicate = ds.field("topic").isin(topics) & (ds.field("tick") > after_tick) & (ds.field("tick") <= last)
    yield from reader.open_dataset(path).to_batches(columns=list(NAMES), filter=predicate, batch_size=BATCH_ROWS)
