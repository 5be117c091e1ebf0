"""Silver tables: their columns, their creation, and the check that a table matches its plan.

A row has the key columns, the value columns, and hidden columns, which start with an underscore:

    _acc_<name>   accumulators, where the visible columns can't serve as them
    _event_time   the largest event time of the row's records (latest: of the last one)
    _position     the position of the last record that was applied to the row (final results: that closed its window)

If a table keeps more than its visible rows (open windows of final results, groups that HAVING leaves out, markers of
deletes), the rows are kept in a separate table, the state, below the lake's folder `state`. That of `order_by` has
more columns: `lakehouse.spark.fold.latest_by_order`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse.errors import PlanError
from lakehouse.lake.place import TablePlace
from lakehouse.lake.properties import BEGAN, KEY, NEW_DECLARATION
from lakehouse.plan.aggregation import bind_types
from lakehouse.plan.evolution.change import change_of, declaration_properties, explain_refusal
from lakehouse.plan.expression.schema import POSITION_TYPE
from lakehouse.plan.names.field import in_backticks
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table
from lakehouse.spark.bronze import interventions
from lakehouse.spark.bronze.bronze import SCHEMA
from lakehouse.spark.expression.declared import column_of
from lakehouse.spark.fold.fold_choice import choose_fold
from lakehouse.spark.fold.forms.aggregates import Form, form_of
from lakehouse.spark.fold.forms.undo import row_form
from lakehouse.spark.fold.table_fold import TableFold, parse_fields
from lakehouse.spark.jvm import folders
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.stream.decoded import decode_records
from lakehouse.spark.stream.streams import stream_frame
from lakehouse.spark.transaction import is_delta_table, new_table, read_properties, set_properties

HIDDEN = f"_event_time timestamp, _position {POSITION_TYPE}"
PROPERTIES = {
    "delta.enableChangeDataFeed": "true",
    "delta.checkpointInterval": "100",
    # Copy on write: any plain Delta reader sees the right rows, and deletion vectors did not help small tables.
    "delta.enableDeletionVectors": "false",
    # The state of a table at a time must not depend on when a log's files were copied.
    "delta.enableInCommitTimestamps": "true",
}

Answer = TypeVar("Answer")
ANSWERS_MAX = 1_000
# By the question, the Spark application and the table's id. While a table is held here, no other gets its id.
_ANSWERS: dict[tuple[str, str, int], tuple[Table, object]] = {}


def empty_stream(spark: SparkSession, stream: Stream) -> DataFrame:
    """Return a stream's frame without rows, to learn its types."""
    empty_rows = spark.createDataFrame([], SCHEMA)
    return stream_frame(stream, lambda source: decode_records(source, empty_rows), upstream_tables=_EmptyTables(spark))


class _EmptyTables:
    """Tables without changes and rows."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def changes(self, table: Table) -> DataFrame:
        frame = self._spark.createDataFrame([], visible_schema(self._spark, table))
        time, number = F.lit(0).cast("bigint"), F.lit(0)
        return frame.withColumns({"_tombstone": F.lit(False), "_event_time_ms": time, "_number": number})

    def rows(self, table: Table, keys: DataFrame | None) -> DataFrame | None:
        return None

    def history(self, table: Table, keys: DataFrame) -> tuple[DataFrame, DataFrame | None]:
        return self.changes(table), None

    def hold(self, frame: DataFrame) -> DataFrame:
        return self._spark.createDataFrame([], frame.schema)


def aggregate_forms(spark: SparkSession, table: Table) -> list[Form]:
    """Return the forms of a table's aggregations, with the types that Spark gives their arguments; none for `latest`.

    Raises PlanError for an argument whose type does not fit.
    """
    return list(_ask_once("forms", spark, table, _derive_forms)) if table.fold.aggregations else []


def table_fold(spark: SparkSession, table: Table) -> TableFold:
    """Return how a table's records are folded, with the types that Spark gives its aggregations."""
    return choose_fold(table, aggregate_forms(spark, table))


def visible_schema(spark: SparkSession, table: Table) -> StructType:
    """Return the schema of a silver table."""
    return StructType(list(_ask_once("schema", spark, table, _derive_schema)))


def _ask_once(question: str, spark: SparkSession, table: Table, ask: Callable[[SparkSession, Table], Answer]) -> Answer:
    """Ask Spark about a table's types, once: planning a long chain of tables takes seconds."""
    answer_key = question, spark.sparkContext.applicationId, id(table)
    answer = _ANSWERS.get(answer_key)
    if answer is None:
        if len(_ANSWERS) >= ANSWERS_MAX:
            _ANSWERS.clear()
        answer = _ANSWERS[answer_key] = table, ask(spark, table)
    return cast("Answer", answer[1])


def _derive_forms(spark: SparkSession, table: Table) -> list[Form]:
    frame = empty_stream(spark, table.stream)
    derived_forms = []
    for item in table.fold.aggregations:
        type_name = ""
        if item.argument is not None:
            type_name = frame.select(column_of(item.argument).alias("x")).schema["x"].dataType.simpleString()
        try:
            derived_forms.append(
                row_form(item, bind_types(item, type_name)) if item.undoes else form_of(item, type_name)
            )
        except PlanError as error:
            raise PlanError(f"table {table.name!r}: {error}") from error
    return derived_forms


def _derive_schema(spark: SparkSession, table: Table) -> StructType:
    visible_fields = table_fold(spark, table).visible_fields(empty_stream(spark, table.stream))
    return StructType([*visible_fields, *parse_fields(HIDDEN)])


def state_schema(spark: SparkSession, table: Table) -> StructType:
    """Return the schema of the rows that a table keeps."""
    return StructType([*visible_schema(spark, table), *parse_fields(choose_fold(table).state_columns)])


def create_table(open_table: OpenTable, *, swapped: bool = False) -> None:
    """Create a silver table, or check that the existing one can go on under this declaration, and record that.

    swapped: its content is about to become that of the declaration. Raises PlanError if it can't go on.
    """
    table = open_table.table
    remove_unfinished(open_table)
    if not open_table.table_exists():
        # Its folder may have been removed to rebuild it: then all else that is left of it is removed as well. Reads of
        # the past would begin at its anchors, although their rows may be what it was rebuilt for.
        layout = open_table.layout
        for table_path in (layout.state(table.name), open_table.late, layout.anchors(table.name)):
            folders.remove_folder(open_table.spark, table_path)
    _create_place(open_table, open_table.visible, visible_schema, swapped=swapped)
    if open_table.state != open_table.visible:
        _create_place(open_table, open_table.state, state_schema, swapped=swapped)


def _create_place(
    open_table: OpenTable,
    table_place: TablePlace,
    schema_of: Callable[[SparkSession, Table], StructType],
    *,
    swapped: bool,
) -> None:
    spark, table = open_table.spark, open_table.table
    if is_delta_table(spark, table_place.path):
        present_properties, declared_properties = (
            read_properties(spark, table_place.path),
            declaration_properties(table),
        )
        change = change_of(present_properties, table)
        if swapped:
            _add_columns(spark, table_place, schema_of(spark, table))
        elif not change.can_go_on:
            raise PlanError(explain_refusal(table.name, change))
        elif changed_columns := _changed_hidden_columns(spark, table_place, schema_of(spark, table)):
            raise PlanError(_other_layout_refusal(table, changed_columns))
        if {name: present_properties.get(name) for name in declared_properties} != declared_properties:
            set_properties(spark, table_place.path, declared_properties, NEW_DECLARATION)
        return
    builder = new_table(spark, table_place.path, schema_of(spark, table))
    for name, value in _table_properties(table).items():
        builder = builder.property(name, value)
    if table.stream.reads:
        builder = builder.property(BEGAN, str(interventions.last_intervention_tick(open_table.lake)))
    builder.execute()


def _changed_hidden_columns(
    spark: SparkSession, table_place: TablePlace, columns: StructType
) -> list[tuple[str, str, str]]:
    """Return the hidden columns that a table has in another type than it would now: name, old type, new type."""
    hidden_fields = [field for field in columns if field.name == "_position" or field.name.startswith("_acc_")]
    present_types = {field.name: field.dataType for field in spark.read.format("delta").load(table_place.path).schema}
    return [
        (
            field.name,
            present_types[field.name].simpleString() if field.name in present_types else "nothing",
            field.dataType.simpleString(),
        )
        for field in hidden_fields
        if present_types.get(field.name) != field.dataType
    ]


def _other_layout_refusal(table: Table, changed_columns: list[tuple[str, str, str]]) -> str:
    return "\n".join(
        [
            f"table {table.name!r} has hidden columns of another layout (another release of lakehouse or Spark wrote "
            "it), and can't go on here:",
            *(f"  {name}: found {old_type}; expected {new_type}" for name, old_type, new_type in changed_columns),
            f"Use that release. Or declare the table under another name: it is built from bronze, while {table.name} "
            f"stays. Or stop its job, remove the folders silver/{table.name} and anchors/{table.name} of the lake and "
            "run the application: it is built from bronze under its own name.",
        ]
    )


def _add_columns(spark: SparkSession, table_place: TablePlace, columns: StructType) -> None:
    present_schema = spark.read.format("delta").load(table_place.path).schema
    new_fields = [field for field in columns if field.name not in present_schema.names]
    if new_fields:
        column_list = ", ".join(f"{in_backticks(field.name)} {field.dataType.simpleString()}" for field in new_fields)
        spark.sql(f"ALTER TABLE delta.{in_backticks(table_place.path)} ADD COLUMNS ({column_list})")


def swap_refusal(open_table: OpenTable) -> str | None:
    """Say why a table can't become what its present declaration says; None if it can."""
    table = open_table.table
    if not open_table.table_exists():
        return f"table {table.name!r} does not exist. Run its application; it is built from bronze."
    present_properties = read_properties(open_table.spark, open_table.visible.path)
    change = change_of(present_properties, table)
    present_schema = open_table.lake.read(open_table.visible.path).schema
    declared_schema = visible_schema(open_table.spark, table)
    gone_names = sorted(set(present_schema.names) - set(declared_schema.names))
    changed_names = [
        field.name
        for field in declared_schema
        if field.name in present_schema.names and present_schema[field.name].dataType != field.dataType
    ]
    state_differs = open_table.lake.exists(open_table.layout.state(table.name)) != (len(open_table.places) > 1)
    if change.kind == "new_table" or gone_names or changed_names or state_differs:
        differences = [*change.reasons, *(f"column {name}: is no longer declared" for name in gone_names)]
        differences += [f"column {name}: has another type" for name in changed_names]
        differences += ["its state, which people don't see, begins or ends to be a table of its own"] * state_differs
        return "\n".join(
            [
                f"table {table.name!r} can't become what is declared now; its readers would find another table:",
                *(f"  {reason}" for reason in differences),
                "Declare it under another name: it is built from bronze.",
            ]
        )
    return None


def remove_unfinished(open_table: OpenTable) -> None:
    """Remove the files that a killed restore of the table left: Delta creates no table in a folder with stray files.

    Without the mark of a restore nothing is removed: the files could be a table whose log is lost. Call it under the
    table's lease.
    """
    if folders.folder_exists(open_table.spark, restore_mark := open_table.layout.restore_mark(open_table.name)):
        unfinished_paths = (
            () if open_table.table_exists() else (open_table.visible.path, open_table.layout.state(open_table.name))
        )
        for table_path in (*unfinished_paths, restore_mark):
            folders.remove_folder(open_table.spark, table_path)


def create_filled(
    frame: DataFrame, open_table: OpenTable, table_place: TablePlace, begin_properties: dict[str, str]
) -> None:
    """Create a silver table, or its state, with rows, hidden columns too, in one commit: whole or not at all.

    table_place: which of the table's places. begin_properties: where the table goes on: `SKIP`, the offsets that the
    rows hold already, `RESTORED`, and `CLOCK`.
    """
    writer = frame.writeTo(f"delta.`{table_place.path}`").using("delta")
    for name, value in {**_table_properties(open_table.table), **begin_properties}.items():
        writer = writer.tableProperty(name, value)
    writer.create()


def _table_properties(table: Table) -> dict[str, str]:
    return {**PROPERTIES, **declaration_properties(table), KEY: ",".join(table.key)}
