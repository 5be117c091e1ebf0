"""Finds the casts that Spark inserts in an expression by its public EXPLAIN: the plain way beside `find_casts`.

EXPLAIN gives a plan as text, in which a cast has no types. So the casts that the user wrote are taken out first, and
what is left was inserted by Spark; its argument is known if it is a column, a literal or a function that gives a date.
Anything else counts as a text: then the user is asked for a cast of his own, which is right in any case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from uuid import uuid4

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, DateType, StringType, TimestampType

from lakehouse.spark.jvm.tree.analysis import ResolvedCast
from lakehouse.spark.jvm.tree.ksql_functions import without_lambdas
from lakehouse.spark.jvm.tree.read_written import parse_written
from lakehouse.spark.jvm.tree.tree import LITERAL, Tree, all_nodes
from lakehouse.spark.jvm.tree.written_tree import WrittenTree

# They stand for a cast to a type, over the cast's argument. Spark must not find that they are all the same.
MOMENT = "if(isnull(`0`), timestamp_micros(0), timestamp_micros(1))"
NULL_CAST = "if(isnull(`0`), cast(null AS {0}), cast(null AS {0}))"
TO_TYPE = re.compile(r" as ([^()]*(?:\(\d+,\d+\)[^()]*)*)\)")
DATES = ("to_date(", "date_add(", "date_sub(", "add_months(", "last_day(", "next_day(", "trunc(", "make_date(",
         "date_from_unix_date(", "current_date(")  # fmt: skip
# A function that Spark replaces by others (nullif, between) hides its casts until the plan is optimized, which drops
# some parts: so both plans count.
PLANS = re.compile(
    r"== Analyzed Logical Plan ==\n[^\n]*\n(.*?)\n== Optimized Logical Plan ==\n(.*?)\n== Physical Plan ==", re.DOTALL
)


def explain_casts(
    frame: DataFrame, text: str, moment_places: Callable[[Tree], Iterable[int]]
) -> Iterator[ResolvedCast]:
    """Yield the casts to timestamps that Spark inserts in an expression over a frame's columns.

    moment_places: gives the places of a call's arguments that are guarded when they are read as moments.
    """
    tree = _without_own_casts(without_lambdas(parse_written(text), text), moment_places)
    literals = {str(node.literal) for node in all_nodes(tree) if node.kind == LITERAL and node.type_text == "string"}
    plan_text = _explain(frame, tree)
    for argument in [tree.sql] if plan_text is None else dict.fromkeys(_cast_arguments(plan_text)):
        yield ResolvedCast(
            _argument_type(frame, argument),
            TimestampType(),
            argument,
            argument if argument in literals else None,
            None,
        )


def _without_own_casts(tree: Tree, moment_places: Callable[[Tree], Iterable[int]]) -> WrittenTree:
    """Return the tree with a moment in place of each cast to a timestamp, and of each guarded argument."""
    children: list[Tree] = [_without_own_casts(child, moment_places) for child in tree.children]
    for place in moment_places(tree):
        children[place] = _null_cast(children[place], "timestamp")
    if tree.kind == "Cast" and "timestamp" in tree.type_text:
        return _null_cast(children[0], tree.type_text)
    changed_tree = tree.with_children(children)
    assert isinstance(changed_tree, WrittenTree)
    return changed_tree


def _null_cast(tree: Tree, type_text: str) -> WrittenTree:
    null_cast = parse_written(MOMENT if type_text == "timestamp" else NULL_CAST.format(type_text))
    condition, *values = null_cast.children
    changed_tree = null_cast.with_children([condition.with_children([tree]), *values])
    assert isinstance(changed_tree, WrittenTree)
    return changed_tree


def _explain(frame: DataFrame, tree: WrittenTree) -> str | None:
    """Return the plans of an expression as text; None if Spark shows none."""
    view_name, spark = f"explained_{uuid4().hex}", frame.sparkSession
    # Spark does not know that it is empty, and computes nothing in advance.
    rows = spark.createDataFrame(spark.sparkContext.emptyRDD(), frame.schema)
    rows.createOrReplaceTempView(view_name)
    fields_setting = "spark.sql.debug.maxToStringFields"
    fields_before = spark.conf.get(fields_setting)
    spark.conf.set(fields_setting, "100000")  # else a long list of arguments is cut off
    try:
        row = spark.sql(f"EXPLAIN EXTENDED SELECT {tree.sql} AS x FROM {view_name}").first()
    finally:
        spark.conf.set(fields_setting, str(fields_before))
        spark.catalog.dropTempView(view_name)
    assert row is not None
    plans = PLANS.search(row[0])
    # Only the first node: below it are the plans of the rows.
    return None if plans is None else "\n".join(plan.split("\n+- ", 1)[0] for plan in plans.groups())


def _cast_arguments(plan_text: str) -> Iterator[str]:
    """Yield the argument of each cast to a timestamp; the part before the cast's end where it can't be told."""
    for match in TO_TYPE.finditer(plan_text):
        if re.search(r"\btimestamp\b", match[1]) is None:
            continue
        depth, start = 1, match.start()
        while start and depth:
            start -= 1
            depth += {")": 1, "(": -1}.get(plan_text[start], 0)
        is_cast = plan_text[:start].endswith("cast")
        argument = plan_text[start + 1 if is_cast else max(0, match.start() - 40) : match.start()]
        if argument != "null":
            yield argument


def _argument_type(frame: DataFrame, argument: str) -> DataType:
    """Return the type of a cast's argument; that of a text if it can't be told."""
    column = re.fullmatch(r"(.+)#\d+L?", argument)
    if column is not None and column[1] in frame.columns:
        return frame.schema[column[1]].dataType
    if argument.startswith(DATES) or argument.endswith(" as date)"):
        return DateType()
    return StringType()
