"""Python functions over Arrow arrays, for the model: called for one record at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakehouse.errors import NeedsSpark
from lakehouse.model.evaluate import evaluate
from lakehouse.plan.step import Map

ARROW_NAMES = {"tinyint": "int8", "smallint": "int16", "int": "int32", "bigint": "int64", "boolean": "bool_",
               "float": "float32", "double": "float64", "string": "string", "binary": "binary"}  # fmt: skip


def call_map_function(step: Map, column_values: Mapping[str, Any]) -> Any:
    """Return the function's result for one record; None if it fails. Raises NeedsSpark for a type of Spark alone."""
    import pyarrow as pa

    if step.type not in ARROW_NAMES:
        raise NeedsSpark(f"map {step.name}: the model has no arrays of {step.type}; run this on Spark.")
    argument_arrays = [pa.array([evaluate(argument, column_values)]) for argument in step.arguments]
    try:
        result_array = step.function(*argument_arrays)
        return pa.array(result_array, type=getattr(pa, ARROW_NAMES[step.type])()).to_pylist()[0]
    except Exception:  # any error of a user's function gives a null, as on Spark
        return None
