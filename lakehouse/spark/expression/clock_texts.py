"""Finds texts that Spark would read as timestamps on its own, by the casts that it inserts.

For a cast that the user wrote, `lakehouse.spark.expression.declared` turns a text with a time and no day ("12:30" would
be today's) into a null. Nothing does that for a cast that Spark inserts, because a text meets a timestamp: such an
expression is refused before the first tick.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import DataFrame

from lakehouse.errors import PlanError
from lakehouse.plan.expression import Expression
from lakehouse.plan.refused.place import message_with_place
from lakehouse.spark.expression.declared import column_of, is_whole_moment


def check_casts(frame: DataFrame, label: str, items: Iterable[Expression]) -> None:
    """Raise PlanError for an expression over the frame's columns that reads a text as a timestamp without a cast."""
    for item in items:
        if item.is_column:
            continue
        analyzed_plan = frame.select(column_of(item).alias("x"))._jdf.queryExecution().analyzed()
        for cast in _find_casts(analyzed_plan.expressions().head(), _cast_pattern(frame)):
            if _makes_moment(cast.child().dataType(), cast.dataType()) and not is_whole_moment(cast.child()):
                message = (
                    f"{label}: {item.text!r} makes Spark read {cast.child().sql()} as a timestamp: '12:30' would be of "
                    "the day on which it is read. Cast the text alone: cast(... AS timestamp)."
                )
                raise PlanError(message_with_place(message, item.place))


def _find_casts(tree: Any, pattern: Any) -> Iterator[Any]:
    if not tree.containsPattern(pattern):
        return
    if tree.getClass().getSimpleName() == "Cast":
        yield tree
    children = tree.children()
    for number in range(children.size()):
        yield from _find_casts(children.apply(number), pattern)


def _cast_pattern(frame: DataFrame) -> Any:
    jvm: Any = frame.sparkSession.sparkContext._jvm
    return jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CAST()


def _makes_moment(source_type: Any, target_type: Any) -> bool:
    """Say whether one type has a text where the other has a timestamp."""
    type_names = source_type.typeName(), target_type.typeName()
    if type_names == ("string", "timestamp"):
        return True
    if type_names == ("array", "array"):
        return _makes_moment(source_type.elementType(), target_type.elementType())
    if type_names == ("map", "map"):
        type_pairs = (
            (source_type.keyType(), target_type.keyType()),
            (source_type.valueType(), target_type.valueType()),
        )
        return any(_makes_moment(*type_pair) for type_pair in type_pairs)
    if type_names == ("struct", "struct"):
        field_pairs = zip(source_type.fields(), target_type.fields(), strict=True)
        return any(
            _makes_moment(source_field.dataType(), target_field.dataType())
            for source_field, target_field in field_pairs
        )
    return False
