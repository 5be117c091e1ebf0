"""Silences what the JVM prints on stdout."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lakehouse.spark.jvm.capability import Capability, choose_way
from lakehouse.spark.jvm.java import active_jvm


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
