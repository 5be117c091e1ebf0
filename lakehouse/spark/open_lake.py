"""A lake, and a table in it, through one Spark session: most functions of this package take one of them.

OpenLake    the session, and the places of the lake's folders
OpenTable   a declared table in it: where its rows lie, whether it exists, its properties
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from lakehouse.errors import RegistryUnavailable
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment import commits
from lakehouse.lake.moment.commits import Commit
from lakehouse.lake.moment.files import is_version_readable
from lakehouse.lake.place import TablePlace, bronze_place, state_place, table_places, visible_place
from lakehouse.lake.properties import BEGAN, SKIP
from lakehouse.lake.record.writer_schemas import LakeSchemas
from lakehouse.lake.store import is_remote
from lakehouse.plan.registered.writer_schema import WriterSchema
from lakehouse.plan.table import Table
from lakehouse.semantics.commit_number import NO_TICK, Progress
from lakehouse.spark.batch_cache import NO_BATCH, BatchCache
from lakehouse.spark.jvm import folders
from lakehouse.spark.jvm.delta_log import newest_snapshot
from lakehouse.spark.jvm.in_memory import PlannedFrame, keep_plan
from lakehouse.spark.jvm.session.session import new_session
from lakehouse.spark.transaction import commit_log_of, is_delta_table, read_progress, read_properties

Kind = TypeVar("Kind")
# Gives the schema of an id; None if the registry does not have it. Raises RegistryUnavailable.
LookUp = Callable[[int], WriterSchema | None]


@dataclass(slots=True)
class VersionCache:
    """The last version of each table that was read: whenever a version is named, Delta lists its files with Spark."""

    frames_by_path: dict[str, tuple[str, int, PlannedFrame]] = field(default_factory=dict)

    def read(self, spark: SparkSession, path: str, version: int) -> DataFrame:
        """Return the rows of the table at a path, at a version."""
        table_id = newest_snapshot(spark, path).table_id  # another table may be created at the same path
        known_version = self.frames_by_path.get(path)
        if known_version is not None and known_version[:2] == (table_id, version):
            return known_version[2].frame(spark)
        rows = spark.read.format("delta").option("versionAsOf", version).load(path)
        if (planned_frame := keep_plan(rows)) is None:
            return rows
        self.frames_by_path[path] = table_id, version, planned_frame
        return planned_frame.frame(spark)


@dataclass(frozen=True, slots=True)
class OpenLake:
    """A lake, as one Spark session reads and writes it.

    facts: cached facts about its bronze, one of each type, which can be computed again at any time. All sessions of a
    lake share them. read_upstream: makes the reader of upstream tables, see `lakehouse.spark.changelog.upstream`.
    Without it no table that reads tables can be read. look_up_schema: gives the schema of an id of the registry, see
    `lakehouse.spark.silver.schema_ticks`. cache: that of the batch for which the lake is read.
    """

    spark: SparkSession
    layout: Layout
    facts: dict[type, Any] = field(default_factory=dict, compare=False, repr=False)
    read_upstream: Callable[..., Any] | None = field(default=None, compare=False, repr=False)
    look_up_schema: LookUp | None = field(default=None, compare=False, repr=False)
    cache: BatchCache = field(default=NO_BATCH, compare=False, repr=False)

    def open(self, table: Table) -> OpenTable:
        """Return a table in this lake, whether it exists or not."""
        return OpenTable(self, table)

    def with_layout(self, layout: Layout) -> OpenLake:
        """Return another lake, or the tables beside the live ones of this one, through the same session."""
        if layout.root != self.layout.root:
            return replace(self, layout=layout, facts={}, cache=NO_BATCH)
        return replace(self, layout=layout)

    def cached_fact(self, kind: type[Kind]) -> Kind:
        """Return the cached fact of a type; a new, empty one if there is none yet."""
        fact: Kind = self.facts.setdefault(kind, kind())
        return fact

    @property
    def schemas(self) -> LakeSchemas:
        """The schemas of the writers of its topics."""
        schemas: LakeSchemas = self.facts.setdefault(LakeSchemas, LakeSchemas(self.layout))
        return schemas

    def writer_schema(self, id: int) -> WriterSchema | None:
        """Return the schema of an id; None if the registry does not have it. Raises RegistryUnavailable."""
        if self.look_up_schema is None:
            raise RegistryUnavailable(f"No registry is known that has schema {id}: see [registry] in the settings.")
        return self.look_up_schema(id)

    @property
    def live(self) -> OpenLake:
        """The lake of the live tables, even if this one holds tables that are built beside them."""
        if self.layout.beside is None:
            return self
        return self.with_layout(replace(self.layout, beside=None, members=frozenset()))

    def open_upstream(self, table: Table) -> OpenTable:
        """Return a table as those that read it here find it: the live one, or one that is built together with them."""
        return (self if table.name in self.layout.members else self.live).open(table)

    @property
    def bronze(self) -> TablePlace:
        """The place of bronze's shared table, whose commits complete the ticks."""
        return bronze_place(self.layout)

    def own_session(self) -> OpenLake:
        """Return the lake through a session of its own: a commit's metadata is a setting of the session."""
        return replace(self, spark=new_session(self.spark))

    def exists(self, path: str) -> bool:
        """Say whether there is a Delta table at a path."""
        return is_delta_table(self.spark, path)

    def read(self, path: str, version: int | None = None) -> DataFrame:
        """Return the rows of the Delta table at a path, hidden columns too, at a version or now."""
        if version is not None:
            return self.cached_fact(VersionCache).read(self.spark, path, version)
        return self.spark.read.format("delta").load(path)

    def read_past(self, path: str, version: int) -> DataFrame:
        """Return the rows of the Delta table at a path, at a version whose files may be gone.

        Raises AnalysisException if Delta's log no longer has the version, or VACUUM removed some of its files.
        """
        rows = self.read(path, version)
        # Where possible check without Spark, in milliseconds: Spark runs queries to list the files.
        if not (
            folders.files_exist(self.spark, rows.inputFiles())
            if is_remote(path)
            else is_version_readable(path, version)
        ):
            raise AnalysisException(f"{path}: version {version} lacks some of its files (VACUUM).")
        return rows

    def progress(self, place: TablePlace) -> Progress:
        """Return how far a table is; epoch 0, tick 0 if it has no commit of lakehouse. Its Delta table must exist."""
        return read_progress(self.spark, place)

    def commits(self, place: TablePlace, back_to: int | None = None, up_to: int | None = None) -> list[Commit]:
        """Return a table's commits by lakehouse that Delta's log still has, oldest first.

        back_to, up_to: ticks, see `lakehouse.lake.moment.commits`.
        """
        return commits.read_own_commits(commit_log_of(self.spark, place.path), place.name, back_to, up_to)


@dataclass(frozen=True, slots=True)
class OpenTable:
    """A declared table in a lake."""

    lake: OpenLake
    table: Table

    @property
    def spark(self) -> SparkSession:
        return self.lake.spark

    @property
    def layout(self) -> Layout:
        return self.lake.layout

    @property
    def name(self) -> str:
        return self.table.name

    def with_layout(self, layout: Layout) -> OpenTable:
        """Return the table at another place: built beside the live one, or in another lake."""
        return replace(self, lake=self.lake.with_layout(layout))

    def own_session(self) -> OpenTable:
        """Return the table through a session of its own, see `OpenLake.own_session`."""
        return replace(self, lake=self.lake.own_session())

    def beside(self, name: str, members: Iterable[str] = ()) -> OpenTable:
        """Return the table in the set of that name, built beside the live ones from the same bronze.

        members: the tables that are built together with it, and read there.
        """
        return self.with_layout(replace(self.layout, beside=name, members=frozenset(members)))

    @property
    def visible(self) -> TablePlace:
        """The place of the visible rows."""
        return visible_place(self.layout, self.table)

    @property
    def state(self) -> TablePlace:
        """The place of all that the table keeps: the visible table itself, if all of it is visible."""
        return state_place(self.layout, self.table)

    @property
    def places(self) -> tuple[TablePlace, ...]:
        """Its places: the visible table, and the state if that is a separate table."""
        return table_places(self.layout, self.table)

    @property
    def late(self) -> str:
        """The path of the records that came too late for the table."""
        return self.layout.late(self.name)

    def table_exists(self) -> bool:
        """Say whether the visible table exists."""
        return self.lake.exists(self.visible.path)

    def read_progress(self) -> Progress:
        """Return how far the state is; epoch 0, tick 0 if it has no commit of lakehouse. It must exist."""
        return self.lake.progress(self.state)

    def read_skipped_offsets(self) -> str | None:
        """Return the offsets that a restored table has already, from its properties; None if built from bronze."""
        return read_properties(self.spark, self.visible.path).get(SKIP) if self.table_exists() else None

    def read_begin_tick(self) -> int:
        """Return the tick of the lake's last intervention when a table that reads tables was created; else NO_TICK."""
        table_properties = (
            read_properties(self.spark, self.visible.path) if self.table.stream.reads and self.table_exists() else {}
        )
        return int(table_properties.get(BEGAN, NO_TICK))
