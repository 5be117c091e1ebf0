"""The running maximum of records' times in Java: maps that each task has for itself, asked and changed at each record.

A literal map is a part of a task, and each task gets a copy. So a call of the map's `put`, which Spark must neither
leave out nor repeat, keeps a value from record to record, as Spark's own `monotonically_increasing_id` does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.semantics.moment import Offsets
from lakehouse.spark.jvm.java import active_jvm
from lakehouse.spark.jvm.tree.java_calls import class_of, constant_object, invoke_method
from lakehouse.spark.jvm.tree.tree import CatalystTree

MAP, LONG = "java.util.HashMap", "java.lang.Long"
PLACES_PER_TOPIC = 2**32  # more than a topic has partitions
BEFORE_ALL = -1


def with_running_maximum(frame: DataFrame, carried: Offsets, ends: Offsets, no_time: int, near_end: int) -> DataFrame:
    """Add `_maximum`, the largest `_time` of a record's partition so far, and `_is_near_end`, to rows from Kafka.

    The rows of a partition come in one task, by their offsets; Spark fails where these don't rise. `_time` is in
    milliseconds, or null. carried: the maximum before these rows. ends: the first offset after the rows, of each
    partition that has some. no_time: what counts where there is no time. near_end: a record is near the end of its
    partition if it is at most as many offsets before it.
    """
    end_by_place, largest_times = {}, {}
    for number, (topic, topic_ends) in enumerate(ends.items()):
        for partition, end_offset in topic_ends.items():
            place_number = number * PLACES_PER_TOPIC + partition
            end_by_place[place_number] = end_offset
            largest_times[place_number] = carried.get(topic, {}).get(partition, no_time)
    topic_number = _tree_column(invoke_method(_topic_numbers(ends), "get", "int", _expression(F.col("topic"))))
    place = topic_number.cast("bigint") * F.lit(PLACES_PER_TOPIC) + F.col("partition").cast("bigint")
    frame = frame.withColumns({"_place": place, "_known_time": F.coalesce("_time", F.lit(no_time))})
    largest, end = _TaskMap(largest_times), _TaskMap(end_by_place)
    last_offset = _TaskMap(dict.fromkeys(end_by_place, BEFORE_ALL))
    before = largest.put(F.greatest(largest.get(), F.col("_known_time")))
    fault = F.concat(F.lit("the offsets of "), "topic", F.lit("/"), "partition", F.lit(" don't rise, at "), "offset")
    maximum = F.when(last_offset.put(F.col("offset")) < F.col("offset"), F.greatest(before, F.col("_known_time")))
    is_near_end = F.col("offset") >= end.get() - near_end
    return frame.withColumns(
        {"_maximum": maximum.otherwise(F.raise_error(fault).cast("bigint")), "_is_near_end": is_near_end}
    ).drop("_place", "_known_time")


class _TaskMap:
    """A map from `_place`, a number for a partition, to a number; each task changes its own copy."""

    def __init__(self, values: Mapping[int, int]) -> None:
        mapper = active_jvm().com.fasterxml.jackson.databind.ObjectMapper()
        # Py4J would make small numbers Integers, which are no Longs to Java.
        kind = mapper.getTypeFactory().constructMapType(class_of(MAP), class_of(LONG), class_of(LONG))
        self._map = constant_object(mapper.readValue(json.dumps(values), kind), MAP)

    def get(self) -> Column:
        return self._invoke("get")

    def put(self, value: Column) -> Column:
        """Return the value before, which the new one replaces."""
        return self._invoke("put", value)

    def _invoke(self, method: str, *arguments: Column) -> Column:
        expressions = map(_expression, (F.col("_place"), *arguments))
        return _tree_column(invoke_method(self._map, method, "bigint", *expressions, is_pure=False))


def _topic_numbers(topics: Iterable[str]) -> Any:
    """Return a map from the name of a topic, as Spark has texts, to its place among them."""
    topic_map = active_jvm().java.util.HashMap()
    for number, name in enumerate(topics):
        topic_map.put(active_jvm().org.apache.spark.unsafe.types.UTF8String.fromString(name), number)
    return constant_object(topic_map, MAP)


def _expression(column: Column) -> Any:
    java_column: Any = column
    return active_jvm().org.apache.spark.sql.classic.ExpressionUtils.expression(java_column._jc)


def _tree_column(expression: Any) -> Column:
    return CatalystTree(expression).column()
