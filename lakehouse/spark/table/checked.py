"""Checks an application on Spark before anything is written: what only Spark knows about its expressions.

A declaration is made without a JVM. An expression whose type was unknown then is refused here if it is wrong, before
the first tick, with the step and Spark's reason.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    DayTimeIntervalType,
    MapType,
    NullType,
    StringType,
    StructType,
    YearMonthIntervalType,
)
from sqlglot import exp

from lakehouse.errors import PlanError
from lakehouse.phases import phase
from lakehouse.plan.alert import Crossings
from lakehouse.plan.app import App, input_stream
from lakehouse.plan.expression.expression import Expression, name_text, parse_expression
from lakehouse.plan.expression.schema import without_duplicates
from lakehouse.plan.names.field import check_names
from lakehouse.plan.names.record_format import parse_format
from lakehouse.plan.operator import Having
from lakehouse.plan.origin import Merge, Source, TableJoin
from lakehouse.plan.refused.place import Place, message_with_place
from lakehouse.plan.registered.writable import unfit_map_keys
from lakehouse.plan.rows import ForeignKeyJoin, RowsJoin
from lakehouse.plan.spark_functions.table import function_named
from lakehouse.plan.stream import Stream
from lakehouse.plan.stream_join import StreamJoin
from lakehouse.plan.table import Sink, Table
from lakehouse.plan.written.parse import name_of_call
from lakehouse.spark.expression import clock_texts
from lakehouse.spark.expression.literal_formats import check_formats
from lakehouse.spark.fold.fold_choice import choose_fold
from lakehouse.spark.jvm.failure import READ_ERRORS
from lakehouse.spark.jvm.tree.analysis import pattern_fault
from lakehouse.spark.key_column import computed_keys
from lakehouse.spark.table import tables

# How Py4J begins an error of Java that PySpark does not translate.
JAVA_PREFIX = re.compile(r"An error occurred while calling \S+\s*: (?:[\w.$]+: )?")


@phase("checking the expressions")
def check_application(spark: SparkSession, app: App) -> None:
    """Raise PlanError for an application with an expression that Spark can't take."""
    for stream in without_duplicates(map(input_stream, app.declarations)):
        _check_stream(spark, stream)
    for table in app.tables:
        _check_table(spark, table)
    for sink in app.sinks:
        _check_map_keys(spark, sink)


def _check_stream(spark: SparkSession, stream: Stream) -> None:
    for part in stream.source.parts:
        _check_stream(spark, part)
    _check_types_that_meet(spark, stream)
    if isinstance(stream.source, Crossings):
        _check_patterns(spark, stream.label, stream.source.when)
        _check_items(_empty_table(spark, stream.source.table), stream.label, [stream.source.when])
    for step in stream.steps:
        for item in step.expressions:
            _check_patterns(spark, stream.label, item)
    if isinstance(stream.source, Source) and stream.source.expectations:
        _check_expectations(spark, stream, stream.source)
    try:
        tables.empty_stream(spark, stream)
    except READ_ERRORS as error:
        raise PlanError(_describe_failing_step(spark, stream, error)) from error
    if isinstance(stream.source, Source) and stream.source.event_time is not None:
        _check_items(_frame_before_step(spark, stream, 0), f"{stream.label}: event_time", [stream.source.event_time])
    for number, step in enumerate(stream.steps):
        if any(not item.is_column for item in step.expressions):
            _check_items(_frame_before_step(spark, stream, number), stream.label, step.expressions)


def _check_types_that_meet(spark: SparkSession, stream: Stream) -> None:
    """Raise PlanError for joins of keys, and merges of columns, of different types: Spark would convert one of them."""
    source = stream.source
    match source:
        case StreamJoin():
            _check_same_types(spark, stream, source.left.key, source.right.key)
            return
        case Merge():
            names = [column.name for column in stream.columns]
            _check_same_types(spark, stream, names, names)
            return
        case TableJoin():
            frame, expressions, table = tables.empty_stream(spark, source.stream), source.key_expressions, source.table
        case ForeignKeyJoin():
            frame, expressions, table = _empty_table(spark, source.left), source.key_expressions, source.right
        case RowsJoin():
            left = source.left
            expressions = tuple(parse_expression(name_text(name), left.columns, stream.label) for name in left.key)
            frame, table = _empty_table(spark, left), source.right
        case _:
            return
    for item in expressions:
        _check_patterns(spark, stream.label, item)
    try:
        computed_types = frame.select(*computed_keys(frame, expressions)).schema
    except READ_ERRORS as error:
        texts = ", ".join(repr(item.text) for item in expressions)
        raise PlanError(f"{stream.label}: Spark can't take {texts}: {_first_line(error)}") from error
    key_types = {field.name: field.dataType for field in tables.visible_schema(spark, table)}
    for item, computed, name in zip(expressions, computed_types, table.key, strict=True):
        found_type, expected_type = computed.dataType.simpleString(), key_types[name].simpleString()
        if found_type != expected_type:
            message = (
                f"{stream.label}: {item.text!r} is a {found_type}, and the key {name!r} of table {table.name!r} a "
                f"{expected_type}: they are never equal. Cast one of the two."
            )
            raise PlanError(message_with_place(message, item.place))


def _check_same_types(
    spark: SparkSession, stream: Stream, first_names: Sequence[str], other_names: Sequence[str]
) -> None:
    """Raise PlanError for streams whose columns, name by name, have different types: Spark would convert one of them.

    first_names: of the first of the parts. other_names: of each of the others. The plan has compared the types that it
    knows.
    """
    if all(column.type for part in stream.source.parts for column in part.columns):
        return
    first_types, *other_parts = [
        {field.name.lower(): field.dataType.simpleString() for field in tables.empty_stream(spark, part).schema}
        for part in stream.source.parts
    ]
    for types in other_parts:
        for first_name, other_name in zip(first_names, other_names, strict=True):
            first_type, other_type = first_types[first_name.lower()], types[other_name.lower()]
            if first_type != other_type:
                raise PlanError(
                    f"{stream.label}: {first_name!r} is a {first_type}, and {other_name!r} of the other stream a "
                    f"{other_type}. Cast one of the two."
                )


def _empty_table(spark: SparkSession, table: Table) -> DataFrame:
    return spark.createDataFrame([], tables.visible_schema(spark, table))


def _check_expectations(spark: SparkSession, stream: Stream, source: Source) -> None:
    unjudged_rows = _frame_before_step(spark, replace(stream, source=replace(source, expectations=())), 0)
    for expectation in source.expectations:
        label = f"{stream.label}: expect {expectation.name!r}"
        _check_patterns(spark, label, expectation.condition)
        _check_items(unjudged_rows, label, [expectation.condition])


def _describe_failing_step(spark: SparkSession, stream: Stream, error: Exception) -> str:
    """Return the message about the first step of a stream that Spark does not accept."""
    for number, step in enumerate(stream.steps):
        try:
            _frame_before_step(spark, stream, number + 1)
        except READ_ERRORS as step_error:
            texts = ", ".join(repr(item.text) for item in step.expressions)
            step_name, reason = type(step).__name__.lower(), _first_line(step_error)
            message = f"{stream.label}: {step_name}: Spark can't take {texts}: {reason}"
            return message_with_place(message, _first_place(step.expressions))
    return f"{stream.label}: Spark can't take it: {_first_line(error)}"


def _frame_before_step(spark: SparkSession, stream: Stream, step_number: int) -> DataFrame:
    """Return a stream's frame before one of its steps, without rows."""
    return tables.empty_stream(spark, replace(stream, steps=stream.steps[:step_number]))


def _check_table(spark: SparkSession, table: Table) -> None:
    label = f"table {table.name!r}"
    fold_expressions = table.fold.expressions
    having_predicates = [item.predicate for item in table.later_operators if isinstance(item, Having)]
    row_conditions = [*having_predicates, *(expectation.condition for expectation in table.expectations)]
    for item in [*fold_expressions, *row_conditions]:
        _check_patterns(spark, label, item)
    try:
        stream_rows = tables.empty_stream(spark, table.stream)
        _check_items(stream_rows, label, fold_expressions)
        choose_fold(table).check_types(stream_rows)
        table_schema = tables.visible_schema(spark, table)
        for column in table_schema:
            _check_type(column.dataType, f"{label}: column {column.name!r}")
        _check_items(spark.createDataFrame([], table_schema), label, row_conditions)
    except READ_ERRORS as error:
        raise PlanError(f"{label}: Spark can't take it: {_first_line(error)}") from error


def _check_type(data_type: DataType, label: str) -> None:
    """Raise PlanError for a type, or names inside of it, that a Delta table can't have."""
    match data_type:
        case DayTimeIntervalType() | YearMonthIntervalType() | CalendarIntervalType():
            raise PlanError(
                f"{label} has the type {data_type.simpleString()}, which a table can't keep. Keep a number, such as "
                "its days or seconds, or add it to a time."
            )
        case ArrayType(elementType=NullType()) | MapType(keyType=NullType()) | MapType(valueType=NullType()):
            raise PlanError(
                f"{label} has the type {data_type.simpleString()}: nothing tells the type of its parts, and a table "
                "can't keep it. Cast it, such as cast(array() as array<int>)."
            )
        case StructType():
            check_names(data_type.names, label)
            for field in data_type:
                _check_type(field.dataType, label)
        case ArrayType():
            _check_type(data_type.elementType, label)
        case MapType():
            _check_type(data_type.keyType, label)
            _check_type(data_type.valueType, label)


def _check_map_keys(spark: SparkSession, sink: Sink) -> None:
    """Raise PlanError for a map that is published with other keys than texts; the plan has judged the known types."""
    subject, unknown_names = sink.source, {column.name for column in sink.source.columns if not column.type}
    if not unknown_names:
        return
    schema = (
        tables.visible_schema(spark, subject)
        if isinstance(subject, Table)
        else tables.empty_stream(spark, subject).schema
    )
    for field in schema:
        for key_type in _map_key_types(field.dataType) if field.name in unknown_names else ():
            if not isinstance(key_type, StringType):
                place = f"to_topic({sink.topic!r}): column {field.name!r}"
                raise unfit_map_keys(parse_format(sink.format).traits, key_type.simpleString(), place)


def _map_key_types(data_type: DataType) -> Iterator[DataType]:
    match data_type:
        case StructType():
            for field in data_type:
                yield from _map_key_types(field.dataType)
        case ArrayType():
            yield from _map_key_types(data_type.elementType)
        case MapType():
            yield data_type.keyType
            yield from _map_key_types(data_type.valueType)


def _check_items(frame: DataFrame, label: str, items: Collection[Expression]) -> None:
    for item in items:
        try:
            clock_texts.check_casts(frame, label, [item])
        except READ_ERRORS as error:
            message = f"{label}: Spark can't take {item.text!r}: {_first_line(error)}"
            raise PlanError(message_with_place(message, item.place)) from error
    check_formats(frame, label, items)


def _check_patterns(spark: SparkSession, label: str, item: Expression) -> None:
    """Raise PlanError for an invalid literal pattern: its expression would be null for every record."""
    for pattern in _patterns(item):
        reason = pattern_fault(spark, pattern)
        if reason is not None:
            message = f"{label}: {item.text!r}: {pattern!r} is not a pattern: {reason}."
            raise PlanError(message_with_place(message, item.place))


def _patterns(item: Expression) -> Iterator[str]:
    """Return the texts, written in an expression, that Java reads as patterns."""
    for node in item.written_tree.find_all(exp.Anonymous, exp.RegexpLike, exp.RegexpILike):
        if isinstance(node, exp.Anonymous):
            name = name_of_call(node)
            # It becomes regexp_extract, which has the guards of a pattern.
            places = function_named("regexp_extract" if name == "regexp_substr" else name).patterns
            arguments = [node.expressions[place] for place in places if place < len(node.expressions)]
        else:
            arguments = [node.expression]
        yield from (argument.name for argument in arguments if isinstance(argument, exp.Literal) and argument.is_string)


def _first_place(items: Iterable[Expression]) -> Place | None:
    """Return the line of the user's code that declares these expressions, all in one call: that of the first."""
    return next((item.place for item in items), None)


def _first_line(error: Exception) -> str:
    """Return the first line with text of Spark's message: that about a text that it can't parse begins empty."""
    return JAVA_PREFIX.sub("", str(error).strip()).split("\n", 1)[0].split(" SQLSTATE", 1)[0]
