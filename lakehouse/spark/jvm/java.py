"""The JVM as Py4J shows it, for the modules of this room."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession


def active_jvm() -> Any:
    """Return the JVM of the running Spark."""
    context: Any = SparkContext._active_spark_context
    assert context is not None
    return context._jvm


def set_properties(values: Mapping[str, str]) -> None:
    """Set system properties of the running Spark's JVM, for classes that it has not loaded yet."""
    for name, value in values.items():
        active_jvm().java.lang.System.setProperty(name, value)


def java_session(spark: SparkSession) -> Any:
    """Return a session's own Java object."""
    session: Any = spark._jsparkSession
    return session


def activate_session(spark: SparkSession) -> None:
    """Make a session the active one of this thread: new objects of Spark and Delta take that one."""
    active_jvm().org.apache.spark.sql.classic.SparkSession.setActiveSession(java_session(spark))


def scala_none() -> Any:
    return active_jvm().scala.Option.empty()


def scala_list(items: Iterable[Any]) -> Any:
    """Return Java objects as a Scala sequence."""
    jvm = active_jvm()
    java_list = jvm.java.util.ArrayList()
    for item in items:
        java_list.add(item)
    return jvm.scala.jdk.javaapi.CollectionConverters.asScala(java_list).toSeq()


def private_field(java_object: Any, name: str) -> Any:
    """Return a private field of a Java object's class, made readable and writable."""
    field = java_object.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field
