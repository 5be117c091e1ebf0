"""Folders of the lake, wherever it lies: through Hadoop's file systems."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import SparkSession


def opened(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """Return a path, and its file system: Hadoop's own Java objects."""
    jvm: Any = spark._jvm
    jsession: Any = spark._jsparkSession
    folder = jvm.org.apache.hadoop.fs.Path(path)
    return folder, folder.getFileSystem(jsession.sessionState().newHadoopConf())


def exists(spark: SparkSession, path: str) -> bool:
    """Return whether there is such a folder."""
    folder, system = opened(spark, path)
    return bool(system.exists(folder))


def are_there(spark: SparkSession, files: Iterable[str]) -> bool:
    """Return whether all of these files exist: their URIs, as Spark gives them."""
    jvm: Any = spark._jvm
    return all(exists(spark, jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(file)).toString()) for file in files)


def create(spark: SparkSession, path: str) -> None:
    """Create an empty folder; nothing happens if it is there."""
    folder, system = opened(spark, path)
    system.mkdirs(folder)


def names(spark: SparkSession, path: str) -> list[str]:
    """Return the names of the folders in a folder, in order; none if there is no such folder."""
    folder, system = opened(spark, path)
    if not system.exists(folder):
        return []
    return sorted(str(one.getPath().getName()) for one in system.listStatus(folder) if one.isDirectory())


def content(spark: SparkSession, path: str) -> list[str]:
    """Return the names of what a folder holds, in order; none if there is no such folder."""
    folder, system = opened(spark, path)
    return sorted(str(one.getPath().getName()) for one in system.listStatus(folder)) if system.exists(folder) else []


def remove(spark: SparkSession, path: str) -> None:
    """Remove a folder and its content; nothing happens if there is none."""
    folder, system = opened(spark, path)
    system.delete(folder, True)


def lines(spark: SparkSession, path: str) -> Iterator[str]:
    """Yield the lines of a file, reading no further than needed. Raises FileNotFoundError if there is none."""
    file, system = opened(spark, path)
    if not system.exists(file):
        raise FileNotFoundError(path)
    jvm: Any = spark._jvm
    reader = jvm.java.io.BufferedReader(jvm.java.io.InputStreamReader(system.open(file), "UTF-8"))
    try:
        while (line := reader.readLine()) is not None:
            yield line
    finally:
        reader.close()
