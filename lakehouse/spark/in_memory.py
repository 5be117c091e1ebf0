"""Frames that Spark holds in memory, or on disk, while a batch needs them."""

from __future__ import annotations

from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession

from lakehouse.spark.delta_log import private_field


class InMemory:
    """A frame that Spark holds once it was read, for all sessions: in memory, or on disk.

    Not by `persist`: whenever something is appended to a Delta table, Spark drops what is persisted of frames that read
    it, and reads them again. Ingest appends to bronze all the time.
    """

    def __init__(self, frame: DataFrame) -> None:
        self._jvm = jvm = cast(Any, frame.sparkSession._jvm)
        relations = getattr(getattr(jvm.org.apache.spark.sql.execution.columnar, "InMemoryRelation$"), "MODULE$")
        storage_level = jvm.org.apache.spark.storage.StorageLevel.MEMORY_AND_DISK()
        self._session: Any = frame.sparkSession._jsparkSession
        self._execution = frame._jdf.queryExecution()
        self._relation = relations.apply(storage_level, self._execution, jvm.scala.Option.empty())

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return the frame in a session: a frame's reads and writes run under the settings of its session."""
        return frame_of_plan(spark, self._relation)

    def read(self, spark: SparkSession) -> None:
        """Read the frame in a session, so that Spark holds all of it, and forget how it was made: see `was_read`."""
        self.frame(spark).count()
        self.was_read()

    def was_read(self) -> None:
        """Complete the observations in the frame, and forget how it was made: it was read, so Spark holds all of it.

        Spark looks for observations only in what it runs itself. And the text of a plan, which Spark writes for each
        query, has the text of all that is held in it: along a chain of tables it grew four times with each of them.
        """
        self._session.observationManager().tryComplete(self._execution)
        builder = self._relation.cacheBuilder()
        cached_plan, jvm = builder.cachedPlan(), self._jvm
        jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(self._session)  # a new part of a plan takes it
        short_plan = jvm.org.apache.spark.sql.execution.RDDScanExec(
            cached_plan.output(), builder.cachedColumnBuffers().setName("held"), "a frame", cached_plan.outputPartitioning(),
            cached_plan.outputOrdering(), jvm.scala.Option.empty(),
        )  # fmt: skip
        private_field(builder, "cachedPlan").set(builder, short_plan)

    def release(self) -> None:
        """Free the memory."""
        self._relation.cacheBuilder().clearCache(False)


def frame_of_plan(spark: SparkSession, plan: Any) -> DataFrame:
    """Return the frame of a plan, Spark's own Java object, in a session."""
    jvm, java_session = cast(Any, spark._jvm), cast(Any, spark._jsparkSession)
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(java_session, plan), spark)


def read_and_hold(frame: DataFrame) -> DataFrame:
    """Return a frame that is read now and held: what is made of it does not tell how this was made.

    Spark frees the memory when nothing refers to the frame any more.
    """
    memory = InMemory(frame)
    memory.read(frame.sparkSession)
    return memory.frame(frame.sparkSession)


def hold_frame(frame: DataFrame, held_frames: list[InMemory] | None = None) -> DataFrame:
    """Return a frame that is read several times, held from its first read on.

    holding: takes what is to be released. Without it, Spark frees the memory when nothing refers to the frame any more.
    """
    memory = InMemory(frame)
    if held_frames is not None:
        held_frames.append(memory)
    return memory.frame(frame.sparkSession)
