"""Asks Spark about an expression that it has resolved: the casts in it, and whether a pattern is valid."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from pyspark.errors import IllegalArgumentException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from lakehouse.spark.jvm.capability import Capability, choose_way
from lakehouse.spark.jvm.java import active_jvm
from lakehouse.spark.jvm.tree.tree import CatalystTree, Tree


@dataclass(frozen=True, slots=True)
class ResolvedCast:
    """A cast in a resolved expression, written or inserted by Spark.

    source, target: the types. text: the argument, as SQL. literal: the argument's value as text, if it is a literal.
    condition: the condition of the argument, if that is an IF.
    """

    source: DataType
    target: DataType
    text: str
    literal: str | None
    condition: str | None


def find_casts(frame: DataFrame, tree: Tree) -> list[ResolvedCast] | None:
    """Return the casts in an expression over a frame's columns, once Spark has resolved it; None if it can't tell.

    Raises AnalysisException if Spark can't take the expression.
    """
    resolved_frame = frame.select(tree.column().alias("x"))

    def walk_plan() -> list[ResolvedCast] | None:
        analyzed_plan = cast(Any, resolved_frame)._jdf.queryExecution().analyzed()
        cast_pattern = active_jvm().org.apache.spark.sql.catalyst.trees.TreePattern.CAST()
        return list(_casts_below(analyzed_plan.expressions().head(), cast_pattern))

    return choose_way(Capability.PLANS, walk_plan, lambda: None) if isinstance(tree, CatalystTree) else None


def _casts_below(java_tree: Any, pattern: Any) -> Iterator[ResolvedCast]:
    if not java_tree.containsPattern(pattern):
        return
    if java_tree.getClass().getSimpleName() == "Cast":
        argument = java_tree.child()
        kind = argument.getClass().getSimpleName()
        yield ResolvedCast(
            _python_type(argument.dataType()),
            _python_type(java_tree.dataType()),
            str(argument.sql()),
            str(argument.value()) if kind == "Literal" else None,
            str(argument.predicate().toString()) if kind == "If" else None,
        )
    children = java_tree.children()
    for number in range(children.size()):
        yield from _casts_below(children.apply(number), pattern)


def _python_type(java_type: Any) -> DataType:
    type_json = json.loads(java_type.json())
    field = {"name": "x", "type": type_json, "nullable": True, "metadata": {}}
    return StructType.fromJson({"fields": [field]})[0].dataType


def pattern_fault(spark: SparkSession, pattern: str) -> str | None:
    """Return the reason why a text is no pattern of Java; None if it is a pattern."""

    def compile_pattern() -> str | None:
        try:
            active_jvm().java.util.regex.Pattern.compile(pattern)
        except IllegalArgumentException as error:
            return str(error).split("\n", 1)[0]
        return None

    return choose_way(Capability.PLANS, compile_pattern, lambda: _try_pattern(spark, pattern))


def _try_pattern(spark: SparkSession, pattern: str) -> str | None:
    try:
        spark.range(1).select(F.lit("x").rlike(pattern)).collect()
    except PySparkException as error:
        causes = re.findall(r"PatternSyntaxException: (.+)", str(error))
        return causes[-1] if causes else "Java's regular expressions can't read it"
    return None
