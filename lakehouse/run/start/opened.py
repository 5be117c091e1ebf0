"""An open lake: its settings, its place, and its Spark session, which starts when something needs it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.errors import ConfigError
from lakehouse.file_faults import resolve_path
from lakehouse.lake import store
from lakehouse.lake.control.store_check import check_store
from lakehouse.lake.store import is_remote
from lakehouse.plan.table import Table
from lakehouse.run.start import notebook
from lakehouse.settings.config import PREFIX, Settings, load

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from lakehouse.lake.layout import Layout
    from lakehouse.spark.open_lake import OpenLake, VersionCache


class Opened:
    """A lake, by its settings: a file, lakehouse.toml of the current folder, or defaults with another path.

    Raises ConfigError for settings that can't be used.
    """

    def __init__(
        self, path: str | Path | None = None, *, config: str | Path | None = None, settings: Settings | None = None
    ) -> None:
        if settings is None:
            environ = dict(os.environ)
            if path is not None:
                if not str(path).strip():  # as of a variable that is not set: it would be the current folder
                    raise ConfigError(f"found {str(path)!r} as the lake's path; expected a folder, or a store's URI.")
                # As a variable, so that the folders beside the lake by default (the broker's) follow it.
                environ[f"{PREFIX}LAKE_PATH"] = str(path) if is_remote(str(path)) else str(resolve_path(path))
            settings = load(Path(config) if config is not None else None, environ)
        elif path is not None or config is not None:
            raise ConfigError("Lake: found settings beside a path or a config; expected either.")
        store.use_store(settings.lake.path, settings.lake.options, single_writer=settings.lake.single_writer)
        self.settings = settings
        self._versions: tuple[SparkContext, VersionCache] | None = None

    @property
    def spark(self) -> SparkSession:
        """The Spark session; started on the first use."""
        from lakehouse.spark.jvm.kept.choice import allow_keeping
        from lakehouse.spark.jvm.session.session import open_session

        in_notebook = notebook.is_notebook()
        if in_notebook:
            allow_keeping(allowed=True, in_notebook=True)
        lake = self.settings.lake
        check_store(lake.path, lake.options, single_writer=lake.single_writer)
        spark = open_session(self.settings)
        if in_notebook:
            notebook.show_rows(spark)
        return spark

    @property
    def _layout(self) -> Layout:
        from lakehouse.lake.layout import Layout

        return Layout(self.settings.lake.path)

    def _check(self, table: Table) -> None:
        """Raise NotFound if the lake does not have a table; called before anything imports or starts Spark."""
        from lakehouse.run.start.folders import check_table

        self._check_is_table(table)
        check_table(self._layout, table.name)

    @staticmethod
    def _check_is_table(*tables: Table) -> None:
        """Raise ConfigError for anything but declared tables, such as a name: it does not say how a table is folded."""
        for table in tables:
            if not isinstance(table, Table):
                raise ConfigError(f"{table!r}: expected a declared table, such as app.table('visits').")

    @property
    def _lake(self) -> OpenLake:
        """Return the lake through the Spark session, which starts now if it does not run.

        It keeps the versions that it reads ready for the next read, for as long as Spark runs.
        """
        from lakehouse.run.start.registry import SchemaLookUp
        from lakehouse.spark.changelog.upstream import open_lake
        from lakehouse.spark.open_lake import VersionCache

        spark = self.spark
        if self._versions is None or self._versions[0] is not spark.sparkContext:
            self._versions = spark.sparkContext, VersionCache()
        return open_lake(spark, self._layout, {VersionCache: self._versions[1]}, SchemaLookUp(self.settings))
