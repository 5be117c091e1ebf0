"""The watermark of a batch's records, on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lakehouse as lh

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_before_a_record_moves_the_clock_there_is_no_watermark(spark: SparkSession) -> None:
    """A fix of a topic's first record could never be applied: compiled code read a null as a number."""
    from pyspark.sql import functions as F

    from lakehouse.semantics.time.clock import ClockState
    from lakehouse.spark.fold.clock import with_stream_time

    compiling = spark.newSession()  # as the command does; the core tests do not compile plans
    compiling.conf.set("spark.sql.codegen.wholeStage", "true")
    compiling.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")
    events = lh.stream("events", key="id string", schema="n int").group_by("id")
    table = events.window(lh.tumbling("1 hour")).agg(n=lh.count()).table("hourly", emit="final")
    place = "'tick', 1L, 'order_time', id, 'topic', 'events', 'partition', 0, 'offset', id, 'ordinals', array(0L)"
    rows = compiling.range(3).selectExpr(
        "'events/0' AS _part", "id * 1000 AS _time", f"named_struct({place}) AS _position"
    )
    judged = with_stream_time(table, rows, ClockState(), moves=F.col("_position.offset") > 0)
    by_offset = judged.groupBy("_position.offset").agg(F.max("_watermark"), F.max("_horizon")).orderBy("offset")
    assert [tuple(row) for row in by_offset.collect()] == [(0, None, None), (1, 1000, 1000), (2, 2000, 2000)]
