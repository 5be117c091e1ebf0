"""Spark checks an application before anything is written: what only Spark can tell about its expressions.

There is no JVM when a declaration is made; an expression whose type could not be told then is refused here if it is
wrong, before the first tick, with the step and Spark's reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructType
from sqlglot import exp

from lakehouse.errors import PlanError
from lakehouse.plan.alert import Crossings
from lakehouse.plan.app import App
from lakehouse.plan.expression import Expression
from lakehouse.plan.names.field import check_names
from lakehouse.plan.operator import Having
from lakehouse.plan.origin import Source
from lakehouse.plan.refused.place import Place, placed
from lakehouse.plan.schema import distinct
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table
from lakehouse.spark.table import clocked, tables

PATTERNS = (
    exp.RegexpLike,
    exp.RegexpILike,
    exp.RegexpReplace,
    exp.RegexpExtract,
    exp.RegexpExtractAll,
    exp.RegexpSplit,
)


def check(spark: SparkSession, app: App) -> None:
    """Raise PlanError for an application with an expression that Spark can't take."""
    given = [*(sink.of for sink in app.sinks), *(sink.of for sink in app.functions)]
    published = (of for of in given if isinstance(of, Stream))
    for stream in distinct((*(table.stream for table in app.tables), *published)):
        _check_stream(spark, stream)
    for table in app.tables:
        _check_table(spark, table)


def _check_stream(spark: SparkSession, stream: Stream) -> None:
    for part in stream.source.parts:
        _check_stream(spark, part)
    if isinstance(stream.source, Crossings):
        _check_patterns(spark, stream.what, stream.source.when)
        rows = spark.createDataFrame([], tables.schema(spark, stream.source.table))
        _check_items(rows, stream.what, [stream.source.when])
    for step in stream.steps:
        for item in step.expressions:
            _check_patterns(spark, stream.what, item)
    try:
        tables.empty_stream(spark, stream)
    except AnalysisException as error:
        raise PlanError(_first_that_fails(spark, stream, error)) from error
    if isinstance(stream.source, Source) and stream.source.event_time is not None:
        clocked.check(_before(spark, stream, 0), f"{stream.what}: event_time", [stream.source.event_time])
    for number, step in enumerate(stream.steps):
        if any(not item.is_column for item in step.expressions):
            clocked.check(_before(spark, stream, number), stream.what, step.expressions)


def _first_that_fails(spark: SparkSession, stream: Stream, error: AnalysisException) -> str:
    """The message about the first of a stream's steps that Spark does not accept."""
    for number, step in enumerate(stream.steps):
        try:
            _before(spark, stream, number + 1)
        except AnalysisException as found:
            texts = ", ".join(repr(item.text) for item in step.expressions)
            said = f"{stream.what}: {type(step).__name__.lower()}: Spark can't take {texts}: {_reason(found)}"
            return placed(said, _place(step.expressions))
    return f"{stream.what}: Spark can't take it: {_reason(error)}"


def _before(spark: SparkSession, stream: Stream, number: int) -> DataFrame:
    """A stream's frame before one of its steps, without rows."""
    return tables.empty_stream(spark, replace(stream, steps=stream.steps[:number]))


def _check_table(spark: SparkSession, table: Table) -> None:
    what = f"table {table.name!r}"
    of_stream = table.fold.expressions
    having = [item.predicate for item in table.behind if isinstance(item, Having)]
    for item in [*of_stream, *having]:
        _check_patterns(spark, what, item)
    try:
        _check_items(tables.empty_stream(spark, table.stream), what, of_stream)
        kept = tables.schema(spark, table)
        for column in kept:
            _check_names(column.dataType, f"{what}: column {column.name!r}")
        _check_items(spark.createDataFrame([], kept), what, having)
    except AnalysisException as error:
        raise PlanError(f"{what}: Spark can't take it: {_reason(error)}") from error


def _check_names(kind: DataType, what: str) -> None:
    """Raise PlanError for names inside a type that Delta's tables can't have."""
    match kind:
        case StructType():
            check_names(kind.names, what)
            for field in kind:
                _check_names(field.dataType, what)
        case ArrayType():
            _check_names(kind.elementType, what)
        case MapType():
            _check_names(kind.keyType, what)
            _check_names(kind.valueType, what)


def _check_items(frame: DataFrame, what: str, items: Iterable[Expression]) -> None:
    for item in items:
        try:
            clocked.check(frame, what, [item])
        except AnalysisException as error:
            said = f"{what}: Spark can't take {item.text!r}: {_reason(error)}"
            raise PlanError(placed(said, item.place)) from error


def _check_patterns(spark: SparkSession, what: str, item: Expression) -> None:
    """Raise PlanError for a literal pattern that is not valid: it would be null for every record."""
    for node in item.tree.find_all(*PATTERNS):
        pattern = node.args.get("expression")
        if isinstance(pattern, exp.Literal) and pattern.is_string:
            try:
                _java(spark).util.regex.Pattern.compile(pattern.name)
            except IllegalArgumentException as error:
                said = str(error).split("\n", 1)[0]
                refused = f"{what}: {item.text!r}: {pattern.name!r} is not a pattern: {said}."
                raise PlanError(placed(refused, item.place)) from error


def _place(items: Iterable[Expression]) -> Place | None:
    """The line of the user's code that declares these expressions: one call, so the first one's."""
    return next((item.place for item in items), None)


def _java(spark: SparkSession) -> Any:
    return spark.sparkContext._jvm.java  # type: ignore[union-attr]


def _reason(error: AnalysisException) -> str:
    return str(error).split("\n", 1)[0].split(" SQLSTATE", 1)[0]
