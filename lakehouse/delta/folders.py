"""Folders of the lake, wherever it lies: through Hadoop's file systems."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def opened(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """Return a path, and the file system that it lies on: Hadoop's own Java objects."""
    jvm: Any = spark._jvm
    jsession: Any = spark._jsparkSession
    folder = jvm.org.apache.hadoop.fs.Path(path)
    return folder, folder.getFileSystem(jsession.sessionState().newHadoopConf())


def exists(spark: SparkSession, path: str) -> bool:
    """Return whether there is such a folder."""
    folder, system = opened(spark, path)
    return bool(system.exists(folder))


def remove(spark: SparkSession, path: str) -> None:
    """Remove a folder and what is in it; nothing happens where there is none."""
    folder, system = opened(spark, path)
    system.delete(folder, True)
