"""The offsets at which topics of Debezium hold a database as it was at a position of its log.

`lakehouse.plan.databases.log_position` says what positions are. Only the `source` of each record is read, twice: around
which commits the position lies; then, in each partition, the first record of a later transaction.

A null value, a row that an incremental snapshot has read again, and bytes that are no change stand for no transaction:
they count if they lie before that record.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from lakehouse.errors import ConfigError, NotFound
from lakehouse.formats.decode import part_schemas
from lakehouse.lake.moment.lake_facts import TopicEnds
from lakehouse.lake.moment.offsets import ends_at_tick
from lakehouse.plan.databases.log_position import (
    LSN_BITS,
    NUMBER_DIGITS,
    Bounds,
    DatabaseLog,
    LogFacts,
    NamedPosition,
    check_next_transaction,
    find_bounds,
    log_of,
)
from lakehouse.plan.expression.schema import Column as PlanColumn
from lakehouse.plan.names.record_format import parse_format
from lakehouse.plan.origin import Source
from lakehouse.semantics.moment import AtOffsets
from lakehouse.spark.bronze import bronze
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.part.parts import make_part
from lakehouse.spark.table.lake_files import SparkLakeFiles

TYPES = {
    "connector": "string", "name": "string", "snapshot": "string", "lsn": "bigint", "sequence": "string",
    "file": "string", "pos": "bigint", "gtid": "string", "commit_lsn": "string",
}  # fmt: skip
NOT_SNAPSHOTS = ("", "false")
INCREMENTAL = "incremental"
DATABASES_NAMED = 5


def offsets_at_position(lake: OpenLake, sources: Sequence[Source], position: str, tick: int) -> AtOffsets:
    """Return the first offset after a position, of each partition that topics have at a complete tick.

    sources: of the change logs of one database; each topic once. position: as its database shows it.

    Raises ConfigError for topics of several databases, or of one whose positions are not known, and for an impossible
    position. Raises NotFound if the records don't reach it, or don't say which of them it holds.
    """
    own_topics = {source.topic for source in sources if source.own_table}
    changes = reduce(DataFrame.unionByName, [_read_changes(lake, source, tick) for source in sources])
    # The first change tells which log it is; that there are others is seen with the facts, without a read of its own.
    first_connector = changes.where("_source.connector IS NOT NULL").select("_source.connector").first()
    if first_connector is None:
        raise NotFound("source position: the lake has no change of a database in these topics yet.")
    log = log_of(first_connector[0])
    sort_key = log.parse(position)
    changes = _with_positions(changes, log)
    facts, snapshots = _read_facts(changes, sort_key)
    bounds = find_bounds(log, sort_key, facts)
    lake_files = SparkLakeFiles(lake, own_topics)
    ends = ends_at_tick(
        lake_files, lake_files.open_table(lake.layout.records), [source.topic for source in sources], tick
    )
    partition_rows = _first_later_records(changes, log, facts, bounds, snapshots)
    if log.names is NamedPosition.COMMIT_BEFORE:
        check_next_transaction(log, sort_key, facts, max((row.last_place or "" for row in partition_rows), default=""))
    _check_transactions(log, sort_key, partition_rows)
    return AtOffsets(_cut_offsets(ends, partition_rows, log.text(sort_key)))


def _read_changes(lake: OpenLake, source: Source, tick: int) -> DataFrame:
    """Return the places of a topic's records, and what their `source` says, each field as a text."""
    rows = bronze.read_topic_records(lake, [source.topic], {source.topic} if source.own_table else ())
    rows = rows.where((F.col("tick") <= tick) & F.col("value").isNotNull())
    if not parse_format(source.value_format).traits.is_registered:
        source_type = StructType([StructField(name, StringType()) for name in TYPES])
        payload_type = StructType([StructField("source", source_type)])
        envelope_type = StructType([*payload_type, StructField("payload", payload_type)])
        parsed = F.from_json(F.col("value").cast("string"), envelope_type)
        frame = rows.select("topic", "topic_id", "partition", "offset", parsed.alias("_event"))
        change = F.coalesce(F.col("_event.source"), F.col("_event.payload.source"))
        return frame.select("topic", "topic_id", "partition", "offset", change.alias("_source"))
    fields = ", ".join(f"{name}: {type}" for name, type in TYPES.items())
    columns = (PlanColumn("source", f"struct<{fields}>"),)
    part = make_part("value", "avro", columns, part_schemas(source, "value", lake.schemas.find))
    frame = rows.select("topic", "topic_id", "partition", "offset",
                        *[column.alias(name) for name, column in part.bronze_columns.items()])  # fmt: skip
    frame = reduce(lambda frame, step: frame.withColumns(step), part.separate_columns, frame)
    texts = F.struct(*[part.column("source")[name].cast("string").alias(name) for name in TYPES])
    is_change = ~part.is_bad & part.column("source").isNotNull()
    return frame.select("topic", "topic_id", "partition", "offset", F.when(is_change, texts).alias("_source"))


def _with_positions(changes: DataFrame, log: DatabaseLog) -> DataFrame:
    """Return the sort keys of what changes and rows of snapshots say; null for rows that an incremental one has read.

    _order: the position that the log's records name; null if none came before. _place: where the change itself lies.
    """
    field = F.col("_source").getField
    snapshot = F.coalesce(field("snapshot"), F.lit(""))
    is_snapshot = ~snapshot.isin(*NOT_SNAPSHOTS)
    match log.names:
        case NamedPosition.COMMIT_BEFORE:
            place = _lsn_key(field("lsn"))
            order = F.when(is_snapshot, place).otherwise(_lsn_key(F.get_json_object(field("sequence"), "$[0]")))
        case NamedPosition.OWN_START:
            number = F.regexp_extract(field("file"), "([0-9]+)$", 1)
            digits = (F.lpad(text, NUMBER_DIGITS, "0") for text in (number, field("pos")))
            place = order = F.concat_ws(":", *digits)
        case NamedPosition.OWN_COMMIT:
            place = order = F.lower(field("commit_lsn"))
    is_placed = snapshot != INCREMENTAL
    names_none = place.isNull() | (
        F.lit(log.names is NamedPosition.COMMIT_BEFORE) & ~is_snapshot & field("sequence").isNull()
    )
    return changes.where("_source.connector IS NOT NULL").select(
        "topic", "topic_id", "partition", "offset", is_snapshot.alias("_is_snapshot"),
        F.when(is_placed, order).alias("_order"), F.when(is_placed, place).alias("_place"),
        field("gtid").alias("_transaction"), F.struct(field("name"), field("connector")).alias("_database"),
        (is_placed & names_none).alias("_has_none"),
    )  # fmt: skip


def _lsn_key(number: Column) -> Column:
    """Return the sort key of an LSN in a text of a signed number, as Java has it."""
    return F.lpad(F.hex(number.cast("bigint")), LSN_BITS // 4, "0")


def _read_facts(changes: DataFrame, key: str) -> tuple[LogFacts, list[str]]:
    """Return the facts around a position, and the positions of snapshots. Raises ConfigError, NotFound."""
    order, change = F.col("_order"), ~F.col("_is_snapshot")
    (row,) = changes.agg(
        F.min(F.coalesce(order, F.col("_place"))).alias("first"),
        F.max(F.when(change, F.greatest(order, "_place"))).alias("last"),
        F.max(F.when(order <= key, order)).alias("before"),
        F.min(F.when(change & (order > key), order)).alias("after"),
        F.collect_set(F.when(~change, order)).alias("snapshots"),
        F.collect_set("_database").alias("databases"),
        F.min(F.when(F.col("_has_none"), F.struct("topic", "partition", "offset"))).alias("without"),
    ).collect()
    if len(row.databases) > 1:
        database_texts = sorted(f"{name} ({connector})" for name, connector in row.databases)
        raise ConfigError(
            f"source position: found changes of several databases, {', '.join(database_texts[:DATABASES_NAMED])}; "
            "expected those of one. Each has positions of its own: read its tables by themselves."
        )
    if row.without is not None:
        place = f"{row.without.topic}/{row.without.partition}={row.without.offset}"
        raise NotFound(
            f"source position: the change at {place} does not name its position; expected the fields of Debezium 1.8 "
            "or later in `source` (PostgreSQL: lsn and sequence; MySQL: file and pos; SQL Server: commit_lsn)."
        )
    return LogFacts(*((row[name] or "") for name in ("first", "last", "before", "after"))), sorted(row.snapshots)


def _first_later_records(
    changes: DataFrame, log: DatabaseLog, facts: LogFacts, bounds: Bounds, snapshots: Sequence[str]
) -> list[Any]:
    """Return a row for each partition, with the offset of its first record after the bounds, if there is one."""
    place, is_snapshot = F.col("_place"), F.col("_is_snapshot")
    # Before its first commit a connector knows of none: then the snapshot is what came before.
    earlier = [F.when(place >= snapshot, F.lit(snapshot)) for snapshot in snapshots]
    order = F.coalesce(F.col("_order"), *reversed(earlier), F.lit(""))
    is_later = F.when(is_snapshot, order > bounds.snapshot).otherwise(order >= bounds.change)
    is_next = ~is_snapshot & (order == facts.before)
    transaction = F.when(F.col("_transaction").isNotNull(), F.struct(order.alias("order"), "_transaction"))
    placed_changes = changes.where(place.isNotNull())
    by_partition = placed_changes.withColumn("_is_later", is_later).groupBy("topic", "topic_id", "partition")
    return by_partition.agg(
        F.min(F.when(F.col("_is_later"), F.col("offset"))).alias("offset"),
        F.count_if(~F.col("_is_later")).alias("earlier"),
        F.count_if(F.col("_is_later") & is_snapshot).alias("later_snapshot"),
        F.max(F.when(is_next, place)).alias("last_place"),
        F.max(F.when(~F.col("_is_later"), transaction)).alias("last_in"),
        F.min(F.when(F.col("_is_later"), transaction)).alias("first_out"),
    ).collect()


def _check_transactions(log: DatabaseLog, key: str, partition_rows: Sequence[Any]) -> None:
    """Check that no transaction lies on both sides, where records name theirs. Raises NotFound."""
    last_in = max((row.last_in for row in partition_rows if row.last_in is not None), default=None)
    first_out = min((row.first_out for row in partition_rows if row.first_out is not None), default=None)
    if last_in is not None and first_out is not None and last_in._transaction == first_out._transaction:
        raise NotFound(
            f"source position {log.text(key)}: it lies inside of transaction {last_in._transaction}; expected the end "
            "of one, as the database shows it."
        )


def _cut_offsets(
    ends: dict[str, TopicEnds], partition_rows: Sequence[Any], position_text: str
) -> dict[str, dict[int, int]]:
    """Return the offsets by topic and partition. Raises NotFound for a topic that was not known at the position yet."""
    offsets = {topic: dict(end.next) for topic, end in ends.items()}
    known_topics: set[str] = set()
    later_topics: set[str] = set()
    for row in partition_rows:
        if row.topic_id != ends[row.topic].id:
            if row.offset is not None:
                raise NotFound(
                    f"source position {position_text}: topic {row.topic} was made again since then, and offsets name "
                    "records of the present topic alone. Name a tick."
                )
            continue
        if row.earlier:
            known_topics.add(row.topic)
        elif row.later_snapshot:
            later_topics.add(row.topic)
        if row.offset is not None:
            offsets[row.topic][row.partition] = row.offset
    if later_topics := later_topics - known_topics:
        raise NotFound(
            f"source position {position_text}: {', '.join(sorted(later_topics))} begins later, with a snapshot. "
            "Expected a position from then on."
        )
    return offsets
