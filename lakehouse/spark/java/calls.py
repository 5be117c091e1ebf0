"""Trees of Catalyst that call a method of Java. Spark has them for its own typed API; SQL has no name for them.

Objects between two calls are of Catalyst's ObjectType: Spark neither stores nor folds them. A null gives a null; what
raises is for the caller to catch (TryEval).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from pyspark import SparkContext

STRING = "java.lang.String"
NODE = "com.fasterxml.jackson.databind.JsonNode"


def jvm() -> Any:
    context = SparkContext._active_spark_context
    assert context is not None
    return context._jvm


def class_of(name: str) -> Any:
    loader = jvm().java.lang.Thread.currentThread().getContextClassLoader()
    return jvm().java.lang.Class.forName(name, True, loader)


def type_of(text: str) -> Any:
    """Return a Spark type, or for the name of a class, which has a dot, the type of its objects."""
    types = jvm().org.apache.spark.sql.types
    return types.ObjectType(class_of(text)) if "." in text else types.DataType.fromDDL(text)


def constant(value: Any, name: str) -> Any:
    """Return an object that can be serialized as a literal."""
    return jvm().org.apache.spark.sql.catalyst.expressions.Literal(value, type_of(name))


def static(of: str, method: str, gives: str, *arguments: Any) -> Any:
    """Return a call of a static method of a class."""
    return _objects().StaticInvoke(
        class_of(of), type_of(gives), method, _list(arguments), _list(()), True, True, True, jvm().scala.Option.empty()
    )


def called(target: Any, method: str, gives: str, *arguments: Any) -> Any:
    """Return a call of a method of what a tree gives."""
    return _objects().Invoke(target, method, type_of(gives), _list(arguments), _list(()), True, True, True)


def new(of: str, arguments: Any) -> Any:
    """Return a new object of a class; arguments: a tree that gives the array of its constructor's."""
    made = constant(class_of(of), "java.lang.Class")
    return static("org.apache.commons.lang3.reflect.ConstructorUtils", "invokeConstructor", of, made, arguments)


def variable(name: str, gives: str) -> Any:
    """Return what stands for one element of a list, or for the name or the value of an entry of a map."""
    number = getattr(_objects().LambdaVariable, "apply$default$4")()  # one that no other has
    return _objects().LambdaVariable(name, type_of(gives), True, number)


def each(items: Any, item: Any, made: Any) -> Any:
    """Return an array of what is made of each item of a java.util.List; item: its `variable`."""
    return _objects().MapObjects(item, made, items, jvm().scala.Option.empty())


def each_entry(entries: Any, key: Any, key_made: Any, value: Any, value_made: Any) -> Any:
    """Return a map of what is made of each entry of a java.util.Map; key, value: their `variable`s."""
    return _objects().ExternalMapToCatalyst(key, key_made, value, value_made, entries)


def java_text(tree: Any) -> Any:
    """Return a text of Spark as one of Java."""
    return called(tree, "toString", STRING)


def spark_text(tree: Any) -> Any:
    """Return a text of Java as one of Spark."""
    return static("org.apache.spark.unsafe.types.UTF8String", "fromString", "string", tree)


@lru_cache(maxsize=1)
def _mapper() -> Any:
    jackson = jvm().com.fasterxml.jackson
    mapper = jackson.databind.ObjectMapper()
    mapper.enable(jackson.databind.DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)
    mapper.setNodeFactory(jackson.databind.node.JsonNodeFactory.withExactBigDecimals(True))
    return mapper


def mapper() -> Any:
    """Return Jackson's reader and writer of JSON, which keeps all digits of a number."""
    return constant(_mapper(), "com.fasterxml.jackson.databind.ObjectMapper")


def reader(of: str) -> Any:
    """Return Jackson's reader of a list or a map of values of JSON: of is List or Map."""
    made = getattr(_mapper(), f"readerFor{of}Of")(class_of(NODE))
    return constant(made, "com.fasterxml.jackson.databind.ObjectReader")


def _objects() -> Any:
    return jvm().org.apache.spark.sql.catalyst.expressions.objects


def _list(items: Any) -> Any:
    return jvm().PythonUtils.toSeq(list(items))
