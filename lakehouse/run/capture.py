"""Capture: the records behind one key of a table, out of a real bronze, as a scenario file. No Spark is needed.

What the scenario expects is what the model makes of these records alone. Two things are then not as in the lake:

- Stream time is that of the slice: other keys' records, which move it in the lake, are not there. So a record that was
  late in the lake may count here, and a window that was closed may still be open.
- Offsets are numbered anew, and records of several partitions stand in the order of the slice's own order times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lakehouse.delta import reader
from lakehouse.delta.layout import Layout
from lakehouse.errors import ConfigError, NotFound
from lakehouse.formats.decode import decode
from lakehouse.formats.json_text import write
from lakehouse.formats.text_value import from_text
from lakehouse.formats.unfit import Unfit
from lakehouse.formats.written import key_bytes, written_key, written_value
from lakehouse.plan import model
from lakehouse.plan.app import App
from lakehouse.plan.model import Result
from lakehouse.plan.schema import base_type
from lakehouse.plan.step import Rekey, Source
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Sink, Table
from lakehouse.run.compare import key_value, keys_of, plain
from lakehouse.run.scenario import Scenario, on_model, records
from lakehouse.semantics.changelog import Key
from lakehouse.semantics.moment import milliseconds
from lakehouse.semantics.position import Identity
from lakehouse.semantics.record import Record

COLUMNS = (
    "topic", "topic_id", "partition", "offset", "timestamp", "key", "value", "tick", "order_time", "headers",
    "timestamp_type",
)  # fmt: skip
# So many records are decoded at once: bronze may hold more than memory does.
CHUNK = 20_000
PROBE = "captured"


@dataclass(frozen=True, slots=True)
class Capture:
    """A scenario's text, and what there is to say about it: records taken, records of the key, is the order another."""

    text: str
    taken: int
    of: int
    reordered: bool


def capture(
    layout: Layout,
    app: App,
    app_name: str,
    table: Table,
    key: str,
    limit: int | None = None,
    listen: Callable[[int], None] = lambda records: None,
) -> Capture:
    """Return the bronze records that reach one key of a table as a scenario, with what the model makes of them.

    app_name: how the scenario names the application, "module:name". key: its text, the columns of a key of several
    joined by commas, without the window. limit: the first so many records only. listen: is told how many records of
    bronze were read. Raises NotFound when no record reaches the key, NeedsSpark where only Spark could tell.
    """
    own = {source.topic for source in app.sources if source.own_table}
    found = sorted(_of_key(layout, own, table, key, listen), key=lambda record: record.position)
    if not found:
        raise NotFound(
            f"key {key!r} of table {table.name!r}: no record in bronze reaches it. Columns of a key of several are "
            f"joined by commas: {','.join(keys_of(table).columns)}. `lakehouse query` shows the table's keys."
        )
    taken = found[:limit]
    ordered = _in_order(taken)
    inputs = [_input(app, record) for record in ordered]
    name = f"{table.name} of {key}, captured from {', '.join(table.stream.topics)}"
    scenario = Scenario(Path(table.name), name, app_name, inputs)
    expected = _expected(app, table, on_model(app, records(scenario, app)))
    text = _text({"name": name, "app": app_name, "inputs": inputs, **expected})
    return Capture(text, len(taken), len(found), ordered != taken)


def _of_key(layout: Layout, own: set[str], table: Table, key: str, listen: Callable[[int], None]) -> Iterator[Record]:
    """Yield the records of a key. `own`: the topics that have a bronze table of their own."""
    source = table.stream.source
    if isinstance(source, Source) and _is_keyed_by_topic(table, source):
        for chunk in _bronze(layout, own, source.topic, _bytes_of(source, key)):
            yield from chunk
        return
    count = 0
    for topic in table.stream.topics:
        for chunk in _bronze(layout, own, topic):
            yield from _reaching(table, chunk, key)
            count += len(chunk)
            listen(count)


def _is_keyed_by_topic(table: Table, source: Source) -> bool:
    """True where a key of the table is the same bytes in every record, so that bronze can be asked for them."""
    if any(isinstance(step, Rekey) for step in table.stream.steps) or source.key_format != "kafka":
        return False
    return table.is_latest or [item.expression.text.lower() for item in table.group_by] == [source.key[0].name.lower()]


def _bytes_of(source: Source, key: str) -> bytes:
    kind = source.key[0].type
    try:
        data = key_bytes(source, key if base_type(kind) == "binary" else from_text(kind)(key))
    except Unfit as error:
        raise ConfigError(f"key {key!r}: {error}") from error
    assert data is not None
    return data


def _bronze(layout: Layout, own: set[str], topic: str, key: bytes | None = None) -> Iterator[list[Record]]:
    """Yield a topic's records of the complete ticks, or those with one key, some at a time."""
    import pyarrow.dataset as ds

    reader.local_root(layout)
    last = reader.read_progress(reader.open_table(layout.records, "bronze"), reader.INGEST).tick
    rows = reader.dataset(layout.own_records(topic) if topic in own else layout.records)
    wanted = (ds.field("topic") == topic) & (ds.field("tick") <= last)
    if key is not None:
        wanted &= ds.field("key") == key
    for batch in rows.to_batches(columns=list(COLUMNS), filter=wanted, batch_size=CHUNK):
        yield [_record(row) for row in batch.to_pylist()]


def _record(row: dict[str, Any]) -> Record:
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
        if change.key is not None and _key_text(stream, change.key) == key
    }
    yield from (record for record in chunk if (record.partition, record.offset, record.tick) in places)


def _key_text(stream: Stream, key: Key) -> str:
    """A key as it is given on the command line, and as `lakehouse changes --key` has it."""
    shown = key_value(stream.key, key)
    parts = shown.values() if len(stream.key) > 1 else [shown]
    return ",".join("" if part is None else part if isinstance(part, str) else write(part) for part in parts)


def _in_order(taken: Iterable[Record]) -> list[Record]:
    """Put records in the order in which one batch of them would stand: a scenario must list them so."""
    highest: dict[tuple[str, int], int] = {}
    placed = []
    for number, record in enumerate(taken):
        place = (record.topic, record.partition)
        highest[place] = max(record.timestamp, highest.get(place, record.timestamp))
        placed.append((highest[place], *place, number, record))
    return [record for *_, record in sorted(placed, key=lambda item: item[:-1])]


def _input(app: App, record: Record) -> dict[str, Any]:
    """A record as a scenario writes it; in hex where its bytes are no text of their format."""
    source = next(source for source in app.sources if source.topic == record.topic)
    item: dict[str, Any] = {"topic": record.topic}
    if record.partition:
        item["partition"] = record.partition
    try:
        item["key"] = written_key(source, record.key)
    except Unfit:
        item["key_hex"] = (record.key or b"").hex()
    try:
        item["value"] = written_value(source, record.value)
    except Unfit:
        item["value_hex"] = (record.value or b"").hex()
    item["timestamp"] = record.timestamp
    if record.headers:
        item["headers"] = [
            [name, None if value is None else value.decode("utf-8", "backslashreplace")]
            for name, value in record.headers
        ]
    return item


def _expected(app: App, table: Table, result: Result) -> dict[str, Any]:
    keys = keys_of(table)
    topic = next((sink.topic for sink in app.sinks if sink.of == table), table.name)
    changes = [
        {"topic": topic, **keys.shown(change.key), "value": plain(change.value), "timestamp": change.timestamp}
        for change in result.changelogs[table.name]
        if change.key is not None
    ]
    rows = [{**keys.shown(key), "value": plain(row)} for key, row in result.tables[table.name].items()]
    expected: dict[str, Any] = {"tables": {table.name: rows}} | ({"outputs": changes} if changes else {})
    late = [
        _place(late.identity) | ({"window": keys.bounds(*late.span)} if late.span is not None else {})
        for late in result.late[table.name]
    ]
    bad = {
        source.name: [
            {**_place(record.identity), "reason contains": reason} for record, reason in result.quarantine[source.name]
        ]
        for source in table.stream.sources
        if result.quarantine[source.name]
    }
    return expected | ({"late": {table.name: late}} if late else {}) | ({"quarantine": bad} if bad else {})


def _place(of: Identity) -> dict[str, Any]:
    return {"partition": of.partition, "offset": of.offset}


def _text(scenario: dict[str, Any]) -> str:
    """A scenario's JSON, laid out for a reader: one record a line."""
    return "{\n" + ",\n".join(f"  {write(name)}: {_layer(value, '  ')}" for name, value in scenario.items()) + "\n}\n"


def _layer(value: Any, indent: str) -> str:
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(f"{indent}  {_line(item)}" for item in value) + f"\n{indent}]"
    if isinstance(value, dict):
        inner = [f"{indent}  {write(name)}: {_layer(item, indent + '  ')}" for name, item in value.items()]
        return "{\n" + ",\n".join(inner) + f"\n{indent}}}"
    return write(value)


def _line(value: Any) -> str:
    """JSON in one line, with the blanks that make it readable."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{write(name)}: {_line(item)}" for name, item in value.items()) + "}"
    return "[" + ", ".join(map(_line, value)) + "]" if isinstance(value, list) else write(value)
