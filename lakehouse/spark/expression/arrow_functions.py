"""Functions on Spark: Python over Arrow batches, sent to the workers from any module; and large literals."""

from __future__ import annotations

import json
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from inspect import signature
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, StringType, StructField, StructType

from lakehouse.plan.step import Map
from lakehouse.semantics.failures import error_text


def over_arrow(function: Callable[..., pa.Array], result: DataType | str) -> Callable[..., Column]:
    """Return a column function that runs a Python function over Arrow batches, one of each of its arguments."""
    _annotate(function, pa.Array)
    return cast(Callable[..., Column], cast(Any, arrow_udf)(function, result))


def over_arrow_in_turn(
    function: Callable[[Iterator[pa.Array]], Iterator[pa.Array]], result: DataType | str
) -> Callable[[Column], Column]:
    """Return a column function that runs a Python function over all Arrow batches of a task, one after the other."""
    _annotate(function, Iterator[pa.Array])
    return cast(Callable[[Column], Column], cast(Any, arrow_udf)(function, result))


def _annotate(function: Callable[..., Any], batch_type: object) -> None:
    """Give a function the hints by which Spark decides its kind: Spark does not find hints that are text (PEP 563)."""
    function.__annotations__ = dict.fromkeys([*signature(function).parameters, "return"], batch_type)


def spark_type(text: str) -> DataType:
    """Return a type written as Spark SQL."""
    return cast(StructType, StructType.fromDDL(f"x {text}"))[0].dataType


def arrow_type(kind: DataType) -> pa.DataType:
    """Return the Arrow type under which Spark passes a type to Python."""
    return to_arrow_type(kind, timezone="UTC")


def frame_of_rows(spark: SparkSession, schema: StructType, rows: list[tuple[Any, ...]]) -> DataFrame:
    """Return rows as a frame that keeps the order of maps' entries, which Spark's own way, by pickled rows, loses."""
    arrow = pa.schema(list(arrow_type(schema)))
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), arrow, strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(columns, schema=arrow), schema)


def literal_map(values: Mapping[str, Any], kind: str) -> Column:
    """Return a literal map, read from one JSON text, because thousands of literals are slow to plan."""
    return F.from_json(F.lit(json.dumps(values)), f"map<string, {kind}>")


def ship_by_value(function: Callable[..., Any] | None) -> None:
    """Let Spark send a user's function to the workers by value, unless they have its module installed."""
    name = getattr(function, "__module__", None)
    module = sys.modules.get(name) if name else None
    file = getattr(module, "__file__", None)
    if module is None or file is None or name == "__main__":
        return
    library_folders = [sysconfig.get_path(part) for part in ("stdlib", "purelib", "platlib")]
    if not any(Path(file).is_relative_to(folder) for folder in library_folders):
        cast(Any, cloudpickle).register_pickle_by_value(module)


def column_function_of_map(step: Map) -> Callable[[Column], Column]:
    """Return the column function of a `map`: over a struct of its arguments, to struct(value, error).

    A record on which the function fails gets a null, and the error's text; other records get no error.
    """
    ship_by_value(step.function)
    kind = spark_type(step.type)
    value_type, function = arrow_type(kind), step.function
    result_type = StructType([StructField("value", kind), StructField("error", StringType())])
    arrow_result = arrow_type(result_type)

    def run_batch(batch: pa.Array) -> pa.Array:
        try:
            return to_struct_array(call_function(batch), [None] * len(batch))
        except Exception:  # a user's function may raise anything: find the records on which it does
            return pa.concat_arrays([run_record(batch.slice(index, 1)) for index in range(len(batch))])

    def call_function(batch: pa.Array) -> pa.Array:
        values = function(*batch.flatten())
        values = values if isinstance(values, pa.Array) else pa.array(values, type=value_type)
        if len(values) != len(batch):
            raise ValueError(f"{len(values)} values for {len(batch)} records")
        result_values = values.cast(value_type)
        result_values.validate(full=True)  # else texts of bytes that are no UTF-8 would pass
        return result_values

    def run_record(record: pa.Array) -> pa.Array:
        try:
            return to_struct_array(call_function(record), [None])
        except Exception as error:  # this is the record: it gets a null
            return to_struct_array(pa.nulls(1, value_type), [error_text(error)])

    def to_struct_array(values: pa.Array, errors: list[str | None]) -> pa.Array:
        return pa.StructArray.from_arrays([values, pa.array(errors, type=pa.string())], fields=list(arrow_result))

    return over_arrow(run_batch, result_type)
