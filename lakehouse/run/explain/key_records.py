"""Reads the records of bronze that reach one key of a table, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lakehouse.errors import ConfigError
from lakehouse.formats.key_text import parse_key, write_key
from lakehouse.formats.values.unfit import Unfit
from lakehouse.formats.written_form import encode_written_key
from lakehouse.lake import reader
from lakehouse.lake.key_sql import key_columns_of
from lakehouse.lake.layout import Layout
from lakehouse.lake.place import INGEST
from lakehouse.lake.record.writer_schemas import record_decoder
from lakehouse.lake.store import is_table
from lakehouse.model import model
from lakehouse.model.event import from_hashable, to_hashable
from lakehouse.model.model import Decode
from lakehouse.plan.app import App
from lakehouse.plan.expression.expression import expression_type
from lakehouse.plan.expression.schema import Column, base_type
from lakehouse.plan.names.record_format import parse_format
from lakehouse.plan.origin import Source
from lakehouse.plan.step import Rekey
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Sink, Table
from lakehouse.run.scenario.keys import keys_of
from lakehouse.semantics.aggregate.collection import hashable_form
from lakehouse.semantics.changelog import Key
from lakehouse.semantics.epoch_time import to_milliseconds
from lakehouse.semantics.record import Record

COLUMNS = (
    "topic", "topic_id", "partition", "offset", "timestamp", "key", "value", "tick", "order_time", "headers",
    "timestamp_type",
)  # fmt: skip
# How many records to decode at once: bronze may be larger than memory.
CHUNK = 20_000
PROBE = "captured"


@dataclass(frozen=True, slots=True)
class SoughtKey:
    """The key to look for: its columns, without the window, and its values."""

    columns: tuple[Column, ...]
    values: Key

    def is_key(self, key: Key) -> bool:
        """Say whether a key is the sought key: by its values, or by its text if only Spark knows a column's type."""
        return all(
            hashable_form(part) == hashable_form(value)
            if column.type
            else write_key([from_hashable(part)]) == (value or "")
            for column, part, value in zip(self.columns, key, self.values, strict=True)
        )


def parse_sought(layout: Layout, table: Table, text: str) -> SoughtKey:
    """Return the key that a text means, by the types of the lake's table. Raises ConfigError for an invalid text."""
    column_names, path = keys_of(table).columns, layout.silver(table.name)
    if is_table(path):
        columns = key_columns_of(reader.open_dataset(path).schema, column_names)
    else:
        columns = tuple(Column(name, _key_column_type(table, name)) for name in column_names)
    return SoughtKey(columns, tuple(map(to_hashable, parse_key(text, columns))))


def _key_column_type(table: Table, name: str) -> str:
    """Return the declared type of a key's column; empty if only Spark knows it."""
    for item in table.fold.grouping:
        if item.name == name:
            return expression_type(item.expression, table.stream.columns) or ""
    return next(column.type for column in table.stream.columns if column.name == name)


def records_of_key(
    layout: Layout, own_topics: Collection[str], table: Table, key: str, listen: Callable[[int], None]
) -> Iterator[Record]:
    """Yield the records of a key. own_topics: the topics that have a bronze table of their own."""
    source, sought_key = table.stream.source, parse_sought(layout, table, key)
    if isinstance(source, Source) and is_keyed_by_topic(table, source):
        for chunk in bronze_chunks(layout, own_topics, source.topic, sought_bytes(source, sought_key)):
            yield from chunk
        return
    record_count, decode = 0, record_decoder(layout)
    for topic in table.stream.topics:
        for chunk in stream_chunks(layout, own_topics, table.stream, topic):
            yield from _records_reaching_key(table, chunk, sought_key, decode)
            record_count += len(chunk)
            listen(record_count)


def is_keyed_by_topic(table: Table, source: Source) -> bool:
    """Say whether a key of the table has the same bytes in every record, so that bronze can be searched for them.

    The two zeros of a double are one key, but differ in their bytes.
    """
    if source.applies_truncates:  # one without a key changes each row
        return False
    key_format = parse_format(source.key_format)
    has_one_spelling = key_format.is_plain and key_format.traits.has_one_spelling
    if any(isinstance(step, Rekey) for step in table.stream.steps) or not has_one_spelling:
        return False
    if base_type(source.key[0].type) == "double":
        return False
    key_texts = [item.expression.text.lower() for item in table.fold.grouping] or [source.key[0].name.lower()]
    return key_texts == [source.key[0].name.lower()]


def sought_bytes(source: Source, sought_key: SoughtKey) -> bytes:
    """Return the bytes of a key in the topic. Raises ConfigError for a key that has no bytes there."""
    try:
        data = encode_written_key(source, sought_key.values[0])
    except Unfit as error:
        raise ConfigError(f"key {write_key(sought_key.values)!r}: {error}") from error
    assert data is not None
    return data


def stream_chunks(layout: Layout, own_topics: Collection[str], stream: Stream, topic: str) -> Iterator[list[Record]]:
    """Yield the records of a stream's topic, some at a time; all at once if some have a meaning only beside others."""
    chunks = bronze_chunks(layout, own_topics, topic)
    if any(source.applies_truncates for source in stream.sources):
        yield [record for chunk in chunks for record in chunk]
    else:
        yield from chunks


def bronze_chunks(
    layout: Layout, own_topics: Collection[str], topic: str, key: bytes | None = None
) -> Iterator[list[Record]]:
    """Yield a topic's records of the complete ticks, or only those of a key, some at a time."""
    import pyarrow.dataset as ds

    last_tick = reader.read_progress(reader.open_table(layout.records, "bronze"), INGEST).tick
    bronze_rows = reader.open_dataset(layout.topic_records(topic, own_topics))
    predicate = (ds.field("topic") == topic) & (ds.field("tick") <= last_tick)
    if key is not None:
        predicate &= ds.field("key") == key
    for batch in bronze_rows.to_batches(columns=list(COLUMNS), filter=predicate, batch_size=CHUNK):
        yield [record_of(row) for row in batch.to_pylist()]


def record_of(row: dict[str, Any]) -> Record:
    """Return a row of bronze as a record."""
    headers = tuple((item["key"], item["value"]) for item in row["headers"] or ())
    times = {name: to_milliseconds(row[name]) for name in ("timestamp", "order_time")}
    return Record(**{**row, **times, "headers": headers})


def _records_reaching_key(
    table: Table, chunk: Sequence[Record], sought_key: SoughtKey, decode: Decode
) -> Iterator[Record]:
    """Yield the records that reach a key: the model runs the table's stream, re-keyed by the table's groups."""
    stream = table.stream
    if table.fold.grouping:
        rekey = Rekey(table.fold.grouping, stream.key)
        stream = replace(stream, key=keys_of(table).columns, steps=(*stream.steps, rekey))
    result = model.run(App((), (Sink(PROBE, stream, "event"),), stream.sources), chunk, decode)
    reached_places = {
        (change.position.partition, change.position.offset, change.position.tick)
        for change in result.topics[PROBE]
        if change.key is not None and sought_key.is_key(change.key)
    }
    yield from (record for record in chunk if (record.partition, record.offset, record.tick) in reached_places)


def key_to_text(key: Key) -> str:
    """Return a key in the form of the command line."""
    return write_key([from_hashable(part) for part in key])
