"""What records find in a table as it was at their event times, on Spark.

A key's records and the table's changes of it go, in the order of positions, to `lakehouse.semantics.operators.as_of`,
which the model runs, too. It gets times and gives numbers of changes: no value goes through Python's own objects.

Spark sorts, on disk if need be, and Python sees one stream of batches with the keys in a row. A call for each key
(`applyInArrow`) costs half a millisecond: a minute for 100,000 keys.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from lakehouse.semantics.operators.as_of import KeyChanges
from lakehouse.spark.functions import arrow_type


def found_as_of(both: DataFrame, on: list[str]) -> DataFrame:
    """Return records, `_record`, with the change that each finds, `_found`: null if there is none.

    both: changes (`_side` 0, with `_is`) and records (`_side` 1) by the columns `on`, each with `_place`, `_ordinals`,
    `_number` and `_time`, its event time in milliseconds.
    """
    # A change by the same record comes before it; the rows that a restored table began with have no place.
    order = Window.partitionBy(*on).orderBy(F.col("_place").asc_nulls_first(), "_side", "_ordinals", "_number")
    rows = both.select((F.row_number().over(order) == 1).alias("_is_first"), "_side", "_time", "_record", "_is")
    result = _nullable(StructType([rows.schema["_record"], StructField("_found", rows.schema["_is"].dataType)]))
    return rows.mapInArrow(found_in_batches(pa.schema(list(arrow_type(result)))), result)


def _nullable(kind: StructType) -> StructType:
    """A type with nulls everywhere: what Spark's optimizer finds never to be null is another type to Arrow."""
    never = re.compile(r'"(nullable|containsNull|valueContainsNull)":false')
    return StructType.fromJson(json.loads(never.sub(r'"\1":true', kind.json())))


def found_in_batches(shown: pa.Schema) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What each record finds, of rows in order, key after key. shown: the types of what comes out."""

    def found(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        timeline: KeyChanges[int] = KeyChanges()
        held: list[pa.Array] = []  # the changes of the last key of the batch before
        begins = ends = 0  # the changes are counted in order: the number of the first one held, and of the next one
        for batch in batches:
            is_change = pc.equal(batch["_side"], 0)
            held.append(batch["_is"].filter(is_change))
            indices: list[int | None] = []
            key_begins = begins
            rows = (batch["_is_first"], is_change, batch["_time"])
            for is_first, changes, time in zip(*[column.to_pylist() for column in rows], strict=True):
                if is_first:
                    timeline, key_begins = KeyChanges(), ends
                if changes:
                    timeline.put(time, ends)
                    ends += 1
                else:
                    number = timeline.at(time)
                    indices.append(None if number is None else number - begins)
            known = pa.chunked_array(held)
            columns = [batch["_record"].filter(pc.invert(is_change)), known.take(pa.array(indices, pa.int64()))]
            yield from pa.table(columns, names=["_record", "_found"]).cast(shown).to_batches()
            held, begins = known.slice(key_begins - begins).chunks, key_begins

    return found
