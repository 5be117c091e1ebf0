"""Interventions: decisions made by hand, each appended with the tick at which it takes effect.

Why repairs are a log: docs/decisions/repairs-are-interventions.md.

A rebuild folds bronze plus interventions, and nothing else. An intervention has a tick of its own, which holds no
records, so a table at the tick before it is the table without it. Kinds:

    late     these late records of a table are taken in after all, each at its original position
    fixed    these records, which did not fit their schema, count with other bytes, each at its original position
    refold   the rows that these records (of a range of times or offsets) touch are rebuilt from bronze
    revert   the table becomes what it was at an earlier moment
    swap     the table becomes the one that was built beside it, from bronze

`LOG` is the schema of the log, with one row for each table and intervention; `RECORDS` that of the records that an
intervention is about, if any.
"""

from __future__ import annotations

import json
import os
import pwd
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from lakehouse.errors import StorageError
from lakehouse.lake.commit_metadata import BronzeTick, InterventionCommit
from lakehouse.lake.moment.older_bronze import refuse_older_bronze
from lakehouse.lake.place import intervention_log_place
from lakehouse.plan.expression.schema import ORDINALS_TYPE
from lakehouse.semantics.commit_number import NO_TICK, Progress
from lakehouse.spark.bronze import bronze
from lakehouse.spark.bronze.bronze import BronzeState
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.transaction import (
    append,
    append_empty_commit,
    check_epoch,
    is_delta_table,
    new_table,
    open_epoch,
)

Kind = Literal["late", "fixed", "refold", "revert", "swap"]
LOG = (
    "at bigint, id string, table string, kind string, reason string, decided_at timestamp, details string, "
    "decided_by string"
)
# Of a late record, only the place; a fixed record is a whole row of bronze.
RECORDS = f"id string, ordinals {ORDINALS_TYPE}, {bronze.SCHEMA}"


@dataclass(frozen=True, slots=True)
class Intervention:
    """An intervention in a table: it takes effect at tick `at`."""

    at: int
    id: str
    kind: Kind
    details: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    by: str = ""


def deciding_person(name: str | None = None) -> str:
    """Return who decides: the name, if one is given, and the operating system's user of this process."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # in a container a user may have only a number
        user = str(os.getuid())
    return f"{name} (user {user})" if name else user


@dataclass(frozen=True, slots=True)
class InterventionRequest:
    """A request for an intervention in these tables.

    details: of all tables. id: that of its records, if any. by: see `deciding_person`. table_details: further details,
    by table.
    """

    kind: Kind
    tables: tuple[str, ...]
    details: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    by: str = field(default_factory=deciding_person)
    table_details: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def keep_records(lake: OpenLake, records: DataFrame) -> str:
    """Append the records of an intervention that is about to be recorded; return its id."""
    intervention_id = uuid.uuid4().hex
    _create_table(lake.spark, lake.layout.intervention_records, RECORDS)
    record_rows = records.withColumn("id", F.lit(intervention_id))
    column_names = [name for name in lake.spark.createDataFrame([], RECORDS).columns if name in record_rows.columns]
    record_rows.select(*column_names).coalesce(1).write.format("delta").mode("append").save(
        lake.layout.intervention_records
    )
    return intervention_id


def record_intervention(lake: OpenLake, state: BronzeState, request: InterventionRequest) -> BronzeState:
    """Record an intervention, and append its tick; return bronze's state after that tick.

    state: bronze as its writer knows it. The tick comes last, so that every reader of the tick finds its intervention.
    After a crash in between, the next writer of bronze appends the tick.
    """
    check_complete(lake, state)
    _create_table(lake.spark, lake.layout.interventions, LOG)
    tick, decided_at = state.tick + 1, datetime.now(UTC)
    rows = []
    for table in request.tables:
        details = json.dumps({**request.details, **request.table_details.get(table, {})})
        rows.append((tick, request.id, table, request.kind, request.reason, decided_at, details, request.by))
    frame = lake.spark.createDataFrame(rows, LOG).coalesce(1)
    # Only the owner of bronze's epoch may write here: another writer's tick must not become an intervention afterwards.
    # Checked once the log exists: from then on, a writer that takes over bronze opens the log's epoch as well.
    check_epoch(lake.spark, lake.bronze, state.epoch)
    logged = InterventionCommit(operation=request.kind)
    append(frame, intervention_log_place(lake.layout), Progress(state.epoch, tick), logged)
    return _append_tick(lake, state)


def last_intervention_tick(lake: OpenLake) -> int:
    """Return the tick of the last intervention in any table; 0 if there is none."""
    if not lake.exists(lake.layout.interventions):
        return NO_TICK
    return lake.progress(intervention_log_place(lake.layout)).tick


def intervention_tick(lake: OpenLake, id: str) -> int | None:
    """Return the tick of an intervention; None if it is not recorded yet."""
    if not lake.exists(lake.layout.interventions):
        return None
    row = lake.read(lake.layout.interventions).where(F.col("id") == id).agg(F.min("at")).first()
    return None if row is None else row[0]


def take_over_bronze(lake: OpenLake) -> BronzeState:
    """Open the next epoch of bronze, see `open_bronze_epoch`; append interventions' ticks that a crash left out.

    Raises StorageError for a bronze that is older than what was made from it.
    """
    refuse_older_bronze(lake.layout)
    state = bronze.open_bronze_epoch(lake)
    if lake.exists(lake.layout.interventions):
        open_epoch(lake.spark, intervention_log_place(lake.layout), state.epoch)
    return append_missing_ticks(lake, state)


def append_missing_ticks(lake: OpenLake, state: BronzeState) -> BronzeState:
    """Append the ticks of interventions that are recorded and have none; return bronze's state after them."""
    last_tick = last_intervention_tick(lake)
    while state.tick < last_tick:
        state = _append_tick(lake, state)
    return state


def check_complete(lake: OpenLake, state: BronzeState) -> None:
    """Raise StorageError if a killed ingest left a tick half written: only ingest can complete it."""
    for topic in bronze.half_written_topics(lake, state.tick):
        raise StorageError(
            f"bronze: topic {topic!r} has tick {state.tick + 1}, which is not complete: ingest was ended while it "
            "wrote. Run the application that ingests once; it completes the tick."
        )


def read_interventions(lake: OpenLake, table: str) -> list[Intervention]:
    """Return the interventions in a table, in order.

    For a table that is built beside the live one, these are what bronze lacks: late records and fixed ones.
    """
    if not lake.exists(lake.layout.interventions):
        return []
    rows = lake.read(lake.layout.interventions).where(F.col("table") == table).orderBy("at")
    rows = rows if lake.layout.beside is None else rows.where(F.col("kind").isin("late", "fixed"))
    rows = rows.select("at", "id", "kind", "details", "reason", F.col("decided_by").alias("by"))
    return [Intervention(**{**row.asDict(), "details": json.loads(row["details"])}) for row in rows.collect()]


def has_intervention_between(lake: OpenLake, table: str, after_tick: int, to_tick: int) -> bool:
    """Say whether there is an intervention in a table in the ticks (after, up_to]."""
    return (
        to_tick > after_tick
        and last_intervention_tick(lake) > after_tick
        and any(after_tick < intervention.at <= to_tick for intervention in read_interventions(lake, table))
    )


def read_intervention_records(lake: OpenLake, interventions: Iterable[Intervention]) -> DataFrame | None:
    """Return the records of these interventions; None if they have none."""
    intervention_ids = [intervention.id for intervention in interventions]
    if not intervention_ids or not lake.exists(lake.layout.intervention_records):
        return None
    return lake.read(lake.layout.intervention_records).where(F.col("id").isin(intervention_ids))


def read_fixed_records(lake: OpenLake, interventions: Iterable[Intervention]) -> DataFrame | None:
    """Return the records to which these interventions give other bytes, as rows of bronze; None if there are none.

    A record that was fixed more than once has its newest bytes.
    """
    fixes = [intervention for intervention in interventions if intervention.kind == "fixed"]
    fixed_records = read_intervention_records(lake, fixes)
    if fixed_records is None or len(fixes) == 1:
        return fixed_records if fixed_records is None else fixed_records.select(*bronze.COLUMNS)
    ticks_by_id = lake.spark.createDataFrame(
        [(intervention.id, intervention.at) for intervention in fixes], "id string, _at bigint"
    )
    newest_first = Window.partitionBy("topic_id", "partition", "offset").orderBy(F.desc("_at"))
    fixed_records = fixed_records.join(F.broadcast(ticks_by_id), "id").withColumn(
        "_newest", F.row_number().over(newest_first)
    )
    return fixed_records.where("_newest = 1").select(*bronze.COLUMNS)


def read_fixed_in_stream(lake: OpenLake, streams: Iterable[str], after_tick: int, to_tick: int) -> DataFrame | None:
    """Return the records of the named streams that were fixed in the ticks (after, up_to], as rows of bronze."""
    if last_intervention_tick(lake) <= after_tick:
        return None
    rows = lake.read(lake.layout.interventions).where(F.col("kind") == "fixed")
    stream_names, interventions_by_id = set(streams), dict[str, Intervention]()
    rows = rows.where((F.col("at") > after_tick) & (F.col("at") <= to_tick))
    for row in rows.select("at", "id", "details").distinct().collect():
        details = json.loads(row["details"])
        if details.get("stream") in stream_names:
            interventions_by_id[row["id"]] = Intervention(row["at"], row["id"], "fixed", details)
    return read_fixed_records(lake, interventions_by_id.values())


def _append_tick(lake: OpenLake, state: BronzeState) -> BronzeState:
    """Append a tick without records; return bronze's state after it."""
    next_state = replace(state, tick=state.tick + 1)
    target = Progress(next_state.epoch, next_state.tick)
    content = BronzeTick(topics=next_state.topics, operation="intervention")
    append_empty_commit(lake.spark, lake.bronze, target, content)
    return next_state


def _create_table(spark: SparkSession, path: str, columns: str) -> None:
    if not is_delta_table(spark, path):
        new_table(spark, path, columns).execute()
