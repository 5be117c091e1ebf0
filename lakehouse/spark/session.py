"""The Spark session: one for all streams of a process, set up for small batches on few cores."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from lakehouse.errors import ConfigError
from lakehouse.settings.config import Settings
from lakehouse.setup.places import jars_folder
from lakehouse.spark.launch import remember_names, start_jvm
from lakehouse.spark.refused_values import STACK_MEGABYTES

# The reason for each setting was measured on 2 cores: benchmarks/, docs/decisions/spark-is-set-for-small-batches.md.
DEFAULTS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # One clock for all: a local time zone would move every timestamp written as text.
    "spark.sql.session.timeZone": "UTC",
    # An expression that fails is null, as in ksqlDB; a bad record must not stop the job.
    "spark.sql.ansi.enabled": "false",
    # Of a key that a map has twice, the last counts, as in JSON. Otherwise Spark raises in the middle of a map, and the
    # entries it already has would be in the next record's map.
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    # A job keeps some hundred pieces of generated code in use. With the default of 100, batches compile many again.
    "spark.sql.codegen.cache.maxEntries": "2000",
    # A frame that is sent to all tasks takes a page at least, however small it is, until its plan is forgotten. With
    # pages of 32 MB, the default for this heap, a plan with many joins filled it.
    "spark.buffer.pageSize": "2m",
    # 200 shuffle partitions and 50 snapshot partitions cost seconds a batch.
    "spark.databricks.delta.snapshotPartitions": "1",
    # VACUUM lists a folder in this many tasks; the default of 10,000 takes minutes for a handful of files.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
    # INT96, Spark's default, has no statistics, and readers other than Spark refuse its years outside 1677 to 2262.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Without it a flipped bit in Parquet goes unnoticed.
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
    # Rows of several topics are written to several files at once; with one at a time a task sorts every byte by topic.
    "spark.sql.maxConcurrentOutputFileWriters": "32",
    # Ingest and silver share the cores: a long job of one must not starve the other.
    "spark.scheduler.mode": "FAIR",
    # It cuts the observed part out of a plan whose result turns out to be empty, and the counts with it.
    "spark.sql.adaptive.optimizer.excludedRules": "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation",
    # Without it, what two expressions share is computed before both, also where a record gets to neither: for example
    # the right side of an AND that the left side answers. That was half of what reading JSON cost.
    "spark.sql.subexpressionElimination.skipForShortcutExpr": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.streaming.ui.enabled": "false",
    # Its pages show plans as text, written for each job and again for each of its stages, read or not: the short form.
    "spark.sql.ui.explainMode": "simple",
    # Where in Python each column was made, for errors: ten calls to Java for each. Ours name the declaration.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.dataFrameQueryContext.enabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    # We wait for the clock of another query; the default of 10 ms between polls is too short for 2 cores.
    "spark.sql.streaming.pollingDelay": "50",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Rows may have a megabyte each: ten thousand of them, the default, would not fit into the memory of a worker.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(4 << 20),
    "spark.databricks.delta.schema.autoMerge.enabled": "false",
    # Delta would ask a metastore, which does not exist here.
    "spark.sql.catalogImplementation": "in-memory",
    # Tables have paths. Spark makes this folder when it starts: an empty spark-warehouse/ where the command runs.
    "spark.sql.warehouse.dir": tempfile.gettempdir(),
}

# The content of tables depends on these, so users can't set them.
MEANING = (
    "spark.sql.session.timeZone",
    "spark.sql.ansi.enabled",
    "spark.sql.parquet.outputTimestampType",
    "spark.sql.mapKeyDedupPolicy",
)

# They write each error that Python gets from Spark on stderr, caught or not: 10 KB of JSON with a Java trace.
PYSPARK_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")

# A pattern needs it for a long text. Only what a thread has used of it is memory.
STACK = f"-Xss{STACK_MEGABYTES}m"
# By default Java collects the whole heap nine times in the first minute: classes need more room than it began with,
# and a heap that begins small has to grow. Half of the heap is there from the start.
ROOM_FOR_CLASSES = "-XX:MetaspaceSize=256m"
# Java compiles later, and less, once half of what it has for compiled code is full: with its own 240 MB after a few
# minutes, as Spark makes new code for each plan. Only what is used of it is memory.
ROOM_FOR_CODE = "-XX:ReservedCodeCacheSize=512m"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"  # added to ours; every other setting replaces ours
# How the checksum of a commit, and what a query has reached, become files of a local disk. By default Hadoop starts
# about eight processes for each (chmod, readlink): a quarter of a small commit's time. Elsewhere the default is right.
LOCAL_FILES = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    )
}
# Where Java's compiler and its collector share few cores with the work: a method is compiled with all optimisations
# after ten times as many calls as by default, and one thread collects. benchmarks/README.md has the figures.
FEW_CORES = 2
# A MERGE joins a batch with all rows of the files that it touches, and must keep what is on one side only. By default
# Spark sorts both sides; the small one as a hash table takes a sixth less at 10 million rows. This small, as a shuffle
# writes it, its rows fit into memory however well they were compressed: no hash table can be put on disk. The second
# must not be larger than the first, and is nothing else here: there are as many partitions as cores.
SMALL_SIDES = dict.fromkeys(
    ("spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold", "spark.sql.adaptive.advisoryPartitionSizeInBytes"), "1m"
)
COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")
LATE_COMPILER = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000 "
    "-XX:Tier4BackEdgeThreshold=400000"
)


def open_session(settings: Settings) -> SparkSession:
    """Return the process's Spark session, started with these settings if there is none yet.

    Under spark-submit the session's master and jars are those of the command line. Raises ConfigError if the JVM
    dependencies have not been set up, or if the session has settings that would change the content of tables.
    """
    if (active := SparkSession.getActiveSession()) is not None:
        return _check_session(active)
    spark_settings = {"spark.app.name": "lakehouse", **DEFAULTS}
    is_submitted = "SPARK_ENV_LOADED" in os.environ and "PYSPARK_GATEWAY_PORT" in os.environ
    if not is_submitted:
        jars = sorted(str(path) for path in Path(jars_folder("spark")).glob("*.jar"))
        spark_settings |= {"spark.master": settings.spark.master, "spark.driver.memory": settings.spark.memory}
        # A class path costs nothing; spark.jars copies every jar, but a cluster's executors need it.
        if settings.spark.master.startswith("local"):
            spark_settings["spark.driver.extraClassPath"] = os.pathsep.join(jars)
        else:
            spark_settings["spark.jars"] = ",".join(jars)
            spark_settings["spark.executor.extraJavaOptions"] = STACK
        if "://" not in settings.lake.path:
            spark_settings |= LOCAL_FILES
        user_options = settings.spark.options.get(JAVA_OPTIONS, "")
        heap_size = settings.spark.memory if "spark.driver.memory" not in settings.spark.options else None
        spark_settings[JAVA_OPTIONS] = f"{java_options(user_options, heap_size)} {user_options}".strip()
    if settings.spark.master.startswith("local"):
        spark_settings |= SMALL_SIDES | {"spark.sql.shuffle.partitions": str(_count_cores(settings.spark.master))}
        # The workers need this environment's packages; "python3" on the PATH may be another one.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark_settings |= {name: value for name, value in settings.spark.options.items() if name != JAVA_OPTIONS}
    if not is_submitted:
        start_jvm(spark_settings)
    builder = SparkSession.builder
    for name, value in spark_settings.items():
        builder = builder.config(name, value)
    session = _check_session(builder.getOrCreate())
    remember_names(session)
    session.sparkContext.setLogLevel("ERROR")
    for name in PYSPARK_LOGGERS:
        PySparkLogger.getLogger(name).disabled = True
    return session


def _check_session(session: SparkSession) -> SparkSession:
    for name in MEANING:
        if (setting := str(session.conf.get(name))).lower() != DEFAULTS[name].lower():
            raise ConfigError(
                f"Spark's {name} is {setting!r}; expected {DEFAULTS[name]!r}: what tables hold depends on it. Take it "
                "out of [spark] options, or out of the session that this process had started before."
            )
    return session


def _count_cores(master: str) -> int:
    text = master.removeprefix("local").strip("[]").split(",")[0]
    return int(text) if text.isdigit() else (os.cpu_count() or 2) if text == "*" else 1


def java_options(user_options: str, memory: str | None = None) -> str:
    """Return the options of Spark's JVM that precede the user's own; with theirs Java must still start.

    memory: the largest heap, such as "3g"; None if Java is told another.
    """
    log4j = Path(__file__).with_name("log4j2.properties")
    # Without memory a JVM may go on for minutes, or for ever, and do nothing; ended, the next start can read otherwise.
    own_options = "-Duser.timezone=UTC -Dderby.system.home=/dev/null -XX:+ExitOnOutOfMemoryError"
    own_options += f" {STACK} {ROOM_FOR_CLASSES} {ROOM_FOR_CODE}"
    if memory is not None:
        own_options += f" -Xms{max(int(memory[:-1]) * (1024 if memory[-1] == 'g' else 1) // 2, 1)}m"
    if (os.cpu_count() or 1) <= FEW_CORES:
        own_options += f" {LATE_COMPILER}" + (
            "" if COLLECTOR.search(user_options) else " -XX:+UseSerialGC"
        )  # Java refuses two
    own_options += (
        " -Xlog:cds=off -Xlog:cds+dynamic=off"  # of an archive that is of another Java there is nothing to do
    )
    if (archive := class_archive()).is_file() and archive.stat().st_size:
        own_options += f' "-XX:SharedArchiveFile={archive}"'
    return f"{own_options} -Dlog4j2.configurationFile={log4j.as_uri()}"


def class_archive() -> Path:
    """Return where Java's archive of Spark's classes is: beside the jars. See `lakehouse.run.job.class_archive`."""
    return jars_folder("spark").parent / "classes.jsa"
