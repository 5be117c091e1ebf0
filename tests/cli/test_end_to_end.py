"""produce -> run -> every command that reads, once on real Kafka and Spark; and the jobs of spark_jobs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from lakehouse.cli.main import main
from lakehouse.cli.start.job import run_part
from lakehouse.kafka.embedded.broker import Broker

JOBS = Path(__file__).parents[2] / "spark_jobs"
APP = """
import lakehouse as lh

orders = lh.stream({topic!r}, key="id string", schema="customer string, amount decimal(10, 2)", name="orders")
totals = orders.group_by("customer").agg(orders=lh.count(), total=lh.sum("amount")).table("totals")
app = lh.app(totals, totals.changes().to_topic({changelog!r}))
"""
RECORDS = (
    '{"key": "1", "value": {"customer": "ann", "amount": 2.5}, "timestamp": "2026-01-31T12:00:00Z"}',
    '{"key": "2", "value": {"customer": "bob", "amount": 4}, "timestamp": "2026-01-31T12:01:00Z"}',
    '{"key": "3", "value": {"customer": "ann", "amount": 3.25}, "timestamp": "2026-01-31T12:02:00Z"}',
    '{"key": "4", "value": "no order", "timestamp": "2026-01-31T12:03:00Z"}',
)
PAST = "SELECT * FROM totals ORDER BY customer"
LATER = "5\t" + '{"customer": "bob", "amount": 1}' + "\t2026-01-31T12:04:00Z\n"
TOTALS = [
    {"customer": "ann", "orders": 2, "total": "5.75"},
    {"customer": "bob", "orders": 1, "total": "4.00"},
]


class Project:
    """A folder with an application on a topic of its own, settings, and records in the topic."""

    def __init__(self, folder: Path, broker: Broker) -> None:
        self.folder = folder
        self.topic = f"orders-{uuid.uuid4().hex[:8]}"
        self.changelog = f"{self.topic}-changelog"
        (folder / "app.py").write_text(APP.format(topic=self.topic, changelog=self.changelog))
        (folder / "lakehouse.toml").write_text(
            f'[lake]\npath = "./lake"\n[kafka]\nbootstrap_servers = "{broker.bootstrap_servers}"\n'
        )
        (folder / "orders.jsonl").write_text("\n".join(RECORDS) + "\n")
        (folder / "later.tsv").write_text(LATER)


@pytest.fixture
def project(folder: Path, broker: Broker) -> Project:
    return Project(folder, broker)


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def test_from_a_file_to_a_table_and_back(spark, project, lakehouse):
    assert lines(lakehouse("produce", project.topic, "orders.jsonl", "--partitions", "2", "--json").out) == [
        {"topic": project.topic, "records": 4}
    ]
    run = lakehouse("run", "app.py", "--until", "caught-up", "--json")
    assert run.code == 0, run.err
    events = lines(run.out)
    assert [event["event"] for event in events] == ["tick", "batch", "published", "done"]
    assert events[-1]["rows"] == 4
    assert events[-1]["tables"]["totals"]["rows"] == 2
    assert events[-1]["quarantined"] == {"orders": 1}

    assert lines(lakehouse("query", PAST, "--json").out) == TOTALS
    csv = lakehouse("query", "SELECT customer, total FROM totals ORDER BY 1", "--csv").out
    assert csv == "customer,total\nann,5.75\nbob,4.00\n"
    assert "ann" in lakehouse("query", "SELECT * FROM totals").out
    assert lines(lakehouse("query", f'SELECT count(*) AS n FROM bronze."{project.topic}"', "--json").out) == [{"n": 4}]

    status = json.loads(lakehouse("status", "--json").out)
    assert status["tick"] == 1
    assert status["quarantined"] == {"orders": 1}
    assert [(t["name"], t["rows"], t["lag"]) for t in status["topics"]] == [(project.topic, 4, 0)]
    assert [(t["name"], t["rows"], t["tick"], t["behind"]) for t in status["tables"]] == [("totals", 2, 1, 0)]
    assert "totals" in lakehouse("status").out
    (bad,) = lines(lakehouse("quarantine", "orders", "--json").out)
    assert (bad["topic"], bad["key"], bad["value"]) == (project.topic, "4", "no order")
    assert bad["timestamp"] == "2026-01-31T12:03:00Z"
    edit = ("--value", '{"customer": "ann", "amount": 1}', "--plan", "--app", "app.py", "--json")
    assert lines(lakehouse("repair", "replay", "orders", *edit).out)[0]["fits"]

    assert {t["name"] for t in json.loads(lakehouse("tables", "--json").out)} == {project.topic, "totals", "orders"}
    described = json.loads(lakehouse("describe", "totals", "--json").out)
    assert described["key"] == ["customer"]
    assert {"name": "total", "type": "decimal(20,2)"} in described["columns"]
    assert lines(lakehouse("log", "totals", "--limit", "1", "--json").out)[0]["inserted"] == 2
    assert "WRITE" in lakehouse("log", "totals").out, "the first batch has nothing to merge with"

    net = lines(lakehouse("changes", "totals", "--key", "ann", "--json").out)
    assert [(c["change"], c["value"]) for c in net] == [("insert", {"orders": 2, "total": "5.75"})]
    each = lines(lakehouse("changes", "totals", "--key", "ann", "--per-event", "--app", "app.py", "--json").out)
    assert [(c["tick"], c["value"]["orders"]) for c in each] == [(1, 1), (1, 2)]

    assert lines(lakehouse("query", PAST, "--tick", "1", "--json").out) == TOTALS
    assert lines(lakehouse("query", PAST, "--tick", "0", "--json").out) == []
    blamed = lines(lakehouse("blame", "totals", "--key", "ann", "--json").out)
    assert [(row["record"]["topic"], row["record"]["key"]) for row in blamed] == [(project.topic, "3")]

    check = lakehouse("check", "app.py")
    assert check.code == 0
    assert json.loads(check.out)["ok"]

    restored = lakehouse("restore", "totals", project.changelog, "--app", "app.py", "--lake", "other", "--json")
    assert json.loads(restored.out)["rows"] == 2
    assert (
        lines(lakehouse("query", "SELECT * FROM totals ORDER BY customer", "--lake", "other", "--json").out) == TOTALS
    )
    assert lakehouse("restore", "totals", project.changelog, "--app", "app.py").code == 1

    # More records: status sees those that wait, check those in bronze.
    lakehouse("produce", project.topic, "later.tsv", "--format", "tsv")
    assert json.loads(lakehouse("status", "--json").out)["topics"][0]["lag"] == 1
    assert run_part("ingest", ["--app", "app.py"], "the job, in this process") == 0
    behind = lakehouse("check", "app.py")
    assert behind.code == 1
    assert "run silver" in json.loads(behind.out)["problems"][0]
    assert json.loads(lakehouse("status", "--json").out)["tables"][0]["behind"] == 1
    assert "has not taken that in yet, and is at tick 1" in lakehouse("query", PAST, "--tick", "2").err
    assert lakehouse("run", "app.py", "--until", "caught-up", "--only", "silver").code == 0
    assert lakehouse("check", "app.py").code == 0

    # The past is still there, and the change can be shown.
    assert lines(lakehouse("query", PAST, "--tick", "1", "--json").out) == TOTALS
    newest = lines(lakehouse("log", "totals", "--limit", "1", "--json").out)[0]["version"]
    change = {
        "change": "changed", "key": {"customer": "bob"}, "before": {"orders": 1, "total": "4.00"},
        "after": {"orders": 2, "total": "5.00"},
    }  # fmt: skip
    counts = {"added": 0, "removed": 0, "changed": 1}
    assert lines(lakehouse("show", "totals", str(newest), "--json").out)[1:] == [change, counts]
    assert lines(lakehouse("diff", "totals", "tick:1", "now", "--json").out)[1:] == [change, counts]
    actual = json.loads(lakehouse("bisect", "totals", "count(*) FILTER (orders > 1) < 2", "--json").out)
    assert (actual["version"], actual["tick"]) == (newest, 2)


def job(project: Project, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(JOBS / f"{name}.py"), *arguments]
    return subprocess.run(command, cwd=project.folder, capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.slow
def test_the_jobs(project, lakehouse):
    lakehouse("produce", project.topic, "orders.jsonl", "--partitions", "2")
    ingest = job(project, "ingest", "--app", "app.py", "--config", "lakehouse.toml", "--until", "caught-up")
    assert ingest.returncode == 0, ingest.stderr
    assert [event["event"] for event in lines(ingest.stdout)] == ["tick", "done"]
    assert lines(ingest.stdout)[-1]["rows"] == 4
    early = job(project, "checks", "--app", "app.py")
    assert (early.returncode, lines(early.stdout)[-1]["event"]) == (1, "error")
    silver = job(project, "silver", "--app", "app.py")
    assert silver.returncode == 0, silver.stderr
    assert lines(silver.stdout)[-1]["tables"]["totals"]["rows"] == 2
    checks = job(project, "checks", "--app", "app.py")
    assert (checks.returncode, lines(checks.stdout)[-1]["event"]) == (0, "done")


@pytest.mark.parametrize("arguments", [["--app", "missing.py"], [], ["--app", "app.py", "--until", "noon"]])
def test_a_job_refuses_bad_input(project, arguments):
    outcome = job(project, "ingest", *arguments)
    assert outcome.returncode == 2
    assert lines(outcome.stdout)[-1]["event"] == "error"


@pytest.mark.slow
def test_spark_submit_runs_a_job(project, lakehouse):
    from lakehouse.setup.places import jars_folder

    lakehouse("produce", project.topic, "orders.jsonl", "--partitions", "2")
    submit = str(Path(sys.executable).with_name("spark-submit"))
    jars = f"{jars_folder('spark')}/*"
    command = [submit, "--driver-class-path", jars, str(JOBS / "ingest.py"), "--app", "app.py"]
    process = subprocess.run(
        command,
        cwd=project.folder,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert lines(process.stdout)[-1]["rows"] == 4


@pytest.mark.slow
@pytest.mark.parametrize("to_group", [False, True], ids=["to the process", "to all its processes"])
def test_sigterm_ends_a_running_application_cleanly(project, to_group):
    """`timeout` signals the group of processes; so does systemd, whose default is all processes of a service."""
    assert main(["produce", project.topic, "orders.jsonl", "--partitions", "2"]) == 0
    command = [sys.executable, "-c", "from lakehouse.cli.main import run; run()", "run", "app.py", "--json"]
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=project.folder, start_new_session=True, **options) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        events = []
        for line in running.stdout:
            events.append(json.loads(line))
            if events[-1]["event"] == "published":
                os.killpg(running.pid, signal.SIGTERM) if to_group else running.send_signal(signal.SIGTERM)
                break
        events += lines(running.stdout.read())
        assert running.wait(60) == 0
        assert not re.search("Traceback|Exception|error", running.stderr.read())
    assert events[-1]["event"] == "done"
    assert events[-1]["rows"] == 4
