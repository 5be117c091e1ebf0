"""What records find in a table as it was at their event times, on Spark.

A key's records and the table's changes of it go, in the order of positions, to `lakehouse.semantics.operators.as_of`,
which the model runs, too. It gets places and times, and gives numbers of rows: no value goes through Python.
"""

from __future__ import annotations

import json
import re

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from lakehouse.semantics.operators.as_of import KeyChanges
from lakehouse.spark.functions import arrow_type


def found_as_of(both: DataFrame, on: list[str]) -> DataFrame:
    """Return records, `_record`, with the change that each finds, `_found`: null if there is none.

    both: changes (`_side` 0, with `_is`) and records (`_side` 1) by the columns `on`, each with `_place`, `_ordinals`,
    `_number` and `_time`, its event time in milliseconds.
    """
    # As text of one width each, since Arrow does not sort lists.
    ordinals = F.transform("_ordinals", lambda number: F.lpad(F.hex(number), 16, "0"))
    both = both.withColumn("_ordinals", F.array_join(ordinals, ""))
    kinds = both.schema
    result = _nullable(StructType([kinds["_record"], StructField("_found", kinds["_is"].dataType)]))
    shown = pa.schema(list(arrow_type(result)))

    # Spark takes a function of one argument by its signature.
    def found(of_key: pa.Table) -> pa.Table:
        return found_of_key(of_key, shown)

    return both.groupBy(*on).applyInArrow(found, result)


def _nullable(kind: StructType) -> StructType:
    """A type with nulls everywhere: what Spark's optimizer finds never to be null is another type to Arrow."""
    never = re.compile(r'"(nullable|containsNull|valueContainsNull)":false')
    return StructType.fromJson(json.loads(never.sub(r'"\1":true', kind.json())))


def found_of_key(both: pa.Table, shown: pa.Schema) -> pa.Table:
    """As `found_as_of`, for one key. shown: the types of what comes out."""
    # A change by the same record comes before it; the rows that a restored table began with have no place.
    order = both.select(["_side", "_ordinals", "_number"])
    place = both["_place"].combine_chunks()
    for number, field in enumerate(place.type):
        order = order.add_column(number, field.name, pc.struct_field(place, [number]))
    keys = [(name, "ascending", "at_start") for name in order.column_names]
    both = both.take(pc.sort_indices(order, sort_keys=keys))
    timeline: KeyChanges[int] = KeyChanges()
    records: list[int] = []
    found: list[int | None] = []
    for number, (side, time) in enumerate(zip(both["_side"].to_pylist(), both["_time"].to_pylist(), strict=True)):
        if side == 0:
            timeline.put(time, number)
        else:
            records.append(number)
            found.append(timeline.at(time))
    taken = [both[name].take(pa.array(of, pa.int64())) for name, of in (("_record", records), ("_is", found))]
    return pa.table(taken, names=["_record", "_found"]).cast(shown)
