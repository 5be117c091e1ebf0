"""How Spark's JVM is started: what other accounts of the machine can read, and that every setting arrives."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse.errors import ConfigError
from lakehouse.kafka.options import java_options
from lakehouse.run.scenario import suite
from lakehouse.spark.jvm.session import session
from tests.conftest import SECRETS

CANARY = "canary-in-"


def jvm(spark: SparkSession) -> Any:
    return spark._jvm


def of_process(spark: SparkSession, name: str) -> str:
    """A file of /proc about the session's own JVM."""
    pid = jvm(spark).java.lang.ProcessHandle.current().pid()
    return Path(f"/proc/{pid}/{name}").read_bytes().decode()


def test_secrets_among_sparks_options_are_not_on_the_jvms_command_line(spark: SparkSession) -> None:
    assert "SparkSubmit" in of_process(spark, "cmdline")
    assert CANARY not in of_process(spark, "cmdline")
    assert "fs.s3a.secret.key" not in of_process(spark, "cmdline")
    assert CANARY not in of_process(spark, "environ")


def test_a_small_frame_that_is_sent_to_all_tasks_takes_little_memory(spark: SparkSession) -> None:
    """It takes one page at least: 32 MB, if Spark chooses for a heap of 3 GB."""
    assert jvm(spark).org.apache.spark.SparkEnv.get().memoryManager().pageSizeBytes() == 2 << 20


def test_a_batch_is_joined_with_a_tables_rows_without_sorting_them(spark: SparkSession) -> None:
    joined = spark.range(10).join(spark.range(5, 100_000), "id", "full_outer")
    assert len(joined.toArrow()) == 100_000
    jdf: Any = joined._jdf  # type: ignore[attr-defined]
    final, _, initial = str(jdf.queryExecution().executedPlan().toString()).partition("== Initial Plan ==")
    assert "SortMergeJoin" in initial
    assert "ShuffledHashJoin" in final


def test_kafkas_password_is_not_on_the_jvms_command_line(spark: SparkSession) -> None:
    login = {"sasl.mechanism": "PLAIN", "sasl.username": "lakehouse", "sasl.password": "canary-in-kafka"}
    options = {f"kafka.{name}": value for name, value in java_options(login).items()}
    source = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "orders"}
    assert spark.readStream.format("kafka").options(**options, **source).load().isStreaming
    assert CANARY not in of_process(spark, "cmdline")
    assert CANARY not in of_process(spark, "environ")


def test_the_file_that_carried_the_settings_is_gone(spark: SparkSession) -> None:
    arguments = shlex.split(jvm(spark).java.lang.System.getenv("PYSPARK_SUBMIT_ARGS"))
    file = Path(arguments[arguments.index("--properties-file") + 1])
    assert file.name == "spark.properties"
    assert not file.parent.exists()


@pytest.mark.parametrize(
    "theirs", ["", "-XX:+UseParallelGC", "-Da=b -XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=64m"]
)
@pytest.mark.parametrize("cores", [2, 8])
def test_java_starts_with_the_users_own_options(theirs: str, cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    options = shlex.split(f"{session.java_options(theirs, '512m')} {theirs}")
    assert "-Xms256m" in options
    subprocess.run(["java", *options, "-version"], check=True, capture_output=True)
    few = [option for option in options if "SerialGC" in option or "Tier4" in option]
    assert len(few) == {2: 4 if "UseParallelGC" in theirs else 5, 8: 0}[cores]


def test_every_option_reaches_spark_as_it_was_written(spark: SparkSession) -> None:
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()  # type: ignore[attr-defined]
    for name, value in SECRETS.items():
        assert hadoop.getRaw(name.removeprefix("spark.hadoop.")) == value
        assert jvm(spark).java.lang.System.getProperty(name).strip() == value.strip()


# Python's collector may run at any time: what it frees of Java is told to Java.
FORGOTTEN = "m\nd\n"


def test_a_name_of_java_is_asked_for_once(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part of `org.apache.spark...` was looked for in every jar, each time: a fifth of the driver's time."""
    view, sent = jvm(spark), []
    client = view._gateway_client
    send = client.send_command

    def counted(command: str, *rest: Any, **named: Any) -> Any:
        if not command.startswith(FORGOTTEN):
            sent.append(command)
        return send(command, *rest, **named)

    monkeypatch.setattr(client, "send_command", counted)
    assert view.java.lang.Math.abs(-2) == 2
    sent.clear()
    assert view.java.lang.Math.abs(-3) == 3
    assert len(sent) == 1
    sent.clear()
    F.col("a")
    sent.clear()
    F.col("b")
    assert len(sent) == 1


@pytest.mark.parametrize("name", session.MEANING)
def test_a_session_that_computes_other_values_is_refused(spark: SparkSession, name: str) -> None:
    own = spark.newSession()
    assert session._check_session(own) is own
    other = {"true": "false", "false": "true", "UTC": "Asia/Tokyo", "LAST_WIN": "EXCEPTION", "CORRECTED": "LEGACY"}
    choices = other | {"TIMESTAMP_MICROS": "INT96", "TIMESTAMP_LTZ": "TIMESTAMP_NTZ", "ANSI": "LEGACY"}
    own.conf.set(name, choices[session.DEFAULTS[name]])
    with pytest.raises(ConfigError, match=f"{re.escape(name)} is .*; expected '{session.DEFAULTS[name]}'"):
        session._check_session(own)


def test_the_guarded_values_are_sparks_own(spark: SparkSession) -> None:
    """Where Spark has another one by a later version, tables that are there must not change with it."""
    definitions: Any = getattr(jvm(spark), "org.apache.spark.sql.internal.SQLConf$")
    entries = {entry.key(): entry for entry in getattr(definitions, "MODULE$").getConfigEntries().toArray()}
    for name, value in session.VALUES_OF_SPARK.items():
        assert entries[name].defaultValueString() == value, name


def test_a_users_lists_do_not_replace_ours() -> None:
    rules = session._joined_lists(session.DEFAULTS, {session.EXCLUDED_RULES: "other.Rule", "spark.jars": "a.jar"})
    assert rules == {
        session.EXCLUDED_RULES: f"{session.DEFAULTS[session.EXCLUDED_RULES]},other.Rule", "spark.jars": "a.jar",
    }  # fmt: skip


def test_a_suite_of_scenarios_leaves_the_session_that_was_there(spark: SparkSession) -> None:
    with suite.spark_engine():
        pass
    assert spark.range(3).count() == 3


def test_a_java_that_is_gone_leaves_no_trace_of_counts(spark, capsys) -> None:
    server = spark.sparkContext._accumulatorServer
    for error, is_told in ((EOFError(), False), (ConnectionResetError(), False), (ValueError("wrong"), True)):
        try:
            raise error
        except type(error):
            server.handle_error(None, ("127.0.0.1", 1))
        assert ("Traceback" in capsys.readouterr().err) == is_told
