"""ksqlDB's functions in Python, for a session: the plain way beside `lakehouse.spark.expression.java_functions`.

They are the model's. A value that the model can't compute (a rare letter in a format) stops the job with an error that
names it: a null would be wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from inspect import signature
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructType

from lakehouse.errors import NeedsSpark, PlanError
from lakehouse.spark.jvm.capability import Capability, choose_way, is_available
from lakehouse.spark.jvm.tree.java_calls import (
    NODE,
    STRING,
    invoke_method,
    jackson_reader,
    java_text,
    loop_variable,
    map_list,
    map_map_entries,
    spark_text,
)
from lakehouse.spark.jvm.tree.tree import ATTRIBUTES, LAMBDA, Tree, all_nodes, parse_catalyst
from lakehouse.spark.jvm.tree.written_tree import WrittenTree, attribute, compute_first, field_of

COMPUTED = "_lakehouse_computed"  # the lambda variable that has the results of functions in Python

# By name: the types of a function's arguments, and of its result.
TYPES: dict[str, tuple[tuple[str, ...], str]] = {
    "ksql_format_timestamp": (("timestamp", "string", "string"), "string"),
    "ksql_format_date": (("date", "string"), "string"),
    "ksql_format_time": (("int", "string"), "string"),
    "ksql_parse_date": (("string", "string"), "date"),
    "ksql_parse_time": (("string", "string"), "int"),
    "ksql_json_at": (("string", "string"), "string"),
    "ksql_json_pointer": (("string",), "string"),
    "ksql_json_text": (("string",), "string"),
    "ksql_json_items": (("string",), "array<string>"),
    "ksql_json_fields": (("string",), "map<string, string>"),
    "ksql_length": (("string",), "int"),
    "ksql_substring": (("string", "int", "int"), "string"),
    "ksql_find": (("string", "string", "int", "int"), "int"),
    "ksql_reverse": (("string",), "string"),
    "ksql_regexp_group": (("string", "string", "int"), "string"),
    "ksql_regexp_groups": (("string", "string", "int"), "array<string>"),
    "ksql_unescape": (("string",), "string"),
}


def without_lambdas(tree: WrittenTree, text: str) -> WrittenTree:
    """Return a tree whose functions in Python stand in no lambda; text: the expression, for the message.

    ksqlDB's SQL names a value that it uses twice by a lambda (`lakehouse.ksql.function.sql`); the value takes the place
    of its name here. Raises PlanError for any other lambda with such a function.
    """
    plain_tree = _inline_names(tree)
    if any(node.kind == LAMBDA and _has_function(node) for node in all_nodes(plain_tree)):
        raise PlanError(
            f"{text!r} has one of {', '.join(sorted(TYPES))} inside a lambda, where Spark calls no function of Python: "
            "this needs Spark's internals, see [spark] internals."
        )
    return plain_tree


def compute_before_guards(tree: WrittenTree) -> WrittenTree:
    """Return a guarded tree whose functions in Python are computed before it, as its guards are lambdas.

    tree: its own lambdas have no such function, see `without_lambdas`.
    """
    calls: dict[int, tuple[int, WrittenTree]] = {}  # by a call's identity: its place and the call
    if tree.function in TYPES:
        return _with_computed_arguments(tree)

    def take_calls(node: WrittenTree) -> WrittenTree:
        if node.function in TYPES:
            place, _ = calls.setdefault(id(node), (len(calls), node))
            return attribute(COMPUTED, f"a{place}")
        children = node.children
        taken_children = [take_calls(child) if isinstance(child, WrittenTree) else child for child in children]
        is_same = all(after is before for after, before in zip(taken_children, children, strict=True))
        return node if is_same else replace(node, children=taken_children)

    body = take_calls(tree)
    if not calls:
        return tree
    results = [_with_computed_arguments(call) for _, call in calls.values()]
    return WrittenTree("GetComputed", [body, *results], lambda body, *values: compute_first(values, COMPUTED, body))


def _with_computed_arguments(call: WrittenTree) -> WrittenTree:
    arguments = [compute_before_guards(child) if isinstance(child, WrittenTree) else child for child in call.children]
    return replace(call, children=arguments)


def _has_function(tree: Tree) -> bool:
    return any(node.function in TYPES for node in all_nodes(tree))


def _inline_names(tree: Tree) -> WrittenTree:
    tree = tree.with_children([_inline_names(child) for child in tree.children])
    assert isinstance(tree, WrittenTree)
    if tree.function != "get" or len(tree.children) != 2:
        return tree
    call, place = tree.children
    if call.function != "transform" or place.literal != 0 or not _has_function(call.children[1]):
        return tree
    array_call, lambda_ = call.children
    if array_call.function != "array" or len(array_call.children) != 1 or len(lambda_.children) != 2:
        return tree
    body, variable = lambda_.children
    return _replace_name(body, variable.first_name, array_call.children[0])


def _replace_name(tree: Tree, name: str, value: Tree) -> WrittenTree:
    """Return the tree with a value in place of a lambda's variable."""
    assert isinstance(tree, WrittenTree)
    if tree.kind in ATTRIBUTES and tree.first_name == name:
        for field_name in tree.names[1:]:
            value = field_of(value, field_name)
        assert isinstance(value, WrittenTree)
        return value
    if tree.kind == LAMBDA and name in [variable.first_name for variable in tree.children[1:]]:
        return tree  # a variable of the same name, of its own
    changed_tree = tree.with_children([_replace_name(child, name, value) for child in tree.children])
    assert isinstance(changed_tree, WrittenTree)
    return changed_tree


def java_calls_work() -> bool:
    """Say whether an expression may call Java."""
    return choose_way(Capability.JAVA_CALLS, _try_java_calls, lambda: False)


@lru_cache(maxsize=1)
def _try_java_calls() -> bool:
    """Build the calls that the functions consist of; Spark raises for one that it does not have."""
    text: Any = parse_catalyst("'{}'")
    item, name, value = loop_variable("item", NODE), loop_variable("name", STRING), loop_variable("value", NODE)
    items = invoke_method(jackson_reader("List"), "readValue", "java.util.List", java_text(text.java))
    map_list(items, item, spark_text(invoke_method(item, "toString", STRING)))
    entries = invoke_method(jackson_reader("Map"), "readValue", "java.util.Map", java_text(text.java))
    map_map_entries(entries, name, spark_text(name), value, spark_text(invoke_method(value, "toString", STRING)))
    return True


def register_functions(spark: SparkSession) -> None:
    """Give a session the functions in Python, if expressions can't call Java, or EXPLAIN has to tell their casts."""
    if is_available(Capability.PLANS) and is_available(Capability.JAVA_CALLS) and java_calls_work():
        return
    for name, (argument_types, result_type) in TYPES.items():
        spark.udf.register(name, _arrow_function(name, len(argument_types), result_type))


def _arrow_function(name: str, argument_count: int, result_type: str) -> Any:
    spark_type = cast(StructType, StructType.fromDDL(f"x {result_type}"))[0].dataType
    arrow_type = to_arrow_type(spark_type, timezone="UTC")

    def run_batch(*columns: pa.Array) -> pa.Array:
        from lakehouse.model.function.table import FUNCTIONS as MODEL_FUNCTIONS

        function, results = MODEL_FUNCTIONS[name], []
        for arguments in zip(*(column.to_pylist() for column in columns), strict=True):
            try:
                result = None if None in arguments else function(*arguments)
            except (TypeError, ValueError, ArithmeticError) as error:
                raise NeedsSpark(f"{name}{arguments!r}: Python can't compute it ({error})") from error
            results.append(list(result.items()) if isinstance(result, dict) else result)
        return pa.array(results, arrow_type)

    by_count: dict[int, Callable[..., pa.Array]] = {
        1: lambda first: run_batch(first),
        2: lambda first, second: run_batch(first, second),
        3: lambda first, second, third: run_batch(first, second, third),
        4: lambda first, second, third, fourth: run_batch(first, second, third, fourth),
    }
    function = by_count[argument_count]
    # Spark decides by these hints which kind of function it is, and does not find hints that are text.
    function.__annotations__ = dict.fromkeys([*signature(function).parameters, "return"], pa.Array)
    return cast(Any, arrow_udf)(function, spark_type)
