"""Silver tables: what columns they have, how they are made, and the check that a table is what its plan says.

A row has the key columns, the value columns, and hidden columns, which start with an underscore:

    _acc_<name>   accumulators that the seen columns can't serve as
    _event_time   the largest event time of the row's records (latest: of the last one)
    _position     the position of the last record that was applied to the row
"""

from __future__ import annotations

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from lakehouse.delta.aggregates import SqlAggregate, sql_aggregate
from lakehouse.delta.bronze import SCHEMA
from lakehouse.delta.layout import Layout
from lakehouse.delta.streams import stream_frame
from lakehouse.errors import PlanError
from lakehouse.plan.declare import Stream, Table, is_number
from lakehouse.plan.text import describe

POSITION = "struct<tick: bigint, order_time: bigint, topic: string, partition: int, offset: bigint, ordinal: int>"
HIDDEN = f"_event_time timestamp, _position {POSITION}"
PROPERTIES = {
    "delta.enableChangeDataFeed": "true",
    "delta.checkpointInterval": "100",
    # Copy on write: any plain Delta reader sees the right rows, and deletion vectors did not help small tables.
    "delta.enableDeletionVectors": "false",
}
PLAN = "lakehouse.plan"
KEY = "lakehouse.key"
SKIP = "lakehouse.skip"  # offsets that a restored table holds already: {topic id: {partition: first offset to apply}}


def exists(spark: SparkSession, path: str) -> bool:
    """Say whether there is a Delta table at a path."""
    return bool(DeltaTable.isDeltaTable(spark, path))


def empty_stream(spark: SparkSession, stream: Stream) -> DataFrame:
    """Return a stream's frame without rows: it knows the types."""
    return stream_frame(stream, spark.createDataFrame([], SCHEMA))


def aggregates(spark: SparkSession, table: Table) -> list[SqlAggregate]:
    """Return the SQL forms of a table's aggregations, with the types that Spark gives their arguments."""
    frame = empty_stream(spark, table.stream)
    forms = []
    for item in table.aggregations:
        kind = ""
        if item.argument is not None:
            kind = frame.select(F.expr(item.argument.text).alias("x")).schema["x"].dataType.simpleString()
            if item.kind == "sum" and not is_number(kind):
                raise PlanError(
                    f'table {table.name!r}: {item} sums a {kind}. Cast it: sum("cast({item.argument} AS double)").'
                )
        forms.append(sql_aggregate(item, kind))
    return forms


def schema(spark: SparkSession, table: Table) -> StructType:
    """Return the schema of a silver table."""
    frame = empty_stream(spark, table.stream)
    hidden = _fields_of(HIDDEN)
    if table.is_latest:
        values = [c.name for c in table.stream.columns if c.name not in table.key]
        return StructType([*_fields(frame.select(*table.key, *values)), *hidden])
    keys = _fields(frame.select(*[F.expr(item.expression.text).alias(item.name) for item in table.group_by]))
    forms = aggregates(spark, table)
    shown = _fields_of(", ".join(f"`{form.name}` {form.column_type}" for form in forms))
    kept = [f"`{form.accumulator}` {form.accumulator_type}" for form in forms if form.accumulator_type]
    return StructType([*keys, *shown, *(_fields_of(", ".join(kept)) if kept else []), *hidden])


def _fields_of(ddl: str) -> list[StructField]:
    made = StructType.fromDDL(ddl)
    return list(made) if isinstance(made, StructType) else []


def _fields(frame: DataFrame) -> list[StructField]:
    return [StructField(field.name, field.dataType, True) for field in frame.schema]


def create(spark: SparkSession, layout: Layout, table: Table) -> None:
    """Create a silver table, or check that the one that exists has this declaration. Raises PlanError if it has not."""
    path, plan = layout.silver(table.name), describe(table)
    if exists(spark, path):
        found = DeltaTable.forPath(spark, path).detail().select("properties").first()
        was = found[0].get(PLAN) if found else None
        if was != plan:
            raise PlanError(
                f"table {table.name!r} exists in the lake under another declaration.\n"
                f"Found:\n{was}\nExpected:\n{plan}\nGive the new declaration another table name, "
                "or remove the table's folder to build it anew from bronze."
            )
        return
    builder = DeltaTable.createIfNotExists(spark).location(path).addColumns(schema(spark, table))
    for name, value in _properties(table).items():
        builder = builder.property(name, value)
    builder.execute()


def create_filled(frame: DataFrame, layout: Layout, table: Table, skip: str) -> None:
    """Create a silver table with rows, hidden columns too, in one commit: whole or not at all.

    skip: the offsets that the rows hold already, as the property `SKIP` says them.
    """
    writer = frame.writeTo(f"delta.`{layout.silver(table.name)}`").using("delta")
    for name, value in {**_properties(table), SKIP: skip}.items():
        writer = writer.tableProperty(name, value)
    writer.create()


def _properties(table: Table) -> dict[str, str]:
    return {**PROPERTIES, PLAN: describe(table), KEY: ",".join(table.key)}


def skipped_offsets(spark: SparkSession, layout: Layout, table: Table) -> str | None:
    """Return which offsets a restored table holds already, as its property says; None for a table built from bronze."""
    path = layout.silver(table.name)
    if not exists(spark, path):
        return None
    detail = DeltaTable.forPath(spark, path).detail().select("properties").first()
    return detail[0].get(SKIP) if detail else None
