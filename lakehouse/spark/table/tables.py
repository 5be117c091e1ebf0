"""Silver tables: their columns, how they are created, and the check that a table is what its plan says.

A row has the key columns, the value columns, and hidden columns, which start with an underscore:

    _acc_<name>   accumulators, where the visible columns can't serve as them
    _event_time   the largest event time of the row's records (latest: of the last one)
    _position     the position of the last record that was applied to the row (final results: that closed its window)

If a table keeps more than its visible rows (open windows of final results, groups that HAVING leaves out, markers of
deletes), the rows are kept in a separate table, the state, below the lake's folder `state`; a state of `order_by`
has these, too:

    _order        the order of the row's record (for a timestamp: microseconds since the epoch)
    _deleted      true for a marker: the record was a delete
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from lakehouse.errors import PlanError
from lakehouse.lake.place import TablePlace
from lakehouse.lake.properties import BEGAN, KEY, NEW_DECLARATION
from lakehouse.plan.aggregation import bind
from lakehouse.plan.evolution.change import change_of, declared, refusal
from lakehouse.plan.operator import Aggregate, LatestBy
from lakehouse.plan.schema import POSITION_TYPE
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table
from lakehouse.spark import folders
from lakehouse.spark.bronze import interventions
from lakehouse.spark.bronze.bronze import SCHEMA
from lakehouse.spark.expressions import column_of
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.operators.aggregates import Form, form_of
from lakehouse.spark.operators.undo import row_form
from lakehouse.spark.stream.decoded import decoded
from lakehouse.spark.stream.streams import stream_frame
from lakehouse.spark.transaction import exists, new_table, properties, quoted, set_properties

HIDDEN = f"_event_time timestamp, _position {POSITION_TYPE}"
ORDER = "_order bigint, _deleted boolean"
PROPERTIES = {
    "delta.enableChangeDataFeed": "true",
    "delta.checkpointInterval": "100",
    # Copy on write: any plain Delta reader sees the right rows, and deletion vectors did not help small tables.
    "delta.enableDeletionVectors": "false",
    # What was known at a time must not depend on when a log's files were copied.
    "delta.enableInCommitTimestamps": "true",
}

Told = TypeVar("Told")
KNOWN_MAX = 1_000
# By the question, the Spark application and the table's id. A table that is held here leaves its id to no other one.
_KNOWN: dict[tuple[str, str, int], tuple[Table, object]] = {}


def empty_stream(spark: SparkSession, stream: Stream) -> DataFrame:
    """Return a stream's frame without rows, for its types."""
    nothing = spark.createDataFrame([], SCHEMA)
    return stream_frame(stream, lambda source: decoded(source, nothing), tables=_Empty(spark))


class _Empty:
    """Tables without changes and rows."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def changes(self, table: Table) -> DataFrame:
        frame = self._spark.createDataFrame([], schema(self._spark, table))
        time, number = F.lit(0).cast("bigint"), F.lit(0)
        return frame.withColumns({"_tombstone": F.lit(False), "_event_time_ms": time, "_number": number})

    def rows(self, table: Table, keys: DataFrame | None) -> DataFrame | None:
        return None

    def history(self, table: Table, keys: DataFrame) -> tuple[DataFrame, DataFrame | None]:
        return self.changes(table), None

    def held(self, frame: DataFrame) -> DataFrame:
        return self._spark.createDataFrame([], frame.schema)


def forms(spark: SparkSession, table: Table) -> list[Form]:
    """Return the forms of a table's aggregations, with the types that Spark gives their arguments; none for `latest`.

    Raises PlanError for an argument whose type does not fit.
    """
    return list(_known("forms", spark, table, _forms)) if table.fold.aggregations else []


def schema(spark: SparkSession, table: Table) -> StructType:
    """Return the schema of a silver table."""
    return StructType(list(_known("schema", spark, table, _schema)))


def _known(what: str, spark: SparkSession, table: Table, ask: Callable[[SparkSession, Table], Told]) -> Told:
    """What Spark says about a table's types, asked once: the plan of a long chain of tables costs it seconds."""
    place = what, spark.sparkContext.applicationId, id(table)
    known = _KNOWN.get(place)
    if known is None:
        if len(_KNOWN) >= KNOWN_MAX:
            _KNOWN.clear()
        known = _KNOWN[place] = table, ask(spark, table)
    return cast("Told", known[1])


def _forms(spark: SparkSession, table: Table) -> list[Form]:
    frame = empty_stream(spark, table.stream)
    made = []
    for item in table.fold.aggregations:
        kind = ""
        if item.argument is not None:
            kind = frame.select(column_of(item.argument).alias("x")).schema["x"].dataType.simpleString()
        try:
            made.append(row_form(item, bind(item, kind)) if item.undoes else form_of(item, kind))
        except PlanError as error:
            raise PlanError(f"table {table.name!r}: {error}") from error
    return made


def _schema(spark: SparkSession, table: Table) -> StructType:
    frame = empty_stream(spark, table.stream)
    hidden = _fields_of(HIDDEN)
    if not isinstance(table.fold, Aggregate):
        values = [c.name for c in table.stream.columns if c.name not in table.key]
        return StructType([*_fields(frame.select(*table.key, *values)), *hidden])
    keys = _fields(frame.select(*[column_of(item.expression).alias(item.name) for item in table.fold.by]))
    windows = _fields_of(", ".join(f"{name} timestamp" for name in table.windows)) if table.windows else []
    made = forms(spark, table)
    shown = _fields_of(", ".join(f"`{form.name}` {form.bound.shown}" for form in made))
    kept = [f"`{form.accumulator}` {form.bound.accumulator}" for form in made if form.bound.accumulator]
    return StructType([*keys, *windows, *shown, *(_fields_of(", ".join(kept)) if kept else []), *hidden])


def state_schema(spark: SparkSession, table: Table) -> StructType:
    """Return the schema of what a table keeps."""
    extra = _fields_of(ORDER) if isinstance(table.fold, LatestBy) else []
    return StructType([*schema(spark, table), *extra])


def _fields_of(ddl: str) -> list[StructField]:
    made = StructType.fromDDL(ddl)
    return list(made) if isinstance(made, StructType) else []


def _fields(frame: DataFrame) -> list[StructField]:
    return [StructField(field.name, field.dataType, True) for field in frame.schema]


def create(opened: OpenTable, *, swapped: bool = False) -> None:
    """Create a silver table, or check that the existing one can go on under this declaration, which is then recorded.

    swapped: its content is about to become that of the declaration. Raises PlanError if it can't go on.
    """
    table = opened.table
    remove_begun(opened)
    if not opened.exists:
        # Its folder may have been removed to rebuild it: then its state and its late records are removed as well.
        for path in (opened.layout.state(table.name), opened.late):
            folders.remove(opened.spark, path)
        _remove_earlier_anchors(opened)
    _create(opened, opened.visible, schema, swapped=swapped)
    if opened.state != opened.visible:
        _create(opened, opened.state, state_schema, swapped=swapped)


def _remove_earlier_anchors(opened: OpenTable) -> None:
    """Remove copies that an earlier release kept: their positions have another form. Bronze gives the same rows."""
    folder = opened.layout.anchors(opened.name)
    if opened.lake.exists(f"{folder}/kept"):
        fields = opened.lake.read(f"{folder}/kept").select("_position.*").columns
        if "ordinals" not in fields:
            folders.remove(opened.spark, folder)


def _create(
    opened: OpenTable,
    place: TablePlace,
    columns: Callable[[SparkSession, Table], StructType],
    *,
    swapped: bool,
) -> None:
    spark, table = opened.spark, opened.table
    if exists(spark, place.path):
        found, wanted = properties(spark, place.path), declared(table)
        change = change_of(found, table)
        if swapped:
            _add_columns(spark, place, columns(spark, table))
        elif not change.can_go_on:
            raise PlanError(refusal(table.name, change))
        elif other := _other_hidden(spark, place, columns(spark, table)):
            raise PlanError(_of_earlier_release(table, other))
        if {name: found.get(name) for name in wanted} != wanted:
            set_properties(spark, place.path, wanted, {"operation": NEW_DECLARATION})
        return
    builder = new_table(spark, place.path, columns(spark, table))
    for name, value in _properties(table).items():
        builder = builder.property(name, value)
    if table.stream.reads:
        builder = builder.property(BEGAN, str(interventions.decided(opened.lake)))
    builder.execute()


def _other_hidden(spark: SparkSession, place: TablePlace, columns: StructType) -> list[tuple[str, str, str]]:
    """The hidden columns that a table has in another type than it would now: name, old type, new type."""
    kept = [field for field in columns if field.name == "_position" or field.name.startswith("_acc_")]
    there = {field.name: field.dataType for field in spark.read.format("delta").load(place.path).schema}
    return [
        (
            field.name,
            there[field.name].simpleString() if field.name in there else "nothing",
            field.dataType.simpleString(),
        )
        for field in kept
        if there.get(field.name) != field.dataType
    ]


def _of_earlier_release(table: Table, other: list[tuple[str, str, str]]) -> str:
    return "\n".join(
        [
            f"table {table.name!r} was written by an earlier release of lakehouse, and can't continue under this one:",
            *(f"  {name}: found {was}; expected {now}" for name, was, now in other),
            "Earlier releases dropped digits of sums, and gave records made from one the same position if there were "
            "too many. Declare the table under another name: it is built from bronze, while "
            f"{table.name} stays. Or stop its job, remove the folder silver/{table.name} of the lake and run the "
            "application: it is built from bronze under its own name.",
        ]
    )


def _add_columns(spark: SparkSession, place: TablePlace, columns: StructType) -> None:
    there = spark.read.format("delta").load(place.path).schema
    new = [field for field in columns if field.name not in there.names]
    if new:
        added = ", ".join(f"{quoted(field.name)} {field.dataType.simpleString()}" for field in new)
        spark.sql(f"ALTER TABLE delta.{quoted(place.path)} ADD COLUMNS ({added})")


def swap_refusal(opened: OpenTable) -> str | None:
    """Say why a table can't become what its present declaration says; None if it can."""
    table = opened.table
    if not opened.exists:
        return f"table {table.name!r} does not exist. Run its application; it is built from bronze."
    found = properties(opened.spark, opened.visible.path)
    change = change_of(found, table)
    there = opened.lake.read(opened.visible.path).schema
    wanted = schema(opened.spark, table)
    gone = sorted(set(there.names) - set(wanted.names))
    other = [f.name for f in wanted if f.name in there.names and there[f.name].dataType != f.dataType]
    state_differs = opened.lake.exists(opened.layout.state(table.name)) != (len(opened.places) > 1)
    if change.kind == "new_table" or gone or other or state_differs:
        said = [*change.reasons, *(f"column {n}: is no longer declared" for n in gone)]
        said += [f"column {n}: has another type" for n in other]
        said += ["its state, which people don't see, begins or ends to be a table of its own"] * state_differs
        return "\n".join(
            [
                f"table {table.name!r} can't become what is declared now; its readers would find another table:",
                *(f"  {reason}" for reason in said),
                "Declare it under another name: it is built from bronze.",
            ]
        )
    return None


def remove_begun(opened: OpenTable) -> None:
    """Remove what a restore of the table left that was killed: Delta takes no folder with files that no commit names.

    Without the mark of a restore nothing is removed: it could be a table whose log is lost. Under the table's lease.
    """
    if folders.exists(opened.spark, mark := opened.layout.begun(opened.name)):
        begun = () if opened.exists else (opened.visible.path, opened.layout.state(opened.name))
        for path in (*begun, mark):
            folders.remove(opened.spark, path)


def create_filled(frame: DataFrame, opened: OpenTable, place: TablePlace, begins: dict[str, str]) -> None:
    """Create a silver table, or its state, with rows, hidden columns too, in one commit: whole or not at all.

    place: which of the table's places. begins: the properties that say where it goes on: `SKIP`, the offsets that the
    rows hold already, `RESTORED`, and `CLOCK`.
    """
    writer = frame.writeTo(f"delta.`{place.path}`").using("delta")
    for name, value in {**_properties(opened.table), **begins}.items():
        writer = writer.tableProperty(name, value)
    writer.create()


def _properties(table: Table) -> dict[str, str]:
    return {**PROPERTIES, **declared(table), KEY: ",".join(table.key)}
