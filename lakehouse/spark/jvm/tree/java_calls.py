"""Catalyst trees that call a Java method. Spark has them for its own typed API; SQL has no name for them.

Objects between two calls are of Catalyst's ObjectType: Spark neither stores nor folds them. A null argument gives a
null; the caller must catch what a method raises (TryEval).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from lakehouse.spark.jvm.java import active_jvm

STRING = "java.lang.String"
NODE = "com.fasterxml.jackson.databind.JsonNode"


def class_of(name: str) -> Any:
    class_loader = active_jvm().java.lang.Thread.currentThread().getContextClassLoader()
    return active_jvm().java.lang.Class.forName(name, True, class_loader)


def type_of(type_name: str) -> Any:
    """Return a Spark type; for the name of a class, which has a dot, the type of its objects."""
    spark_types = active_jvm().org.apache.spark.sql.types
    return spark_types.ObjectType(class_of(type_name)) if "." in type_name else spark_types.DataType.fromDDL(type_name)


def constant_object(value: Any, name: str) -> Any:
    """Return an object that can be serialized as a literal."""
    return active_jvm().org.apache.spark.sql.catalyst.expressions.Literal(value, type_of(name))


def invoke_static(class_name: str, method: str, result_type: str, *arguments: Any) -> Any:
    """Return a call of a static method of a class."""
    return _catalyst_objects().StaticInvoke(
        class_of(class_name),
        type_of(result_type),
        method,
        _to_seq(arguments),
        _to_seq(()),
        True,
        True,
        True,
        active_jvm().scala.Option.empty(),
    )


def invoke_method(target: Any, method: str, result_type: str, *arguments: Any, is_pure: bool = True) -> Any:
    """Return a call of a method of the object that a tree gives.

    is_pure: False for one that changes its object, or sees it changed: Spark makes it once for each record.
    """
    return _catalyst_objects().Invoke(
        target, method, type_of(result_type), _to_seq(arguments), _to_seq(()), True, True, is_pure
    )


def new_object(class_name: str, arguments: Any) -> Any:
    """Return a new object of a class. arguments: a tree that gives the array of its constructor's arguments."""
    class_object = constant_object(class_of(class_name), "java.lang.Class")
    return invoke_static(
        "org.apache.commons.lang3.reflect.ConstructorUtils", "invokeConstructor", class_name, class_object, arguments
    )


def loop_variable(name: str, result_type: str) -> Any:
    """Return the variable for one element of a list, or for the name or the value of an entry of a map."""
    variable_number = getattr(_catalyst_objects().LambdaVariable, "apply$default$4")()  # no other variable has it
    return _catalyst_objects().LambdaVariable(name, type_of(result_type), True, variable_number)


def map_list(items: Any, item: Any, item_result: Any) -> Any:
    """Return an array with the result for each item of a java.util.List.

    item: the `loop_variable` that `item_result`, the tree of the result, uses.
    """
    return _catalyst_objects().MapObjects(item, item_result, items, active_jvm().scala.Option.empty())


def map_map_entries(entries: Any, key: Any, key_result: Any, value: Any, value_result: Any) -> Any:
    """Return a map with the results for each entry of a java.util.Map.

    key, value: the `loop_variable`s that the trees of the results, `key_result` and `value_result`, use.
    """
    return _catalyst_objects().ExternalMapToCatalyst(key, key_result, value, value_result, entries)


def java_text(tree: Any) -> Any:
    """Return a Spark text as a Java text."""
    return invoke_method(tree, "toString", STRING)


def spark_text(tree: Any) -> Any:
    """Return a Java text as a Spark text."""
    return invoke_static("org.apache.spark.unsafe.types.UTF8String", "fromString", "string", tree)


@lru_cache(maxsize=3)
def _jackson_mapper(purpose: str) -> Any:
    """Return a mapper that nothing else has.

    Spark serializes the objects of one expression together. A mapper and its factory refer to each other, so that a
    reader with the same factory before them would give a mapper whose factory is not yet whole.
    """
    jackson = active_jvm().com.fasterxml.jackson
    object_mapper = jackson.databind.ObjectMapper()
    object_mapper.enable(jackson.databind.DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)
    object_mapper.setNodeFactory(jackson.databind.node.JsonNodeFactory.withExactBigDecimals(True))
    return object_mapper


def us_locale() -> Any:
    """Return Java's locale for the names of months and days."""
    return constant_object(active_jvm().java.util.Locale.US, "java.util.Locale")


def jackson_mapper() -> Any:
    """Return Jackson's reader and writer of JSON, which keeps all digits of a number."""
    return constant_object(_jackson_mapper("tree"), "com.fasterxml.jackson.databind.ObjectMapper")


def jackson_reader(collection: str) -> Any:
    """Return Jackson's reader of a list or a map of JSON values. collection: List or Map."""
    object_reader = getattr(_jackson_mapper(collection), f"readerFor{collection}Of")(class_of(NODE))
    return constant_object(object_reader, "com.fasterxml.jackson.databind.ObjectReader")


def _catalyst_objects() -> Any:
    return active_jvm().org.apache.spark.sql.catalyst.expressions.objects


def _to_seq(items: Any) -> Any:
    return active_jvm().PythonUtils.toSeq(list(items))
