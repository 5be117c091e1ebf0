"""Frames that Spark keeps in memory, or on disk, while a batch needs them."""

from __future__ import annotations

from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession

from lakehouse.spark.jvm.delta_log import private_field


class InMemory:
    """A frame that Spark keeps after its first read, for all sessions: in memory, or on disk.

    Not by `persist`: at each append to a Delta table, Spark drops the persisted frames that read the table, and reads
    them again. Ingest appends to bronze all the time.
    """

    def __init__(self, frame: DataFrame) -> None:
        self._jvm = jvm = cast(Any, frame.sparkSession._jvm)
        relations = getattr(getattr(jvm.org.apache.spark.sql.execution.columnar, "InMemoryRelation$"), "MODULE$")
        storage_level = jvm.org.apache.spark.storage.StorageLevel.MEMORY_AND_DISK()
        self._session: Any = frame.sparkSession._jsparkSession
        self._execution = frame._jdf.queryExecution()
        self._relation = relations.apply(storage_level, self._execution, jvm.scala.Option.empty())

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return the frame in a session: the settings of its session apply to a frame's reads and writes."""
        return frame_of_plan(spark, self._relation)

    def read(self, spark: SparkSession) -> None:
        """Read the frame in a session, so that Spark keeps all of it, and forget how it was made: see `was_read`."""
        self.frame(spark).count()
        self.was_read()

    def was_read(self) -> None:
        """Complete the observations in the frame, and forget how it was made; call it once the whole frame was read.

        Spark looks for observations only in plans that it runs itself. And the text of a plan, which Spark writes for
        each query, includes the plans of all kept frames: along a chain of tables it grew fourfold with each table.
        """
        self._session.observationManager().tryComplete(self._execution)
        builder = self._relation.cacheBuilder()
        cached_plan, jvm = builder.cachedPlan(), self._jvm
        jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(self._session)  # a new node takes the active one
        short_plan = jvm.org.apache.spark.sql.execution.RDDScanExec(
            cached_plan.output(),
            builder.cachedColumnBuffers().setName("held"),
            "a frame",
            cached_plan.outputPartitioning(),
            cached_plan.outputOrdering(),
            jvm.scala.Option.empty(),
        )
        private_field(builder, "cachedPlan").set(builder, short_plan)

    def release(self) -> None:
        """Free the memory."""
        self._relation.cacheBuilder().clearCache(False)


def frame_of_plan(spark: SparkSession, plan: Any) -> DataFrame:
    """Return the frame of a plan in a session. plan: Spark's own Java object."""
    jvm, java_session = cast(Any, spark._jvm), cast(Any, spark._jsparkSession)
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(java_session, plan), spark)


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
