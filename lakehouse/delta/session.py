"""The Spark session: one for all streams of a process, set up for small batches on few cores."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from lakehouse.config import Settings, jars_folder

# Why each is here: measured on 2 cores, see benchmarks/ and ARCHITECTURE.md.
DEFAULTS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # One clock for all: a local time zone would move every timestamp written as text.
    "spark.sql.session.timeZone": "UTC",
    # An expression that fails is null, as in ksqlDB; a bad record must not stop the job.
    "spark.sql.ansi.enabled": "false",
    # 200 shuffle partitions and 50 snapshot partitions cost seconds a batch.
    "spark.databricks.delta.snapshotPartitions": "1",
    # VACUUM lists a folder in so many tasks; 10,000 of them take minutes for a handful of files.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
    # Without it a flipped bit in Parquet is read in silence.
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
    # Ingest and silver share the cores: a long job of one must not starve the other.
    "spark.scheduler.mode": "FAIR",
    # It cuts the observed part out of a plan whose result turns out to be empty, and the counts with it.
    "spark.sql.adaptive.optimizer.excludedRules": "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.streaming.ui.enabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    # We wait for the clock of another query; the default of 10 ms between polls is too short for 2 cores.
    "spark.sql.streaming.pollingDelay": "50",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.databricks.delta.schema.autoMerge.enabled": "false",
    # Delta would ask a metastore that nobody here has.
    "spark.sql.catalogImplementation": "in-memory",
}

JAVA_OPTIONS = "spark.driver.extraJavaOptions"  # added to ours; every other setting replaces ours


def open_session(settings: Settings) -> SparkSession:
    """Return the process's Spark session, started with the settings if there is none yet.

    Under spark-submit the session's master and jars are those of the command line. Raises ConfigError when the JVM
    dependencies have not been set up.
    """
    if (active := SparkSession.getActiveSession()) is not None:
        return active
    submitted = "SPARK_ENV_LOADED" in os.environ and "PYSPARK_GATEWAY_PORT" in os.environ
    builder = SparkSession.builder.appName("lakehouse")
    for name, value in DEFAULTS.items():
        builder = builder.config(name, value)
    if not submitted:
        jars = sorted(str(path) for path in Path(jars_folder("spark")).glob("*.jar"))
        builder = builder.master(settings.spark.master).config("spark.driver.memory", settings.spark.memory)
        # A class path costs nothing; spark.jars copies every jar, and is what a cluster's executors need.
        if settings.spark.master.startswith("local"):
            builder = builder.config("spark.driver.extraClassPath", os.pathsep.join(jars))
        else:
            builder = builder.config("spark.jars", ",".join(jars))
        java_options = f"{_java_options()} {settings.spark.options.get(JAVA_OPTIONS, '')}"
        builder = builder.config(JAVA_OPTIONS, java_options.strip())
    if settings.spark.master.startswith("local"):
        builder = builder.config("spark.sql.shuffle.partitions", str(_cores(settings.spark.master)))
        # The workers need this environment's packages; "python3" of the PATH may be another one.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name, value in settings.spark.options.items():
        if name != JAVA_OPTIONS:
            builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _cores(master: str) -> int:
    text = master.removeprefix("local").strip("[]").split(",")[0]
    return int(text) if text.isdigit() else (os.cpu_count() or 2) if text == "*" else 1


def _java_options() -> str:
    log4j = Path(__file__).with_name("log4j2.properties")
    return f"-Dlog4j2.configurationFile={log4j.as_uri()} -Dderby.system.home=/dev/null"
