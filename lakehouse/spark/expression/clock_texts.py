"""Finds texts that Spark would read as timestamps on its own, by the casts that it inserts.

For a cast that the user wrote, `lakehouse.spark.expression.declared` turns a text with a time and no day ("12:30" would
be today's) into a null. Nothing does that for a cast that Spark inserts, because a text meets a timestamp: such an
expression is refused before the first tick.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType, TimestampType

from lakehouse.errors import PlanError
from lakehouse.plan.expression.expression import Expression
from lakehouse.plan.refused.place import message_with_place
from lakehouse.spark.expression.declared import TIME_ALONE, guarded_tree, moment_places
from lakehouse.spark.expression.explained_casts import explain_casts
from lakehouse.spark.jvm.tree.analysis import ResolvedCast, find_casts


def check_casts(frame: DataFrame, label: str, items: Iterable[Expression]) -> None:
    """Raise PlanError for an expression over the frame's columns that reads a text as a timestamp without a cast."""
    for item in items:
        if item.is_column:
            continue
        casts = find_casts(frame, guarded_tree(item.text))
        for cast in explain_casts(frame, item.text, moment_places) if casts is None else casts:
            if _makes_moment(cast.source, cast.target) and not _is_whole_moment(cast):
                message = (
                    f"{label}: {item.text!r} makes Spark read {cast.text} as a timestamp: '12:30' would be of "
                    "the day on which it is read. Cast the text alone: cast(... AS timestamp)."
                )
                raise PlanError(message_with_place(message, item.place))


def _is_whole_moment(cast: ResolvedCast) -> bool:
    """Say whether a cast's argument is never a text with a time and no day: a guard makes such a text null."""
    if cast.literal is not None:
        return re.match(TIME_ALONE, cast.literal) is None
    return cast.condition is not None and TIME_ALONE in cast.condition


def _makes_moment(source: DataType, target: DataType) -> bool:
    """Say whether one type has a text where the other has a timestamp."""
    match source, target:
        case StringType(), TimestampType():
            return True
        case ArrayType(), ArrayType():
            return _makes_moment(source.elementType, target.elementType)
        case MapType(), MapType():
            return _makes_moment(source.keyType, target.keyType) or _makes_moment(source.valueType, target.valueType)
        case StructType(), StructType():
            field_pairs = zip(source, target, strict=True)
            return any(_makes_moment(first.dataType, second.dataType) for first, second in field_pairs)
    return False
