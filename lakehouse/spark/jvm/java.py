"""The JVM as Py4J shows it, for the modules of this room; and what is printed on its stdout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from lakehouse.spark.jvm.capability import Capability, choose_way


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


def scala_none() -> Any:
    return active_jvm().scala.Option.empty()


def private_field(java_object: Any, name: str) -> Any:
    """Return a private field of a Java object's class, made readable and writable."""
    field = java_object.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field


@contextmanager
def silence_output() -> Iterator[None]:
    """Silence Delta's VACUUM: it prints "Deleted 0 files" on stdout, among the lines of --json.

    Only for this thread, since Scala's console is set per thread; if that fails, VACUUM prints.
    """

    def replace_output() -> Any:
        jvm = active_jvm()
        console = getattr(jvm, "scala.Console$").__getattr__("MODULE$")
        console_output = console.out()
        console.setOutDirect(jvm.java.io.PrintStream(jvm.java.io.OutputStream.nullOutputStream()))
        return console, console_output

    replaced = choose_way(Capability.CONSOLE, replace_output, lambda: None)
    try:
        yield
    finally:
        if replaced is not None:
            console, console_output = replaced
            console.setOutDirect(console_output)
