"""Joins records with a table as it was at their event times, on Spark.

For each key, its records and the table's changes go, in the order of positions, to
`lakehouse.semantics.operators.as_of`, which the model runs, too. It gets times and gives numbers of changes: no value
goes through Python's own objects.

Spark sorts, on disk if need be, and Python sees one stream of batches, key after key. A call for each key
(`applyInArrow`) would cost half a millisecond: a minute for 100,000 keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from lakehouse.semantics.operators.as_of import KeyChanges
from lakehouse.spark.expression.arrow_functions import arrow_type
from lakehouse.spark.nullable import make_nullable


def find_as_of(all_rows: DataFrame, on_columns: list[str]) -> DataFrame:
    """Return records, `_record`, with the change that each finds, `_found`: null if there is none.

    all_rows: changes (`_side` 0, with `_is`) and records (`_side` 1), each with `_place`, `_ordinals`, `_number` and
    `_time`, its event time in milliseconds. on_columns: the columns of the key.
    """
    # A change that a record makes sorts before the record; the rows with which a restored table began have no place.
    place_order = Window.partitionBy(*on_columns).orderBy(
        F.col("_place").asc_nulls_first(), "_side", "_ordinals", "_number"
    )
    rows = all_rows.select(
        (F.row_number().over(place_order) == 1).alias("_is_first"), "_side", "_time", "_record", "_is"
    )
    result_type = make_nullable(
        StructType([rows.schema["_record"], StructField("_found", rows.schema["_is"].dataType)])
    )
    return rows.mapInArrow(make_change_finder(pa.schema(list(arrow_type(result_type)))), result_type)


def make_change_finder(result_schema: pa.Schema) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function over batches of ordered rows, key after key: it gives each record the change that it finds.

    result_schema: the types of the columns that the function gives.
    """

    def find_changes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        timeline: KeyChanges[int] = KeyChanges()
        held_changes: list[pa.Array] = []  # the changes of the last key in the batch before
        # The changes are numbered in order: the number of the first held change, and of the next change.
        first_number = next_number = 0
        for batch in batches:
            is_change = pc.equal(batch["_side"], 0)
            held_changes.append(batch["_is"].filter(is_change))
            indices: list[int | None] = []
            key_begins = first_number
            rows = (batch["_is_first"], is_change, batch["_time"])
            for is_first, row_is_change, time in zip(*[column.to_pylist() for column in rows], strict=True):
                if is_first:
                    timeline, key_begins = KeyChanges(), next_number
                if row_is_change:
                    timeline.put(time, next_number)
                    next_number += 1
                else:
                    number = timeline.find_change(time)
                    indices.append(None if number is None else number - first_number)
            key_changes = pa.chunked_array(held_changes)
            columns = [batch["_record"].filter(pc.invert(is_change)), key_changes.take(pa.array(indices, pa.int64()))]
            yield from pa.table(columns, names=["_record", "_found"]).cast(result_schema).to_batches()
            held_changes, first_number = key_changes.slice(key_begins - first_number).chunks, key_begins

    return find_changes
