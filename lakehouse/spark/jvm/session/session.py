"""The Spark session: all streams of a process share it; it is set up for small batches on few cores."""

from __future__ import annotations

import atexit
import logging
import os
import re
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyspark
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from lakehouse.errors import ConfigError
from lakehouse.formats.codec.registered import LENGTH_MAX
from lakehouse.kafka.options import ALLOWED_URLS, token_endpoint
from lakehouse.lake import store
from lakehouse.phases import phase
from lakehouse.settings.config import Settings
from lakehouse.settings.store import S3, hadoop_options
from lakehouse.setup.log_store import CLASS_NAME
from lakehouse.setup.places import jars_folder, s3_jars
from lakehouse.spark.cluster.address import CONNECT, ON_THIS_MACHINE, address_settings, is_local
from lakehouse.spark.cluster.executors import prepare_executors
from lakehouse.spark.jvm.capability import Capability, allow_internals, is_available, report_missing
from lakehouse.spark.jvm.java import set_properties
from lakehouse.spark.jvm.kept.choice import keep_seconds
from lakehouse.spark.jvm.kept.client import connect_to_engine
from lakehouse.spark.jvm.kept.scratch import JAVA_OPTIONS
from lakehouse.spark.jvm.session.launch import (
    ARGUMENTS,
    NO_ARGUMENTS,
    properties_file,
    read_submitted_conf,
    remember_names,
    remove_scratch_at_exit,
    start_jvm,
)
from lakehouse.spark.jvm.tree.ksql_functions import register_functions

# Spark's own values of settings by which an expression, a cast or a file gives another value, or a row is left out.
VALUES_OF_SPARK = {
    "spark.sql.caseSensitive": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.function.concatBinaryAsString": "false",
    "spark.sql.jsonGenerator.ignoreNullFields": "true",
    "spark.sql.legacy.allowNullComparisonResultInArraySort": "false",
    "spark.sql.legacy.castComplexTypesToString.enabled": "false",
    "spark.sql.legacy.charVarcharAsString": "false",
    "spark.sql.legacy.json.allowEmptyString.enabled": "false",
    "spark.sql.legacy.literal.pickMinimumPrecision": "true",
    "spark.sql.legacy.lpadRpadAlwaysReturnString": "false",
    "spark.sql.legacy.negativeIndexInArrayInsert": "false",
    "spark.sql.legacy.sizeOfNull": "true",
    "spark.sql.legacy.statisticalAggregate": "false",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.legacy.typeCoercion.datetimeToString.enabled": "false",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.storeAssignmentPolicy": "ANSI",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
}
EXCLUDED_RULES = "spark.sql.adaptive.optimizer.excludedRules"
# The reason for each setting was measured on 2 cores: benchmarks/, docs/decisions/spark-is-set-for-small-batches.md.
DEFAULTS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # One clock for all: a local time zone would move every timestamp written as text.
    "spark.sql.session.timeZone": "UTC",
    # An expression that fails is null, as in ksqlDB; a bad record must not stop the job.
    "spark.sql.ansi.enabled": "false",
    # If a map has a key twice, the last entry counts, as in JSON. Otherwise Spark raises in the middle of a map, and
    # the entries it already has would be in the next record's map.
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    # A job keeps some hundred pieces of generated code in use. With the default of 100, batches compile many again.
    "spark.sql.codegen.cache.maxEntries": "2000",
    # Java compiles no method of more than 8,000 bytes: what Spark writes in a longer one would stay interpreted.
    "spark.sql.codegen.hugeMethodLimit": "8000",
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
    # This rule removes the observed part from a plan whose result turns out to be empty, and the counts with it.
    EXCLUDED_RULES: "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation",
    # Without it, Spark computes the common part of two expressions before both, also for a record that needs neither:
    # for example the right side of an AND whose left side is false. That was half of the time to read JSON.
    "spark.sql.subexpressionElimination.skipForShortcutExpr": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Without it, executors write each task at the level INFO.
    "spark.executor.syncLogLevel.enabled": "true",
    "spark.sql.streaming.ui.enabled": "false",
    # For its pages Spark writes plans as text, for each job and each stage, even if nobody reads them: in short form,
    # and for the newest few. The default of a thousand took 100 MB of the heap.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.ui.retainedExecutions": "20",
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "1000",
    # It records where in Python each column was made, for errors: ten calls to Java each. Ours name the declaration.
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
    **VALUES_OF_SPARK,
}

# The content of tables depends on these, so users can't set them.
MEANING = (
    "spark.sql.session.timeZone",
    "spark.sql.ansi.enabled",
    "spark.sql.parquet.outputTimestampType",
    "spark.sql.mapKeyDedupPolicy",
    *VALUES_OF_SPARK,
)

# These loggers write each error that Python gets from Spark on stderr, caught or not: 10 KB of JSON with a Java trace.
PYSPARK_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")

# A pattern needs a large stack for a long text (`WALKED_MAX` of `lakehouse.plan.spark_functions.guards` assumes
# this one). Only the part that a thread has used takes memory.
STACK = "-Xss256m"
# By default Java collects the whole heap nine times in the first minute: classes need more room than at the start, and
# a small heap has to grow. So half of the heap is allocated at the start.
ROOM_FOR_CLASSES = "-XX:MetaspaceSize=256m"
# A heap that shrinks to what is in use: a kept Java of a small lake has 80 MB in use, and kept 900 MB by the above. Its
# commands took the same time.
KEPT_HEAP_MB = 128
SHRINKING_HEAP = "-XX:MinHeapFreeRatio=15 -XX:MaxHeapFreeRatio=30"
# Limits for things that a command leaves in a kept Java, and that hardly any later command uses. Each run has consumers
# of Kafka of its own, which keep the last records that they read for five minutes by default, and code of its own.
KEPT_CACHES = {
    "spark.sql.codegen.cache.maxEntries": "500",
    **{
        f"spark.kafka.consumer.{cache}.{name}": "20s"
        for cache in ("cache", "fetchedData.cache")
        for name in ("timeout", "evictorThreadRunInterval")
    },
}
# Java compiles later, and less, once its room for compiled code is half full: with the default of 240 MB after a few
# minutes, as Spark makes new code for each plan. Only the used part takes memory.
ROOM_FOR_CODE = "-XX:ReservedCodeCacheSize=512m"
AVRO_LIMITS = {
    f"org.apache.avro.limits.{name}.maxLength": str(LENGTH_MAX) for name in ("bytes", "string", "collectionItems")
}
EXECUTOR_JAVA_OPTIONS = "spark.executor.extraJavaOptions"
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
# These, and JAVA_OPTIONS, are added to ours; every other setting replaces ours.
LISTS = {
    "spark.driver.extraClassPath": os.pathsep,
    "spark.executor.extraClassPath": os.pathsep,
    "spark.jars": ",",
    EXCLUDED_RULES: ",",
}
# How commits' checksums and queries' checkpoints become files on a local disk. By default Hadoop starts about eight
# processes for each (chmod, readlink): a quarter of a small commit's time. On other file systems the default is right.
FILE_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
LOCAL_FILES = {"spark.sql.streaming.checkpointFileManagerClass": FILE_MANAGER}
# With at most this many cores, Java's compiler and collector share them with the work: a method is compiled with all
# optimisations after ten times as many calls as by default, and one thread collects. Figures: benchmarks/README.md.
FEW_CORES = 2
# A MERGE joins a batch with all rows of the files that it touches, and must keep rows that are on one side only. By
# default Spark sorts both sides; with the small side as a hash table it takes a sixth less at 10 million rows. Spark
# can't put a hash table on disk; a side of this size, as a shuffle writes it, fits into memory however well it is
# compressed. The second setting must not be larger than the first, and has no other effect here: there are as many
# partitions as cores.
SMALL_SIDES = dict.fromkeys(
    ("spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold", "spark.sql.adaptive.advisoryPartitionSizeInBytes"), "1m"
)
COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")
LATE_COMPILER = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000 "
    "-XX:Tier4BackEdgeThreshold=400000"
)


def is_session_open() -> bool:
    """Say whether this process has a Spark session."""
    return SparkSession.getActiveSession() is not None


@phase("starting Spark")
def open_session(settings: Settings) -> SparkSession:
    """Return the process's Spark session, started with these settings if there is none yet.

    Under spark-submit the session's master and jars are those of the command line. Raises ConfigError if the JVM
    dependencies have not been set up, or if the session has settings that would change the content of tables.
    """
    allow_internals(allowed=settings.spark.internals)
    _refuse_connect(settings.spark.master)
    if (active_session := SparkSession.getActiveSession()) is not None:
        return _check_session(active_session)
    is_submitted = "SPARK_ENV_LOADED" in os.environ and "PYSPARK_GATEWAY_PORT" in os.environ
    submitted_conf = read_submitted_conf() if is_submitted else None
    master = settings.spark.master if submitted_conf is None else str(submitted_conf.get("spark.master", "local[*]"))
    token_url = token_endpoint(settings.kafka.options)
    token_option = "" if token_url is None else f"-D{ALLOWED_URLS}={token_url}"
    spark_settings = {"spark.app.name": "lakehouse", **DEFAULTS, **address_settings(master, settings.spark.driver_host)}
    if not is_local(master):
        submitted_options = "" if submitted_conf is None else str(submitted_conf.get(EXECUTOR_JAVA_OPTIONS, ""))
        spark_settings[EXECUTOR_JAVA_OPTIONS] = _join(STACK, _define(AVRO_LIMITS), token_option, submitted_options)
    kept_seconds = None if is_submitted else keep_seconds(settings.spark)
    if not is_submitted:
        jars = sorted(str(path) for path in Path(jars_folder("spark")).glob("*.jar"))
        if settings.lake.path.startswith(S3):
            jars += [str(path) for path in s3_jars()]
        spark_settings |= {"spark.master": master, "spark.driver.memory": settings.spark.memory}
        # A class path costs nothing; spark.jars copies every jar, but a cluster's executors need it.
        if is_local(master):
            spark_settings["spark.driver.extraClassPath"] = os.pathsep.join(jars)
        else:
            spark_settings["spark.jars"] = ",".join(jars)
        if not store.is_remote(settings.lake.path) and _has_file_manager():
            spark_settings |= LOCAL_FILES
        if kept_seconds is not None:
            spark_settings |= KEPT_CACHES
        user_options = settings.spark.options.get(JAVA_OPTIONS, "")
        heap_size = settings.spark.memory if "spark.driver.memory" not in settings.spark.options else None
        spark_settings[JAVA_OPTIONS] = _join(
            java_options(user_options, heap_size, is_kept=kept_seconds is not None), token_option, user_options
        )
    if settings.lake.path.startswith(S3):
        spark_settings |= {"spark.delta.logStore.s3a.impl": CLASS_NAME, **hadoop_options(settings.lake.options)}
    if is_local(master):
        spark_settings |= SMALL_SIDES | {SHUFFLE_PARTITIONS: str(_count_cores(master))}
    _choose_python(master, settings.spark.python)
    lakehouse_settings = dict(spark_settings)
    spark_settings |= {name: value for name, value in settings.spark.options.items() if name != JAVA_OPTIONS}
    if not is_local(master) and (own_options := settings.spark.options.get(EXECUTOR_JAVA_OPTIONS)):
        spark_settings[EXECUTOR_JAVA_OPTIONS] = f"{lakehouse_settings[EXECUTOR_JAVA_OPTIONS]} {own_options}"
    spark_settings |= _joined_lists(lakehouse_settings, settings.spark.options)
    session = None
    if kept_seconds is not None:
        own_arguments = os.environ.get(ARGUMENTS, NO_ARGUMENTS)
        session = connect_to_engine(spark_settings, kept_seconds, properties_file, own_arguments)
    if session is None:
        if not is_submitted:
            start_jvm(spark_settings)  # unless this process has a Java by now
        builder = SparkSession.builder
        for name, value in spark_settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
    _check_session(session)
    if is_submitted:
        set_properties(AVRO_LIMITS)
    remember_names(session)
    remove_scratch_at_exit()
    register_functions(session)
    session.sparkContext.setLogLevel("ERROR")
    for name in PYSPARK_LOGGERS:
        PySparkLogger.getLogger(name).disabled = True
    _silence_py4j()
    _silence_accumulators(session)
    if not is_local(master):
        try:
            prepare_executors(session, settings)
        except ConfigError:
            session.stop()  # the next start must ask again
            raise
        atexit.register(_stop, session)
    return session


def _stop(session: SparkSession) -> None:
    """Let the cluster know that the application is over: Kubernetes keeps its executors' pods until it is told."""
    with suppress(Exception):  # the JVM may have ended before
        session.stop()


def new_session(session: SparkSession) -> SparkSession:
    """Return another session of the same Spark: its settings, and its functions, are its own."""
    own_session = session.newSession()
    own_session.conf.set(SHUFFLE_PARTITIONS, str(session.conf.get(SHUFFLE_PARTITIONS)))  # by the executors' cores
    register_functions(own_session)
    return own_session


def _refuse_connect(master: str) -> None:
    """Raise ConfigError for a session of Spark Connect, which has no JVM of its own."""
    if CONNECT.match(master) or os.environ.get("SPARK_REMOTE") or is_remote():
        raise ConfigError(
            "found Spark Connect (a master or SPARK_REMOTE like sc://...); expected Spark with its JVM beside this "
            "process: lakehouse commits by Delta's own log, which a remote session does not reach. Use [spark] "
            'master = "spark://host:7077", "yarn", "k8s://..." or "local[*]"; tables alone any reader of Delta reads.'
        )


def _choose_python(master: str, python: str | None) -> None:
    """Set the Python that runs functions: PySpark reads it from the environment alone."""
    if python is not None:
        os.environ["PYSPARK_PYTHON"] = python
    elif is_local(master) or ON_THIS_MACHINE.fullmatch(master):
        # The workers need this environment's packages; "python3" on the PATH may be another one.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def _has_file_manager() -> bool:
    """Say whether this Spark has the class of LOCAL_FILES: a query with another name of a class does not start."""
    if not is_available(Capability.LOCAL_FILES):
        return False
    if pyspark.__version__.startswith("4.2."):
        return True
    class_file = f"{FILE_MANAGER.replace('.', '/')}.class"
    for jar in Path(pyspark.__file__).parent.glob("jars/spark-sql_*.jar"):
        with zipfile.ZipFile(jar) as classes:
            if class_file in classes.NameToInfo:
                return True
    report_missing(Capability.LOCAL_FILES, FILE_MANAGER)
    return False


def _check_session(session: SparkSession) -> SparkSession:
    for name in MEANING:
        if (setting := str(session.conf.get(name))).lower() != DEFAULTS[name].lower():
            raise ConfigError(
                f"Spark's {name} is {setting!r}; expected {DEFAULTS[name]!r}: what tables hold depends on it. Take it "
                "out of [spark] options, or out of the session that this process had started before."
            )
    return session


def _joined_lists(own_settings: Mapping[str, str], user_options: Mapping[str, str]) -> dict[str, str]:
    """Return the user's lists, each behind ours."""
    return {
        name: separator.join(filter(None, [own_settings.get(name), user_list]))
        for name, separator in LISTS.items()
        if (user_list := user_options.get(name))
    }


def _count_cores(master: str) -> int:
    text = master.removeprefix("local").strip("[]").split(",")[0]
    return int(text) if text.isdigit() else (os.cpu_count() or 2) if text == "*" else 1


def _define(properties: Mapping[str, str]) -> str:
    """Return system properties as options of Java."""
    return " ".join(f"-D{name}={value}" for name, value in properties.items())


def _join(*options: str) -> str:
    return " ".join(filter(None, options))


def java_options(user_options: str, memory: str | None = None, *, is_kept: bool = False) -> str:
    """Return the options of Spark's JVM that precede the user's own; Java must start with both.

    memory: the largest heap, such as "3g"; None if the user sets another. is_kept: Java outlives a command, and gives
    memory back meanwhile.
    """
    log4j = Path(__file__).with_name("log4j2.properties")
    # Without memory a JVM may run on for ever and do nothing; if it exits, the next start can read in another way.
    own_options = "-Duser.timezone=UTC -Dderby.system.home=/dev/null -XX:+ExitOnOutOfMemoryError"
    own_options += f" {STACK} {ROOM_FOR_CLASSES} {ROOM_FOR_CODE} {_define(AVRO_LIMITS)}"
    if memory is not None:
        half_heap_mb = max(int(memory[:-1]) * (1024 if memory[-1] == "g" else 1) // 2, 1)
        own_options += f" -Xms{min(half_heap_mb, KEPT_HEAP_MB) if is_kept else half_heap_mb}m"
    if is_kept:
        own_options += f" {SHRINKING_HEAP}"
    if (os.cpu_count() or 1) <= FEW_CORES:
        own_options += f" {LATE_COMPILER}"
        if not COLLECTOR.search(user_options):  # Java refuses two collectors
            own_options += " -XX:+UseSerialGC"
    # Java would warn about an archive of another Java, though a user need not do anything.
    own_options += " -Xlog:cds=off -Xlog:cds+dynamic=off"
    if (archive := class_archive()).is_file() and archive.stat().st_size:
        own_options += f' "-XX:SharedArchiveFile={archive}"'
    return f"{own_options} -Dlog4j2.configurationFile={log4j.as_uri()}"


def _silence_py4j() -> None:
    """Keep Py4J from writing the trace of each error that Python raised in a batch, or got from Java."""
    logging.getLogger("py4j").propagate = False
    logging.getLogger().addFilter(_is_not_of_py4j)  # once: the same filter is not added again


def _silence_accumulators(session: SparkSession) -> None:
    """Let the server that takes in Java's counts print no trace when Java is gone: the error that follows says it."""
    server = getattr(session.sparkContext, "_accumulatorServer", None)
    if server is None:
        return
    report = type(server).handle_error

    def report_unless_closed(request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), EOFError | ConnectionError):
            report(server, request, client_address)

    server.handle_error = report_unless_closed


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Say whether a record of the root logger is not the one that Py4J writes there when Java has ended."""
    return record.msg != "Exception while sending command."


def class_archive() -> Path:
    """Return where Java's archive of Spark's classes is: beside the jars. See `lakehouse.run.job.class_archive`."""
    return jars_folder("spark").parent / "classes.jsa"
