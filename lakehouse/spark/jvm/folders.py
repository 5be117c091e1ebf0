"""Folders of the lake, on any of Hadoop's file systems."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import SparkSession


def path_and_system(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """Return a path and its file system, as Hadoop's own Java objects."""
    jvm: Any = spark._jvm
    java_session: Any = spark._jsparkSession
    folder = jvm.org.apache.hadoop.fs.Path(path)
    return folder, folder.getFileSystem(java_session.sessionState().newHadoopConf())


def folder_exists(spark: SparkSession, path: str) -> bool:
    """Say whether there is such a folder."""
    folder, file_system = path_and_system(spark, path)
    return bool(file_system.exists(folder))


def files_exist(spark: SparkSession, files: Iterable[str]) -> bool:
    """Say whether all of these files exist. files: their URIs, as Spark gives them."""
    jvm: Any = spark._jvm
    return all(folder_exists(spark, jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(file)).toString()) for file in files)


def create_folder(spark: SparkSession, path: str) -> None:
    """Create an empty folder; do nothing if it exists."""
    folder, file_system = path_and_system(spark, path)
    file_system.mkdirs(folder)


def folder_names(spark: SparkSession, path: str) -> list[str]:
    """Return the names of the folders in a folder, in order; none if there is no such folder."""
    folder, file_system = path_and_system(spark, path)
    if not file_system.exists(folder):
        return []
    return sorted(str(status.getPath().getName()) for status in file_system.listStatus(folder) if status.isDirectory())


def list_content(spark: SparkSession, path: str) -> list[str]:
    """Return the names of a folder's files and folders, in order; none if there is no such folder."""
    folder, file_system = path_and_system(spark, path)
    return (
        sorted(str(status.getPath().getName()) for status in file_system.listStatus(folder))
        if file_system.exists(folder)
        else []
    )


def remove_folder(spark: SparkSession, path: str) -> None:
    """Remove a folder and its content; do nothing if there is none."""
    folder, file_system = path_and_system(spark, path)
    file_system.delete(folder, True)


def read_lines(spark: SparkSession, path: str) -> Iterator[str]:
    """Yield the lines of a file, reading no further than needed. Raises FileNotFoundError if there is none."""
    file, file_system = path_and_system(spark, path)
    if not file_system.exists(file):
        raise FileNotFoundError(path)
    jvm: Any = spark._jvm
    reader = jvm.java.io.BufferedReader(jvm.java.io.InputStreamReader(file_system.open(file), "UTF-8"))
    try:
        while (line := reader.readLine()) is not None:
            yield line
    finally:
        reader.close()
