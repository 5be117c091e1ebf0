"""Frames that Spark keeps in memory, or on disk, while a batch needs them; and frames that are planned once."""

from __future__ import annotations

import uuid
from typing import Any, Protocol, cast

from pyspark.sql import DataFrame, SparkSession

from lakehouse.spark.jvm.capability import Capability, choose_way, is_absence, report_missing
from lakehouse.spark.jvm.java import activate_session, active_jvm, java_session, private_field, scala_none


class InMemory:
    """A frame that Spark keeps after its first read, for all sessions: in memory, or on disk.

    Not by `persist`: at each append to a Delta table, Spark drops the persisted frames that read the table, and reads
    them again. Ingest appends to bronze all the time.
    """

    def __init__(self, frame: DataFrame) -> None:
        self._kept_frame = choose_way(Capability.HELD_FRAMES, lambda: _keep_columns(frame), lambda: _keep_rows(frame))

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return the frame in a session: the settings of its session apply to a frame's reads and writes."""
        return self._kept_frame.frame(spark)

    def read(self, spark: SparkSession) -> None:
        """Read the frame in a session, so that Spark keeps all of it, and forget how it was made: see `finish_read`."""
        self.frame(spark).count()
        self.finish_read()

    def finish_read(self) -> None:
        """Complete the observations in the frame, and forget how it was made; call it once the whole frame was read.

        Spark looks for observations only in plans that it runs itself. And the text of a plan, which Spark writes for
        each query, includes the plans of all kept frames: along a chain of tables it grew fourfold with each table.
        """
        self._kept_frame.finish_read()

    def release(self) -> None:
        """Free the memory."""
        self._kept_frame.release()


class _KeptFrame(Protocol):
    """A way to keep a frame: see `InMemory`."""

    def frame(self, spark: SparkSession) -> DataFrame: ...

    def finish_read(self) -> None: ...

    def release(self) -> None: ...


class _ColumnarFrame:
    """A frame in Spark's columnar cache, outside of the cache's own list of frames. It is filled by its first read."""

    def __init__(self, frame: DataFrame) -> None:
        jvm = active_jvm()
        relations = getattr(getattr(jvm.org.apache.spark.sql.execution.columnar, "InMemoryRelation$"), "MODULE$")
        storage_level = jvm.org.apache.spark.storage.StorageLevel.MEMORY_AND_DISK()
        self._session = frame.sparkSession
        self._observations = java_session(self._session).observationManager()
        self._execution = cast(Any, frame)._jdf.queryExecution()
        self._relation = relations.apply(storage_level, self._execution, scala_none())

    def frame(self, spark: SparkSession) -> DataFrame:
        return frame_of_plan(spark, self._relation)

    def finish_read(self) -> None:
        self._observations.tryComplete(self._execution)
        try:
            self._shorten_plan()
        except Exception as error:
            if not is_absence(error):
                raise
            # Another version of Spark: only the texts of plans grow.
            report_missing(Capability.HELD_FRAMES, error)

    def _shorten_plan(self) -> None:
        builder, jvm = self._relation.cacheBuilder(), active_jvm()
        cached_plan = builder.cachedPlan()
        activate_session(self._session)
        short_plan = jvm.org.apache.spark.sql.execution.RDDScanExec(
            cached_plan.output(),
            builder.cachedColumnBuffers().setName("held"),
            "a frame",
            cached_plan.outputPartitioning(),
            cached_plan.outputOrdering(),
            scala_none(),
        )
        private_field(builder, "cachedPlan").set(builder, short_plan)

    def release(self) -> None:
        self._relation.cacheBuilder().clearCache(False)


class _CheckpointedFrame:
    """A frame that is computed at once, and completes its observations then; Java's collector frees its memory."""

    def __init__(self, frame: DataFrame) -> None:
        self._frame: DataFrame | None = frame.localCheckpoint(eager=True)

    def frame(self, spark: SparkSession) -> DataFrame:
        assert self._frame is not None
        if spark is self._frame.sparkSession:
            return self._frame
        view_name = f"held_{uuid.uuid4().hex}"  # all sessions see it: so one session hands a frame to another
        self._frame.createOrReplaceGlobalTempView(view_name)
        try:
            return spark.table(f"global_temp.{view_name}")
        finally:
            spark.catalog.dropGlobalTempView(view_name)

    def finish_read(self) -> None:
        """Nothing is left to do: the frame was read when it was made."""

    def release(self) -> None:
        self._frame = None


def _keep_columns(frame: DataFrame) -> _KeptFrame:
    return _ColumnarFrame(frame)


def _keep_rows(frame: DataFrame) -> _KeptFrame:
    return _CheckpointedFrame(frame)


def frame_of_plan(spark: SparkSession, plan: Any) -> DataFrame:
    """Return the frame of a plan in a session. plan: Spark's own Java object."""
    return DataFrame(active_jvm().org.apache.spark.sql.classic.Dataset.ofRows(java_session(spark), plan), spark)


class PlannedFrame:
    """A frame that was planned once, for reads in any session."""

    def __init__(self, plan: Any) -> None:
        self._plan = plan

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return the frame in a session."""
        return frame_of_plan(spark, self._plan)


def keep_plan(frame: DataFrame) -> PlannedFrame | None:
    """Return a frame that needs not be planned again; None if Spark can't keep it."""

    def analyze_plan() -> PlannedFrame | None:
        planned_frame = PlannedFrame(cast(Any, frame)._jdf.queryExecution().analyzed())
        planned_frame.frame(frame.sparkSession)
        return planned_frame

    return choose_way(Capability.PLANS, analyze_plan, lambda: None)


def plan_now(frame: DataFrame) -> None:
    """Plan a frame, as far as Spark can do so without running it: the first plan of a process is slow."""
    choose_way(Capability.PLANS, lambda: cast(Any, frame)._jdf.queryExecution().optimizedPlan(), lambda: None)


def read_and_hold(frame: DataFrame) -> DataFrame:
    """Read a frame now, and return it as a frame that Spark keeps; plans over that do not include its own plan.

    Spark frees the memory when nothing refers to the frame any more.
    """
    memory = InMemory(frame)
    memory.read(frame.sparkSession)
    return memory.frame(frame.sparkSession)


def hold_frame(frame: DataFrame, held_frames: list[InMemory] | None = None) -> DataFrame:
    """Return a frame that will be read several times; Spark keeps it from its first read on.

    held_frames: gets the frame, for the caller to release. Without it, Spark frees the memory when nothing refers to
    the frame any more.
    """
    memory = InMemory(frame)
    if held_frames is not None:
        held_frames.append(memory)
    return memory.frame(frame.sparkSession)
