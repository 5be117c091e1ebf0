"""Texts that Spark would read as moments on its own, recognized by the types that it gives them.

Where a cast is written, `lakehouse.spark.expressions` turns a text with a time and no day ("12:30" is today's) into a
null. Where Spark inserts the cast, because a text meets a timestamp, nothing does that: such an expression is refused
before the first tick.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import DataFrame

from lakehouse.errors import PlanError
from lakehouse.plan.expression import Expression
from lakehouse.plan.refused.place import placed
from lakehouse.spark.expressions import column_of, is_whole_moment


def check(frame: DataFrame, what: str, items: Iterable[Expression]) -> None:
    """Raise PlanError for an expression over the frame's columns that reads a text as a moment without a cast."""
    for item in items:
        if item.is_column:
            continue
        plan = frame.select(column_of(item).alias("x"))._jdf.queryExecution().analyzed()
        for cast in _casts(plan.expressions().head(), _cast_pattern(frame)):
            if _makes_moment(cast.child().dataType(), cast.dataType()) and not is_whole_moment(cast.child()):
                said = (
                    f"{what}: {item.text!r} makes Spark read {cast.child().sql()} as a timestamp: '12:30' would be of "
                    "the day on which it is read. Cast the text alone: cast(... AS timestamp)."
                )
                raise PlanError(placed(said, item.place))


def _casts(tree: Any, pattern: Any) -> Iterator[Any]:
    if not tree.containsPattern(pattern):
        return
    if tree.getClass().getSimpleName() == "Cast":
        yield tree
    children = tree.children()
    for number in range(children.size()):
        yield from _casts(children.apply(number), pattern)


def _cast_pattern(frame: DataFrame) -> Any:
    jvm: Any = frame.sparkSession.sparkContext._jvm
    return jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CAST()


def _makes_moment(given: Any, wanted: Any) -> bool:
    """Whether one type has a text where the other has a timestamp."""
    kinds = given.typeName(), wanted.typeName()
    if kinds == ("string", "timestamp"):
        return True
    if kinds == ("array", "array"):
        return _makes_moment(given.elementType(), wanted.elementType())
    if kinds == ("map", "map"):
        pairs = ((given.keyType(), wanted.keyType()), (given.valueType(), wanted.valueType()))
        return any(_makes_moment(*pair) for pair in pairs)
    if kinds == ("struct", "struct"):
        fields = zip(given.fields(), wanted.fields(), strict=True)
        return any(_makes_moment(one.dataType(), other.dataType()) for one, other in fields)
    return False
