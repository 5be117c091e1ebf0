"""The records of bronze that reach one key of a table, read without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from lakehouse.delta import reader
from lakehouse.delta.layout import Layout
from lakehouse.errors import ConfigError
from lakehouse.formats.decode import decode
from lakehouse.formats.json_text import write
from lakehouse.formats.text_value import from_text
from lakehouse.formats.unfit import Unfit
from lakehouse.formats.written import key_bytes
from lakehouse.plan import model
from lakehouse.plan.app import App
from lakehouse.plan.schema import base_type
from lakehouse.plan.step import Rekey, Source
from lakehouse.plan.table import Sink, Table
from lakehouse.run.compare import key_value, keys_of
from lakehouse.semantics.changelog import Key
from lakehouse.semantics.moment import milliseconds
from lakehouse.semantics.record import Record

COLUMNS = (
    "topic", "topic_id", "partition", "offset", "timestamp", "key", "value", "tick", "order_time", "headers",
    "timestamp_type",
)  # fmt: skip
# So many records are decoded at once: bronze may hold more than memory does.
CHUNK = 20_000
PROBE = "captured"


def of_key(layout: Layout, own: set[str], table: Table, key: str, listen: Callable[[int], None]) -> Iterator[Record]:
    """Yield the records of a key. `own`: the topics that have a bronze table of their own."""
    source = table.stream.source
    if isinstance(source, Source) and is_keyed_by_topic(table, source):
        for chunk in bronze(layout, own, source.topic, bytes_of(source, key)):
            yield from chunk
        return
    count = 0
    for topic in table.stream.topics:
        for chunk in bronze(layout, own, topic):
            yield from _reaching(table, chunk, key)
            count += len(chunk)
            listen(count)


def is_keyed_by_topic(table: Table, source: Source) -> bool:
    """True where a key of the table is the same bytes in every record, so that bronze can be asked for them."""
    if any(isinstance(step, Rekey) for step in table.stream.steps) or source.key_format != "kafka":
        return False
    return table.is_latest or [item.expression.text.lower() for item in table.group_by] == [source.key[0].name.lower()]


def bytes_of(source: Source, key: str) -> bytes:
    """Return the bytes that a key's text is in the topic. Raises ConfigError for a text that is none."""
    kind = source.key[0].type
    try:
        data = key_bytes(source, key if base_type(kind) == "binary" else from_text(kind)(key))
    except Unfit as error:
        raise ConfigError(f"key {key!r}: {error}") from error
    assert data is not None
    return data


def bronze(layout: Layout, own: set[str], topic: str, key: bytes | None = None) -> Iterator[list[Record]]:
    """Yield a topic's records of the complete ticks, or those with one key, some at a time."""
    import pyarrow.dataset as ds

    reader.local_root(layout)
    last = reader.read_progress(reader.open_table(layout.records, "bronze"), reader.INGEST).tick
    rows = reader.dataset(layout.own_records(topic) if topic in own else layout.records)
    wanted = (ds.field("topic") == topic) & (ds.field("tick") <= last)
    if key is not None:
        wanted &= ds.field("key") == key
    for batch in rows.to_batches(columns=list(COLUMNS), filter=wanted, batch_size=CHUNK):
        yield [record_of(row) for row in batch.to_pylist()]


def record_of(row: dict[str, Any]) -> Record:
    """Return a row of bronze as a record."""
    headers = tuple((item["key"], item["value"]) for item in row["headers"] or ())
    times = {name: milliseconds(row[name]) for name in ("timestamp", "order_time")}
    return Record(**{**row, **times, "headers": headers})


def _reaching(table: Table, chunk: Sequence[Record], key: str) -> Iterator[Record]:
    """Yield the records that reach a key of the table: its stream runs on the model, re-keyed by the table's groups."""
    stream = table.stream
    if table.group_by:
        rekey = Rekey(table.group_by)
        stream = replace(stream, key=keys_of(table).columns, steps=(*stream.steps, rekey))
    found = model.run(App((), (Sink(PROBE, stream, "event"),), stream.sources), chunk, decode)
    places = {
        (change.position.partition, change.position.offset, change.position.tick)
        for change in found.topics[PROBE]
        if change.key is not None and text_of(stream.key, change.key) == key
    }
    yield from (record for record in chunk if (record.partition, record.offset, record.tick) in places)


def text_of(columns: tuple[str, ...], key: Key) -> str:
    """Return a key as it is given on the command line, and as `lakehouse changes --key` has it."""
    shown = key_value(columns, key)
    parts = shown.values() if len(columns) > 1 else [shown]
    return ",".join("" if part is None else part if isinstance(part, str) else write(part) for part in parts)
