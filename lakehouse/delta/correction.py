"""Late correction: a window that closed long ago is refolded, for the affected keys only, with records that were late.

The refold begins from nothing: it reads the stream's whole history, judges every record as the live table did, but for
those that were taken in after all, and folds the rows of these, at their original positions. A record is taken in as a
whole, for all windows that it was late for.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from lakehouse.delta import interventions, keyed, merge, past, tables, travel
from lakehouse.delta.aggregates import Form, in_sql, same_key
from lakehouse.delta.arrivals import arrivals, in_windows
from lakehouse.delta.clock import ClockState
from lakehouse.delta.fold import batch, ended
from lakehouse.delta.late import PLACE
from lakehouse.delta.layout import Layout
from lakehouse.delta.streams import stream_frame
from lakehouse.plan.schema import POSITION_TYPE
from lakehouse.plan.table import Table
from lakehouse.semantics.epoch import NO_TICK
from lakehouse.semantics.window import Span

ALWAYS_MS = -(2**62)  # judged by this time, no record is late


def correction(spark: SparkSession, layout: Layout, table: Table, forms: list[Form], at: int) -> DataFrame:
    """Return the rows that an intervention at tick `at` changes, as they become: of tumbling and hopping windows.

    They differ from what the table keeps (final results: shows) at the tick before.
    """
    place = tables.visible(layout, table) if table.is_final else tables.state(layout, table)
    before = travel.read_version(spark, place.path, travel.version_at_tick(spark, layout, table, at - 1, place))
    after = _refolded(spark, layout, table, forms, at)
    values = [name for name in after.columns if name not in (*table.key, "_position")]
    # As text: maps can't be compared.
    images = {side: F.to_json(F.struct(*[F.col(f"{side}.`{name}`") for name in values])) for side in ("a", "b")}
    both = after.alias("a").join(before.alias("b"), same_key(table.key, "a", "b"), "left")
    changed = both.where(F.col("b._position").isNull() | ~images["a"].eqNullSafe(images["b"]))
    return changed.select("a.*", F.lit(False).alias("_tombstone"))


def changes(spark: SparkSession, layout: Layout, table: Table, forms: list[Form], at: int) -> DataFrame:
    """Return an intervention's changes for the changelog, at positions of its own: (at, 0, "", -1, n, 0)."""
    rows = correction(spark, layout, table, forms, at)
    order = Window.orderBy("window_end", "window_start", *[item.name for item in table.group_by])
    number = F.row_number().over(order) - 1
    position = F.struct(F.lit(at), F.lit(0), F.lit(""), F.lit(-1), number, F.lit(0)).cast(POSITION_TYPE)
    time = F.unix_millis("_event_time")
    return rows.withColumns({"_position": position, "_event_time_ms": time}).drop("_event_time")


def _refolded(spark: SparkSession, layout: Layout, table: Table, forms: list[Form], at: int) -> DataFrame:
    """The affected rows, folded with everything that counts at tick `at`."""
    bronze = past.arrived(spark, layout, table, NO_TICK, at, tables.skipped_offsets(spark, layout, table))
    stream = stream_frame(table.stream, bronze)
    records = arrivals(table, forms, stream, ClockState())
    counted = interventions.corrected(spark, layout, table.name, at)
    decided = interventions.corrected(spark, layout, table.name, at, only=True)
    assert counted is not None
    assert decided is not None
    forced = F.col("_forced").isNotNull()
    records = _marked(records, counted).withColumn(
        "_horizon", F.when(forced, F.lit(ALWAYS_MS)).otherwise(F.col("_horizon"))
    )
    affected = in_windows(table, _marked(records.drop("_forced"), decided).where(forced)).select(*table.key).distinct()
    affected = affected.persist()
    if in_sql(table):
        taken = in_windows(table, records).where(~F.col("_late"))
        rows = merge.rows(table, forms, batch(table, forms, _among(taken, affected, table.key)))
    else:
        names = tuple(item.name for item in table.group_by)
        folded = keyed.keyed(table, forms, _among(records, affected.select(*names).distinct(), names), None)
        rows = _among(keyed.steps(table, forms, folded).drop("_step", "_tombstone"), affected, table.key)
    clock = past.clock_at(spark, layout, table, at - 1)
    if clock is None or clock.watermark is None or table.window is None:
        return rows
    if table.retention is not None:
        rows = rows.where(~ended(clock.watermark - table.retention))
    if table.is_final:
        rows = rows.where(F.unix_millis("window_end") + table.window.closes(Span(0, 0)) <= clock.watermark)
    return rows


def _marked(records: DataFrame, some: DataFrame) -> DataFrame:
    """Mark with `_forced` the records whose places are in `some`."""
    places = F.broadcast(some.withColumn("_forced", F.lit(True))).alias("p")
    same = [F.col(f"r._position.{name}") == F.col(f"p.{name}") for name in PLACE]
    return records.alias("r").join(places, same, "left").select("r.*", "p._forced")


def _among(rows: DataFrame, keys: DataFrame, names: tuple[str, ...]) -> DataFrame:
    return rows.alias("r").join(keys.alias("k"), same_key(names, "r", "k"), "left_semi")
