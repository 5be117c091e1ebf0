"""A kept engine, with real processes: who may use it, and what the next command finds in it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from lakehouse.process import start_mark
from lakehouse.spark.jvm.kept import engine, keeper, private_files
from tests.kept.conftest import IN_SESSION, WAIT, Desk, finish, has_ended

LEAVE_THINGS_BEHIND = """
spark.conf.set("spark.sql.shuffle.partitions", "77")
spark.range(3).createTempView("left_view")
spark.range(3).createGlobalTempView("left_for_all")
spark.range(3).cache().count()
from pyspark.sql.functions import udf
value = [row[0] for row in spark.range(1).select(udf(lambda n: os.getpid())("id")).collect()][0]
"""
# 90 MB an array. Py4J would copy an array of bytes into this process.
LEAVE_IN_HEAP = """
gateway = spark._sc._gateway
for n in range({arrays}):
    spark._jvm.System.getProperties().put(f"left{{os.getpid()}}.{{n}}", gateway.new_array(gateway.jvm.long, 11_250_000))
value = None
"""
LOOK_FOR_THEM = """
tables = [table.name for table in spark.catalog.listTables() + spark.catalog.listTables("global_temp")]
from pyspark.sql.functions import udf
worker = [row[0] for row in spark.range(1).select(udf(lambda n: os.getpid())("id")).collect()][0]
value = [spark.conf.get("spark.sql.shuffle.partitions"), tables, len(spark.sparkContext._jsc.getPersistentRDDs()),
         int(worker), os.environ.get("PYSPARK_GATEWAY_PORT")]
"""

# Stands for spark-submit: it says its port at once, or after a while, and ends with its input.
SPARK_SUBMIT = """#!{python}
import os, struct, sys, time
time.sleep(float(sys.argv[1]))
path = os.environ["_PYSPARK_DRIVER_CONN_INFO_PATH"]
with open(path + ".new", "wb") as stream:
    stream.write(struct.pack("!ii", 1, 1) + b"x")
os.rename(path + ".new", path)
sys.stdin.read()
"""
START = """
import os, sys
from pathlib import Path
from lakehouse.spark.jvm.kept import engine
from lakehouse.spark.jvm.kept.private_files import files_here
claim = engine.claim_engine(files_here())
engine.usable_engine(claim, "first")
engine.start_engine(claim, "first", ["2"], Path(sys.argv[1]), 60, [], {}, os.open(os.devnull, os.O_RDONLY))
"""


@pytest.fixture
def spark_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    script = tmp_path / "spark-submit"
    script.write_text(SPARK_SUBMIT.format(python=sys.executable))
    script.chmod(0o700)
    yield script
    for left in keepers_of(script):
        left.kill()


def keepers_of(script: Path) -> list[psutil.Process]:
    keepers = [one for one in psutil.process_iter(["cmdline"]) if keeper.__file__ in (one.info["cmdline"] or ())]
    return [one for one in keepers if str(script) in one.info["cmdline"][-1]]


def start_fake(claim: engine.EngineClaim, key: str, seconds: int, script: Path) -> engine.KeptEngine | None:
    scratch_lock = os.open(os.devnull, os.O_RDONLY)
    try:
        return engine.start_engine(claim, key, [str(seconds)], script, 60, [], {}, scratch_lock)
    finally:
        os.close(scratch_lock)


def test_an_engine_of_a_command_that_was_killed_meanwhile_is_not_taken(spark_submit: Path) -> None:
    first = subprocess.Popen([sys.executable, "-c", START, str(spark_submit)])
    while not (keepers := keepers_of(spark_submit)):
        time.sleep(0.02)
    first.kill()
    first.wait()
    files = private_files.files_here()
    claim = engine.claim_engine(files)
    assert claim is not None
    assert engine.usable_engine(claim, "second") is None
    own = start_fake(claim, "second", 4, spark_submit)
    assert own is not None
    assert own.key == "second"
    assert has_ended(keepers[0].pid)
    assert own.start == start_mark(own.keeper_pid) != ""
    found = engine.find_engine(files)
    assert found == own
    own.end()
    claim.give_up()


def test_a_keeper_ends_with_a_start_that_fails(spark_submit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = engine.claim_engine(private_files.files_here())
    assert claim is not None
    engine.usable_engine(claim, "key")

    def interrupt(files: private_files.EngineFiles) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(engine, "find_engine", interrupt)
        with pytest.raises(KeyboardInterrupt):
            start_fake(claim, "key", 60, spark_submit)
    assert keepers_of(spark_submit) == []
    monkeypatch.setattr(engine, "START_TIMEOUT_SECONDS", 0.5)
    assert start_fake(claim, "key", 60, spark_submit) is None
    assert keepers_of(spark_submit) == []
    claim.give_up()


@pytest.mark.rotated
def test_the_next_command_finds_the_same_java_and_nothing_of_the_one_before(desk: Desk) -> None:
    first, _ = desk.ask(LEAVE_THINGS_BEHIND)
    second, err = desk.ask(LOOK_FOR_THEM)
    assert second["java"] == first["java"]
    partitions, tables, cached, worker, port = second["value"]
    assert (partitions, tables, cached, port) == (str(os.cpu_count()), [], 0, None)
    assert worker != int(first["value"])
    assert "in use" not in err
    for path in [(files := desk.private_files())[0].parent, *files]:
        assert stat.S_IMODE(path.stat().st_mode) in (0o700 if path.is_dir() else 0o600,)
    (kept,) = desk.engines()
    secret = json.loads(next(path for path in files if path.suffix == ".json").read_text())["secret"]
    for pid in (kept["pid"], kept["keeper"]):
        assert secret not in Path(f"/proc/{pid}/cmdline").read_text()
        assert secret not in Path(f"/proc/{pid}/environ").read_text()
    assert secret not in json.dumps(kept)


@pytest.mark.slow
def test_a_client_that_is_killed_takes_the_engine_with_it(desk: Desk) -> None:
    first, _ = desk.ask()
    client = desk.open_session(WAIT)
    assert client.stdout is not None
    assert client.stdout.readline() == "ready\n"
    assert desk.engines()[0]["client"] == client.pid
    client.kill()
    second, _ = desk.ask("value = spark.range(10).count()")
    assert second["java"] != first["java"]
    assert second["value"] == 10
    assert has_ended(first["java"])
    finish(client)


@pytest.mark.slow
def test_two_clients_at_once(desk: Desk) -> None:
    client = desk.open_session(WAIT)
    assert client.stdout is not None
    assert client.stdout.readline() == "ready\n"
    other, err = desk.ask("value = spark.range(10).count()")
    assert f"in use by process {client.pid}: this process starts its own" in err
    (kept,) = desk.engines()
    assert other["java"] != kept["pid"]
    assert has_ended(other["java"])
    stopped = desk.run("spark", "stop")
    assert stopped.returncode == 1
    assert f"in use by process {client.pid}" in stopped.stdout
    client.send_signal(signal.SIGINT)
    finish(client)
    assert has_ended(kept["pid"])


@pytest.mark.slow
def test_java_or_its_keeper_killed_while_idle(desk: Desk) -> None:
    last_java = 0
    for name in ("pid", "keeper"):
        asked, _ = desk.ask("value = spark.range(10).count()")
        assert asked["java"] != last_java
        (kept,) = desk.engines()
        os.kill(kept[name], signal.SIGKILL)
        assert has_ended(kept["pid"])
        last_java = kept["pid"]
    asked, err = desk.ask("value = spark.range(10).count()")
    assert asked["value"] == 10
    assert asked["java"] != last_java
    assert err.replace("WARNING: Using incubator modules: jdk.incubator.vector\n", "") == ""


@pytest.mark.slow
def test_the_engine_of_a_task_ends_with_airflow(desk: Desk) -> None:
    """A process with Airflow's mark stands for its scheduler: it starts the tasks, and is killed."""
    mark = {"LAKEHOUSE_SUPERVISED_BY": f"{desk.folder}/airflow#scheduler"}
    mine, _ = desk.ask()
    scheduler = desk.start_under_another(IN_SESSION.format(code="value = spark.range(10).count()"), **mark)
    assert scheduler.stdout is not None
    tasks = [json.loads(scheduler.stdout.readline()) for _ in range(2)]
    assert tasks[0] == tasks[1], "two tasks, one after the other, on one Java"
    assert tasks[0]["java"] != mine["java"], "a person's and Airflow's do not end each other"
    assert {one["pid"] for one in desk.engines()} == {mine["java"], tasks[0]["java"]}
    scheduler.kill()
    assert has_ended(tasks[0]["java"])
    assert [one["pid"] for one in desk.engines()] == [mine["java"]]
    finish(scheduler)


@pytest.mark.slow
def test_an_old_file_and_a_reused_pid_mislead_nobody(desk: Desk) -> None:
    first, _ = desk.ask()
    state_file = next(path for path in desk.private_files() if path.suffix == ".json")
    state = json.loads(state_file.read_text())
    desk.run("spark", "stop")
    assert has_ended(first["java"])
    for wrong in ({}, {"keeper": os.getpid()}, {"keeper": os.getpid(), "java": os.getpid(), "port": 1}):
        state_file.write_text(json.dumps(state | wrong))
        state_file.chmod(0o600)
        assert desk.engines() == []
    second, _ = desk.ask()
    assert second["java"] != first["java"]


@pytest.mark.slow
def test_another_start_is_another_java(desk: Desk) -> None:
    first, again, other = (
        desk.ask(**variables)[0]["java"] for variables in ({}, {"TERM_PROGRAM": "another"}, {"MY_LOGIN": "another"})
    )
    assert again == first
    assert other != first
    assert has_ended(first)
    assert [one["pid"] for one in desk.engines()] == [other]


@pytest.mark.slow
def test_it_ends_when_most_of_its_heap_stays_in_use(desk: Desk) -> None:
    """What a command leaves where nothing clears it; less than the bound does not matter."""
    desk.variables["LAKEHOUSE_SPARK_MEMORY"] = "1g"
    first, _ = desk.ask(LEAVE_IN_HEAP.format(arrays=1))
    time.sleep(keeper.COLLECT_AFTER_SECONDS + 3)
    second, _ = desk.ask(LEAVE_IN_HEAP.format(arrays=6))
    assert second["java"] == first["java"]
    assert has_ended(second["java"])
    assert desk.engines() == []


@pytest.mark.slow
def test_it_ends_on_a_full_disk(desk: Desk) -> None:
    """Full is what has less room than the rule says: here the rule is exchanged, since a disk can't be filled."""
    asked, _ = desk.ask("from lakehouse.spark.jvm.kept import engine; value = engine.FREE_BYTES_MIN")
    assert asked["value"] == engine.FREE_BYTES_MIN < shutil.disk_usage(desk.folder).free
    assert not has_ended(asked["java"], patience_seconds=2.0)
    desk.run("spark", "stop")
    full = f"from lakehouse.spark.jvm.kept import engine; engine.FREE_BYTES_MIN = {2**62}\n"
    process = desk.start_code(full + IN_SESSION.format(code="value = spark.range(10).count()"))
    done = finish(process)
    assert json.loads(done.stdout.splitlines()[-1])["value"] == 10, "a command that is under way is not cut off"
    assert has_ended(json.loads(done.stdout.splitlines()[-1])["java"])
    assert desk.engines() == []


@pytest.mark.slow
def test_it_ends_after_the_idle_time(desk: Desk) -> None:
    asked, _ = desk.ask(LAKEHOUSE_SPARK_KEEP="2 seconds")
    assert has_ended(asked["java"])
    assert desk.engines() == []
