"""Asks an object store once whether it keeps conditional PUTs, on which Delta's log relies (`ConditionalPutLogStore`).

A store that ignores the condition overwrites: of two processes that write one version of a table, both believe that
their commit stands, and one of the commits is gone.
"""

from __future__ import annotations

import uuid
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from lakehouse.errors import ConfigError
from lakehouse.lake.layout import Layout
from lakehouse.settings.config import Settings
from lakehouse.settings.store import S3
from lakehouse.spark.jvm.capability import Capability, is_available
from lakehouse.spark.jvm.folders import folder_exists, open_conditionally, remove_folder


def check_store(spark: SparkSession, settings: Settings) -> None:
    """Raise ConfigError for a lake on a store that does not keep conditional PUTs, unless it has a single writer.

    The store is asked by two writes below control/, at the lake's first start; a mark says that it was.
    """
    if not settings.lake.path.startswith(S3) or settings.lake.single_writer or not is_available(Capability.FILES):
        return
    mark = Layout(settings.lake.path).conditional_put
    try:
        if folder_exists(spark, mark):
            return
        probe = f"{mark}-{uuid.uuid4().hex}"
        is_kept = _open_and_close_two(spark, probe)
        remove_folder(spark, probe)
    except Py4JJavaError as error:
        cause = error.java_exception
        raise ConfigError(
            f"lake {settings.lake.path} can't be reached: {cause.getMessage()}. Expected a bucket that this user may "
            "read and write. Look at [lake.options]: endpoint, region, path_style, access_key, secret_key."
        ) from None
    if not is_kept:
        raise ConfigError(
            f"the store of lake {settings.lake.path} overwrites a file in spite of If-None-Match: *. Expected a store "
            "with conditional PUTs: without them two processes that write one table lose commits. Take another store "
            "(or a newer version of it); or, if nobody else will ever write to this lake, say so: lake.single_writer "
            "= true."
        )
    _write(open_conditionally(spark, mark))


def _open_and_close_two(spark: SparkSession, path: str) -> bool:
    """Whether of two files of one name, both opened while there was none, the second is refused."""
    streams = [open_conditionally(spark, path), open_conditionally(spark, path)]
    _write(streams[0])
    try:
        _write(streams[1])
    except Py4JJavaError:
        return True
    return False


def _write(stream: Any) -> None:
    stream.write(b"lakehouse")
    stream.close()
