"""Truncates on Spark, as deletes of the keys before them: `lakehouse.semantics.operators.truncate`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse.formats.codec.registered import FindSchemas
from lakehouse.formats.decode import is_truncate, part_schemas
from lakehouse.plan.names.record_format import parse_format
from lakehouse.plan.origin import Source
from lakehouse.spark.expression.arrow_functions import over_arrow
from lakehouse.spark.stream.decoded import decode_records
from lakehouse.spark.stream.step import numbered_position


def find_truncates(source: Source, bronze_rows: DataFrame, find_schemas: FindSchemas) -> list[Row]:
    """Return the positions of the truncates among bronze's rows of a source's topic, in order."""
    schemas = part_schemas(source, "value", find_schemas)

    def are_truncates(batch: pa.Array) -> pa.Array:
        return pa.array([is_truncate(source, data, schemas) for data in batch.to_pylist()], type=pa.bool_())

    candidates = bronze_rows.where(_may_truncate(source))
    if candidates.isEmpty():  # as in most batches: then no byte goes to Python
        return []
    candidates = candidates.where(over_arrow(are_truncates, "boolean")(F.col("value")))
    truncates = decode_records(source, candidates, find_schemas).where(~F.col("_bad") & F.col("_tombstone"))
    return sorted(row["_position"] for row in truncates.select("_position").collect())


def _may_truncate(source: Source) -> Column:
    """Return a condition on bronze's rows that all truncates meet, and few others: how the text "t" is written."""
    if parse_format(source.value_format).traits.is_registered:
        return F.contains("value", F.lit(b"\x02t"))
    return F.contains("value", F.lit(b'"t"')) | F.contains("value", F.lit(b"\\u0074"))


def apply_truncates(
    source: Source, rows: DataFrame, truncates: Sequence[Row], last_before: Row | None, records: DataFrame
) -> DataFrame:
    """Return a source's records with deletes in place of the truncates among them.

    truncates: their positions, in order. last_before: the position of the last truncate before them. records: the
    decoded records since that one.
    """
    position_type = rows.schema["_position"].dataType
    spans_type = StructType().add("_before", position_type).add("_at", position_type, nullable=False)
    spans = F.broadcast(rows.sparkSession.createDataFrame([*pairwise([last_before, *truncates])], spans_type))
    is_keyed = ~F.col("_bad") & ~F.col("_null_key")
    keyed_records = records.where(is_keyed).select(*source.key_names, F.col("_position").alias("_place"))
    is_between = (F.col("_place") < F.col("_at")) & F.coalesce(F.col("_place") > F.col("_before"), F.lit(True))
    keys = keyed_records.join(spans, is_between).groupBy("_at", *source.key_names).agg(F.max("_place").alias("_place"))
    number = F.row_number().over(Window.partitionBy("_at").orderBy("_place")) - 1
    keys = keys.withColumn("_number", number).drop("_place").alias("k")
    is_truncate = F.col("r._position") == F.col("k._at")
    value_names = [name for name in rows.columns if name not in source.key_names]
    deletes = rows.alias("r").join(keys, is_truncate)
    deletes = deletes.select(*[f"r.`{n}`" for n in value_names], *[f"k.`{n}`" for n in source.key_names], "_number")
    deletes = deletes.withColumns({"_position": numbered_position(F.col("_number")), "_null_key": F.lit(False)})
    others = rows.join(spans, F.col("_position") == F.col("_at"), "left_anti")
    return others.unionByName(deletes.select(*rows.columns))
