"""The whole way on real parts: Kafka -> the DAG on Airflow -> Spark jobs -> silver, read without a JVM.

What it builds on, and where each part comes from:

    broker          the session fixture `broker` of tests/conftest.py (its `bootstrap_servers`)
    jobs            this checkout's spark_jobs, run by the Python that runs this test (LAKEHOUSE_PYTHON)
    application     `app.py` in a temporary project folder (LAKEHOUSE_ROOT), named by the DAG's param `app`
    settings, lake  `lakehouse.toml` in that folder, named by the DAG's param `config`
"""

import json
import sys
import uuid
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from deltalake import DeltaTable, QueryBuilder

pytestmark = pytest.mark.airflow

ROOT = Path(__file__).resolve().parents[2]
TASKS = ("ingest", "silver", "checks")

APP = """
import lakehouse as lh

flights = lh.stream({topic!r}, key="tailnum string", format="json", schema="origin string, dest string")
app = lh.app(flights.latest("location"))
"""
SETTINGS = """
[lake]
path = "./lake"
[kafka]
bootstrap_servers = "{servers}"
"""

# The last record of a key is its row; a tombstone removes the row.
RECORDS: list[tuple[str, dict[str, str] | None]] = [
    ("N1", {"origin": "EWR", "dest": "IAH"}),
    ("N2", {"origin": "LGA", "dest": "IAH"}),
    ("N3", {"origin": "JFK", "dest": "MIA"}),
    ("N1", {"origin": "IAH", "dest": "ORD"}),
    ("N3", None),
]
ROWS = [("N1", "IAH", "ORD"), ("N2", "LGA", "IAH")]


@pytest.fixture
def topic(broker) -> str:
    """A topic of two partitions that holds RECORDS."""
    name = f"flights-{uuid.uuid4().hex[:8]}"
    servers = {"bootstrap.servers": broker.bootstrap_servers}
    admin = AdminClient(servers)
    admin.create_topics([NewTopic(name, num_partitions=2)])[name].result(timeout=30)
    producer = Producer(servers)
    for key, value in RECORDS:
        producer.produce(name, key=key, value=None if value is None else json.dumps(value))
    assert producer.flush(30) == 0
    return name


@pytest.fixture
def project(tmp_path: Path, broker, topic: str) -> Path:
    """A project folder with the checkout's jobs, an application and its settings."""
    (tmp_path / "spark_jobs").symlink_to(ROOT / "spark_jobs", target_is_directory=True)
    (tmp_path / "app.py").write_text(APP.format(topic=topic))
    (tmp_path / "lakehouse.toml").write_text(SETTINGS.format(servers=broker.bootstrap_servers))
    return tmp_path


def _rows(table: Path) -> list[tuple[str, ...]]:
    query = "SELECT tailnum, origin, dest FROM t ORDER BY tailnum"
    result = pa.table(QueryBuilder().register("t", DeltaTable(str(table))).execute(query))
    return [tuple(row.values()) for row in result.to_pylist()]


def test_records_in_kafka_become_rows_in_silver(airflow, project):
    actual = airflow.ask(
        project,
        "run",
        {"conf": {"app": "app.py", "config": "lakehouse.toml"}},
        LAKEHOUSE_ROOT=str(project),
        LAKEHOUSE_CATCH_UP=str(project),
        LAKEHOUSE_PYTHON=sys.executable,
    )
    assert actual["state"] == "success", actual["log"]
    assert {task: actual["tasks"][task]["state"] for task in TASKS} == dict.fromkeys(TASKS, "success")
    assert {actual["tasks"][task]["tries"] for task in TASKS} == {1}, actual["log"]
    events = {task: actual["tasks"][task]["xcom"] for task in TASKS}
    assert [events[task]["event"] for task in TASKS] == ["done"] * 3
    assert events["ingest"]["rows"] == len(RECORDS)
    assert "location" in events["silver"]["tables"]
    assert _rows(project / "lake" / "silver" / "location") == ROWS
