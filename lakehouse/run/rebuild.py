"""A moment of a table as a new table: from a version, from bronze alone, from the published changelog alone.

A new table is nobody's: no application writes it. The three ways must give the same content.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from lakehouse.delta import folders, reading, tables
from lakehouse.delta.content import Content, Differing, content, differing
from lakehouse.delta.layout import Layout
from lakehouse.delta.lease import Lease
from lakehouse.delta.moments import Cut, Past
from lakehouse.delta.transaction import quoted
from lakehouse.delta.travel import read_version
from lakehouse.errors import ConfigError, StorageError
from lakehouse.plan.schema import check_name
from lakehouse.plan.table import Table
from lakehouse.run.backfill import Progress, build
from lakehouse.run.restore import changelog
from lakehouse.semantics.moment import At, AtTick

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Origin = Literal["version", "bronze", "changelog"]
ORIGINS: tuple[Origin, ...] = ("version", "bronze", "changelog")
MADE_OF = "lakehouse.made_of"


def checkout(spark: SparkSession, layout: Layout, table: Table, name: str, at: At | None) -> Content:
    """Make a new table of what people see of a table at a moment; return its content.

    Raises StorageError when there is a table of that name, NotFound for a moment that can't be had.
    """
    return _made(spark, layout, table, name, reading.read(spark, layout, table, at), {"at": str(at or "now")})


def rebuild(
    spark: SparkSession,
    layout: Layout,
    table: Table,
    name: str,
    origin: Origin,
    at: At | None = None,
    topic: str | None = None,
    kafka: tuple[str, Mapping[str, str]] | None = None,
) -> Content:
    """Make a new table of a table's content at a moment, from one origin alone; return its content.

    version: Delta's own time travel. bronze: records and interventions, folded from the first one. changelog: what was
    published to `topic`, read from the Kafka in `kafka` (servers, options). Raises ConfigError for an origin that
    can't tell the moment.
    """
    if origin not in ORIGINS:
        raise ConfigError(f"rebuild from {origin!r}: expected {', '.join(ORIGINS)}.")
    cut = reading.cut(spark, layout, table, at or AtTick(reading.applied_tick(spark, layout, table)))
    said = {"at": str(at or "now"), "from": origin}
    if origin == "version":
        return _made(spark, layout, table, name, reading.version(spark, layout, table, at), said)
    if origin == "bronze":
        return _made(spark, layout, table, name, Past(spark, layout, table).seen(cut, anchored=False), said)
    if topic is None or kafka is None:
        raise ConfigError("rebuild from changelog: expected the topic that the changelog was published to.")
    if not cut.whole:
        raise ConfigError(
            f"rebuild from changelog at {at}: a changelog tells ticks, versions and commit times; expected one of them."
        )
    return _made(spark, layout, table, name, changelog(spark, layout, *kafka, table, topic, cut.tick), said)


def backtest(
    spark: SparkSession,
    layout: Layout,
    table: Table,
    other: Table,
    *,
    to: int | None = None,
    listen: Progress = lambda tick, records: None,
) -> tuple[Content, Content, Differing]:
    """Fold the same records under two declarations of one table, up to a tick; the live table is not touched.

    Returns both contents, and by how many keys the second differs. The tables must have the same key.
    """
    if table.key != other.key:
        raise ConfigError(
            f"backtest: keys {', '.join(table.key)} and {', '.join(other.key)} can't be compared; expected the same."
        )
    tick = to if to is not None else reading.complete_tick(spark, layout)
    frames, places = [], []
    for number, one in enumerate((table, other)):
        places.append(build(spark, layout, one, f"backtest_{number}_{table.name}", to=tick, listen=listen))
        frames.append(Past(spark, places[-1], one).seen(Cut(tick)))
    try:
        return content(frames[0]), content(frames[1]), differing(table.key, *frames)
    finally:
        for place in places:
            folders.remove(spark, place.tables)


def _made(
    spark: SparkSession, layout: Layout, table: Table, name: str, frame: DataFrame, said: Mapping[str, str]
) -> Content:
    path = layout.silver(check_name(name, "table"))
    with Lease(layout.lease(f"silver-{name}"), f"table {name!r}"):
        if tables.exists(spark, path):
            raise StorageError(f"table {name!r} exists in {layout.root}. Give the new table another name.")
        seen = frame.select(*[f"`{column}`" for column in frame.columns if not column.startswith("_")])
        writer = seen.writeTo(f"delta.{quoted(path)}").using("delta")
        of = json.dumps({"table": table.name, **said})
        writer.tableProperty(tables.KEY, ",".join(table.key)).tableProperty(MADE_OF, of).create()
    return content(read_version(spark, path))
