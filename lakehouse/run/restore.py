"""A table from its published changelog alone: the duality, used. The application then goes on from there.

The topic's last record of each key is the row; its headers carry the accumulators and the position. The last record of
all carries the source offsets that the changelog covers: the restored table takes in what comes after them, whatever
the new lake's bronze holds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from confluent_kafka import Message

from lakehouse.delta import changefeed, published, tables
from lakehouse.delta.layout import Layout
from lakehouse.delta.lease import Lease
from lakehouse.errors import NotFound, PlanError, StorageError
from lakehouse.formats.decode import decode_columns
from lakehouse.kafka.drain import drain
from lakehouse.kafka.publish import ACCUMULATORS, EVENT_TIME, OFFSETS, POSITION
from lakehouse.kafka.topics import Cluster
from lakehouse.plan.table import Table
from lakehouse.semantics.epoch import NO_TICK
from lakehouse.semantics.moment import moment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def restore(
    spark: SparkSession, layout: Layout, bootstrap_servers: str, options: Mapping[str, str], table: Table, topic: str
) -> int:
    """Make a table from its changelog in a topic; return the number of rows.

    Raises PlanError for a table that keeps more than its changelog tells, StorageError when the table exists already,
    NotFound when the topic does not, or when its records are not a
    changelog that lakehouse published.
    """
    if table.has_state:
        raise PlanError(
            f"table {table.name!r} keeps more than its changelog tells (final results, HAVING, order_by). Build it "
            "from bronze: run its application on a lake that has the topic's records."
        )
    path = layout.silver(table.name)
    with Lease(layout.lease(f"silver-{table.name}"), f"table {table.name!r}"):
        if tables.exists(spark, path):
            raise StorageError(
                f"table {table.name!r} exists in {layout.root}. Restore into another lake, or remove the table first."
            )
        last, covers = _read(Cluster(bootstrap_servers, options), options, topic)
        schema = tables.schema(spark, table)
        rows = _rows(spark, table, last, schema)
        begins = {tables.SKIP: json.dumps(covers["next"])}
        if "clock" in covers:
            begins[tables.CLOCK] = json.dumps(covers["clock"])
        tables.create_filled(spark.createDataFrame(rows, schema), layout, table, begins)
    return len(rows)


def changelog(
    spark: SparkSession,
    layout: Layout,
    bootstrap_servers: str,
    options: Mapping[str, str],
    table: Table,
    topic: str,
    tick: int,
) -> DataFrame:
    """Return what a table's changelog in a topic makes of it up to a tick.

    What compaction has removed can't be had: at a tick that is long past, the row of a key that changed since may be
    missing. Raises NotFound where the topic does not exist, is no changelog of lakehouse, or ends before the tick.
    """
    last, covers = _read(Cluster(bootstrap_servers, options), options, topic, tick)
    until = covers.get("tick", NO_TICK)
    if until < tick and not changefeed.per_event(spark, layout, table, until, tick).isEmpty():
        raise NotFound(f"topic {topic!r} covers tick {until}, no more; later changes were not published. Run its job.")
    schema = tables.schema(spark, table)
    return spark.createDataFrame(_rows(spark, table, last, schema), schema)


def _read(
    cluster: Cluster, options: Mapping[str, str], topic: str, to: int | None = None
) -> tuple[dict[bytes, Message], dict[str, Any]]:
    """Return the last record of each key, up to a tick, and what the changelog covers."""
    last: dict[bytes, Message] = {}
    covers: dict[str, Any] = {}
    for message in drain(cluster, options, topic):
        headers = _headers(message)
        if POSITION not in headers:
            where = f"{topic}/{message.partition()}@{message.offset()}"
            raise NotFound(f"record {where} has no {POSITION} header: expected a changelog that lakehouse published.")
        if OFFSETS in headers:
            said = json.loads(headers[OFFSETS])
            covers = max(covers, said, key=lambda c: c.get("tick", 0))
        within = to is None or json.loads(headers[POSITION])[0] <= to
        if (key := message.key()) is not None and within:
            last[key] = message
    if not covers:
        raise NotFound(
            f"topic {topic!r} does not say which offsets it covers ({OFFSETS}): nothing was published to it yet."
        )
    return last, covers


def _headers(message: Message) -> dict[str, str]:
    pairs = cast(list[tuple[str, str | bytes | None]], message.headers() or [])
    return {name: value.decode() if isinstance(value, bytes) else str(value) for name, value in pairs}


def _rows(
    spark: SparkSession, table: Table, last: Mapping[bytes, Message], schema: StructType
) -> list[tuple[Any, ...]]:
    key, value = published.columns_of(spark, table)
    hidden = published.accumulators_of(spark, table)
    rows = []
    for key_bytes, message in last.items():
        shown = decode_columns("json", value, message.value())
        if shown is None:
            continue
        headers = _headers(message)
        kept = decode_columns("json", hidden, headers.get(ACCUMULATORS, "{}").encode()) or {}
        row = {
            **(decode_columns(published.key_format(key), key, key_bytes) or {}),
            **shown,
            **kept,
            "_event_time": moment(int(headers[EVENT_TIME])),
            "_position": tuple(json.loads(headers[POSITION])),
        }
        rows.append(tuple(row.get(field.name) for field in schema))
    return rows
